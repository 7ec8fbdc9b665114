"""Whole numbers: what every size is made of."""

from __future__ import annotations

from numbers import Integral


def whole(name: str, value: object, at_least: int = 0) -> int:
    """The value as a plain int. ValueError, which names it, when it is no whole number or less than `at_least`.

    True and 2.0 are refused: whoever passes them meant something else. NumPy's integers are taken.

    >>> whole("num_layers", 32, at_least=1)
    32
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, got {value!r}")
    return int(value)
