"""From a config.json to the layers and the parameters of the model, for all families that the course knows."""

from __future__ import annotations

from collections.abc import Callable

from kvlib.sizing.config import type_of
from kvlib.sizing.dense import falcon, gpt2, llama_like, opt
from kvlib.sizing.experts import deepseek, gpt_oss, jamba, mixtral
from kvlib.sizing.parts import Architecture, Config

FAMILIES: dict[str, Callable[[Config], Architecture]] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma2"), llama_like),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), deepseek),
    "falcon": falcon,
    "gpt2": gpt2,
    "gpt_oss": gpt_oss,
    "jamba": jamba,
    "mixtral": mixtral,
    "opt": opt,
}


def architecture(config: Config) -> Architecture:
    """Layers as `layer_bytes` takes them, and parameter counts worked out from the shapes.

    ValueError names an unknown model_type with the known ones, a missing field, or what does not fit together.

    >>> from kvlib.sizing.models import load_config
    >>> model = architecture(load_config("llama-2-7b"))
    >>> len(model.layers), model.parameters
    (32, 6738415616)
    """
    model_type = type_of(config)
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise ValueError(f"model_type is {model_type!r}, and only {', '.join(sorted(FAMILIES))} are known")
    return FAMILIES[model_type](config)
