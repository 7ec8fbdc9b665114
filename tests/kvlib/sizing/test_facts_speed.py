"""How fast: each figure of the fact sheet, worked out from the shipped configs and the table of GPUs."""

from __future__ import annotations

import pytest

from kvlib.sizing.architecture import architecture
from kvlib.sizing.gpus import Gpu, find_gpu
from kvlib.sizing.kv import kv_bytes
from kvlib.sizing.latency import latencies
from kvlib.sizing.models import load_config
from kvlib.sizing.plan import make_plan
from kvlib.sizing.roofline import decode_step, roofline

GB, TB, TERA = 10**9, 10**12, 10**12
BF16 = 2
LLAMA_3_8B = kv_bytes(32, 8, 128, [1], BF16)


def intensity(flops, elements):
    gpu = find_gpu("H100")
    return roofline(flops, elements * BF16, gpu.flops, gpu.bandwidth)[0]


def test_the_ridge(facts):
    fact = facts["E1.ridge"]
    gpu = find_gpu(fact["gpu"])
    assert (gpu.flops / TERA, gpu.bandwidth / TB) == (fact["tflops"], fact["tb_per_second"])
    assert round(roofline(1, 1, gpu.flops, gpu.bandwidth)[1]) == fact["ridge"]


def test_intensity_of_an_mlp_is_its_rows(facts):
    width, hidden = 4096, 14336
    for n in (1, 8, 32):
        found = intensity(2 * n * width * hidden, n * width + width * hidden + n * hidden)
        assert found == pytest.approx(eval(facts["E1.intensity"]["mlp"], {"N": n}), rel=0.02)
    many = intensity(2 * 8192 * width * hidden, 8192 * width + width * hidden + 8192 * hidden)
    assert many < 8192 / 3  # no longer, once the rows are as many as the width


def test_intensity_of_attention(facts):
    rule = facts["E1.intensity"]
    for s, d in ((1, 128), (4096, 128), (131_072, 64)):
        decode = intensity(4 * s * d, 2 * s * d + 2 * d)  # K and V, the query and the output
        assert decode == pytest.approx(eval(rule["decode_attention"], {"S": s})) and decode < 1
        batch = intensity(4 * s * d * 64, (2 * s * d + 2 * d) * 64)  # whatever the batch
        assert batch == decode
        prefill = intensity(4 * s * s * d, 4 * s * d)
        assert prefill == pytest.approx(eval(rule["prefill_attention"], {"S": s}))
    for g in (2, 4, 8):
        grouped = intensity(4 * 4096 * 128 * g, 2 * 4096 * 128 + 2 * 128 * g)
        alone = intensity(4 * 4096 * 128, 2 * 4096 * 128 + 2 * 128)
        assert grouped / alone == pytest.approx(eval(rule["gqa_decode_attention"], {"G": g}), rel=0.01)


def test_what_reading_takes(facts):
    fact = facts["E2.times"]
    model, gpu = architecture(load_config(fact["model"])), find_gpu(fact["gpu"])
    assert round(decode_step(0, LLAMA_3_8B, [1], gpu.bandwidth)[1] * 1e9) == fact["ns_per_token"]
    assert round(decode_step(0, LLAMA_3_8B, [fact["tokens"]], gpu.bandwidth)[1] * 1e3, 1) == fact["ms"]
    assert round(decode_step(model.parameters * BF16, 0, [1], gpu.bandwidth)[1] * 1e3, 1) == fact["weights_ms"]


def test_where_cache_and_weights_take_as_long(facts):
    fact, model = facts["E2.crossover"], architecture(load_config("llama-3-8b"))
    weights = model.parameters * BF16
    assert round(weights / GB, 1) == fact["all_weights_gb"]
    assert round(weights / LLAMA_3_8B, -2) == fact["all"]
    assert round(fact["streamed_gb"] * GB / LLAMA_3_8B) == fact["streamed"]
    assert round(model.active_parameters * BF16 / GB, 1) == fact["streamed_gb"]  # all but the input table


def test_gigabytes_of_a_step(facts):
    fact = facts["E2.step"]
    for row in fact["rows"]:
        found, _, _ = decode_step(fact["weights_gb"] * GB, LLAMA_3_8B, [row["tokens"]] * row["batch"], 3.35 * TB)
        assert round(found / GB, 1) == row["gb"]
        assert round(100 * (1 - fact["weights_gb"] * GB / found)) == row["percent"]


def test_fewer_kv_heads_make_room_and_speed(facts):
    fact = facts["E3"]
    for row in fact["rows"]:
        config = load_config(fact["model"]) | {"num_key_value_heads": row["num_kv_heads"]}
        for step in row["steps"]:
            plan = make_plan(config, fact["gpu"], context=fact["tokens"], batch=step["batch"], utilisation=1.0)
            assert round(plan.weight_bytes / GB, 1) == row["weights_gb"]
            assert round(plan.sequence_bytes_per_rank / GB, 2) == row["sequence_gb"]
            lengths = [fact["tokens"]] * step["batch"]
            moved, seconds, rate = decode_step(plan.weight_bytes, plan.kv_bytes_per_token, lengths, plan.bandwidth)
            assert round(moved / GB, 1) == step["gb"]  # all weights, the input table too
            assert round(seconds * 1e3, 1) == step["ms"]
            assert round(rate) == step["tokens_per_second"]
            assert plan.binds == ("memory bandwidth" if step["fits"] else "memory capacity")
            assert (step["batch"] <= plan.sequences_that_fit) == step["fits"]
        if "parameters" in row:
            assert round(architecture(config).parameters / 1e9, 1) == row["parameters"]


def test_a_hypothetical_gpu(facts):
    fact = facts["E4"]
    gpu = Gpu("it", 80 * GB, fact["tb_per_second"] * TB, fact["tflops"] * TERA, None, "nowhere")
    assert roofline(1, 1, gpu.flops, gpu.bandwidth)[1] == fact["ridge"]
    moved, seconds, _ = decode_step(fact["weights_gb"] * GB, LLAMA_3_8B, [fact["tokens"]], gpu.bandwidth)
    assert round((moved - fact["weights_gb"] * GB) / GB, 3) == fact["cache_gb"]
    assert round(seconds * 1e3, 2) == fact["ms"]
    assert round(kv_bytes(32, 8, 128, [fact["tokens"]] * fact["batch"], BF16) / GB, 2) == fact["batch_cache_gb"]


def test_what_a_user_waits_for(facts):
    fact = facts["E5"]
    ttft, itl = latencies(0.0, fact["times"])
    assert (ttft, round(itl, 5)) == (fact["ttft"], fact["itl"])
