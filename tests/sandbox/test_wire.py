"""Frames: every tree comes back bit by bit, and whatever else comes in is a `WireError` and nothing worse."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograde.sandbox.wire import (
    DTYPES,
    LENGTHS,
    MAX_DEPTH,
    MAX_HEADER,
    MAX_NODES,
    MAX_PAYLOAD,
    MAX_SOURCE,
    WireError,
    check_lengths,
    decode,
    encode,
)
from autograde.value import Handle, Lent, Opaque
from tests.sandbox.trees import FUZZ, alike, any_text, arrays, scalars, trees


def split(frame: bytes) -> tuple[bytes, bytes]:
    """Header and payload, as a reader of the frame takes them apart."""
    header, payload = LENGTHS.unpack_from(frame)
    assert len(frame) == LENGTHS.size + header + payload
    return frame[LENGTHS.size :][:header], frame[LENGTHS.size + header :]


def there(tree: Any) -> Any:
    """The tree on the other side."""
    return decode(*split(encode(tree)))


def decoded(header: bytes, payload: bytes = b"") -> Any:
    """The tree, or None where there is none. Any other exception than `WireError` fails the test."""
    try:
        tree = decode(header, payload)
    except WireError as error:
        assert len(str(error)) < 200
        return None
    assert alike(there(tree), tree), "what is taken in can be sent on"
    return tree


@settings(FUZZ, max_examples=400)
@given(trees)
def test_every_tree_comes_back(tree) -> None:
    """Scalars, text, arrays, references, nested or not."""
    back = there(tree)
    assert alike(tree, back)
    assert encode(back) == encode(tree)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3), (1,) * 16])
def test_every_layout_of_an_array(dtype, shape) -> None:
    """Big-endian, Fortran order, strides, read-only: the numbers cross, and what comes in is a plain array."""
    plain = np.random.default_rng(0).integers(0, 2, size=shape).astype(dtype)
    swapped = plain.astype(plain.dtype.newbyteorder(">"))
    wide = np.repeat(plain[..., None], 2, axis=-1)[..., 0]
    fixed = plain.copy()
    fixed.flags.writeable = False
    for array in (plain, swapped, np.asfortranarray(plain), wide, fixed):
        array = np.asarray(array).reshape(shape)
        back = there([array, array])[1]
        assert (back.dtype.str, back.shape) == (dtype, shape)
        assert np.array_equal(back, plain)
        assert back.flags.writeable and back.flags.owndata is (back.base is None) and back.flags.c_contiguous


@pytest.mark.parametrize(
    "value",
    [-0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 2**64 - 1, -(2**64) + 1, True, 1, 1.0, "", "\ud800", "\0"]
    + ["\ud800 \udfff", "𐀀", "\u202e", "a" * 100_000, None, [], {}, [[]], {"": {}}, Opaque(""), Handle(2**64 - 1)]
    + [
        Lent(0, "f", True),
        Lent(1, "Cache", False, ("append", "__len__"), {"w": np.ones(2), "inner": Lent(2, "g", True)}),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_odd_values_come_back(value) -> None:
    """Each with its type: True is not 1, and 1 is not 1.0."""
    assert alike(there(value), value)


@pytest.mark.parametrize(
    "tree",
    [
        10**1000, 10**100_000, 2**64, object(), (1, 2), {1, 2}, b"x", 1j, np.float64(1), np.ma.masked_array([1.0]),
        np.array([None]), np.array(["x"]), np.array([b"x"]), np.zeros(2, "M8[s]"), np.zeros(1, "V8"),
        np.zeros(1, [("a", "f8")]), np.zeros(1, "g"), np.zeros(MAX_PAYLOAD + 1, "u1"), "x" * (MAX_SOURCE + 1),
        ["x" * MAX_SOURCE] * 20,
    ],
    ids=lambda tree: f"{type(tree).__name__} {ascii(tree)[:20] if not isinstance(tree, int) else tree.bit_length()}",
)  # fmt: skip
def test_what_may_not_cross_is_not_sent(tree) -> None:
    """The sender notices, alone or inside others: the frame is not even begun."""
    for outer in (tree, [tree], {"a": [1, tree]}, Lent(0, "f", True, (), {"a": tree})):
        with pytest.raises(WireError):
            encode(outer)


def test_depth_and_size_end_at_the_same_place_on_both_sides() -> None:
    """What encode writes, decode takes; one level more is refused by both."""
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert there(deep) == deep
    with pytest.raises(WireError):
        encode([deep])
    with pytest.raises(WireError):
        decode(b"[" * (MAX_DEPTH + 1) + b"1" + b"]" * (MAX_DEPTH + 1), b"")
    check_lengths(MAX_HEADER, MAX_PAYLOAD)
    for lengths in ((MAX_HEADER + 1, 0), (0, MAX_PAYLOAD + 1), (2**32 - 1, 2**32 - 1)):
        with pytest.raises(WireError):
            check_lengths(*lengths)


@settings(FUZZ, max_examples=400)
@given(st.binary(max_size=80), st.binary(max_size=20))
def test_arbitrary_bytes(header, payload) -> None:
    """Noise is hardly ever a frame, and never anything worse."""
    decoded(header, payload)


json_values = st.recursive(
    st.one_of(scalars, st.sampled_from(["d", "a", "f", "h", "l", "o", "nan", *sorted(DTYPES)])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.tuples(st.sampled_from("dafhlox"), inner).map(lambda pair: dict([pair])),
        st.dictionaries(any_text, inner, max_size=2),
    ),
    max_leaves=15,
)


@settings(FUZZ, max_examples=600)
@given(json_values, st.binary(max_size=40))
def test_arbitrary_json(raw, payload) -> None:
    """Well-formed JSON with the right tags in the wrong places."""
    decoded(json.dumps(raw).encode("ascii"), payload)


@settings(FUZZ, max_examples=500)
@given(st.one_of(trees, st.lists(arrays(), max_size=3)), st.data())
def test_good_frames_with_something_changed(tree, data) -> None:
    """Bytes flipped, put in, left out, in the header or the payload; pieces moved from one to the other."""
    header, payload = split(encode({"n": 1, "value": tree}))
    frame, cut = bytearray(header + payload), len(header)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(frame) - 1))
        change = data.draw(st.sampled_from(["flip", "insert", "delete", "cut", "json"]))
        if change == "flip":
            frame[place] ^= data.draw(st.integers(1, 255))
        elif change == "insert":
            frame[place:place] = data.draw(st.binary(min_size=1, max_size=4))
        elif change == "delete":
            del frame[place : place + data.draw(st.integers(1, 4))]
        elif change == "cut":
            cut = place
        else:
            frame[place : place + 1] = data.draw(st.sampled_from([b"1", b"-", b"[", b"]", b'"', b"9999999", b"NaN"]))
        if not frame:
            break
    decoded(bytes(frame[:cut]), bytes(frame[cut:]))
    decoded(payload, header)


HOSTILE = {
    "nothing": (b"", b""),
    "not ascii": (b'"\xff"', b""),
    "utf-16": ('{"h":1}'.encode("utf-16"), b""),
    "two values": (b"1 2", b""),
    "NaN": (b"NaN", b""),
    "Infinity": (b"[-Infinity]", b""),
    "too large a float": (b"1e999", b""),
    "no such float": (b'{"f":"1e5"}', b""),
    "a float that is a float": (b'{"f":1.0}', b""),
    "10**100000": (b"1" + b"0" * 100_000, b""),
    "-10**30": (b"-1" + b"0" * 30, b""),
    "65 bits": (b"18446744073709551616", b""),
    "no key": (b"{}", b""),
    "two keys": (b'{"h":1,"o":"x"}', b""),
    "one key twice": (b'{"h":1,"h":1}', b""),
    "a dict's key twice": (b'{"d":[["a",1],["a",2]]}', b""),
    "a dict of triples": (b'{"d":[["a",1,2]]}', b""),
    "a dict with a number for a key": (b'{"d":[[1,1]]}', b""),
    "a dict that is one": (b'{"d":{"d":[]}}', b""),
    "unknown tag": (b'{"pickle":"gASVAAAA"}', b""),
    "a negative handle": (b'{"h":-1}', b""),
    "a bool for a handle": (b'{"h":true}', b""),
    "a float for a handle": (b'{"h":1.0}', b""),
    "a list for a type": (b'{"o":["x"]}', b""),
    "a long name": (b'{"o":"' + b"x" * 20_000 + b'"}', b""),
    "a reference that is too short": (b'{"l":[0,"f",true,[]]}', b""),
    "a reference with a list for attributes": (b'{"l":[0,"f",true,[],[]]}', b""),
    "a reference with numbers for methods": (b'{"l":[0,"f",true,[1],{"d":[]}]}', b""),
    "a reference with text for methods": (b'{"l":[0,"f",true,"ab",{"d":[]}]}', b""),
    "bytes of no array": (b"1", b"\0"),
    "trailing bytes": (b'{"a":["<f4",[1]]}', b"\0" * 5),
    "a byte too few": (b'{"a":["<f4",[1]]}', b"\0" * 3),
    "a second array without bytes": (b'[{"a":["<f4",[1]]},{"a":["<f4",[1]]}]', b"\0" * 4),
    "a bool of 2": (b'{"a":["|b1",[3]]}', b"\1\2\1"),
    "10 MB string": (b'"' + b"x" * 10_000_000 + b'"', b""),
    "too many nodes": (b"[" + b"0," * MAX_NODES + b"0]", b""),
    "too many empty lists": (b"[" + b"[]," * MAX_NODES + b"[]]", b""),
    "too many objects": (b"[" + b'{"":0},' * MAX_NODES + b"0]", b""),
    "depth 60,000": (b"[" * 60_000 + b"]" * 60_000, b""),
    "depth 60,000 of objects": (b'{"d":[["",' * 60_000 + b"0" + b"]]}" * 60_000, b""),
    "depth 60,000, never closed": (b"[" * 60_000, b""),
    "depth 60,000 of attributes": (b'{"l":[0,"",true,[],' * 60_000 + b"0" + b"]}" * 60_000, b""),
    "a float of a million digits": (b"0." + b"3" * 1_000_000 + b"e", b""),
    "empty arrays of a product too large": (b'{"a":["<f8",[0,' + b",".join([b"16777216"] * 10) + b"]]}", b""),
}
HOSTILE |= {
    f"shape {shape}": (b'{"a":["<f4",[' + shape.encode() + b"]]}", b"\0" * 16)
    for shape in (
        "-1", "-4,-1", "true", "1.0", "4.0", "null", '"4"', "[4]", "1e999", "NaN", "4294967297,4294967295", "4,4", "3",
        "9223372036854775807,2", "18446744073709551615,18446744073709551615", "65536,65536,65536,65536,1", "16777216",
        ",".join("1" * 17) + ",4",
    )
}  # fmt: skip
HOSTILE |= {
    f"dtype {dtype}": (json.dumps({"a": [dtype, [1]]}).encode(), b"\0" * 8)
    for dtype in (
        "O",
        "|O",
        "|V8",
        ">f4",
        ">f8",
        "M8",
        "<M8[s]",
        "f8",
        "=f8",
        "float64",
        "<f16",
        "<U2",
        "|S8",
        "i4,i4",
        8,
    )
} | {
    f"array {raw}": (b'{"a":' + raw.encode() + b"}", b"") for raw in ("1", "[]", '["<f4"]', '["<f4",4]', '["<f4",[],0]')
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_frames(name) -> None:
    """Each is refused, and costs no more memory than a large honest frame."""
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decode(*HOSTILE[name])
        assert tracemalloc.get_traced_memory()[1] < 256 << 20
    finally:
        tracemalloc.stop()


def test_the_largest_honest_frames_pass() -> None:
    """The limits leave room: many values, and numbers up to the last byte."""
    assert there([0] * (MAX_NODES - 1)) == [0] * (MAX_NODES - 1)
    back = there({"value": np.full(MAX_PAYLOAD // 8, 1.5)})
    assert back["value"].size == MAX_PAYLOAD // 8 and (back["value"] == 1.5).all()
