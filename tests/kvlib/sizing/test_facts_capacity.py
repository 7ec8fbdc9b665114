"""What fits: each figure of the fact sheet, worked out from the shipped configs and the table of GPUs."""

from __future__ import annotations

from kvlib.sizing.architecture import architecture
from kvlib.sizing.capacity import kv_heads_on_one, sequences_that_fit
from kvlib.sizing.config import read_config
from kvlib.sizing.gpus import find_gpu
from kvlib.sizing.kv import kv_bytes
from kvlib.sizing.models import load_config
from kvlib.sizing.plan import make_plan
from kvlib.sizing.roofline import decode_step
from kvlib.sizing.units import in_unit, size_in_bytes

GB, GIB = 10**9, 2**30


def shape(name):
    return tuple(read_config(load_config(name)).values())


def test_recipe_one(facts):
    fact, config = facts["D9"], load_config("llama-3-8b")
    left = fact["left_gb"] * GB
    assert sequences_that_fit(left, 0, 0, *shape("llama-3-8b"), 2, fact["tokens"], 16, 1) == fact["bf16"]
    assert sequences_that_fit(left, 0, 0, *shape("llama-3-8b"), 1, fact["tokens"], 16, 1) == fact["fp8"]
    plan = make_plan(config, "H100", context=fact["tokens"], batch=fact["bf16"])
    assert round(in_unit(plan.weight_bytes, "GB"), 1) == fact["weights_gb"]
    cache = plan.kv_bytes_per_token, [fact["tokens"]] * fact["bf16"]
    moved, seconds, rate = decode_step(plan.weight_bytes, *cache, find_gpu("H100").bandwidth)  # all weights
    assert round(in_unit(moved - plan.weight_bytes, "GB"), 1) == fact["cache_gb"]
    assert round(seconds * 1e3, 1) == fact["step_ms"]
    assert int(rate) == fact["tokens_per_second"]
    assert round(1 / seconds) == fact["per_user"]
    rounded = decode_step(fact["weights_gb"] * GB, fact["cache_gb"] * GB, [1], find_gpu("H100").bandwidth)
    assert round(rounded[1] * 1e3, 1) == fact["step_ms"]  # as the sheet words it: (16.1 + 55.8) GB at 3.35 TB/s


def test_recipe_two(facts):
    fact = facts["D10"]
    gpu = find_gpu(fact["gpu"])
    usable, reserve = round(gpu.memory * fact["utilisation"]), fact["reserve_gb"] * GB
    assert in_unit(gpu.memory, "GB") == 80
    for row in fact["rows"]:
        config = load_config(row["model"])
        for kv_dtype, width in (("bf16", 2), ("fp8", 1)):
            if kv_dtype not in row:
                continue
            setting = {
                "tp": row["tp"],
                "kv_dtype": kv_dtype,
                "reserve_bytes": reserve,
                "utilisation": fact["utilisation"],
            }
            plans = [make_plan(config, gpu, context=tokens, **setting) for tokens in fact["tokens"]]
            assert [plan.sequences_that_fit for plan in plans] == row[kv_dtype], row
            assert round(plans[0].budget_per_rank * row["tp"] / GB) == row["left_gb"]
            weights = plans[0].weight_bytes
            found = [
                sequences_that_fit(usable, weights, reserve, *shape(row["model"]), width, tokens, 16, row["tp"])
                for tokens in fact["tokens"]
            ]
            assert found == row[kv_dtype]


def test_recipe_three(facts):
    fact = facts["D11"]
    pool, reserve = size_in_bytes(f"{fact['pool_gib']} GiB"), size_in_bytes(f"{fact['reserve_gib']} GiB")
    weights = 2 * fact["parameters"]
    assert weights == fact["weights_gb"] * GB
    assert round(in_unit(weights, "GiB"), 4) == fact["weights_gib"]
    assert round(in_unit(pool - weights - reserve, "GiB"), 4) == fact["left_gib"]
    found = sequences_that_fit(pool, weights, reserve, *shape("llama-2-7b"), 2, fact["tokens"], 16, 1)
    assert found == fact["sequences"]


def test_a_model_of_405_billion(facts):
    fact, config = facts["D12.llama-3.1-405b"], load_config("llama-3.1-405b")
    named = 2 * fact["parameters"]
    assert named == fact["gb"] * GB
    assert round(in_unit(named, "GiB"), 2) == fact["gib"]
    assert round(in_unit(named // fact["tp"], "GiB"), 2) == fact["gib_per_rank"]
    assert round(in_unit(fact["parameters"] // fact["tp"], "GiB"), 2) == fact["fp8_gib_per_rank"]
    assert abs(architecture(config).parameters / fact["parameters"] - 1) < 0.01
    plan = make_plan(config, "H100", tp=fact["tp"])
    assert in_unit(plan.kv_bytes_per_token_per_rank, "KiB") == fact["kv_kib_per_rank"]
    half = make_plan(config, "H100", tp=fact["tp"], kv_dtype="fp8")
    assert in_unit(half.kv_bytes_per_token_per_rank, "KiB") == fact["fp8_kv_kib_per_rank"]


def test_a_model_of_32_billion_on_two_gpus(facts):
    fact = facts["D12.qwen2.5-32b"]
    cache = kv_bytes(*shape("qwen2.5-32b"), [fact["tokens"]] * fact["requests"], 2)
    weights = 2 * fact["parameters"]
    assert in_unit(cache, "GiB") == fact["kv_gib"]
    assert round(in_unit(weights, "GiB"), 2) == fact["weights_gib"]
    assert round(in_unit(cache + weights, "GiB"), 2) == fact["sum_gib"]
    assert round(in_unit(fact["gpus"] * fact["gib_per_gpu"] * GIB - cache - weights, "GiB"), 2) == fact["left_gib"]
    assert architecture(load_config("qwen2.5-32b")).parameters > fact["parameters"]  # the name rounds down


def shrinks_to(num_kv_heads):
    """The most GPUs, of powers of two, up to which each further doubling makes the cache of one smaller."""
    held = {tp: kv_heads_on_one(num_kv_heads, tp) for tp in (1, 2, 4, 8, 16, 32)}
    return next(tp for tp in held if held.get(2 * tp, 0) == held[tp])


def test_tensor_parallelism_shares_out_heads_and_no_more(facts):
    fact, config = facts["D13"], load_config("llama-3-8b")
    assert config["num_key_value_heads"] == fact["gqa_kv_heads"]
    assert shrinks_to(fact["gqa_kv_heads"]) == fact["gqa_shrinks_to"]
    assert shrinks_to(fact["mqa_kv_heads"]) == fact["mqa_shrinks_to"]
    gqa = [make_plan(config, "H100", tp=tp).kv_bytes_per_token_per_rank for tp in (1, 2, 4, 8, 16, 32)]
    assert gqa == [gqa[0], gqa[0] // 2, gqa[0] // 4, gqa[0] // 8, gqa[0] // 8, gqa[0] // 8]
    mqa = config | {"num_key_value_heads": fact["mqa_kv_heads"]}
    assert len({make_plan(mqa, "H100", tp=tp).kv_bytes_per_token_per_rank for tp in (1, 2, 4)}) == 1


def test_three_terabytes_of_cache(facts):
    fact = facts["D14.pope"]
    found = kv_bytes(fact["num_layers"], fact["num_heads"], fact["head_dim"], [fact["tokens"]] * fact["batch"], 2)
    assert round(in_unit(found, "TB")) == fact["tb"]


def test_one_kv_head_makes_the_context_longer(facts):
    fact, layers = facts["D14.palm"], facts["D14.pope"]["num_layers"]
    mha = kv_bytes(layers, kv_heads_on_one(fact["chips"], fact["chips"]), fact["mha_head_dim"], [1], 2)
    mqa = kv_bytes(layers, 1, fact["mqa_head_dim"], [1], 2) / fact["chips"]
    assert mha / mqa == fact["times"]


def test_what_is_only_quoted_says_so(facts):
    quoted = [name for name, figure in facts.items() if isinstance(figure, dict) and figure.get("quoted")]
    assert quoted == ["D14.kwon"]
    assert 0 < facts["D14.kwon"]["lowest"] < facts["D14.kwon"]["highest"] < 100
