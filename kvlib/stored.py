"""What a model says when its cache gives back something else than it was given: rounded keys and values, say.

Letters: B sequences, T tokens, H query heads, Hkv KV heads, D head dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.nn import functional as F

from kvlib.transformer import Transformer

Store = Callable[[torch.Tensor], torch.Tensor]


def stored_logits(model: Transformer, tokens: torch.Tensor, store: Store) -> torch.Tensor:
    """The model's logits (B, T, vocab_size) of tokens (B, T) when attention reads `store(k)` and `store(v)`.

    store: takes the turned keys, or the values, (B, Hkv, T, D), and gives what comes out of the cache, of the same
    shape and dtype. Every query reads them so, its own token's too.
    """
    x = model.embed(tokens)
    positions, mask = torch.arange(tokens.shape[1]), model.mask(0, tokens.shape[1])
    for block in model.blocks:
        q, k, v = block.qkv(x, positions)
        attended = F.scaled_dot_product_attention(q, store(k), store(v), attn_mask=mask, enable_gqa=True)
        x = block.finish(x, attended)
    return model.unembed(x)


def perplexity(logits: torch.Tensor, tokens: torch.Tensor) -> float:
    """exp of the mean surprise, in nats, of each token at what comes next: 1 = always sure and right.

    logits: (B, T, vocab_size). tokens: (B, T), T at least 2; those after the first are what is to be foretold.

    >>> round(perplexity(torch.zeros(1, 3, 4), torch.zeros(1, 3, dtype=torch.int64)), 6)  # four, all as likely
    4.0
    """
    surprise = F.cross_entropy(logits[:, :-1].flatten(0, 1).double(), tokens[:, 1:].flatten())
    return math.exp(float(surprise))


def divergence(logits: torch.Tensor, right: torch.Tensor) -> float:
    """Mean Kullback-Leibler divergence, in nats, of logits (B, T, vocab_size) from the right ones: 0 = alike."""
    said, meant = (rows.double().log_softmax(-1) for rows in (logits, right))
    return float((meant.exp() * (meant - said)).sum(-1).mean())
