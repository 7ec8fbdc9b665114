"""The learner's side of a check: holds the learner's objects and carries out one request at a time.

The host knows no exercise and no right answer. Requests and replies are plain dictionaries of trees (`autograde.value`),
so the same host serves in the learner's own process and, one day, in a worker process of its own.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import os
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from autograde.deadline import TimeUp
from autograde.value import Handle, Lent, plain

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = (HERE, os.path.dirname(os.__file__), os.path.join(os.path.dirname(HERE), "kvlib"), "<frozen", "<__array")


class Misuse(Exception):
    """The learner's work cannot be called the way that the text says."""


class Proxy:
    """Base of the stand-ins for objects that stay on the trusted side."""

    __slots__ = ("_lent_id", "__dict__")


class Host:
    """Carries out requests on the learner's `work`, a class or a function.

    `call_back(request) -> reply` reaches the objects that the trusted side has lent.
    """

    def __init__(self, work: Any, call_back: Callable[[dict], dict]) -> None:
        self.work = work
        self.call_back = call_back
        self.objects: dict[int, Any] = {}

    def handle(self, request: dict) -> dict:
        """Answer {"value": tree}, or {"raised": {"kind", "kinds", "message", "line"}} when the learner's code raised."""
        try:
            result = self._carry_out(request)
            return {"value": self._keep(result) if request.get("keep") else self._outward(result)}
        except (TimeUp, KeyboardInterrupt):
            raise  # these belong to whoever runs the check
        except BaseException as error:
            return {"raised": describe(error)}

    def _carry_out(self, request: dict) -> Any:
        op = request["op"]
        if op == "put":
            return np.array(request["value"], copy=True)
        target = self._target(request)
        if op == "fill":
            target[...] = request["value"]
            return None
        if op == "read":
            return target
        if op == "get":
            return _attribute(target, request["name"])
        function = target if request.get("name") is None else _attribute(target, request["name"])
        args = [self._inward(value) for value in request["args"]]
        kwargs = {name: self._inward(value) for name, value in request["kwargs"].items()}
        _insist_on_signature(function, self._name(request), args, kwargs)
        return function(*args, **kwargs)

    def _target(self, request: dict) -> Any:
        return self.work if request.get("handle") is None else self.objects[request["handle"]]

    def _name(self, request: dict) -> str:
        own = getattr(self.work, "__name__", type(self.work).__name__)
        return own if request.get("name") is None else f"{own}.{request['name']}"

    def _keep(self, value: Any) -> Handle:
        handle = Handle(len(self.objects))
        self.objects[handle.id] = value
        return handle

    def _outward(self, value: Any) -> Any:
        def reference(item: Any) -> Any:
            return Lent(item._lent_id, "", False) if isinstance(item, Proxy) else None

        return plain(value, reference)

    def _inward(self, tree: Any) -> Any:
        if isinstance(tree, Handle):
            return self.objects[tree.id]
        if isinstance(tree, Lent):
            return self._function(tree) if tree.is_function else self._proxy(tree)
        if isinstance(tree, np.ndarray):
            return np.array(tree, copy=True)
        if isinstance(tree, list):
            return [self._inward(item) for item in tree]
        if isinstance(tree, dict):
            return {key: self._inward(item) for key, item in tree.items()}
        return tree

    def _function(self, lent: Lent, method: str | None = None) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            reply = self.call_back(
                {
                    "id": lent.id,
                    "name": method,
                    "args": [self._outward(value) for value in args],
                    "kwargs": {name: self._outward(value) for name, value in kwargs.items()},
                }
            )
            if "raised" in reply:
                raise getattr(builtins, reply["raised"]["kind"])(reply["raised"]["message"])
            return self._inward(reply["value"])

        function.__name__ = function.__qualname__ = method or lent.name
        return function

    def _proxy(self, lent: Lent) -> Proxy:
        def forward(method: str) -> Callable[..., Any]:
            function = self._function(lent, method)

            def bound(_self: Proxy, *args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs)

            bound.__name__ = bound.__qualname__ = method
            return bound

        proxy = type(lent.name, (Proxy,), {method: forward(method) for method in lent.methods})()
        proxy._lent_id = lent.id
        for name, tree in lent.attributes.items():
            setattr(proxy, name, self._inward(tree))
        return proxy


def _attribute(target: Any, name: str) -> Any:
    try:
        return getattr(target, name)
    except AttributeError:
        if hasattr(type(target), name):  # a property of the learner's that failed inside
            raise
        kind = target.__name__ if isinstance(target, type) else type(target).__name__
        hint = " (define it to make len(...) work)" if name == "__len__" else ""
        raise Misuse(f"{kind} has no {name}{hint}") from None


def _insist_on_signature(function: Any, name: str, args: list, kwargs: dict) -> None:
    if not callable(function):
        raise Misuse(f"{name} is a {type(function).__name__}, not something that can be called")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some built-in callables tell no signature
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = len(args) + len(kwargs)
        plural = "" if given == 1 else "s"
        raise Misuse(f"{name}{signature} is called with {given} argument{plural}: {error}") from None


def describe(error: BaseException) -> dict:
    """Kind, message and place of an exception of the learner's, as plain text."""
    kind = type(error)
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    return {
        "kind": kind.__name__,
        "kinds": [base.__name__ for base in kind.__mro__],
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


def running_line(frame: FrameType | None) -> str:
    """Where the learner's code is, seen from a running frame outwards."""
    while frame is not None:
        if is_learners(frame):
            return place(frame, frame.f_lineno)
        frame = frame.f_back
    return ""
