"""One attention layer, a chunk of tokens and a cache: the step that every longer method is made of.

Letters: B sequences, T new tokens, S tokens held, H query heads, Hkv KV heads, D head dim.
"""

from __future__ import annotations

from typing import Any

import torch

from kvlib.gqa import gqa_attend
from kvlib.masks import visible


def attend_chunk(layer: Any, cache: Any, x: torch.Tensor) -> torch.Tensor:
    """Attention of the next T tokens over all that the cache holds and themselves: (B, T, width).

    x: (B, T, width).
    layer: `project_q(x)` -> (B, H, T, D), `project_k(x)` and `project_v(x)` -> (B, Hkv, T, D), none of them turned;
    `rotate(rows, positions)` turns rows to positions (T,); `project_o(attended)` takes (B, H, T, D).
    cache: `len(cache)` tokens held; `append(k, v)` -> K and V (B, Hkv, S + T, D), and counts them.

    Keys are kept turned, each once, to its own position. Whatever the tokens are cut into, the outputs are those of the
    whole sequence at once. Raises what the cache raises, as where it is full.

    Where all scores are alike, attention is the mean of the values so far, whatever the tokens are cut into:

    >>> from types import SimpleNamespace
    >>> from kvlib.cache_layer import CacheLayer
    >>> class Cache(CacheLayer):  # its methods have other names
    ...     __len__, append = CacheLayer.get_seq_length, CacheLayer.update
    >>> layer = SimpleNamespace(
    ...     project_q=lambda x: 0 * x[:, None], project_k=lambda x: x[:, None], project_v=lambda x: x[:, None],
    ...     rotate=lambda rows, positions: rows, project_o=lambda attended: attended[:, 0])
    >>> cache = Cache(max_len=3)
    >>> attend_chunk(layer, cache, torch.tensor([[[2.0], [4.0]]])).round(decimals=4).tolist()
    [[[2.0], [3.0]]]
    >>> attend_chunk(layer, cache, torch.tensor([[[6.0]]])).round(decimals=4).tolist()
    [[[4.0]]]
    """
    start, T = len(cache), x.shape[1]  # before append, which moves the length on
    positions = torch.arange(start, start + T)
    q = layer.rotate(layer.project_q(x), positions)
    k = layer.rotate(layer.project_k(x), positions)
    K, V = cache.append(k, layer.project_v(x))  # (B, Hkv, S + T, D) each
    mask = visible(positions, torch.arange(start + T))  # (T, S + T)
    return layer.project_o(gqa_attend(q, K, V, mask))
