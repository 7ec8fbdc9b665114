"""Low-rank adapters on a transformer: small changes of its weights, many of which one server keeps side by side.

An adapter adds scale * B @ A to a weight (out, in): A is (rank, in), B is (out, rank). Here it is added once, into a
model of its own; a server that serves many at once works out the two thin products on the way instead.

Source: Hu et al. 2021 (LoRA).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from kvlib.transformer import Transformer, TransformerConfig

MATRICES = ("q", "k", "v", "o", "gate", "up", "down")  # the weights of a block that an adapter may change


@dataclass(frozen=True)
class Adapter:
    """Thin matrices by the name of the weight that they change, as "0.q".

    >>> adapter = Adapter({"0.q": (torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0], [3.0]]))})  # rank 1
    >>> adapter.delta("0.q").tolist()
    [[2.0, 0.0], [3.0, 0.0]]
    >>> adapter.num_parameters
    4
    """

    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]]  # A (rank, in) and B (out, rank)
    scale: float = 1.0

    def delta(self, name: str) -> torch.Tensor:
        """What is added to the weight `name`, (out, in). Raises KeyError for one that the adapter does not change."""
        A, B = self.pairs[name]
        return self.scale * (B @ A)

    @property
    def num_parameters(self) -> int:
        """Numbers that the adapter holds: rank * (in + out) for each weight."""
        return sum(A.numel() + B.numel() for A, B in self.pairs.values())


def random_adapter(
    config: TransformerConfig,
    rank: int,
    generator: torch.Generator,
    names: Iterable[str] | None = None,
    strength: float = 0.5,
    dtype: torch.dtype = torch.float32,
) -> Adapter:
    """An adapter that was never trained.

    config: sizes of the model. rank: rows of A, (rank, in), and columns of B, (out, rank), in `dtype`.
    names: weights such as "0.q"; None = all matrices of all blocks. strength: what is added has this over the root of
    `in` as its standard deviation; with 1 it is about as large as a weight of `Transformer.random`.
    Raises ValueError for a rank below 1 and for a name that is no block's matrix.
    """
    if rank < 1:
        raise ValueError(f"rank must be at least 1, got {rank}")
    shapes = {name: shape for name, shape in config.shapes().items() if name.partition(".")[2] in MATRICES}
    pairs = {}
    for name in shapes if names is None else names:
        if name not in shapes:
            raise ValueError(f"an adapter changes matrices of blocks, such as '0.q', got {name!r}")
        out, width = shapes[name]
        A = torch.randn(rank, width, generator=generator, dtype=torch.float64) / width**0.5
        B = torch.randn(out, rank, generator=generator, dtype=torch.float64) * (strength / rank**0.5)
        pairs[name] = (A.to(dtype), B.to(dtype))
    return Adapter(pairs)


def with_adapter(model: Transformer, adapter: Adapter) -> Transformer:
    """A transformer of its own with the adapter merged in. The one that was passed stays as it is.

    Raises ValueError for a weight that the model does not have, or has in another shape.
    """
    weights = dict(model.weights)
    for name in adapter.pairs:
        delta = adapter.delta(name)
        held = tuple(weights[name].shape) if name in weights else "nothing"
        if held != tuple(delta.shape):
            raise ValueError(f"the adapter changes {name!r} of shape {tuple(delta.shape)}, the model has {held}")
        weights[name] = weights[name] + delta.to(weights[name])
    return Transformer(model.config, weights)
