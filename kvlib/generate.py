"""Decoding with a transformer: a chunk of tokens through a cache, and greedy generation, with the work counted.

Letters: B sequences, T new tokens, S tokens held.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from kvlib.gqa import gqa_attend
from kvlib.gqa_cache import GQACache
from kvlib.transformer import Transformer


class Generated(NamedTuple):
    """What greedy generation made, and the work that it took."""

    tokens: torch.Tensor  # (B, new)
    logits: torch.Tensor  # (B, new, vocab_size): those that each token was chosen by
    positions: int  # pushed through the model, of one sequence


def forward(model: Transformer, cache: GQACache, tokens: torch.Tensor) -> torch.Tensor:
    """Logits (B, T, vocab_size) of the next tokens (B, T), which the cache holds from now on.

    They come after the len(cache) tokens held, at the positions that follow. Whatever the sequence is cut into, the
    logits are those of full recomputation, and each token is projected once in each layer.
    Raises ValueError for what is not a token, and where not all T fit: the first layer's append refuses them, and the
    cache has not changed then.
    """
    start, T = len(cache), tokens.shape[-1]
    x = model.embed(tokens)  # (B, T, width)
    positions = torch.arange(start, start + T, device=tokens.device)
    mask = None if T == 1 else model.mask(start, T)  # one new token is the last, and sees all
    for layer, block in enumerate(model.blocks):
        q, k, v = block.qkv(x, positions)
        K, V = cache.append(layer, k, v)  # (B, Hkv, S + T, D) each
        x = block.finish(x, gqa_attend(q, K, V, mask))
    cache.advance(T)
    return model.unembed(x)


def greedy(model: Transformer, tokens: torch.Tensor, new: int, cache: GQACache | None = None) -> Generated:
    """Make `new` tokens after tokens (B, T), each the best one by the logits of the token before it.

    cache: the prompt goes through it in one chunk, then each new token alone; None = all is worked out again for each
    token. The last token made is never pushed through: a prompt of T takes T + new - 1 positions with a cache, and
    T + (T + 1) + ... + (T + new - 1) without.
    Raises ValueError for new below 1, and where the cache has no room for all of it; nothing has changed then.

    >>> from kvlib.transformer import TransformerConfig
    >>> config = TransformerConfig(1, width=8, num_heads=2, num_kv_heads=1, head_dim=4, hidden=8, vocab_size=11)
    >>> model = Transformer.random(config, torch.Generator().manual_seed(0))
    >>> prompt, cache = torch.tensor([[1, 2, 3]]), GQACache(1, 1, 1, 4, 4)
    >>> greedy(model, prompt, 2).positions, greedy(model, prompt, 2, cache).positions  # 3 then 4, against 3 then 1
    (7, 4)
    """
    if new < 1:
        raise ValueError(f"new must be at least 1 token, got {new}")
    if cache is not None and not cache.can_append(tokens.shape[-1] + new - 1):
        asked = f"{tokens.shape[-1]} + {new} - 1"
        raise ValueError(f"holds {len(cache)} of {cache.max_len} tokens, {asked} more asked")
    made: list[torch.Tensor] = []
    logits: list[torch.Tensor] = []
    positions, pushed = 0, tokens
    for _ in range(new):
        if cache is None:
            pushed = torch.cat([tokens, *made], dim=1)  # (B, T + tokens made)
        out = model.logits(pushed) if cache is None else forward(model, cache, pushed)
        positions += pushed.shape[1]
        logits.append(out[:, -1:])  # (B, 1, vocab_size)
        made.append(out[:, -1:].argmax(dim=-1))  # (B, 1)
        pushed = made[-1]
    return Generated(torch.cat(made, dim=1), torch.cat(logits, dim=1), positions)
