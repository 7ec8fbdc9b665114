"""The learner's side of a check: holds the learner's objects and carries out one request at a time.

The host knows no exercise and no right answer. Requests and replies are plain dictionaries of trees
(`autograde.value`), so the same host serves in the learner's own process and in a worker process of its own.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import os
from collections.abc import Callable
from contextlib import nullcontext
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from autograde.deadline import TimeUp
from autograde.tensors import (
    TILES,
    from_tile,
    largest_made,
    named_dtype,
    numbers_read,
    of_tiles,
    storage_bytes,
    strict_casts,
    to_tensor,
    to_tile,
)
from autograde.value import Handle, Lent, plain

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = (HERE, os.path.join(os.path.dirname(HERE), "kvlib"), os.path.dirname(os.__file__))
LIBRARIES = (*(folder + os.sep for folder in FOLDERS), "<frozen", "<__array")


class Misuse(Exception):
    """The learner's work cannot be called the way that the text says."""


KNOWN = {Misuse, *(item for item in vars(builtins).values() if isinstance(item, type))}


class Proxy:
    """Base of the stand-ins for objects that stay on the trusted side."""

    _lent_id: int


class Host:
    """Carries out requests on the learner's `work`, a class or a function.

    `call_back(request) -> reply` reaches the objects that the trusted side has lent.
    """

    def __init__(self, work: Any, call_back: Callable[[dict], dict]) -> None:
        self.work = work
        self.call_back = call_back
        self.objects: dict[int, Any] = {}
        self.tensors: bool | str = False  # whether arrays arrive as tensors, and more: see `Exercise`
        self._proxies: dict[tuple[str, tuple[str, ...]], type[Proxy]] = {}

    def handle(self, request: dict) -> dict:
        """Answer {"value": tree}, or {"raised": {"kind", "kinds", "message", "line"}} when the learner's code raised.

        Time that is up and a user's interrupt are not answered: they pass.
        """
        try:
            result = self._carry_out(request)
            return {"value": self._keep(result) if request.get("keep") else plain(result, _outward)}
        except (TimeUp, KeyboardInterrupt):
            raise  # these belong to whoever runs the check
        except BaseException as error:
            return {"raised": describe(error)}

    def _carry_out(self, request: dict) -> Any:
        op, self.tensors = request["op"], request["tensors"]
        if op == "put":
            return self._inward(np.array(request["value"], copy=True))
        target = self._target(request)
        if op == "fill":
            target[...] = self._inward(request["value"])
            return None
        if op == "read":
            return target
        if op == "storage":
            return storage_bytes(target)
        if op == "len":
            return _length(target)
        if op == "get":
            return _attribute(target, request["name"])
        function = target if request.get("name") is None else _attribute(target, request["name"])
        if not callable(function):
            raise Misuse(f"{self._name(request)} is a {type(function).__name__}, not something that can be called")
        args = [self._inward(value) for value in request["args"]]
        kwargs = {name: self._inward(value) for name, value in request["kwargs"].items()}
        try:
            with strict_casts() if self.tensors == "fp8" else nullcontext():
                if op == "largest" and self.tensors == TILES:
                    return numbers_read(function, args, kwargs)
                if op == "largest":
                    return largest_made(function, args, kwargs, held=None if function is target else target)
                result = function(*args, **kwargs)
                return of_tiles(result) if self.tensors == TILES else result
        except TypeError:
            _insist_on_signature(function, self._name(request), args, kwargs)  # was it the call itself?
            raise

    def _target(self, request: dict) -> Any:
        return self.work if request.get("handle") is None else self.objects[request["handle"]]

    def _name(self, request: dict) -> str:
        own = getattr(self.work, "__name__", type(self.work).__name__)
        return own if request.get("name") is None else f"{own}.{request['name']}"

    def _keep(self, value: Any) -> Handle:
        handle = Handle(len(self.objects))
        self.objects[handle.id] = value
        return handle

    def _inward(self, tree: Any) -> Any:
        kind = type(tree)
        if kind is Handle:
            return self.objects[tree.id]
        if kind is Lent:
            return self._function(tree) if tree.is_function else self._proxy(tree)
        if self.tensors == TILES and (made := to_tile(tree)) is not None:
            return made
        if kind is list:
            return [self._inward(item) for item in tree]
        if kind is dict:
            return {key: self._inward(item) for key, item in tree.items()}
        if self.tensors == TILES:
            return tree
        if self.tensors and kind is np.ndarray:
            return to_tensor(tree)
        return named_dtype(tree) if self.tensors and kind is str else tree

    def _call_back(self, lent_id: int, method: str | None, args: tuple, kwargs: dict) -> Any:
        outward = [plain(value, _outward) for value in args]
        named = {name: plain(value, _outward) for name, value in kwargs.items()}
        reply = self.call_back({"id": lent_id, "name": method, "args": outward, "kwargs": named})
        if "raised" in reply:
            raise getattr(builtins, reply["raised"]["kind"])(reply["raised"]["message"])
        return self._inward(reply["value"])

    def _function(self, lent: Lent) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            return self._call_back(lent.id, None, args, kwargs)

        function.__name__ = function.__qualname__ = lent.name
        return function

    def _proxy(self, lent: Lent) -> Proxy:
        key = (lent.name, lent.methods)
        if key not in self._proxies:
            self._proxies[key] = type(lent.name, (Proxy,), {method: self._method(method) for method in lent.methods})
        proxy = self._proxies[key]()
        proxy._lent_id = lent.id
        for name, tree in lent.attributes.items():
            setattr(proxy, name, self._inward(tree))
        return proxy

    def _method(self, name: str) -> Callable[..., Any]:
        def method(proxy: Proxy, *args: Any, **kwargs: Any) -> Any:
            return self._call_back(proxy._lent_id, name, args, kwargs)

        method.__name__ = method.__qualname__ = name
        return method


def _outward(value: Any) -> Any:
    """The reference of a proxy that goes back to where its object lives; a tile's numbers; None for anything else."""
    if isinstance(value, Proxy):
        return Lent(value._lent_id, type(value).__name__, False)
    numbers = from_tile(value)
    return None if numbers is None else plain(numbers)


def _attribute(target: Any, name: str) -> Any:
    try:
        return getattr(target, name)
    except AttributeError:
        if hasattr(type(target), name):  # a property of the learner's that failed inside
            raise
        kind = target.__name__ if isinstance(target, type) else type(target).__name__
        raise Misuse(f"{kind} has no {name}") from None


def _length(target: Any) -> int:
    if not hasattr(type(target), "__len__"):
        raise Misuse(f"{type(target).__name__} has no __len__: define it, so that len(...) works")
    try:
        return len(target)
    except TypeError:  # of None, Python says only that it "cannot be interpreted as an integer"
        if type(target).__len__(target) is None:
            raise Misuse(f"{type(target).__name__}.__len__ returned None: is a `return` missing?") from None
        raise


def _insist_on_signature(function: Any, name: str, args: list, kwargs: dict) -> None:
    """Say how the call and the learner's signature differ, if they do."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some built-in callables tell no signature
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = len(args) + len(kwargs)
        plural = "" if given == 1 else "s"
        hint = "; is `self` missing?" if "." in name and "too many" in str(error) else ""
        raise Misuse(f"{name}{signature} is called with {given} argument{plural}: {error}{hint}") from None


def describe(error: BaseException) -> dict:
    """Kind, message and place of an exception of the learner's, as plain text."""
    kind = type(error)
    try:
        message = str(error)
    except (TimeUp, KeyboardInterrupt):
        raise
    except BaseException:
        message = "(its message cannot be shown)"
    return {
        "kind": kind.__name__,
        # Known classes only: another class of the same name is not one of them.
        "kinds": [base.__name__ for base in kind.__mro__ if base in KNOWN],
        "message": " ".join(message.split())[:300],
        "line": _line_of(error.__traceback__),
    }


def is_learners(frame: FrameType) -> bool:
    """Whether a frame runs the learner's own code, not this package, kvlib or a library."""
    name = frame.f_code.co_filename
    return not name.startswith(LIBRARIES) and "site-packages" not in name


def place(frame: FrameType, line: int) -> str:
    """ "line 3: `x = y`" for a line of the learner's code."""
    source = linecache.getline(frame.f_code.co_filename, line).strip()
    return f"line {line}: `{source[:70]}`" if source else f"line {line}"


def _line_of(traceback: TracebackType | None) -> str:
    found = ""
    while traceback is not None:
        if is_learners(traceback.tb_frame):
            found = place(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def running_line(frame: FrameType | None, outermost: FrameType | None = None) -> str:
    """Where the learner's code is, seen from a running frame outwards, up to the frame that started it all."""
    while frame is not None and frame is not outermost:
        if is_learners(frame):
            return place(frame, frame.f_lineno)
        frame = frame.f_back
    return ""
