"""The size of a row kept in few bits: the payload is only a part of it."""

from __future__ import annotations

from kvlib.sizing.whole import whole


def quantised_row_bytes(
    head_dim: int, bits: int, group_size: int, scale_bytes: int = 2, zero_bytes: int = 0, align: int = 1
) -> int:
    """Bytes of one quantised row: the key, or the value, of one head for one token.

    - The payload: `head_dim` elements of `bits` bits each, packed, in whole bytes.
    - A scale of `scale_bytes` and a zero point of `zero_bytes` for each group of `group_size` elements; the last group
      may be smaller, and needs its own all the same.
    - The sum is rounded up to a multiple of `align` bytes.

    ValueError names what is not a whole number, or too small.

    >>> quantised_row_bytes(5, 4, 4)  # 3 bytes of payload, 2 groups with a scale of 2 bytes each
    7
    >>> quantised_row_bytes(128, 4, 32), quantised_row_bytes(128, 16, 128, scale_bytes=0)  # 3.56 times smaller, not 4
    (72, 256)
    """
    elements = whole("head_dim", head_dim, at_least=1)
    payload = _up(elements * whole("bits", bits, at_least=1), 8)
    groups = _up(elements, whole("group_size", group_size, at_least=1))
    extra = whole("scale_bytes", scale_bytes) + whole("zero_bytes", zero_bytes)
    step = whole("align", align, at_least=1)
    return _up(payload + groups * extra, step) * step


def _up(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)
