"""Single layers' caches put together behind the interface of `kvlib.gqa_cache.GQACache`.

Letters: B sequences, T new tokens, S tokens held, Hkv KV heads, D head dim.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import torch


class Layer(Protocol):
    """What is asked of one layer: a part of what Transformers asks. Its own `DynamicLayer` will do."""

    def update(self, k: torch.Tensor, v: torch.Tensor, *ignored: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Hold T more tokens k, v (B, Hkv, T, D); returns all that are held, (B, Hkv, S + T, D) each."""

    def get_seq_length(self) -> int:
        """Tokens held."""

    def get_max_length(self) -> int:
        """Tokens that there is room for; -1 = any number."""

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the newest tokens: -n forgets n."""

    def reset(self) -> None:
        """Hold nothing."""


class LayerCaches:
    """One cache for all layers. A layer counts its own tokens in `update`; here they count after `advance`.

    So a pass that broke off half-way is run again: what a layer is ahead is cropped before the next append.

    >>> from kvlib.cache_layer import CacheLayer
    >>> cache = LayerCaches([CacheLayer(4), CacheLayer(4)])
    >>> k = torch.zeros(1, 2, 3, 8)  # (B, Hkv, T, D)
    >>> [cache.append(layer, k, k)[0].shape[2] for layer in (0, 1)]
    [3, 3]
    >>> cache.advance(3)
    >>> len(cache), cache.can_append(1), cache.can_append(2)
    (3, True, False)
    >>> cache.bytes_per_token  # 2 layers * K and V * 2 heads * 8 numbers * 4 bytes
    256
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        """layers: new ones, one for each layer of the model. ValueError for none, or where one holds tokens already."""
        self.layers, self.used = list(layers), 0
        if not self.layers or any(layer.get_seq_length() for layer in self.layers):
            raise ValueError(f"wanted at least one layer that holds nothing, got {len(self.layers)} layers")
        limits = [layer.get_max_length() for layer in self.layers]
        self.max_len = min((limit for limit in limits if limit >= 0), default=sys.maxsize)
        self._bytes = [0] * len(self.layers)  # of one token

    def __len__(self) -> int:
        """Tokens held."""
        return self.used

    @property
    def bytes_per_token(self) -> int:
        """Bytes of the keys and values of one token in all layers and all sequences, as the layers gave them back."""
        return sum(self._bytes)

    def can_append(self, num_tokens: int) -> bool:
        """Whether there is room for that many more tokens."""
        return 0 <= num_tokens <= self.max_len - self.used

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write T new tokens k, v (B, Hkv, T, D) of one layer; returns all of that layer, (B, Hkv, S + T, D) each.

        Raises ValueError for a layer that there is not, and whatever the layer itself raises.
        """
        if not 0 <= layer < len(self.layers):
            raise ValueError(f"layer {layer} asked of {len(self.layers)} layers, 0 to {len(self.layers) - 1}")
        one = self.layers[layer]
        one.crop(self.used - one.get_seq_length())
        K, V = one.update(k, v)
        self._bytes[layer] = (K.nbytes + V.nbytes) // max(1, K.shape[2])
        return K, V

    def advance(self, num_tokens: int) -> None:
        """The tokens appended to every layer count from now on. ValueError where a layer holds fewer or more."""
        lengths = [layer.get_seq_length() for layer in self.layers]
        if num_tokens < 0 or set(lengths) != {self.used + num_tokens}:
            wanted = f"{self.used} + {num_tokens} tokens"
            raise ValueError(f"advance by {num_tokens}: every layer must hold {wanted}, they hold {lengths}")
        self.used += num_tokens

    def truncate(self, length: int) -> None:
        """Hold only the first `length` tokens. Raises ValueError for a length below 0 or above the tokens held."""
        if not 0 <= length <= self.used:
            raise ValueError(f"holds {self.used} tokens, cannot be cut to {length}")
        for layer in self.layers:
            layer.crop(length - layer.get_seq_length())
        self.used = length

    def reset(self) -> None:
        """Hold nothing."""
        for layer in self.layers:
            layer.reset()
        self.used = 0
