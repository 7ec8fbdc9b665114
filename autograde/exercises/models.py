"""Small decoders for the checks of lesson 02, lent to the learner with meters on every projection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograde.exercises.meter import meter
from autograde.subject import Trusted
from kvlib.decoder import Block, Decoder, DecoderConfig

MOST_TOKENS = 4096  # embedded with one call: more would only cost the judge memory
VOCAB, WIDTH, HIDDEN, CONTEXT = 7, 5, 11, 8  # pairwise distinct, so that no mixed-up axis can hide


def small_model(rng: np.random.Generator, num_layers: int, max_len: int = CONTEXT, width: int = WIDTH) -> Decoder:
    """A decoder with random weights, large enough that every mistake moves the logits."""
    config = DecoderConfig(num_layers=num_layers, vocab_size=VOCAB, width=width, hidden=HIDDEN, max_len=max_len)
    model = Decoder.random(config, rng)
    for layer in range(num_layers):  # mild scores: no key drowns the others, so that every key matters
        model.weights[f"{layer}.q"] *= 0.6
    return model


class MeteredBlock:
    """A block whose projections count their rows."""

    def __init__(self, block: Block, weights: dict[str, np.ndarray], layer: int) -> None:
        self.norm, self.finish = block.norm, block.finish
        self.project_q, self.project_k, self.project_v = (
            meter(weights[f"{layer}.{name}"], f"project_{name}") for name in "qkv"
        )


class LentCache:
    """A plain right cache, held in the trusted process."""

    def __init__(self, max_len: int, width: int) -> None:
        self.max_len, self.width = max_len, width
        self.held: list[tuple[np.ndarray, np.ndarray]] = []

    def __len__(self) -> int:
        return len(self.held)

    def append(self, k: Any, v: Any) -> None:
        """Keep one token's key and value, each (width,)."""
        if len(self) >= self.max_len:
            raise ValueError(f"holds {len(self)} of {self.max_len} tokens, 1 more asked")
        for name, row in (("k", k), ("v", v)):
            if np.shape(row) != (self.width,):
                raise ValueError(f"{name} must have shape ({self.width},), got {np.shape(row)}")
        self.held.append((np.array(k, dtype=np.float64), np.array(v, dtype=np.float64)))

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """K and V, each (S, width)."""
        shape = (len(self), self.width)
        return np.array([k for k, _ in self.held]).reshape(shape), np.array([v for _, v in self.held]).reshape(shape)


def lend_block(model: Decoder, layer: int) -> Trusted:
    """One metered block, as the learner's side sees it."""
    block = MeteredBlock(model.blocks[layer], model.weights, layer)
    return Trusted(block, ("norm", "project_q", "project_k", "project_v", "finish"), name="Block")


def lend_cache(cache: LentCache) -> Trusted:
    """A cache, as the learner's side sees it."""
    return Trusted(cache, ("append", "rows", "__len__"), ("max_len", "width"), name="KVCache")


class MeteredModel:
    """A decoder with metered blocks; its table look-ups check nothing, as a plain array does not.

    Without meters its blocks are the model's own, for decoders that stay in the trusted process.
    """

    def __init__(self, model: Decoder, metered: bool = True) -> None:
        self.model = model
        self.num_layers, self.vocab_size, self.width = model.num_layers, model.vocab_size, model.width
        self.max_len = model.max_len
        self.blocks = [lend_block(model, i) for i in range(model.num_layers)] if metered else model.blocks

    def embed(self, token: int, position: int) -> np.ndarray:
        """(width,): the token's embedding plus the position's, looked up in bare tables."""
        asked = np.broadcast_shapes(np.shape(token), np.shape(position))
        if math.prod(asked) > MOST_TOKENS:
            raise ValueError(f"embed takes at most {MOST_TOKENS} tokens at once, got {math.prod(asked)}")
        return self.model.weights["embedding"][token] + self.model.weights["positions"][position]

    def unembed(self, x: np.ndarray) -> np.ndarray:
        """(vocab_size,): the logits of one token that has been through all blocks."""
        return self.model.unembed(np.asarray(x))

    def rows(self, name: str) -> list[int]:
        """Rows that went through one projection, block by block."""
        return [getattr(block.target, name).rows for block in self.blocks if isinstance(block, Trusted)]


def lend_model(metered: MeteredModel) -> Trusted:
    """A metered decoder, as the learner's side sees it."""
    attributes = ("num_layers", "vocab_size", "width", "max_len", "blocks")
    return Trusted(metered, ("embed", "unembed"), attributes, name="Decoder")
