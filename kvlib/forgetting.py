"""What a model says when its cache forgets: only the keys that a policy keeps are seen.

A policy takes q (B, H, T, D) and k (B, Hkv, T, D) of one layer, turned, and returns bools that broadcast to
(B, H, T, T): True = query t still finds key s. Nothing is stored here, and no memory saved: what a real cache would
have evicted is masked. Letters: B sequences, T tokens, H query heads, Hkv KV heads, D head dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from kvlib.transformer import Transformer

Policy = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def everything(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Nothing is forgotten: the causal mask, (T, T), whatever q and k hold."""
    return window(k.shape[2])(q, k)


def window(size: int, sinks: int = 0) -> Policy:
    """Keep the last `size` tokens, the newest among them, and the first `sinks`.

    Source: Xiao et al. 2023 (StreamingLLM). Raises ValueError for a size below 1, and for sinks below 0.

    >>> tokens = torch.zeros(1, 1, 4, 2)  # (B, H, T, D)
    >>> window(2, sinks=1)(tokens, tokens).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]]
    """
    if size < 1 or sinks < 0:
        raise ValueError(f"a window has 1 token or more, and 0 sinks or more; got {size} and {sinks}")

    def keep(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        places = torch.arange(k.shape[2])
        back = places[:, None] - places  # (T, T): how far behind the query a key is
        return (back >= 0) & ((back < size) | (places < sinks))

    return keep


def heavy_hitters(budget: int, recent: int) -> Policy:
    """Keep `budget` tokens in each KV head: the `recent` newest, and those that got most attention so far.

    Tokens come one at a time. After each, the one with the least attention in all is lost, if there is one too many.
    Source: Zhang et al. 2023 (H2O). Raises ValueError unless 1 <= recent < budget.
    """
    if not 1 <= recent < budget:
        raise ValueError(f"wanted 1 <= recent < budget, got {recent} and {budget}")

    def keep(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        (B, H, T, D), Hkv = q.shape, k.shape[1]
        groups = q.reshape(B, Hkv, H // Hkv, T, D)  # (B, Hkv, G, T, D)
        scores = groups @ k[:, :, None].transpose(-1, -2) / math.sqrt(D)  # (B, Hkv, G, T, T)
        held = torch.zeros(B, Hkv, T, dtype=torch.bool)
        totals, mask = torch.zeros(B, Hkv, T, dtype=q.dtype), torch.zeros(B, Hkv, T, T, dtype=torch.bool)
        for t in range(T):
            held[..., t] = True
            mask[..., t, :] = held
            weights = scores[..., t, :].masked_fill(~held[:, :, None], -math.inf).softmax(-1)  # (B, Hkv, G, T)
            totals += weights.sum(2)
            if t >= budget:
                old = held & (torch.arange(T) <= t - recent)
                held.scatter_(-1, totals.masked_fill(~old, math.inf).argmin(-1, keepdim=True), False)
        return mask.repeat_interleave(H // Hkv, dim=1)  # (B, H, T, T)

    return keep


def forgetful_logits(
    model: Transformer, tokens: torch.Tensor, policy: Policy = everything, start: int = 0
) -> torch.Tensor:
    """Logits (B, T - start, vocab_size) of tokens (B, T), from position `start` on. Keys keep their absolute positions.

    Raises ValueError as `Transformer.embed` does.
    """
    x, positions = model.embed(tokens), torch.arange(tokens.shape[1])
    for block in model.blocks:
        q, k, v = block.qkv(x, positions)
        x = block.finish(x, F.scaled_dot_product_attention(q, k, v, attn_mask=policy(q, k), enable_gqa=True))
    return model.unembed(x[:, start:])


def paged_logits(model: Transformer, tokens: torch.Tensor, cache: Any) -> torch.Tensor:
    """Logits (B, T, vocab_size) of tokens (B, T) in one chunk through `cache`, a `kvlib.paged_layers.PagedLayers`."""
    seqs, T = list(range(len(tokens))), tokens.shape[1]
    slots, x = cache.append(seqs, T), model.embed(tokens)
    for layer, block in enumerate(model.blocks):
        q, k, v = block.qkv(x, torch.arange(T))
        cache.write(layer, slots, k, v)
        x = block.finish(x, cache.attend(layer, q, seqs))
    return model.unembed(x)


def perplexity_at(logits: torch.Tensor, tokens: torch.Tensor, chosen: torch.Tensor) -> float:
    """exp of the mean surprise, in nats, at the tokens where `chosen` (B, T) is true; the first is never counted.

    logits: (B, T, vocab_size), tokens: (B, T).
    """
    surprise = F.cross_entropy(logits[:, :-1].flatten(0, 1).double(), tokens[:, 1:].flatten(), reduction="none")
    return math.exp(float(surprise[chosen[:, 1:].flatten()].mean()))


def found(logits: torch.Tensor, wanted: torch.Tensor) -> float:
    """Share of B texts whose best next token by the last of logits (B, T, vocab_size) is the wanted one, (B,)."""
    return float((logits[:, -1].argmax(-1) == wanted).double().mean())


def mass_on_first(model: Transformer, tokens: torch.Tensor, start: int = 1) -> list[float]:
    """For each layer, the mean share of a query's attention that token 0 gets, over all heads and queries from `start`.

    tokens: (B, T); the causal mask is in force.
    """
    x, positions, mask = model.embed(tokens), torch.arange(tokens.shape[1]), model.mask(0, tokens.shape[1])
    shares = []
    for block in model.blocks:
        q, k, v = block.qkv(x, positions)
        G = q.shape[1] // k.shape[1]
        scores = q @ k.repeat_interleave(G, dim=1).transpose(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, T, T)
        weights = scores.masked_fill_(~mask, -math.inf).softmax(-1)
        shares.append(float(weights[:, :, start:, 0].mean()))
        x = block.finish(x, weights @ v.repeat_interleave(G, dim=1))
    return shares


def logits_with(model: Transformer, tokens: torch.Tensor, cache: Any, move: Any = None) -> torch.Tensor:
    """Logits (T, vocab_size) of one text (T,), token by token, attention reading what `cache` gives back.

    cache: `append(layer, k, v)` -> K, V, positions; `advance(1)`, once a token; `length`, the tokens seen. k and v are
    (Hkv, 1, D). move: None, or `move(k, old, new, base)`, which turns keys to other positions: then the rows in the
    cache are numbered anew from 0 for each query, which takes the last of these numbers.
    """
    rows = []
    for token in tokens:
        x, here = model.embed(token.reshape(1, 1)), torch.tensor([cache.length])  # (1, 1, width)
        for layer, block in enumerate(model.blocks):
            q, k, v = block.qkv(x, here)
            K, V, positions = cache.append(layer, k[0], v[0])
            if move is not None:
                base, new = model.config.rope_base, positions.argsort().argsort()
                K, q = move(K, positions, new, base), move(q[0], here, torch.tensor([len(new) - 1]), base)[None]
            x = block.finish(x, F.scaled_dot_product_attention(q, K[None], V[None], enable_gqa=True))
        cache.advance(1)
        rows.append(model.unembed(x)[0, 0])
    return torch.stack(rows)


def logits_by_layer(model: Transformer, tokens: torch.Tensor, caches: list[Any]) -> torch.Tensor:
    """Logits (T, vocab_size) of one text, tokens (T,), one by one, where caches[layer] attends: `step(q, k, v)`.

    q is (H, 1, D), k and v are (Hkv, 1, D), turned to their absolute positions; it returns (H, 1, D).
    """
    rows = []
    for position, token in enumerate(tokens):
        x = model.embed(token.reshape(1, 1))  # (1, 1, width)
        for block, cache in zip(model.blocks, caches, strict=True):
            q, k, v = block.qkv(x, torch.tensor([position]))
            x = block.finish(x, cache.step(q[0], k[0], v[0])[None])
        rows.append(model.unembed(x)[0, 0])
    return torch.stack(rows)
