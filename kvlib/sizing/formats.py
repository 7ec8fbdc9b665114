"""How numbers are kept: a name, and the bytes of a row of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvlib.sizing.quantised import quantised_row_bytes
from kvlib.sizing.whole import whole


@dataclass(frozen=True)
class Format:
    """Bits of one number. Formats with a `group_size` keep a scale, and a zero point, for each group of a row."""

    name: str
    bits: int
    group_size: int | None = None
    scale_bytes: int = 0
    zero_bytes: int = 0

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row of so many elements."""
        return quantised_row_bytes(
            elements, self.bits, self.group_size or elements, self.scale_bytes, self.zero_bytes, align=1
        )

    def __str__(self) -> str:
        if self.group_size is None:
            return self.name
        extra = f"a scale of {self.scale_bytes} bytes"
        extra += f" and a zero point of {self.zero_bytes}" if self.zero_bytes else ""
        return f"{self.name}, with {extra} for each group of {self.group_size}"


FORMATS = (
    Format("fp32", 32),
    Format("bf16", 16),
    Format("fp16", 16),
    Format("fp8", 8),  # one scale for a whole tensor, which is nothing beside it
    Format("int8", 8, group_size=128, scale_bytes=2),
    Format("int4", 4, group_size=32, scale_bytes=2, zero_bytes=2),
)


def find_format(name: str, group_size: int | None = None) -> Format:
    """The format of this name, with another group size where one is given. ValueError names the known ones.

    >>> find_format("int4").row_bytes(128), find_format("INT4", 64).row_bytes(128), find_format("bf16").row_bytes(128)
    (80, 72, 256)
    """
    known = {fmt.name: fmt for fmt in FORMATS}
    if not isinstance(name, str) or name.lower() not in known:
        raise ValueError(f"no number format {name!r}: there are {', '.join(known)}")
    fmt = known[name.lower()]
    if group_size is None:
        return fmt
    if fmt.group_size is None:
        raise ValueError(f"{fmt.name} has no groups, so a group size of {group_size!r} means nothing")
    return replace(fmt, group_size=whole("group_size", group_size, at_least=1))
