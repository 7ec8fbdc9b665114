"""From a config to layers: which have a window, a latent, a state; and what is refused."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvlib.sizing.architecture import FAMILIES, architecture
from kvlib.sizing.config import PLAIN, read_config
from kvlib.sizing.models import load_config, names


def kinds(config):
    return [layer["kind"] for layer in architecture(config).layers]


@pytest.mark.parametrize("name", [name for name in names() if load_config(name)["model_type"] in PLAIN])
def test_agrees_with_the_plain_reading(name):
    plain = read_config(load_config(name))
    layers = architecture(load_config(name)).layers
    assert len(layers) == plain["num_layers"]
    assert {(layer["num_kv_heads"], layer["head_dim"]) for layer in layers} == {
        (plain["num_kv_heads"], plain["head_dim"])
    }


def test_windows_by_family():
    assert kinds(load_config("mistral-7b-v0.1")) == ["window"] * 32
    assert kinds(load_config("mistral-small-24b")) == ["full"] * 40
    assert kinds(load_config("gemma-2-27b")) == ["window", "full"] * 23
    assert kinds(load_config("gpt-oss-20b")) == ["window", "full"] * 12
    assert kinds(load_config("llama-3-8b") | {"sliding_window": 4096}) == ["full"] * 32  # a llama has none


def test_qwen_names_a_window_that_it_does_not_use():
    config = load_config("qwen2.5-7b")
    assert config["sliding_window"] > 0 and kinds(config) == ["full"] * 28
    assert kinds(config | {"max_window_layers": 0}) == ["full"] * 28
    assert kinds(config | {"use_sliding_window": True, "max_window_layers": 25}) == ["full"] * 25 + ["window"] * 3


def test_layer_types_beat_the_rule():
    config = load_config("gemma-2-27b")
    assert kinds(config | {"layer_types": ["full_attention"] * 45 + ["sliding_attention"]}) == ["full"] * 45 + [
        "window"
    ]


def test_latents_have_no_heads():
    (layer,) = {tuple(layer.items()) for layer in architecture(load_config("deepseek-v3")).layers}
    assert dict(layer) == {"kind": "latent", "kv_lora_rank": 512, "qk_rope_head_dim": 64}


def test_a_state_holds_what_the_next_token_needs():
    """Jamba: 8,192 channels, each with 16 numbers of state and 4 columns of the convolution, two bytes each."""
    layers = architecture(load_config("jamba-v0.1")).layers
    assert [i for i, layer in enumerate(layers) if layer["kind"] == "full"] == [4, 12, 20, 28]
    assert layers[0] == {"kind": "state", "state_bytes": 8192 * (16 + 4) * 2}


def test_mqa_is_one_kv_head():
    config = load_config("falcon-7b")
    assert architecture(config).layers[0]["num_kv_heads"] == 1
    assert architecture(config | {"multi_query": False}).layers[0]["num_kv_heads"] == 71
    new = config | {"new_decoder_architecture": True, "num_attention_heads": 64, "num_kv_heads": 8, "hidden_size": 4096}
    assert architecture(new).layers[0]["num_kv_heads"] == 8


def test_what_is_tied_is_counted_once():
    tied = load_config("qwen2.5-1.5b")
    model, apart = architecture(tied), architecture(tied | {"tie_word_embeddings": False})
    assert (model.tables, model.head) == (0, 1536 * 151936)
    assert apart.parameters - model.parameters == apart.tables == model.head


def test_the_config_stays_as_it_is(shipped):
    before = copy.deepcopy(shipped)
    architecture(shipped)
    assert shipped == before


@pytest.mark.parametrize("model_type", ["bert", None, 7, ["llama"], "LLAMA"])
def test_unknown_families_get_the_known_ones(model_type):
    with pytest.raises(ValueError, match=", ".join(sorted(FAMILIES))):
        architecture(load_config("llama-3-8b") | {"model_type": model_type})


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("gemma-2-27b", {"layer_types": ["full_attention"] * 45}, "names 45 layers, and num_hidden_layers is 46"),
        ("gemma-2-27b", {"layer_types": ["linear_attention"] * 46}, "linear_attention; known are"),
        ("gemma-2-27b", {"layer_types": "full_attention"}, "must be a list"),
        ("gemma-2-27b", {"sliding_window": None}, "no sliding_window"),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "cannot visit 9 of 8 experts"),
        ("deepseek-v2", {"moe_layer_freq": 2}, "moe_layer_freq"),
        ("deepseek-v2", {"kv_lora_rank": None}, "no kv_lora_rank"),
        ("opt-13b", {"word_embed_proj_dim": 512}, "word_embed_proj_dim"),
        ("llama-3-8b", {"vocab_size": None}, "no vocab_size"),
        ("jamba-v0.1", {"mamba_d_state": 0}, "mamba_d_state"),
    ],
)
def test_refusals_name_the_field(name, change, says):
    with pytest.raises(ValueError, match=says):
        architecture(load_config(name) | change)


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 70), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=2)
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_broken_config_is_a_value_error_or_none(data):
    """Whatever stands in one field, or is missing: a plan or a sentence, never another exception."""
    config = load_config(data.draw(st.sampled_from(names())))
    key = data.draw(st.sampled_from(sorted(config)))
    if data.draw(st.booleans()):
        del config[key]
    else:
        config[key] = data.draw(JUNK)
    try:
        model = architecture(config)
    except ValueError:
        return
    assert model.parameters > 0 and model.layers
