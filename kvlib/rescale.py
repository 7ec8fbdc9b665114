"""Larger keys and values in the cache, and not one bit of the output changed.

A score is q times k: keys twice as large and queries half as large give the same. An output is o applied to values. So
how large the numbers in a cache are is a habit of the training run, and nothing that the model needs. Powers of two
only move exponents, so nothing is rounded on the way. Rotary positions turn keys and leave their length.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kvlib.transformer import Transformer


def rescale(weights: Mapping[str, torch.Tensor], key_power: int, value_power: int) -> dict[str, torch.Tensor]:
    """The weights of one attention layer, so that it caches 2**key_power times its keys, 2**value_power its values.

    weights: "q", "k", "v", "o" as nn.Linear keeps them, (out, in), with "q_bias" and so on where there are any; all
    others stay as they are. Returns a new dict; the layer's output is the same to the last bit, as long as no number
    gets too large or too small for its dtype. Raises ValueError for a power that is not a whole number.

    >>> small = rescale({"q": torch.tensor([[8.0]]), "k": torch.tensor([[8.0]])}, key_power=-2, value_power=0)
    >>> small["k"].tolist(), small["q"].tolist()
    ([[2.0]], [[32.0]])
    """
    for name, power in (("key_power", key_power), ("value_power", value_power)):
        if isinstance(power, bool) or not isinstance(power, int):
            raise ValueError(f"{name} must be a whole number, so that nothing is rounded; got {power!r}")
    powers = {"k": key_power, "q": -key_power, "v": value_power, "o": -value_power}
    powers |= {"k_bias": key_power, "q_bias": -key_power, "v_bias": value_power}  # o's bias comes after the values
    return {name: weight * 2.0 ** powers[name] if name in powers else weight for name, weight in weights.items()}


def rescale_model(model: Transformer, key_power: int, value_power: int) -> Transformer:
    """A transformer with the same logits and other keys and values: `rescale` in every layer.

    Its weights have the shapes of the model's. Raises ValueError as `rescale` does.
    """
    weights = dict(model.weights)
    for layer in range(model.config.num_layers):
        own = {name: weights[f"{layer}.{name}"] for name in ("q", "k", "v", "o")}
        weights |= {f"{layer}.{name}": weight for name, weight in rescale(own, key_power, value_power).items()}
    return Transformer(model.config, weights)
