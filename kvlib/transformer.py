"""A decoder in PyTorch as today's models are built: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Letters: B sequences, T tokens, S keys, L layers, H query heads, Hkv KV heads, D head dim.
Weights are kept as nn.Linear keeps them, (out, in), under short names; each has its twin in a Llama checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch.nn import functional as F

from kvlib.masks import visible
from kvlib.rope import rope

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a transformer, each at least 1. Hkv divides H, and D is even. Raises ValueError for others.

    >>> config = TransformerConfig(
    ...     num_layers=1, width=8, num_heads=2, num_kv_heads=1, head_dim=4, hidden=8, vocab_size=16
    ... )
    >>> config.shapes()["0.q"], config.shapes()["0.k"]  # (out, in)
    ((8, 8), (4, 8))
    """

    num_layers: int  # L
    width: int
    num_heads: int  # H
    num_kv_heads: int  # Hkv
    head_dim: int  # D; H * D need not be the width
    hidden: int  # width of the feed-forward part
    vocab_size: int
    rope_base: float = 10000.0
    eps: float = 1e-6  # of every RMSNorm
    tied: bool = False  # one table looks tokens up and makes logits

    def __post_init__(self) -> None:
        for field in fields(self)[:7]:
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1, got {getattr(self, field.name)}")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_kv_heads} KV heads do not divide {self.num_heads} query heads")
        if self.head_dim % 2:
            raise ValueError(f"rotary positions need an even head_dim, got {self.head_dim}")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The names of a transformer's weights, and their shapes. Block 0 has "0.q", block 1 has "1.q", and so on."""
        width, queries, keys = self.width, self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocab_size, width)}
        for i in range(self.num_layers):
            shapes |= {f"{i}.norm1": (width,), f"{i}.q": (queries, width)}
            shapes |= {f"{i}.k": (keys, width), f"{i}.v": (keys, width), f"{i}.o": (width, queries)}
            shapes |= {f"{i}.norm2": (width,), f"{i}.gate": (self.hidden, width), f"{i}.up": (self.hidden, width)}
            shapes[f"{i}.down"] = (width, self.hidden)
        shapes["final_norm"] = (width,)
        return shapes if self.tied else shapes | {"unembedding": (self.vocab_size, width)}


class Block:
    """One transformer block. Attention itself is left to the caller, because that is where a cache goes.

    For x of shape (B, T, width):

        q, k, v = block.qkv(x, positions)
        ... attended = attention of q over all keys and values, (B, H, T, D) ...
        x = block.finish(x, attended)
    """

    def __init__(self, config: TransformerConfig, weights: Mapping[str, torch.Tensor], layer: int) -> None:
        """weights: those of the whole model, in the shapes of `config.shapes()`; the block takes those of its layer."""
        self.config = config
        self.w = {name.split(".")[1]: weight for name, weight in weights.items() if name.startswith(f"{layer}.")}

    def qkv(self, x: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """q (B, H, T, D) and k, v (B, Hkv, T, D) of x (B, T, width). q and k are turned to their positions, (T,)."""
        h = self.norm(x, "norm1")
        q, k, v = (self.heads(F.linear(h, self.w[name])) for name in ("q", "k", "v"))
        turned = rope(torch.cat((q, k), dim=1), positions, self.config.rope_base)  # (B, H + Hkv, T, D)
        return *turned.split((self.config.num_heads, self.config.num_kv_heads), dim=1), v

    def heads(self, rows: torch.Tensor) -> torch.Tensor:
        """rows (B, T, heads * D) -> (B, heads, T, D)."""
        B, T, _ = rows.shape
        return rows.view(B, T, -1, self.config.head_dim).transpose(1, 2)  # (B, heads, T, D)

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """All that follows attention. x (B, T, width) is the block's input; attended is (B, H, T, D)."""
        B, T, _ = x.shape
        x = x + F.linear(attended.transpose(1, 2).reshape(B, T, -1), self.w["o"])  # (B, T, H*D) -> (B, T, width)
        h = self.norm(x, "norm2")
        return x + F.linear(F.silu(F.linear(h, self.w["gate"])) * F.linear(h, self.w["up"]), self.w["down"])

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """x (..., width) over the root of its mean square, times a gain: `name` is "norm1" or "norm2"."""
        return F.rms_norm(x, (self.config.width,), self.w[name], self.config.eps)


class Transformer:
    """Token numbers in, logits out. Knows nothing of caches: `logits` works out the whole sequence.

    >>> config = TransformerConfig(
    ...     num_layers=1, width=8, num_heads=2, num_kv_heads=1, head_dim=4, hidden=8, vocab_size=16
    ... )
    >>> model = Transformer.random(config, torch.Generator().manual_seed(0))
    >>> model.logits(torch.tensor([[1, 2, 3]])).shape  # (B, T, vocab_size)
    torch.Size([1, 3, 16])
    >>> model.mask(2, 2).int().tolist()  # two held, two new
    [[1, 1, 1, 0], [1, 1, 1, 1]]
    """

    def __init__(self, config: TransformerConfig, weights: Mapping[str, torch.Tensor]) -> None:
        """weights: one tensor for each name in `config.shapes()`; ValueError names the first that does not fit."""
        self.weights: Weights = {}
        for name, shape in config.shapes().items():
            got = tuple(weights[name].shape) if name in weights else "nothing"
            if got != shape:
                raise ValueError(f"weight {name!r} must have shape {shape}, got {got}")
            self.weights[name] = weights[name].detach()  # nobody trains here
        self.config = config
        self.blocks = [Block(config, self.weights, layer) for layer in range(config.num_layers)]

    @classmethod
    def random(
        cls, config: TransformerConfig, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Transformer:
        """A transformer that was never trained, with weights scaled so that neither attention nor logits go flat."""
        weights = {}
        for name, shape in config.shapes().items():
            noise = torch.randn(shape, generator=generator, dtype=torch.float64)
            if len(shape) == 1:
                weight = 1 + noise / 4  # a norm's gain
            elif name == "embedding" and not config.tied:
                weight = noise  # rows are looked up, not added up
            else:
                weight = noise / shape[1] ** 0.5
            if name.endswith(".q"):
                weight = 2 * weight  # scores of about 2: some keys matter more than others
            weights[name] = weight.to(dtype)
        return cls(config, weights)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens (B, T) -> (B, T, width), a row for each. ValueError for one outside 0..vocab_size-1, or a float."""
        if tokens.ndim != 2 or tokens.dtype != torch.int64 or not tokens.numel():
            raise ValueError(f"tokens must be int64 of shape (B, T), got {tokens.dtype} of {tuple(tokens.shape)}")
        low, high = (int(end) for end in tokens.aminmax())
        if low < 0 or high >= self.config.vocab_size:
            raise ValueError(f"tokens must be 0 to {self.config.vocab_size - 1}, got {low} to {high}")
        return F.embedding(tokens, self.weights["embedding"])

    def mask(self, start: int, num_tokens: int) -> torch.Tensor:
        """(T, start + T) bools for `num_tokens` new tokens after `start` held ones, True = may be seen."""
        end, device = start + num_tokens, self.weights["embedding"].device
        return visible(torch.arange(start, end, device=device), torch.arange(end, device=device))

    def unembed(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (B, T, vocab_size) of what the last block gave, x (B, T, width)."""
        h = F.rms_norm(x, (self.config.width,), self.weights["final_norm"], self.config.eps)
        return F.linear(h, self.weights["embedding" if self.config.tied else "unembedding"])

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """(B, T, vocab_size) of tokens (B, T): every position of the sequence at once. Raises ValueError as `embed`."""
        x = self.embed(tokens)
        positions, mask = torch.arange(tokens.shape[1], device=tokens.device), self.mask(0, tokens.shape[1])
        for block in self.blocks:
            q, k, v = block.qkv(x, positions)
            x = block.finish(x, F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True))
        return self.unembed(x)
