"""`tl`: a small stand-in for triton.language, in NumPy, which runs wherever Python does.

A function written with it is run here as plain Python, one program at a time, and is Triton's own language too: nothing
in it has to be changed for a GPU. What Triton refuses is refused here, with a reason: sizes that are no powers of two,
shapes that do not fit, tiles that are indexed or changed in place. Reads outside of memory, which end a real program or
read somebody else's numbers, are an IndexError that names the offset.

    >>> from kvlib.tiles import pointer_to, tl
    >>> k = pointer_to([[1.0, 2.0], [3.0, 4.0]])
    >>> tl.sum(tl.load(k + tl.arange(0, 4), mask=tl.arange(0, 4) < 3, other=0.0))
    tile () of float32:
    6.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from kvlib.tile_values import LIMITS, DType, Memory, Pointer, Tile, alike, fitting, same_shape, tile_of

TYPES: tuple[str, ...] = ("int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPES += ("float16", "float32", "float64")


def pointer_to(values: Any, name: str = "pointer", start: int = 0) -> Pointer:
    """A pointer to the first of these numbers, in float32 if they are floats of Python's own.

    values: an array of any shape, or lists; copied. name, start: as `kvlib.tile_values.Memory` takes them.
    """
    array = np.asarray(values)
    array = array if isinstance(values, np.ndarray) or array.dtype.kind != "f" else array.astype(np.float32)
    return Pointer(Memory(array, name, start))


def tile(values: Any) -> Tile:
    """A tile of these numbers; Python's own become float32, and int32 where they are not too large."""
    if isinstance(values, np.ndarray):
        return Tile(values.copy())
    array = np.asarray(values)
    small = array.dtype.kind == "i" and LIMITS[0] <= array.min() and array.max() <= LIMITS[1]
    return Tile(array.astype(np.float32 if array.dtype.kind == "f" else np.int32 if small else array.dtype))


def numbers(value: Tile) -> np.ndarray:
    """value, a tile, as an array of its own, of its shape. For what runs a kernel, never for the kernel itself."""
    return value._values.copy()


def read_through(value: Any) -> int:
    """How many numbers were read of the memory behind a pointer; 0 for what is none."""
    return value._memory.reads if isinstance(value, Pointer) else 0


class Constexpr:
    """`tl.constexpr`: marks an argument whose value is known when a kernel is built. Called, it gives the value."""

    def __call__(self, value: Any) -> Any:
        return value

    def __repr__(self) -> str:
        return "tl.constexpr"


def _shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(isinstance(size, int) for size in sizes):
        raise ValueError(f"the sizes of a tile must be tl.constexpr, not {sizes}")
    return sizes


def _floats(name: str, function: Callable) -> Callable:
    """A function of each number of a tile."""

    def of(x: Any) -> Tile:
        values = tile_of(x)._values
        if values.dtype.kind != "f":
            raise ValueError(f"tl.{name} is for floats, not for {tile_of(x).dtype}: use .to(tl.float32)")
        with np.errstate(all="ignore"):
            return Tile(function(values).astype(values.dtype))

    of.__name__ = name
    return staticmethod(of)


def _reduction(name: str, function: Callable) -> Callable:
    """A function along one axis of a tile, or over all of it."""

    def along(x: Tile, axis: int | None = None, keep_dims: bool = False) -> Tile:
        if not isinstance(x, Tile):
            raise TypeError(f"tl.{name} is for tiles, not for {type(x).__name__}")
        if not isinstance(axis, int | None):
            raise TypeError(f"tl.{name} goes along one axis of one tile; of two tiles: tl.maximum, tl.minimum or +")
        if axis is not None and not -len(x.shape) <= axis < len(x.shape):
            raise ValueError(f"tl.{name} along axis {axis} of a tile of shape {x.shape}")
        values = x._values.astype(np.int32) if x._values.dtype.kind == "b" else x._values
        with np.errstate(all="ignore"):
            return Tile(function(values, axis=axis, keepdims=keep_dims, dtype=values.dtype))

    along.__name__ = name
    return staticmethod(along)


def _of_two(function: Callable) -> Callable:
    def of(x: Any, y: Any) -> Tile:
        a, b = alike(x, y)
        fitting(a.shape, b.shape)
        return Tile(function(a, b))

    return staticmethod(of)


class Language:
    """What a kernel may use."""

    constexpr = Constexpr()
    range = staticmethod(range)
    device_print = static_print = staticmethod(print)
    math = property(lambda self: self)  # tl.math.exp is tl.exp
    # NaN loses against a number, as in Triton.
    maximum, minimum = _of_two(np.fmax), _of_two(np.fmin)
    max, min = _reduction("max", np.fmax.reduce), _reduction("min", np.fmin.reduce)
    sum = _reduction("sum", np.add.reduce)
    exp, exp2, log, log2 = (_floats(f.__name__, f) for f in (np.exp, np.exp2, np.log, np.log2))
    sqrt, rsqrt = _floats("sqrt", np.sqrt), _floats("rsqrt", lambda x: 1 / np.sqrt(x))

    def __getattr__(self, name: str) -> Any:
        alike = ", ".join(f"tl.{one}" for one in get_close_matches(name, dir(Language), cutoff=0.5))
        raise AttributeError(f"there is no tl.{name} here" + (f": is it {alike}?" if alike else ""))

    @staticmethod
    def static_range(*ends: Any) -> Sequence[int]:
        """range, unrolled when the kernel is built: its ends are known then, else ValueError."""
        if not all(isinstance(end, int) for end in ends):
            raise ValueError("the arguments of tl.static_range must be tl.constexpr: use range")
        return range(*ends)

    @staticmethod
    def arange(start: int, end: int) -> Tile:
        """start, start + 1, ..., end - 1 in int32. Their number is a power of two, else ValueError."""
        if not (isinstance(start, int) and isinstance(end, int)):
            raise ValueError("the arguments of tl.arange must be tl.constexpr")
        if end <= start or (end - start) & (end - start - 1):
            raise ValueError(f"the range of tl.arange must be a power of two: {start} to {end} has {end - start}")
        return Tile(np.arange(start, end, dtype=np.int32))

    @staticmethod
    def full(shape: Any, value: Any, dtype: DType) -> Tile:
        """A tile with the same number everywhere."""
        return Tile(np.full(_shape(shape), tile_of(value)._values, dtype.numpy))

    @staticmethod
    def zeros(shape: Any, dtype: DType) -> Tile:
        """A tile of zeros."""
        return Tile(np.zeros(_shape(shape), dtype.numpy))

    @staticmethod
    def zeros_like(x: Tile) -> Tile:
        """Zeros in the shape and type of a tile."""
        return Tile(np.zeros_like(x._values))

    @staticmethod
    def load(pointer: Pointer, mask: Any = None, other: Any = None, **options: Any) -> Tile:
        """What lies at these places. Where the mask is false nothing is read: `other` stands there, or anything.

        Raises ValueError for what is no pointer, for `other` without a mask, and for shapes that do not fit, and
        IndexError for a place outside of memory.
        """
        if not isinstance(pointer, Pointer):
            raise ValueError(f"tl.load takes a pointer, not {type(pointer).__name__}")
        if mask is None and other is not None:
            raise ValueError("tl.load takes `other` only with a mask")
        places, allowed = _places(pointer, mask)
        got = pointer._memory.read(places, allowed)
        if other is not None:
            got, filler = same_shape(got, tile_of(other)._values)
            got = np.where(allowed, got, filler.astype(got.dtype))
        return Tile(got)

    @staticmethod
    def store(pointer: Pointer, value: Any, mask: Any = None, **options: Any) -> None:
        """Write a tile to these places, where the mask is true. ValueError and IndexError as for `load`."""
        if not isinstance(pointer, Pointer):
            raise ValueError(f"tl.store takes a pointer, not {type(pointer).__name__}")
        places, allowed = _places(pointer, mask)
        memory = pointer._memory
        places, values = same_shape(places, tile_of(value)._values.astype(memory.values.dtype))
        memory.write(places, values, np.broadcast_to(allowed, places.shape))

    @staticmethod
    def where(condition: Any, x: Any, y: Any) -> Tile:
        """x where the condition is true, else y."""
        chosen = tile_of(condition)._values.astype(bool)
        a, b = alike(x, y)
        fitting(chosen.shape, fitting(a.shape, b.shape))
        return Tile(np.where(chosen, a, b))

    @staticmethod
    def dot(a: Tile, b: Tile, acc: Tile | None = None, **options: Any) -> Tile:
        """The matrix product (M, K) x (K, N) -> (M, N) of floats, in float32, plus `acc`.

        Raises ValueError for what has not two axes, for inner axes that differ, and for other types.
        """
        if not (isinstance(a, Tile) and isinstance(b, Tile) and len(a.shape) == len(b.shape) == 2):
            raise ValueError("tl.dot takes two tiles of two axes each")
        if a.shape[1] != b.shape[0]:
            raise ValueError(f"tl.dot of shapes {a.shape} and {b.shape}: the inner axes must be equal")
        if a.dtype != b.dtype or a._values.dtype.kind != "f":
            raise ValueError(f"tl.dot takes floats of one type, not {a.dtype} and {b.dtype}")
        with np.errstate(all="ignore"):
            product = Tile(a._values.astype(np.float32) @ b._values.astype(np.float32))
        return product if acc is None else product + acc  # type: ignore[operator]  # set below the class

    @staticmethod
    def trans(x: Tile, *dims: Any) -> Tile:
        """The axes of a tile exchanged."""
        axes = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
        return Tile(np.transpose(x._values, axes or None))

    @staticmethod
    def cdiv(x: Any, y: Any) -> Any:
        """x / y, rounded up."""
        return (x + y - 1) // y

    @staticmethod
    def cast(x: Any, dtype: DType, bitcast: bool = False) -> Tile:
        """A tile in another type."""
        return tile_of(x).to(dtype, bitcast)

    @staticmethod
    def broadcast_to(x: Any, *shape: Any) -> Tile:
        """A tile stretched to a shape."""
        sizes = _shape(shape[0] if len(shape) == 1 else shape)
        return Tile(same_shape(tile_of(x)._values, np.zeros(sizes))[0])

    @staticmethod
    def expand_dims(x: Any, axis: int) -> Any:
        """A new axis of length one."""
        return x._like(np.expand_dims(x._values, axis))

    @staticmethod
    def reshape(x: Tile, *shape: Any) -> Tile:
        """The same numbers, in reading order, in another shape."""
        return Tile(x._values.reshape(_shape(shape[0] if len(shape) == 1 else shape)))

    view = reshape

    @staticmethod
    def abs(x: Any) -> Tile:
        """Without the sign."""
        return Tile(np.abs(tile_of(x)._values))

    @staticmethod
    def multiple_of(x: Any, value: Any) -> Any:
        """A hint to the compiler."""
        return x

    max_contiguous = multiple_of


def _places(pointer: Pointer, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    allowed = np.array(True) if mask is None else tile_of(mask)._values.astype(bool)
    if allowed.shape and not pointer.shape:
        raise ValueError(f"a mask of shape {allowed.shape} for a single place")
    return same_shape(pointer._values, allowed)


for _name in TYPES:
    setattr(Language, _name, DType(_name))
tl = Language()
# Triton has these as methods too.
for _name in ("abs", "broadcast_to", "exp", "exp2", "expand_dims", "log", "log2", "reshape", "sqrt", "trans"):
    setattr(Tile, _name, getattr(Language, _name))
for _name in ("max", "min", "sum"):
    setattr(Tile, _name, getattr(Language, _name))
