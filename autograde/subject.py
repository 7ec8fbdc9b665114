"""The trusted side's view of a learner's work, wherever that work runs.

Stages drive the work through a `Subject` only, so where the learner's code lives (this process, a sandboxed worker) is
decided by the one method `_send`. Every reply is recorded: the record is what diagnosis compares.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograde.host import Host
from autograde.tensors import is_pointer
from autograde.value import Handle, Lent, plain

MAX_ASKED = 4096  # numbers and letters in the arguments of one call into a lent object: lessons need a hundredth
MAX_CALL = 90  # letters of a call in words
MAX_MESSAGE = 300  # letters of the message of what a lent object raised


class LearnerRaised(Exception):
    """The learner's code raised. `kind` names its class, `kinds` the built-in classes it is, `line` the place."""

    def __init__(self, kind: str, kinds: list[str], message: str, line: str = "") -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind, self.kinds, self.message, self.line = kind, tuple(kinds), message, line

    def is_a(self, *names: str) -> bool:
        """Whether the class or one of its bases has one of these names."""
        return any(name in self.kinds for name in names)


class WorkStopped(Exception):
    """The learner's process was stopped or lost: nothing more can be asked of it.

    `status` is one word, "time" for work that took too long; `fact` a sentence, `where` the place in the work.
    """

    def __init__(self, status: str, fact: str, where: str = "") -> None:
        super().__init__(fact)
        self.status, self.fact, self.where = status, fact, where


@dataclass(frozen=True)
class Event:
    """One reply of the learner's side: a tree, or the kind of exception that was raised."""

    op: str
    value: Any = None
    raised: str | None = None


@dataclass(frozen=True)
class Trusted:
    """Lends an object of the trusted side to the learner's: only the named methods and attributes can be reached."""

    target: Any
    methods: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    name: str = ""


class Subject(ABC):
    """Drives the learner's class or function and records what comes back.

    Arguments may be plain values, arrays, `Handle`s, functions of the trusted side (lent as proxies, so that what goes
    through them can be counted here) and `Trusted` objects. Arrays are copied both ways. Every method raises
    `LearnerRaised` when the learner's code raises. Where `tensors` is set, arrays arrive on the learner's side as torch
    tensors, and a text such as "torch.float32" as the dtype; what comes back are arrays all the same. "fp8" says that
    casts to FP8 are as strict as the strictest build's. "tiles" says that arrays arrive as tiles of `kvlib.tiles`, and
    what `autograde.tensors.pointer` makes as pointers; `largest` then tells how many numbers were read through them.
    """

    def __init__(self, tensors: bool | str = False) -> None:
        self.tensors = tensors
        self.record: list[Event] = []
        self.asked = ""  # the newest call, in words
        self._lent: list[Trusted] = []

    # What a stage may ask for.

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the learner's function."""
        return self._ask("run", None, None, args, kwargs)

    def new(self, *args: Any, **kwargs: Any) -> Handle:
        """Make an instance of the learner's class; it stays on the learner's side."""
        return self._ask("new", None, None, args, kwargs, keep=True)

    def call(self, handle: Handle, method: str, *args: Any, keep: bool = False, **kwargs: Any) -> Any:
        """Call a method. With `keep` the result stays on the learner's side, and a handle to it comes back."""
        return self._ask("call", handle, method, args, kwargs, keep=keep)

    def length(self, handle: Handle) -> Any:
        """`len(object)` on the learner's side."""
        return self._ask("len", handle)

    def get(self, handle: Handle, attribute: str) -> Any:
        """Read an attribute."""
        return self._ask("get", handle, attribute)

    def put(self, array: np.ndarray) -> Handle:
        """Make an array on the learner's side, to be passed by reference and overwritten later with `fill`."""
        return self._ask("put", value=np.asarray(array), keep=True)

    def fill(self, handle: Handle, value: Any) -> None:
        """Overwrite a kept array in place, as a caller does who reuses a buffer."""
        self._ask("fill", handle, value=value)

    def read(self, handle: Handle) -> Any:
        """The present contents of a kept object."""
        return self._ask("read", handle)

    def storage(self, handle: Handle) -> Any:
        """Bytes of the memory behind all tensors and arrays that a kept object holds, each piece once."""
        return self._ask("storage", handle)

    def largest(self, *args: Any) -> Any:
        """Call the learner's function: a pair of its result and the bytes of the largest tensor made on the way."""
        return self._ask("largest", None, None, args)

    def largest_of(self, handle: Handle, method: str, *args: Any) -> Any:
        """Call a method: the same pair. What the object holds already counts as made before."""
        return self._ask("largest", handle, method, args)

    def close(self) -> None:
        """Let go of what was lent and made: nothing more will be asked. The record stays."""
        self._lent.clear()

    # How it is carried.

    @abstractmethod
    def _send(self, request: dict) -> dict:
        """Carry a request to the learner's host and bring its reply."""

    def _ask(
        self,
        op: str,
        handle: Handle | None = None,
        name: str | None = None,
        args: tuple = (),
        kwargs: dict | None = None,
        keep: bool = False,
        value: Any = None,
    ) -> Any:
        request = {
            "op": op,
            "handle": None if handle is None else handle.id,
            "name": name,
            "args": [self._lend(item) for item in args],
            "kwargs": {key: self._lend(item) for key, item in (kwargs or {}).items()},
            "keep": keep,
            "value": plain(value),
            "tensors": self.tensors,
        }
        self.asked = call_text(name, args, kwargs or {}) if op in ("run", "new", "call", "largest") else ""
        reply = self._send(request)
        label = f"{op} {name}" if name else op
        if "raised" in reply:
            raised = LearnerRaised(**reply["raised"])
            self.record.append(Event(label, raised=raised.kind))
            raise raised
        self.record.append(Event(label, reply["value"]))
        return reply["value"]

    def _lend(self, item: Any) -> Any:
        return plain(item, self._reference)

    def _reference(self, value: Any) -> Lent | None:
        if isinstance(value, Trusted):
            return self._lent_object(value)
        if callable(value) and not isinstance(value, type):
            self._lent.append(Trusted(value, ("__call__",)))
            return Lent(len(self._lent) - 1, getattr(value, "__name__", "function"), is_function=True)
        return None

    def _lent_object(self, trusted: Trusted) -> Lent:
        self._lent.append(trusted)
        number = len(self._lent) - 1
        attributes = {name: self._lend(getattr(trusted.target, name)) for name in trusted.attributes}
        name = trusted.name or type(trusted.target).__name__
        return Lent(number, name, is_function=False, methods=trusted.methods, attributes=attributes)

    def answer(self, request: dict) -> dict:
        """Serve a call of the learner's code into a lent function or object."""
        try:
            trusted, name = self._lent[request["id"]], request["name"]
            name = "__call__" if name is None else name
            if name not in trusted.methods:
                raise AttributeError(f"{name} is not lent")
            if (size := _size([request["args"], request["kwargs"]])) > MAX_ASKED:  # it would cost memory and time here
                raise ValueError(f"{size} numbers in one call are more than {MAX_ASKED}")
            function: Callable[..., Any] = getattr(trusted.target, name)
            args, kwargs = self._returned(request["args"]), self._returned(request["kwargs"])
            return {"value": self._lend(function(*args, **kwargs))}
        except Exception as error:
            return {"raised": {"kind": _builtin_kind(error), "message": str(error)[:MAX_MESSAGE]}}

    def _returned(self, tree: Any) -> Any:
        kind = type(tree)
        if kind is list:
            return [self._returned(item) for item in tree]
        if kind is dict:
            return {key: self._returned(item) for key, item in tree.items()}
        return self._lent[tree.id].target if kind is Lent else tree


def call_text(name: str | None, args: tuple, kwargs: dict) -> str:
    """A call in a few words: "append(0, (2, 2, 3, 4))", where arrays are told by their shapes."""
    said = [_argument(value) for value in args] + [f"{key}={_argument(value)}" for key, value in kwargs.items()]
    text = f"{name or ''}({', '.join(said)})"
    return text if len(text) <= MAX_CALL else f"{text[: MAX_CALL - 4]} ..)"


def _argument(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(tuple(value.shape) if value.shape else value)
    if is_pointer(value):
        return str(value["name"])
    if isinstance(value, Handle | Trusted) or callable(value):
        return "..."
    return ascii(value)


def _size(tree: Any) -> int:
    """How many numbers and letters a tree holds."""
    if isinstance(tree, np.ndarray):
        return max(tree.size, *tree.shape, 1)  # rows of no number are rows too
    if isinstance(tree, dict):
        return len(tree) + sum(map(_size, tree.values()))
    if isinstance(tree, list):
        return len(tree) + sum(map(_size, tree))
    return len(tree) if isinstance(tree, str) else 1


def _builtin_kind(error: Exception) -> str:
    """The nearest built-in class, since the learner's side may not know ours."""
    return next(base.__name__ for base in type(error).__mro__ if getattr(builtins, base.__name__, None) is base)


class LocalSubject(Subject):
    """The learner's work in this very process, for notebooks and tests. It protects against accidents, not malice."""

    def __init__(self, work: Any, tensors: bool | str = False) -> None:
        super().__init__(tensors)
        self.host = Host(work, self.answer)

    def _send(self, request: dict) -> dict:
        return self.host.handle(request)

    def close(self) -> None:
        super().close()
        self.host.objects.clear()
