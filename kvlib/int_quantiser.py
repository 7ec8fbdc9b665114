"""Whole numbers of eight or four bits: a row is cut into groups, and each group has a scale of its own.

A payload of four bits is never four bits a number: the scales must be stored too. Letters: D head dim, g group size,
n = ceil(D / g) groups.
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad


class IntQuantiser:
    """Rows of float32 to packed whole numbers and back, symmetric about zero.

    >>> quantiser = IntQuantiser(bits=4, group_size=2)
    >>> packed, scale = quantiser.quantise(torch.tensor([7.0, 1.0, 14.0, 5.0]))
    >>> packed.shape[0], scale.tolist()  # two numbers in a byte; the largest of each group is 7 scales
    (2, [1.0, 2.0])
    >>> quantiser.dequantise(packed, scale, head_dim=4).tolist()  # 5 / 2 is rounded to 2
    [7.0, 1.0, 14.0, 4.0]
    """

    def __init__(self, bits: int, group_size: int) -> None:
        """bits: 8 or 4. group_size: the neighbours along D that share a scale. Raises ValueError for anything else."""
        if bits not in (4, 8):
            raise ValueError(f"bits must be 8 or 4, got {bits}")
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1, got {group_size}")
        self.bits, self.group_size = bits, group_size
        self.largest = 2 ** (bits - 1) - 1  # 127 or 7

    def quantise(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x (..., D) to packed uint8 (..., ceil(D * bits / 8)) and scale float32 (..., n).

        The largest |x| of a group becomes 127 or 7, so no number is off by more than half its group's scale. The last
        group may be smaller. A group of zeros has scale 1. In four bits the first of two numbers is the low half of
        their byte, and an odd row ends in a half that nobody reads.
        """
        D = x.shape[-1]
        groups = pad(x.float(), (0, -D % self.group_size)).unflatten(-1, (-1, self.group_size))  # (..., n, g)
        scale = groups.abs().amax(dim=-1) / self.largest  # (..., n)
        scale = torch.where(scale > 0, scale, 1.0)
        rounded = (x.float() / self._of_each(scale, D)).round().clamp(-self.largest, self.largest)
        codes = (rounded + self.largest + 1).to(torch.uint8)  # (..., D), 1 to 255 or 1 to 15
        if self.bits == 4:
            codes = pad(codes, (0, D % 2))
            codes = codes[..., 0::2] | codes[..., 1::2] << 4  # (..., ceil(D / 2))
        return codes, scale

    def dequantise(self, packed: torch.Tensor, scale: torch.Tensor, head_dim: int) -> torch.Tensor:
        """The rows (..., D = head_dim), in float32. packed, scale: as `quantise` gives them.

        Raises ValueError where the shapes are not those of such rows.
        """
        sizes = (-(-head_dim * self.bits // 8), -(-head_dim // self.group_size))
        if (packed.shape[-1], scale.shape[-1]) != sizes:
            got = f"{packed.shape[-1]} and {scale.shape[-1]}"
            raise ValueError(f"rows of {head_dim} take {sizes[0]} bytes and {sizes[1]} scales, got {got}")
        if self.bits == 4:
            packed = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)[..., :head_dim]  # (..., D)
        return (packed.float() - (self.largest + 1)) * self._of_each(scale, head_dim)

    def _of_each(self, scale: torch.Tensor, head_dim: int) -> torch.Tensor:
        """(..., n) to (..., D): each number's own scale."""
        return scale.repeat_interleave(self.group_size, dim=-1)[..., :head_dim]
