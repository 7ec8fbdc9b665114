"""Tiles and pointers in NumPy: what `kvlib.tiles.tl` works on, with the rules that Triton has for them.

A tile is a small array that a program holds in registers. Its sizes are powers of two, it never changes, and it is
calculated with as a whole: no indices, no loops over its numbers. A pointer names a place in memory. Adding a tile of
whole numbers to it gives a tile of places, which `tl.load` reads.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

LIMITS = -(2**31), 2**31 - 1  # of a whole number that Triton takes for an int32
ANYTHING = -123_456_789  # what a lane that was masked off holds, where it is no float: there it is NaN


@dataclass(frozen=True)
class DType:
    """The type of a tile's numbers: "float32"."""

    name: str

    @property
    def numpy(self) -> np.dtype:
        """NumPy's type of the same numbers; bool for int1."""
        return np.dtype("bool" if self.name == "int1" else self.name)

    def __repr__(self) -> str:
        return f"tl.{self.name}"


class Memory:
    """A stretch of memory that a pointer leads into. Every read is looked at."""

    def __init__(self, values: np.ndarray, name: str = "pointer", start: int = 0) -> None:
        """values: of any shape, kept as a copy (size,) in reading order. name: what an error calls them.

        start: numbers that lie before `values`. They are not stored: a pool may be larger than this machine.
        """
        self.values, self.name, self.start = np.array(values).reshape(-1), name, start
        self.size = start + self.values.size
        self.reads = 0  # numbers that were read

    def _check(self, offsets: np.ndarray, mask: np.ndarray, does: str) -> None:
        wrong = mask & ((offsets < 0) | (offsets >= self.size))
        if wrong.any():
            offset = int(offsets[wrong][0])
            raise IndexError(f"tl.{does} outside of {self.name}: offset {offset}, and it has {self.size} numbers")

    def read(self, offsets: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """The numbers at these offsets where the mask allows; anything elsewhere. Offsets and mask are of one shape.

        Raises IndexError for an offset outside of the memory that is not masked off.
        """
        self._check(offsets, mask, "load")
        self.reads += int(mask.sum())
        got = np.full(offsets.shape, nothing(self.values.dtype), self.values.dtype)
        there = mask & (offsets >= self.start)
        got[there] = self.values[offsets[there] - self.start]
        return got

    def write(self, offsets: np.ndarray, values: np.ndarray, mask: np.ndarray) -> None:
        """Put values at these offsets where the mask allows, all of one shape. IndexError as for `read`."""
        self._check(offsets, mask, "store")
        there = mask & (offsets >= self.start)
        self.values[offsets[there] - self.start] = values[there]


def nothing(dtype: np.dtype) -> Any:
    """What stands for a number that nobody may use."""
    return np.nan if dtype.kind == "f" else True if dtype.kind == "b" else dtype.type(ANYTHING % 2**7)


class Block:
    """What tiles and pointers share: a shape, and new axes by `[:, None]`."""

    __iter__ = None
    __hash__ = None  # type: ignore[assignment]  # == gives a tile, so nothing may be looked up by it
    _values: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes; () for a single one."""
        return self._values.shape

    def _like(self, values: np.ndarray) -> Any:
        return type(self)(values)  # type: ignore[call-arg]  # a Tile; a Pointer has its own

    def __getitem__(self, index: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        if not all(item is None or (isinstance(item, slice) and item == slice(None)) for item in items):
            kinds = ", ".join(type(item).__name__ for item in items)
            raise ValueError(f"a tile has no numbers to pick: only [:, None] and the like work, not [{kinds}]")
        return self._like(self._values[items])

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("NumPy cannot be used on tiles: a kernel has only what tl has")


def tile_of(value: Any, like: np.dtype | None = None) -> Tile:
    """A tile of a plain number; `like`: the type of the numbers that it meets. TypeError for what is no number."""
    if isinstance(value, Tile):
        return value
    if isinstance(value, Pointer):
        raise TypeError("a pointer is no number: tl.load reads what it points to")
    if isinstance(value, (bool, np.bool_)):
        return Tile(np.array(bool(value)))
    if isinstance(value, (int, np.integer)):
        small = LIMITS[0] <= value <= LIMITS[1]
        if like is not None and like.kind in "if" and (small or like.itemsize == 8):
            return Tile(np.array(value, like))
        return Tile(np.array(value, np.int32 if small else np.int64))
    if isinstance(value, (float, np.floating)):
        return Tile(np.array(value, like if like is not None and like.kind == "f" else np.float32))
    raise TypeError(f"a kernel calculates with tiles and numbers, not with {type(value).__name__}")


def _whole_type(x: np.dtype, y: np.dtype) -> np.dtype:
    """The larger of two types of whole numbers; of equal size the unsigned one, where NumPy would take int64."""
    if "b" not in (x.kind, y.kind) and x.kind != y.kind:
        unsigned, signed = (x, y) if x.kind == "u" else (y, x)
        return unsigned if unsigned.itemsize >= signed.itemsize else signed
    return np.result_type(x, y)


def alike(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """a and b as arrays of the type that Triton calculates in, each of its own shape. TypeError as `tile_of`."""
    x = tile_of(a, b._values.dtype if isinstance(b, Tile) else None)._values
    y = tile_of(b, x.dtype)._values
    if x.dtype == y.dtype:
        return x, y
    floats = [one.dtype for one in (x, y) if one.dtype.kind == "f"]
    dtype = (
        np.result_type(*floats) if floats else _whole_type(x.dtype, y.dtype)
    )  # int32 and float32 make float32; NumPy would say float64
    return x.astype(dtype), y.astype(dtype)


def same_shape(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x and y, stretched along axes of length one to one shape. ValueError where they do not fit."""
    if x.shape == y.shape:
        return x, y
    shape = fitting(x.shape, y.shape)
    return np.broadcast_to(x, shape), np.broadcast_to(y, shape)


@cache
def fitting(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that tiles of these shapes make together. Raises ValueError where there is none."""
    try:
        return np.broadcast_shapes(x, y)
    except ValueError:
        raise ValueError(f"tiles of shapes {x} and {y} do not fit: axes must be equal, or 1") from None


@cache
def is_shape(shape: tuple[int, ...]) -> bool:
    """Whether all sizes are powers of two."""
    return all(size > 0 and not size & (size - 1) for size in shape)


def _divided(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.true_divide(x, y, dtype=x.dtype if x.dtype.kind == "f" else np.float32)


def _whole(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Division of whole numbers towards zero, as GPUs do it."""
    if x.dtype.kind == "f":
        raise TypeError("// is for whole numbers: use / on floats")
    if (y == 0).any():
        raise ZeroDivisionError("// or % by 0: on a GPU the result is anything")
    quotient = np.abs(x) // np.abs(y)
    return np.where((x < 0) != (y < 0), -quotient, quotient).astype(x.dtype)


def _rest(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.fmod(x, y) if x.dtype.kind == "f" else x - _whole(x, y) * y


def _bits(function: Callable) -> Callable:
    def on_bits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind == "f":
            raise TypeError("& | ^ are for bools and whole numbers")
        return function(x, y)

    return on_bits


def _operator(function: Callable, swap: bool = False) -> Callable:
    def method(self: Tile, other: Any) -> Any:
        if isinstance(other, Pointer):
            return NotImplemented
        x, y = alike(other, self) if swap else alike(self, other)
        fitting(x.shape, y.shape)
        with np.errstate(all="ignore"):  # int32 goes round beyond its end, as on a GPU
            return Tile(function(x, y))

    return method


class Tile(Block):
    """Numbers of one type in a shape of powers of two, else ValueError; a shape of () is a single number.

    >>> Tile(np.float32([1, 2])) + 1
    tile (2,) of float32:
    [2. 3.]
    >>> Tile(np.zeros(3))
    Traceback (most recent call last):
    ValueError: the sizes of a tile must be powers of two, not (3,)
    """

    __slots__ = ("_values",)

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)
        if not is_shape(self._values.shape):
            raise ValueError(f"the sizes of a tile must be powers of two, not {self._values.shape}")

    @property
    def dtype(self) -> DType:
        """The type of the numbers."""
        kind = self._values.dtype
        return DType("int1" if kind.kind == "b" else kind.name)

    def to(self, dtype: DType, bitcast: bool = False) -> Tile:
        """The same numbers in another type; with bitcast, the same bits. Raises TypeError for what is no type."""
        if not isinstance(dtype, DType):
            raise TypeError(f"a type such as tl.float32 is wanted, not {dtype!r}")
        with np.errstate(all="ignore"):
            return Tile(self._values.view(dtype.numpy) if bitcast else self._values.astype(dtype.numpy))

    @property
    def T(self) -> Tile:
        """The axes in the other order."""
        return Tile(self._values.T)

    def _alone(self, what: str) -> np.ndarray:
        if self.shape:
            raise ValueError(f"a tile of shape {self.shape} {what}")
        return self._values

    def __bool__(self) -> bool:
        return bool(self._alone("is neither true nor false: use & and | on masks, and tl.where for a choice"))

    def __index__(self) -> int:
        return operator.index(self._alone("is no whole number")[()])

    def __int__(self) -> int:
        raise TypeError(
            "a kernel has no int() and no float(): calculate with the tile, and .to(tl.int64) changes its type"
        )

    __float__ = __int__

    def __neg__(self) -> Tile:
        return 0 - self  # type: ignore[operator, return-value]  # its operators are set below the class

    def __invert__(self) -> Tile:
        if self._values.dtype.kind == "f":
            raise TypeError("~ is for bools and whole numbers")
        return Tile(~self._values)

    def __repr__(self) -> str:
        return f"tile {self.shape} of {self.dtype.name}:\n{self._values}"


ARITHMETIC: dict[str, Callable] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
ARITHMETIC |= {"truediv": _divided, "floordiv": _whole, "mod": _rest}
ARITHMETIC |= {"and": _bits(np.bitwise_and), "or": _bits(np.bitwise_or), "xor": _bits(np.bitwise_xor)}
ARITHMETIC |= {"lshift": _bits(np.left_shift), "rshift": _bits(np.right_shift)}
for _name, _function in ARITHMETIC.items():
    setattr(Tile, f"__{_name}__", _operator(_function))
    setattr(Tile, f"__r{_name}__", _operator(_function, swap=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Tile, f"__{_name}__", _operator(getattr(operator, _name)))


class Pointer(Block):
    """A place in memory, or a tile of places."""

    __slots__ = ("_memory", "_values")

    def __init__(self, memory: Memory, values: Any = 0) -> None:
        self._memory, self._values = memory, np.asarray(values, np.int64)

    def _like(self, values: np.ndarray) -> Pointer:
        return Pointer(self._memory, values)

    @property
    def dtype(self) -> DType:
        """That of pointers, whatever they point to."""
        return DType("pointer")

    def _moved(self, other: Any, sign: int) -> Pointer:
        offsets = tile_of(other)._values
        if offsets.dtype.kind not in "iu":
            raise TypeError(f"a pointer moves by whole numbers, not by {DType(offsets.dtype.name)}")
        places, offsets = same_shape(self._values, offsets.astype(np.int64))
        return self._like(places + sign * offsets)

    def __add__(self, other: Any) -> Pointer:
        return self._moved(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Pointer:
        return self._moved(other, -1)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"pointer {self.shape} into {self._memory.name}, at {self._values.tolist()}"
