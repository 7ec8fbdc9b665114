"""Lets a model of Hugging Face Transformers run with layers of our own.

Transformers 5.24 keeps one object for each layer and asks it by the names of `kvlib.cache_layer.CacheLayer`. What else
it wants to know of a layer, that it does not slide and can be cropped, is said here. The library is imported when a
bridge is built: the course does not need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

TESTED = "5.24.0"
INSTALL = f"pip install transformers=={TESTED}"


class NoTransformers(Exception):
    """Transformers is not installed. The message says what to do."""


def transformers_version() -> str | None:
    """The version that is installed, or None. Nothing is imported for that."""
    try:
        return version("transformers")
    except PackageNotFoundError:
        return None


def as_transformers_cache(layers: Sequence[Any]) -> Any:
    """A `transformers.Cache` around these layers, one for each layer of the model.

        cache = as_transformers_cache([CacheLayer(512) for _ in range(model.config.num_hidden_layers)])
        model(tokens, cache=cache)
        model.generate(tokens, cache=cache, max_new_tokens=32)

    layers: objects with the methods of `kvlib.cache_layer.CacheLayer`. They may be given to one cache only.
    Raises `NoTransformers` where the library is missing, and ValueError for no layers, the same one twice, or one that
    holds tokens already: the model would go on from another text without a word.

    >>> as_transformers_cache([])
    Traceback (most recent call last):
    ValueError: wanted one layer for each layer of the model, got none
    """
    if not layers:
        raise ValueError("wanted one layer for each layer of the model, got none")
    if len({id(layer) for layer in layers}) < len(layers):
        raise ValueError(f"wanted a layer of its own for each layer of the model, got one twice among {len(layers)}")
    if any(layer.get_seq_length() for layer in layers):
        raise ValueError("wanted layers that hold nothing, got one that holds tokens; reset() empties it")
    try:
        from transformers import Cache
        from transformers.cache_utils import CacheLayerMixin
    except ImportError:
        raise NoTransformers(f"Transformers is not installed: {INSTALL}") from None

    class Bridged(CacheLayerMixin):
        """One of our layers, as Transformers asks it. It keeps no keys and values: the layer does."""

        is_sliding = False
        is_croppable = True  # tokens can be taken back, as assisted generation does
        supports_early_init = False  # our layers learn their sizes from the first rows

        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer

        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            """Nothing: the layer makes its memory in its first `update`."""

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            return self.layer.update(key_states, value_states, *args)

        def get_seq_length(self) -> int:
            return self.layer.get_seq_length()

        def get_max_length(self) -> int:
            return self.layer.get_max_length()

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return self.layer.get_mask_sizes(query_length)

        def crop(self, tokens_to_remove: int) -> None:
            self.layer.crop(tokens_to_remove)

        def reorder_cache(self, beam_idx: Any) -> None:
            self.layer.reorder_cache(beam_idx)

        def batch_repeat_interleave(self, repeats: int) -> None:
            self.layer.batch_repeat_interleave(repeats)

        def batch_select_indices(self, indices: Any) -> None:
            self.layer.batch_select_indices(indices)

        def reset(self) -> None:
            self.layer.reset()

    return Cache(layers=[Bridged(layer) for layer in layers])


def random_llama(seed: int = 0) -> Any:
    """A small Llama of Transformers, in float64, with random weights, to try a cache on. Nothing is downloaded.

    Raises `NoTransformers` where the library is missing.
    """
    import torch

    try:
        from transformers import LlamaConfig, LlamaForCausalLM
        from transformers.utils import logging
    except ImportError:
        raise NoTransformers(f"Transformers is not installed: {INSTALL}") from None
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=16,
        initializer_range=0.3,  # larger than usual, so that the best token is not the same everywhere
        bos_token_id=None,
        eos_token_id=None,  # no token ends anything
        pad_token_id=0,
    )
    logging.disable_progress_bar()  # it would move through a notebook for a file of some kilobytes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).double().eval()
