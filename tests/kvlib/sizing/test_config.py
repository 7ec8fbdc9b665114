"""Reading a config.json without guessing."""

from __future__ import annotations

import copy

import pytest

from kvlib.sizing.config import read_config

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 3,
    "num_attention_heads": 10,
    "num_key_value_heads": 5,
    "hidden_size": 70,
}
GPT2 = {"model_type": "gpt2", "n_layer": 3, "n_head": 5, "n_embd": 35}


def without(config, *names):
    return {key: value for key, value in config.items() if key not in names}


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "gemma2"])
def test_known_families(model_type):
    assert read_config(LLAMA | {"model_type": model_type}) == {"num_layers": 3, "num_kv_heads": 5, "head_dim": 7}


def test_gpt2_has_its_own_names():
    assert read_config(GPT2) == {"num_layers": 3, "num_kv_heads": 5, "head_dim": 7}


def test_a_given_head_dim_beats_the_quotient():
    assert read_config(LLAMA | {"head_dim": 11})["head_dim"] == 11
    assert read_config(LLAMA | {"head_dim": None})["head_dim"] == 7
    assert read_config(without(LLAMA, "hidden_size") | {"head_dim": 11})["head_dim"] == 11  # then it is not needed
    assert read_config(LLAMA | {"hidden_size": 71, "head_dim": 11})["head_dim"] == 11


@pytest.mark.parametrize("change", [{"num_key_value_heads": None}, None])
def test_no_kv_heads_means_as_many_as_query_heads(change):
    config = LLAMA | change if change else without(LLAMA, "num_key_value_heads")
    assert read_config(config)["num_kv_heads"] == 10


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (LLAMA | {"model_type": "newllama"}, "newllama.*llama, mistral, qwen2, gemma2, gpt2"),
        (without(LLAMA, "model_type"), "None.*llama"),
        (LLAMA | {"model_type": ["llama"]}, "llama"),
        (without(LLAMA, "num_hidden_layers"), "no num_hidden_layers"),
        (without(LLAMA, "num_attention_heads"), "no num_attention_heads"),
        (without(LLAMA, "hidden_size"), "no hidden_size"),
        (without(GPT2, "n_layer"), "no n_layer"),
        (without(GPT2, "n_head"), "no n_head"),
        (without(GPT2, "n_embd"), "no n_embd"),
        (LLAMA | {"hidden_size": 71}, "10, does not divide hidden_size, 71"),
        (GPT2 | {"n_embd": 36}, "5, does not divide n_embd, 36"),
        (LLAMA | {"num_key_value_heads": 0}, "num_key_value_heads.*at least 1, got 0"),
        (LLAMA | {"num_key_value_heads": -5}, "at least 1, got -5"),
        (LLAMA | {"num_key_value_heads": 3}, "3, which does not divide num_attention_heads, 10"),
        (LLAMA | {"num_key_value_heads": 20}, "20, which does not divide"),
        (LLAMA | {"num_hidden_layers": "3"}, "num_hidden_layers must be a whole number"),
        (LLAMA | {"num_hidden_layers": 3.0}, "whole number"),
        (LLAMA | {"num_attention_heads": True}, "whole number"),
        (LLAMA | {"head_dim": 0}, "head_dim.*at least 1"),
        (None, "a config is a dict"),
        ("llama", "a config is a dict"),
        ([LLAMA], "a config is a dict"),
    ],
)
def test_refusals_name_what_is_wrong_and_change_nothing(config, says):
    before = copy.deepcopy(config)
    with pytest.raises(ValueError, match=says):
        read_config(config)
    assert config == before


def test_the_config_stays_as_it_is():
    config = without(LLAMA, "num_key_value_heads")
    before = copy.deepcopy(config)
    read_config(config)
    assert config == before
