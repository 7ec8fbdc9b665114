"""The frames between the judge and the process that runs a student's code.

A frame is two little-endian 32-bit lengths, a JSON text, and the raw bytes of its arrays. The JSON is a tree
(`autograde.value`) in which every object has one key, its tag, so that no value can pass for another:

    {"d": [[key, tree], ...]} a dict    {"a": [dtype, shape]} an array    {"f": "nan" | "inf" | "-inf"} a float
    {"h": id} a Handle    {"l": [id, name, is_function, [method, ...], tree]} a Lent    {"o": type} an Opaque

Nothing in it is ever executed or imported. What does not fit exactly is a `WireError`, whoever sent it.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from autograde.value import MAX_BITS, MAX_TEXT, Handle, Lent, Opaque

LENGTHS = struct.Struct("<II")
MAX_HEADER = 4 << 20  # bytes of JSON
MAX_PAYLOAD = 16 << 20  # bytes of all arrays of one frame
MAX_DEPTH = 24  # of nested lists and dicts
MAX_NODES = 250_000  # values in one frame
MAX_SOURCE = 250_000  # characters of the longest string: the source of a cell
MAX_DIMENSIONS = 16
DTYPES = {
    np.dtype(name).str: np.dtype(name)
    for name in ("?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16")
}
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class WireError(Exception):
    """A frame that is not one."""


def encode(tree: Any) -> bytes:
    """A frame. Raises `WireError` when it would be larger than a frame may be, or holds what may not cross."""
    arrays: list[bytes] = []
    header = json.dumps(_outward(tree, arrays, 0), separators=(",", ":"), allow_nan=False).encode("ascii")
    payload = b"".join(arrays)
    check_lengths(len(header), len(payload))
    return LENGTHS.pack(len(header), len(payload)) + header + payload


def check_lengths(header: int, payload: int) -> None:
    """Raise `WireError` when a frame of these lengths is too large to be read."""
    if header > MAX_HEADER or payload > MAX_PAYLOAD:
        raise WireError(f"a frame of {header} + {payload} bytes is larger than {MAX_HEADER} + {MAX_PAYLOAD}")


def decode(header: bytes, payload: bytes) -> Any:
    """The tree of a frame. Raises `WireError` for anything that `encode` does not write."""
    try:
        raw = json.loads(
            header.decode("ascii"), object_pairs_hook=_one_key, parse_int=_small_int, parse_constant=_refused
        )
        return _Inward(payload).whole(raw)
    except WireError:
        raise
    except (ValueError, RecursionError, OverflowError, MemoryError) as error:
        raise WireError(f"not a frame: {type(error).__name__}") from None


def _outward(tree: Any, arrays: list[bytes], depth: int) -> Any:
    kind = type(tree)
    if depth > MAX_DEPTH:
        raise WireError("too deep")
    if tree is None or kind is bool:
        return tree
    if kind is int:
        if tree.bit_length() > MAX_BITS:
            raise WireError("an int is too large")
        return tree
    if kind is str:
        if len(tree) > MAX_SOURCE:
            raise WireError("a string is too long")
        return tree
    if kind is float:
        return tree if math.isfinite(tree) else {"f": repr(tree)}
    if kind is list:
        return [_outward(item, arrays, depth + 1) for item in tree]
    if kind is dict:
        return {"d": [[str(key), _outward(item, arrays, depth + 1)] for key, item in tree.items()]}
    if kind is np.ndarray:
        dtype = tree.dtype.newbyteorder("<")
        if dtype.str not in DTYPES:
            raise WireError(f"arrays of dtype {tree.dtype} do not cross")
        arrays.append(np.asarray(tree, dtype=dtype, order="C").tobytes())
        return {"a": [dtype.str, list(tree.shape)]}
    if kind is Handle:
        return {"h": tree.id}
    if kind is Lent:
        attributes = _outward(tree.attributes, arrays, depth + 1)
        return {"l": [tree.id, tree.name, tree.is_function, list(tree.methods), attributes]}
    if kind is Opaque:
        return {"o": tree.type_name}
    raise WireError(f"{kind.__name__} does not cross")


def _one_key(pairs: list[tuple[str, Any]]) -> tuple[str, Any]:
    if len(pairs) != 1:
        raise WireError("an object has one key")
    return pairs[0]


def _small_int(text: str) -> int:
    if len(text) > 21:
        raise WireError("an int is too long")
    number = int(text)
    if number.bit_length() > MAX_BITS:
        raise WireError("an int is too large")
    return number


def _refused(text: str) -> Any:
    raise WireError(f"{text} is not JSON")


class _Inward:
    """Rebuilds one tree. The arrays lie in the payload in the order in which they appear, without a gap."""

    def __init__(self, payload: bytes) -> None:
        self.payload, self.offset, self.nodes = payload, 0, 0

    def whole(self, raw: Any) -> Any:
        tree = self.tree(raw, 0)
        if self.offset != len(self.payload):
            raise WireError(f"{len(self.payload) - self.offset} bytes belong to no array")
        return tree

    def tree(self, raw: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise WireError("too many values or too deep")
        kind = type(raw)
        if raw is None or kind is bool or kind is int:
            return raw
        if kind is float:
            if not math.isfinite(raw):  # 1e999
                raise WireError("a float is too large")
            return raw
        if kind is str:
            if len(raw) > MAX_SOURCE:
                raise WireError("a string is too long")
            return raw
        if kind is list:
            return [self.tree(item, depth + 1) for item in raw]
        tag, body = raw  # an object, made a pair by `_one_key`
        if tag == "d":
            return self._dict(body, depth)
        if tag == "a":
            return self._array(body)
        if tag == "f" and type(body) is str and body in NOT_FINITE:
            return NOT_FINITE[body]
        if tag == "h":
            return Handle(_id(body))
        if tag == "o":
            return Opaque(_name(body))
        if tag == "l":
            return self._lent(body, depth)
        raise WireError("an unknown tag")

    def _dict(self, body: Any, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if type(body) is not list:
            raise WireError("a dict is a list of pairs")
        for pair in body:
            if type(pair) is not list or len(pair) != 2:
                raise WireError("a dict is a list of pairs")
            key = _name(pair[0])
            if key in result:
                raise WireError("a key twice")
            result[key] = self.tree(pair[1], depth + 1)
        return result

    def _array(self, body: Any) -> np.ndarray:
        if type(body) is not list or len(body) != 2 or type(body[0]) is not str or type(body[1]) is not list:
            raise WireError("an array is a dtype and a shape")
        dtype, shape = DTYPES.get(body[0]), body[1]
        if dtype is None:
            raise WireError("an unknown dtype")
        if len(shape) > MAX_DIMENSIONS or any(type(n) is not int or not 0 <= n <= MAX_PAYLOAD for n in shape):
            raise WireError("not a shape")
        count = math.prod(shape)
        end = self.offset + count * dtype.itemsize
        if end > len(self.payload):
            raise WireError("an array is longer than the frame")
        if dtype.kind == "b" and self.payload[self.offset : end].strip(b"\0\1"):
            raise WireError("a bool that is neither true nor false")
        array = np.frombuffer(self.payload, dtype, count, self.offset).reshape(shape).copy()
        self.offset = end
        return array

    def _lent(self, body: Any, depth: int) -> Lent:
        if type(body) is not list or len(body) != 5 or type(body[2]) is not bool or type(body[3]) is not list:
            raise WireError("not a reference")
        attributes = self.tree(body[4], depth + 1)
        if type(attributes) is not dict:
            raise WireError("not a reference")
        return Lent(_id(body[0]), _name(body[1]), body[2], tuple(map(_name, body[3])), attributes)


def _id(raw: Any) -> int:
    if type(raw) is not int or raw < 0:
        raise WireError("not an id")
    return raw


def _name(raw: Any) -> str:
    if type(raw) is not str or len(raw) > MAX_TEXT:
        raise WireError("not a name")
    return raw
