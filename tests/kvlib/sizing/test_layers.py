"""Caches whose layers differ: against adding token by token, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib.sizing.kv import kv_bytes
from kvlib.sizing.layers import FIELDS, layer_bytes

SMALL = st.integers(1, 9)
LAYERS = st.one_of(
    *(
        st.fixed_dictionaries({"kind": st.just(kind)} | dict.fromkeys(fields, SMALL) | {"other": SMALL})
        for kind, fields in FIELDS.items()
    )
)


def whole_layer(kind, **changes):
    return {"kind": kind} | dict.fromkeys(FIELDS[kind], 3) | changes


@given(st.lists(LAYERS, max_size=6), st.integers(0, 20), st.sampled_from([1, 2, 4]))
def test_it_is_what_the_tokens_add_one_by_one(layers, num_tokens, width):
    total = 0
    for layer in layers:
        total += layer["state_bytes"] if layer["kind"] == "state" else 0
        for token in range(num_tokens):
            if layer["kind"] == "full" or (layer["kind"] == "window" and token < layer["window"]):
                total += layer["num_kv_heads"] * layer["head_dim"] * width  # its key
                total += layer["num_kv_heads"] * layer["head_dim"] * width  # its value
            if layer["kind"] == "latent":
                total += layer["kv_lora_rank"] * width + layer["qk_rope_head_dim"] * width
    assert layer_bytes(layers, num_tokens, width) == total


@given(SMALL, SMALL, SMALL, st.integers(0, 30))
def test_a_plain_model_is_the_formula(num_layers, num_kv_heads, head_dim, num_tokens):
    layers = [{"kind": "full", "num_kv_heads": num_kv_heads, "head_dim": head_dim}] * num_layers
    assert layer_bytes(layers, num_tokens, 2) == kv_bytes(num_layers, num_kv_heads, head_dim, [num_tokens], 2)


def test_a_window_is_a_limit_and_not_a_size():
    window = {"kind": "window", "num_kv_heads": 1, "head_dim": 1, "window": 7}
    assert [layer_bytes([window], n, 1) // 2 for n in (0, 1, 6, 7, 8, 700)] == [0, 1, 6, 7, 7, 7]


def test_a_state_is_there_before_the_first_token():
    assert layer_bytes([whole_layer("state", state_bytes=101)], 0, 2) == 101
    assert layer_bytes([whole_layer("state", state_bytes=0)], 5, 2) == 0


def test_a_shared_layer_adds_nothing():
    full = whole_layer("full")
    assert layer_bytes([full, {"kind": "shared"}] * 3, 11, 2) == 3 * layer_bytes([full], 11, 2) > 0


def test_no_layer_takes_nothing():
    assert layer_bytes([], 100, 2) == 0


def test_sizes_are_plain_ints():
    layers = [whole_layer("full", head_dim=np.int32(2**20)), whole_layer("state", state_bytes=np.int64(1))]
    got = layer_bytes(layers, np.int32(2**20), np.int32(4))
    assert got == 2 * 3 * 2**40 * 4 + 1
    assert type(got) is int


@pytest.mark.parametrize("kind", ["linear", "Full", "", None, 3, ["full"]])
def test_an_unknown_kind_is_refused_by_name_and_place(kind):
    with pytest.raises(ValueError) as error:
        layer_bytes([whole_layer("full"), {"kind": kind}], 5, 2)
    assert str(error.value) == f"layer 1 is of kind {kind!r}; known are full, window, latent, state, shared"


def test_a_layer_without_a_kind_is_refused():
    with pytest.raises(ValueError, match="layer 0 is of kind None"):
        layer_bytes([{"num_kv_heads": 3, "head_dim": 3}], 5, 2)


def test_one_layer_instead_of_a_list_is_refused():
    with pytest.raises(ValueError, match="layer 0 must be a dict with a kind, got 'kind'"):
        layer_bytes(whole_layer("full"), 5, 2)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, fields in FIELDS.items() for name in fields])
def test_a_field_that_is_missing_or_senseless_is_refused_by_name(kind, name):
    layer = whole_layer(kind)
    least = 0 if kind == "state" else 1
    for bad in (-1, 2.0, True, "3", None, *([0] if least else [])):
        with pytest.raises(ValueError, match=f"^{name} of layer 0 must be a whole number of at least {least}, got "):
            layer_bytes([{**layer, name: bad}], 5, 2)
    del layer[name]
    with pytest.raises(ValueError, match=f"^layer 0, of kind '{kind}', lacks {name}$"):
        layer_bytes([layer], 5, 2)


@pytest.mark.parametrize("bad", [-1, 2.0, True, "3", None])
def test_senseless_tokens_and_widths_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=f"^num_tokens must be a whole number of at least 0, got {bad!r}$"):
        layer_bytes([], bad, 2)
    with pytest.raises(ValueError, match=f"^bytes_per_element must be a whole number of at least 1, got {bad!r}$"):
        layer_bytes([], 5, bad)
