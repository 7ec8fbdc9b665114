"""Things of torch that are looked up when they are used, not when an exercise is declared.

Importing torch takes seconds, and a machine for the first lessons may lack it. Every exercise must be known there too:
`progress()` lists them all.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module that is imported at the first look into it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


class Later:
    """Stands for a class or a function of a module that is imported at the first call."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.__name__ = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(self.module), self.__name__)(*args, **kwargs)


torch = LazyModule("torch")
