"""What caches take: each figure of the fact sheet, worked out from the shipped configs."""

from __future__ import annotations

import pytest

from kvlib.sizing.architecture import architecture
from kvlib.sizing.config import read_config
from kvlib.sizing.formats import find_format
from kvlib.sizing.kv import kv_bytes
from kvlib.sizing.layers import layer_bytes
from kvlib.sizing.models import load_config
from kvlib.sizing.quantised import quantised_row_bytes
from kvlib.sizing.split import kept
from kvlib.sizing.units import in_unit

BF16 = 2


def bytes_per_token(config, width=BF16):
    """Growth of the cache by one token, from the layers: recurrent states do not count."""
    layers = architecture(config).layers
    return layer_bytes(layers, 1, width) - layer_bytes(layers, 0, width)


def cache(name, tokens):
    return layer_bytes(architecture(load_config(name)).layers, tokens, BF16)


def test_the_formula(facts):
    shape = {"num_layers": 3, "num_kv_heads": 5, "head_dim": 7, "bytes_per_element": 4}
    one = eval(facts["D1"], {}, shape)
    assert kv_bytes(3, 5, 7, [1], 4) == one
    assert kv_bytes(3, 5, 7, [11], 4) == 11 * one
    assert kv_bytes(3, 5, 7, [2, 11, 1], 4) == 14 * one  # the sum of the lengths, not 3 * 11


def test_the_hand_count(facts):
    fact = facts["D2"]
    found = kv_bytes(fact["num_layers"], fact["num_kv_heads"], fact["head_dim"], [fact["tokens"]], BF16)
    assert found == fact["bytes"] != fact["not"]


def test_bytes_for_one_token(facts):
    figures = facts["D3.bytes_per_token"]
    assert {name: bytes_per_token(load_config(name)) for name in figures} == figures


def test_bytes_for_one_token_with_other_kv_heads(facts):
    for fact in facts["D3.other_kv_heads"]:
        assert (
            bytes_per_token(load_config(fact["model"]) | {"num_key_value_heads": fact["num_kv_heads"]}) == fact["bytes"]
        )


def test_elements_for_one_token(facts):
    figures = facts["D3.elements_per_token"]
    assert {name: bytes_per_token(load_config(name), width=1) for name in figures} == figures


def test_shapes(facts):
    figures = facts["D3.shapes"]
    assert {name: list(read_config(load_config(name)).values()) for name in figures} == figures


def test_sizes_of_whole_sequences(facts):
    for tokens, mib in facts["D4.qwen2.5-1.5b"].items():
        assert in_unit(cache("qwen2.5-1.5b", int(tokens)), "MiB") == mib
    for name, gib in facts["D4.at_4096"].items():
        assert in_unit(cache(name, 4096), "GiB") == gib


def test_a_long_context_outgrows_the_weights(facts):
    fact = facts["D4.llama-3-8b"]
    weights = architecture(load_config("llama-3-8b")).parameters * BF16
    assert round(in_unit(cache("llama-3-8b", 32_768), "GB"), 2) == fact["32768"]
    assert round(in_unit(cache("llama-3-8b", 131_072), "GB"), 1) == fact["131072"]
    assert round(in_unit(weights, "GB"), 1) == fact["weights"]
    assert cache("llama-3-8b", 131_072) > weights


def test_gemma_has_windows_in_half_of_its_layers(facts):
    fact, config = facts["D5"], load_config("gemma-2-27b")
    layers = architecture(config).layers
    local = [layer for layer in layers if layer["kind"] == "window"]
    assert (len(layers), len(local)) == (fact["num_layers"], fact["local"])
    assert {layer["window"] for layer in local} == {fact["window"]}
    assert {(layer["num_kv_heads"], layer["head_dim"]) for layer in layers} == {
        (fact["num_kv_heads"], fact["head_dim"])
    }
    assert config["hidden_size"] / config["num_attention_heads"] == fact["hidden_over_heads"]
    up_to = fact["window"]
    assert layer_bytes(layers, up_to, BF16) == up_to * fact["bytes_per_token_up_to_window"]
    found = layer_bytes(layers, fact["tokens"], BF16)
    assert (found, in_unit(found, "GiB")) == (fact["bytes"], fact["gib"])


def test_jamba_attends_in_one_layer_of_eight(facts):
    fact = facts["D6.jamba"]
    layers = architecture(load_config("jamba-v0.1")).layers
    kinds = [layer["kind"] for layer in layers]
    attention, mamba = fact["attention_to_mamba"]
    assert kinds.count("full") * mamba == kinds.count("state") * attention > 0
    states = layer_bytes(layers, 0, BF16)  # a term of its own, which does not grow
    assert states == sum(layer["state_bytes"] for layer in layers if layer["kind"] == "state") > 0
    assert in_unit(layer_bytes(layers, fact["tokens"], BF16) - states, "GiB") == fact["gib"]
    assert in_unit(cache(fact["comparator"], fact["tokens"]), "GiB") == fact["comparator_gib"]


def test_mistral_keeps_a_window(facts):
    fact, config = facts["D6.mistral"], load_config("mistral-7b-v0.1")
    assert config["sliding_window"] == fact["window"]
    without = architecture(config | {"sliding_window": None}).layers
    assert layer_bytes(without, fact["tokens"], BF16) == fact["times"] * cache("mistral-7b-v0.1", fact["tokens"])


def test_traps_of_configs(facts):
    fact = facts["D7"]
    config = load_config(fact["model"])
    assert read_config(config)["head_dim"] == fact["head_dim"]
    assert read_config(config | {"head_dim": None})["head_dim"] == fact["wrong"]
    more_heads = config | {"num_attention_heads": 2 * config["num_attention_heads"]}
    assert read_config(more_heads) == read_config(config)  # query heads do not enter
    llama = {key: value for key, value in load_config("llama-2-7b").items() if key != "num_key_value_heads"}
    assert read_config(llama)["num_kv_heads"] == llama["num_attention_heads"]  # a known family: plain MHA
    with pytest.raises(ValueError, match="'newllama'"):
        read_config(llama | {"model_type": "newllama"})  # an unknown one: no guess


def test_four_bits_are_more_than_half_a_byte(facts):
    fact = facts["D8"]
    assert quantised_row_bytes(128, fact["bits"], 32, 0, 0, 1) == 128 * fact["payload_per_element"]
    assert find_format("int4").row_bytes(128) > 128 * fact["payload_per_element"]
    layers = kept(architecture(load_config("llama-3-8b")).layers, find_format("int4"))
    assert layer_bytes(layers, 1, 1) > bytes_per_token(load_config("llama-3-8b")) / 4


def test_how_deepseek_gets_to_its_percentage(facts):
    fact = facts["D15.fewer"]
    large = bytes_per_token(load_config(fact["large"]))
    elements = bytes_per_token(load_config(fact["small"]), width=1)
    assert large == fact["large_bytes"]
    assert round(100 * (1 - elements * BF16 / large)) == fact["at_16_bit"]
    reconstructed = quantised_row_bytes(elements, fact["bits"], elements, 0, 0, 1)
    assert reconstructed == fact["bytes"]
    assert round(100 * (1 - reconstructed / large), 1) == fact["percent"]


def test_a_latent_beside_heads(facts):
    fact = facts["D15.mla"]
    (latent,) = {tuple(sorted(layer.items())) for layer in architecture(load_config("deepseek-v2")).layers}
    mla = layer_bytes([dict(latent)], 1, 1)
    mha = layer_bytes([{"kind": "full", "num_kv_heads": fact["num_heads"], "head_dim": fact["head_dim"]}], 1, 1)
    assert mha == fact["mha_elements"]
    assert round(100 * mla / mha, 1) == fact["percent"]
    assert round(mha / mla) == fact["times"]
    one_group = layer_bytes([{"kind": "full", "num_kv_heads": 1, "head_dim": fact["head_dim"]}], 1, 1)
    assert mla / one_group == fact["gqa_groups"]
