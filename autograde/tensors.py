"""What the learner's side knows of torch: it makes tensors of what is sent, and measures what the work holds and makes.

Of `kvlib.tiles`, too: where an exercise is about a kernel, it makes tiles and pointers, and counts what is read.

torch is imported when it is first needed. The numbers that come from here are the learner's process's own word: they
tell a careless copy, not a forger.
"""

from __future__ import annotations

import contextlib
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

MAX_LOOKED_AT = 100_000  # objects, in search of memory
TILES = "tiles"  # a mode: arrays arrive as tiles of `kvlib.tiles`, and what `pointer` makes as pointers
FEW = 2  # floats in a list or tuple: settings, not rows
BEYOND = 464.0  # half a step above 448, the largest number of float8_e4m3fn: up to here a cast rounds down to it


def prepare(tensors: bool | str) -> None:
    """Import what an exercise of this mode needs, so that this does not count as the work's time.

    It comes before memory is poisoned, which knows torch only where it is imported. No torch is no error yet.
    """
    if tensors == TILES:
        import kvlib.tiles  # noqa: F401
    elif tensors:
        with contextlib.suppress(ImportError):
            import torch  # noqa: F401


def to_tensor(array: np.ndarray) -> Any:
    """A tensor of the same shape, dtype and numbers, with memory of its own."""
    import torch

    return torch.tensor(array)


def pointer(array: np.ndarray, name: str, start: int = 0) -> dict[str, Any]:
    """What the trusted side sends so that a pointer arrives: to `start` numbers of no interest, then these."""
    return {"pointer": array, "name": name, "start": start}


def is_pointer(tree: Any) -> bool:
    """Whether this is what `pointer` makes."""
    return type(tree) is dict and tree.keys() == {"pointer", "name", "start"}


def to_tile(tree: Any) -> Any:
    """The tile that an array becomes, the pointer that a dict of `pointer` becomes, or None."""
    from kvlib.tiles import pointer_to, tile

    if is_pointer(tree):
        return pointer_to(tree["pointer"], tree["name"], tree["start"])
    return tile(tree) if type(tree) is np.ndarray else None


def from_tile(value: Any) -> np.ndarray | None:
    """The numbers of a tile; None for anything else."""
    module = sys.modules.get("kvlib.tiles")
    return module.numbers(value) if module is not None and isinstance(value, module.Tile) else None


def of_tiles(result: Any) -> Any:
    """What a function of tiles gave. TypeError where an array is in it: no kernel can make one."""
    if any(
        isinstance(one, np.ndarray | np.generic) for one in (result if isinstance(result, list | tuple) else [result])
    ):
        raise TypeError("a NumPy array came back: a kernel has only what tl has")
    return result


def numbers_read(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """[result, numbers]: what a function of tiles gives, and how many numbers it has read through its pointers."""
    from kvlib.tiles import read_through

    result = of_tiles(function(*args, **kwargs))
    return [result, sum(map(read_through, args))]


def named_dtype(text: str) -> Any:
    """The dtype that "torch.float32" names; any other text as it is."""
    import torch

    found = getattr(torch, text.removeprefix("torch."), None) if text.startswith("torch.") else None
    return found if isinstance(found, torch.dtype) else text


def storage_bytes(held: Any) -> int:
    """Bytes of all memory behind the tensors and arrays that an object holds, each piece once, views for the whole."""
    return sum(_pieces(held).values())


def _pieces(held: Any) -> dict[int, int]:
    """Bytes of each piece of memory that an object holds, by its address."""
    pieces: dict[int, int] = {}
    seen: set[int] = set()
    waiting = [held]
    while waiting and len(seen) < MAX_LOOKED_AT:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, (str, int, float, type, ModuleType)):
            continue
        seen.add(id(item))
        if isinstance(item, (bytes, bytearray, memoryview, array)):
            pieces[id(item)] = memoryview(item).nbytes
            continue
        if isinstance(item, (list, tuple)) and sum(isinstance(number, float) for number in item) > FEW:
            pieces[id(item)] = 8 * len(item)
        if isinstance(item, np.ndarray):
            while isinstance(item.base, np.ndarray):
                item = item.base
            pieces[item.__array_interface__["data"][0]] = item.nbytes
        elif _is_tensor(item):
            storage = item.untyped_storage()
            pieces[storage.data_ptr()] = storage.nbytes()
        else:
            waiting += _parts(item)
    return pieces


def _parts(item: Any) -> list[Any]:
    if isinstance(item, Mapping):
        return list(item.values())
    if isinstance(item, partial):
        return [item.func, *item.args, *item.keywords.values()]
    if isinstance(item, FunctionType):
        return [*(item.__closure__ or ()), *(item.__defaults__ or ())]
    if isinstance(item, CellType):
        return [item.cell_contents] if _is_filled(item) else []
    if isinstance(item, MethodType):
        return [item.__self__]
    parts = list(vars(item).values()) if hasattr(item, "__dict__") else []
    for kind in type(item).__mro__:
        names = vars(kind).get("__slots__", ())
        parts += [getattr(item, name, None) for name in ([names] if isinstance(names, str) else names)]
    if isinstance(item, (list, tuple, set, frozenset)) or type(item).__name__ == "deque":
        parts += list(item)
    return parts


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _is_tensor(item: Any) -> bool:
    import torch

    return isinstance(item, torch.Tensor)


@contextlib.contextmanager
def strict_casts() -> Iterator[None]:
    """A context in which a cast to float8_e4m3fn gives NaN for what lies beyond its numbers.

    Builds differ: some give the largest number, others NaN. Work that does not clamp fails here as it would there.
    Python's own numbers are looked at where a tensor is made of them, or one is put into a tensor.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    fp8 = torch.float8_e4m3fn

    class Strict(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # as below

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            name = func.overloadpacket.__name__
            source = {"_to_copy": 0, "copy_": 1, "copy": 1, "fill_": 1, "full": 1, "scalar_tensor": 0}.get(name)
            given = args[source] if source is not None else None
            if isinstance(given, (int, float)) and made.dtype == fp8 and abs(given) > BEYOND:
                made.view(torch.uint8).fill_(0x7F)
            if isinstance(given, torch.Tensor) and made.dtype == fp8 and given.dtype != fp8:
                beyond = given.abs() > BEYOND
                if beyond.any():
                    codes = made.view(torch.uint8)
                    codes.masked_fill_(beyond.expand(codes.shape).to(codes.device), 0x7F)
            return made

    makers = {torch.tensor: 0, torch.as_tensor: 0, torch.asarray: 0, torch.Tensor.new_tensor: 1}

    class Numbers(TorchFunctionMode):
        """torch casts numbers of Python's own before it calls what `Strict` sees."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.__setitem__ and args[0].dtype == fp8 and isinstance(args[2], (int, float)):
                args = (*args[:2], args[2] if abs(args[2]) <= BEYOND else float("nan"))
            made = func(*args, **(kwargs or {}))
            place = makers.get(func, len(args))
            if place < len(args) and made.dtype == fp8 and not isinstance(args[place], torch.Tensor):
                beyond = torch.tensor(args[place], dtype=torch.float64).abs() > BEYOND
                made.view(torch.uint8).masked_fill_(beyond.to(made.device), 0x7F)
            return made

    with Strict(), Numbers():
        yield


def largest_made(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], held: Any = None) -> list[Any]:
    """[result, bytes]: what the function gives, and the largest memory that a tensor newly made on the way takes.

    held: the object whose method it is. What it holds already is not newly made.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Watch(TorchDispatchMode):
        largest = 0
        given = {item.untyped_storage().data_ptr() for item in tree_leaves((args, kwargs)) if _is_tensor(item)}
        given |= set(_pieces(held))

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # nothing is compiled here, and torch would import its compiler to say so: a second and more

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            for item in tree_leaves(made):
                if isinstance(item, torch.Tensor):
                    storage = item.untyped_storage()
                    if storage.data_ptr() not in self.given:
                        self.largest = max(self.largest, storage.nbytes())
            return made

    watch = Watch()
    with watch:
        result = function(*args, **kwargs)
    return [result, watch.largest]
