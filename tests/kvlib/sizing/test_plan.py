"""What the plan composes, against the answers of the exercises and counts by hand."""

from __future__ import annotations

import dataclasses
import json

import pytest

from kvlib.sizing.architecture import architecture
from kvlib.sizing.capacity import sequences_that_fit
from kvlib.sizing.config import PLAIN, read_config
from kvlib.sizing.formats import FORMATS, find_format
from kvlib.sizing.gpus import find_gpu
from kvlib.sizing.kv import kv_bytes
from kvlib.sizing.models import load_config, names
from kvlib.sizing.plan import Plan, make_plan
from kvlib.sizing.roofline import decode_step, roofline
from kvlib.sizing.split import attention_flops

GB = 10**9
UNIFORM = [
    name
    for name in names()
    if load_config(name)["model_type"] in PLAIN
    and {layer["kind"] for layer in architecture(load_config(name)).layers} == {"full"}
]


@pytest.mark.parametrize("name", UNIFORM)
@pytest.mark.parametrize(
    ("split", "kv_dtype", "context", "block_size"), [(False, "bf16", 4096, 16), (True, "fp8", 999, 64)]
)
def test_agrees_with_the_plain_answers(name, split, kv_dtype, context, block_size):
    config, width = load_config(name), {"bf16": 2, "fp8": 1}[kv_dtype]
    plain, reserve = read_config(config), 3 * GB
    shares = [tp for tp in (2, 4, 5) if plain["num_kv_heads"] % tp == 0]  # GPT-2 XL has 25 heads
    tp = shares[-1] if split else 1
    plan = make_plan(
        config, "A100 80GB", tp=tp, kv_dtype=kv_dtype, context=context, block_size=block_size, reserve_bytes=reserve
    )
    weights = 2 * architecture(config).parameters
    found = sequences_that_fit(72 * GB, weights, reserve, *plain.values(), width, context, block_size, tp)
    assert plan.sequences_that_fit == found
    assert plan.weight_bytes == weights
    assert plan.kv_bytes_per_token == kv_bytes(*plain.values(), [1], width)


def test_a_step_reads_weights_once_but_the_input_table_and_every_cache_once():
    config = load_config("llama-3-8b")
    plan = make_plan(config, "H100", context=1000, batch=7)
    lengths = [1000] * 7
    streamed = 8_030_261_248 - 128_256 * 4096
    moved, seconds, rate = decode_step(2 * streamed, 131_072, lengths, 3350 * GB)
    assert (plan.step_bytes_per_rank, plan.step_seconds) == (moved, seconds)
    assert plan.tokens_per_second == pytest.approx(rate)
    assert plan.tokens_per_second_per_sequence == pytest.approx(rate / 7)
    flops = 7 * (2 * streamed + 4 * 32 * 32 * 128 * 1000)
    assert plan.step_flops_per_rank == flops
    assert (plan.intensity, plan.ridge) == roofline(flops, moved, 989e12, 3.35e12)[:2]
    assert plan.binds == "memory bandwidth"


def test_what_binds():
    config = load_config("llama-3-8b")
    assert make_plan(config, "H100", context=16, batch=2000).binds == "compute"
    too_many = make_plan(config, "H100", context=4096, batch=105)
    assert (too_many.sequences_that_fit, too_many.binds) == (104, "memory capacity")
    assert make_plan(config, "H100", context=4096, batch=104).binds == "memory bandwidth"
    none = make_plan(config, "T4")
    assert (none.sequences_that_fit, none.binds) == (0, "memory capacity") and none.budget_per_rank < 0


def test_a_compute_bound_step_takes_as_long_as_its_arithmetic():
    plan = make_plan(load_config("llama-3-8b"), "H100", context=16, batch=2000)
    assert plan.step_seconds == plan.step_flops_per_rank / 989e12 > plan.step_bytes_per_rank / 3.35e12
    fast = make_plan(load_config("llama-3-8b"), "H100", context=16, batch=2000, weights_dtype="fp8")
    assert fast.peak_flops == 1979 * 10**12
    assert make_plan(load_config("llama-3-8b"), "A100-80GB", weights_dtype="fp8").peak_flops == 312 * 10**12


def test_blocks_are_taken_whole():
    config = load_config("llama-3-8b")
    sizes = [make_plan(config, "H100", context=tokens).sequence_bytes_per_rank for tokens in (1, 16, 17)]
    assert sizes == [16 * 131_072, 16 * 131_072, 32 * 131_072]


def test_windows_stop_growing():
    plan = make_plan(load_config("gemma-2-27b"), "H100", context=8192)
    assert (plan.kv_bytes_per_token, plan.kv_bytes_next_token_per_rank) == (376_832, 376_832 // 2)
    assert plan.sequence_bytes_per_rank == 2_315_255_808


def test_a_latent_is_on_every_gpu_and_heads_are_shared_out():
    latent = [make_plan(load_config("deepseek-v3"), "H200", tp=tp).kv_bytes_per_token_per_rank for tp in (1, 8)]
    assert latent == [70_272, 70_272]
    heads = [make_plan(load_config("llama-3-70b"), "H200", tp=tp).kv_bytes_per_token_per_rank for tp in (1, 8, 16)]
    assert heads == [327_680, 40_960, 40_960]
    jamba = [make_plan(load_config("jamba-v0.1"), "H200", tp=tp, context=16).sequence_bytes_per_rank for tp in (1, 8)]
    assert jamba == [28 * 327_680 + 16 * 16_384, 28 * 40_960 + 16 * 2_048]


def test_few_bits_take_scales_with_them():
    config = load_config("llama-3-8b")
    sizes = {fmt.name: make_plan(config, "H100", kv_dtype=fmt.name).kv_bytes_per_token for fmt in FORMATS}
    rows = 2 * 32 * 8
    assert sizes == {
        "fp32": rows * 512,
        "bf16": rows * 256,
        "fp16": rows * 256,
        "fp8": rows * 128,
        "int8": rows * (128 + 2),
        "int4": rows * (64 + 4 * 4),
    }
    assert make_plan(config, "H100", kv_dtype="int4", kv_group=64).kv_bytes_per_token == rows * (64 + 2 * 4)


def test_quantised_weights_leave_embeddings_and_head_alone():
    config = load_config("llama-3-8b")
    outside = 2 * 128_256 * 4096
    body = 8_030_261_248 - outside
    assert make_plan(config, "H100", weights_dtype="fp8").weight_bytes == body + 2 * outside
    groups = body // 32
    assert make_plan(config, "H100", weights_dtype="int4").weight_bytes == body // 2 + 4 * groups + 2 * outside
    assert make_plan(config, "H100", weights_dtype="fp32").weight_bytes == 4 * 8_030_261_248


def test_a_step_reads_the_experts_that_are_visited():
    config = load_config("mixtral-8x7b")
    model = architecture(config)
    read = [make_plan(config, "H200", context=16, batch=batch) for batch in (1, 4, 1000)]
    cache = [batch * 16 * 131_072 for batch in (1, 4, 1000)]
    found = [plan.step_bytes_per_rank - each for plan, each in zip(read, cache, strict=True)]
    all_but_the_table = model.parameters - model.tables
    assert found[0] == 2 * (all_but_the_table - model.routed * 6 // 8)
    assert found[1] == pytest.approx(2 * (all_but_the_table - model.routed * (6 / 8) ** 4), abs=2)
    assert found[2] == 2 * all_but_the_table


def test_a_tied_table_is_the_head_and_is_read():
    tied = make_plan(load_config("gemma-2-27b"), "H200", context=16)
    assert tied.step_bytes_per_rank - 16 * tied.kv_bytes_per_token == tied.weight_bytes
    assert not any("looked up" in said for said in tied.assumptions)


def test_attention_is_counted_by_hand():
    assert attention_flops(architecture(load_config("gemma-2-27b")), 8192) == 4 * 32 * 128 * 23 * (8192 + 4096)
    assert attention_flops(architecture(load_config("deepseek-v3")), 10) == 2 * 128 * (512 + 64 + 512) * 10 * 61
    assert attention_flops(architecture(load_config("jamba-v0.1")), 10) == 4 * 32 * 128 * 4 * 10


def test_every_model_has_a_plan_and_it_survives_json(shipped):
    plan = make_plan(shipped, find_gpu("b200"), name="it", context=2048, batch=3)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.tp = 2
    assert all(sentence.endswith(".") for sentence in plan.assumptions)


def said(name, **setting):
    return " ".join(make_plan(load_config(name), setting.pop("gpu", "H200"), **setting).assumptions)


def test_assumptions_say_what_applies():
    assert "one scale" not in said("llama-3-8b") and "one scale" in said("llama-3-8b", kv_dtype="fp8")
    assert "group of 32" in said("llama-3-8b", kv_dtype="int4")
    assert "stay in 16 bit" in said("llama-3-8b", weights_dtype="int4")
    assert "does not calculate in bf16" in said("llama-3-8b", gpu="T4")
    assert "bf16" not in said("llama-3-8b", gpu="T4", weights_dtype="fp16", kv_dtype="fp16") + said("llama-3-8b")
    assert "Communication" not in said("llama-3-8b") and "Communication" in said("llama-3-8b", tp=2)
    assert "latent" in said("deepseek-v3", tp=8) and "experts" in said("deepseek-v3")
    assert "states" in said("jamba-v0.1") and "window" in said("gemma-2-27b")
    assert "8,192 positions" in said("llama-3-8b", context=8193) and "positions" not in said("llama-3-8b", context=8192)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"tp": 0}, "tp must be a whole number of at least 1, got 0"),
        ({"tp": 3}, "3 GPUs do not divide the 32 query heads"),
        ({"context": 0}, "context must be"),
        ({"context": 1.5}, "context must be"),
        ({"batch": -1}, "batch must be"),
        ({"block_size": 0}, "block_size must be"),
        ({"reserve_bytes": -1}, "reserve_bytes must be"),
        ({"utilisation": 0}, "utilisation is a part"),
        ({"utilisation": 1.01}, "utilisation is a part"),
        ({"utilisation": "90%"}, "utilisation is a part"),
        ({"utilisation": float("nan")}, "utilisation is a part"),
        ({"kv_dtype": "int5"}, "no number format 'int5'"),
        ({"weights_dtype": None}, "no number format None"),
        ({"kv_group": 64}, "bf16 has no groups"),
        ({"kv_dtype": "int4", "kv_group": 0}, "group_size must be"),
    ],
)
def test_refusals(setting, says):
    with pytest.raises(ValueError, match=says):
        make_plan(load_config("llama-3-8b"), "H100", **setting)


def test_kv_heads_that_cannot_be_shared_out():
    config = load_config("llama-3-8b") | {"num_attention_heads": 36, "num_key_value_heads": 6, "head_dim": 128}
    with pytest.raises(ValueError, match="6 KV heads and 4 GPUs"):
        make_plan(config, "H100", tp=4)


def test_formats_are_found_by_name():
    assert [find_format(fmt.name.upper()) for fmt in FORMATS] == list(FORMATS)
    assert str(find_format("bf16")) == "bf16"
    assert str(find_format("int4")) == "int4, with a scale of 2 bytes and a zero point of 2 for each group of 32"
