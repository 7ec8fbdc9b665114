"""Bytes in words: GB is 10**9, GiB is 2**30, and one is never meant by the other."""

from __future__ import annotations

import re
from fractions import Fraction

from kvlib.sizing.whole import whole

UNITS = {"B": 1}
UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)}
UNITS |= {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)}

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)")


def size_in_bytes(text: str) -> int:
    """Bytes in a size such as "80 GB" or "24 GiB", rounded to a whole byte.

    The units are B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024), spelt like that: a "Gb" is
    a gigabit. The number may have a decimal point. ValueError for another unit, no number, or a negative one.

    >>> size_in_bytes("80 GB"), size_in_bytes("24 GiB"), size_in_bytes("0.5 KiB")
    (80000000000, 25769803776, 512)
    """
    match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f'a size is a number, not negative, and a unit, such as "80 GB"; got {text!r}')
    number, unit = match.groups()
    return round(Fraction(number) * _unit(unit))  # a fraction: no digit is lost on the way


def in_unit(num_bytes: int, unit: str) -> float:
    """The same size counted in a unit. ValueError for an unknown one, or what is no number of bytes.

    >>> in_unit(14_000_000_000, "GB"), round(in_unit(14_000_000_000, "GiB"), 3)
    (14.0, 13.039)
    """
    return whole("num_bytes", num_bytes) / _unit(unit)


def show(num_bytes: int) -> str:
    """A size as a person reads it: in the largest decimal unit that it fills, then in the binary one of that rank.

    >>> show(192), show(131_072), show(80_000_000_000)
    ('192 B', '131.07 KB (128.00 KiB)', '80.00 GB (74.51 GiB)')
    """
    if whole("num_bytes", num_bytes) < 1000:
        return f"{num_bytes} B"
    letter = next(letter for letter in "TGMK" if num_bytes >= UNITS[f"{letter}B"])
    decimal, binary = f"{letter}B", f"{letter}iB"
    return f"{in_unit(num_bytes, decimal):.2f} {decimal} ({in_unit(num_bytes, binary):.2f} {binary})"


def _unit(unit: str) -> int:
    if unit not in UNITS:
        raise ValueError(f"no unit {unit!r}: there are {', '.join(UNITS)}")
    return UNITS[unit]
