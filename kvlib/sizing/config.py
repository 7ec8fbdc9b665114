"""What a config.json says about a cache, read without guessing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvlib.sizing.whole import whole

PLAIN = ("llama", "mistral", "qwen2", "gemma2", "gpt2")


def read_config(config: Mapping[str, Any]) -> dict[str, int]:
    """{"num_layers", "num_kv_heads", "head_dim"} of a config.json of type llama, mistral, qwen2, gemma2 or gpt2.

    - `head_dim`, where it is there and not null, beats hidden_size // num_attention_heads: it need not be the same.
    - `num_key_value_heads` missing or null means one KV head for each query head, in these types.
    - A gpt2 names its fields n_layer, n_head and n_embd, and has as many KV heads as query heads.

    ValueError for another or no model_type, a needed field that is missing or no whole number above 0, heads that do
    not divide hidden_size where the head dim must be worked out, and KV heads that do not divide the query heads. The
    config stays as it is. Windows are not its concern: `kvlib.sizing.architecture` looks at them.

    >>> read_config({"model_type": "gpt2", "n_layer": 48, "n_head": 25, "n_embd": 1600})
    {'num_layers': 48, 'num_kv_heads': 25, 'head_dim': 64}
    """
    model_type = type_of(config)
    if model_type not in PLAIN:
        raise ValueError(f"model_type is {model_type!r}, and only {', '.join(PLAIN)} are known: no guess is made")
    if model_type == "gpt2":
        layers, heads, width = (field(config, name) for name in ("n_layer", "n_head", "n_embd"))
        return {"num_layers": layers, "num_kv_heads": heads, "head_dim": divided(width, heads, "n_head", "n_embd")}
    shape = attention_shape(config)
    return {name: shape[name] for name in ("num_layers", "num_kv_heads", "head_dim")}


def attention_shape(config: Mapping[str, Any]) -> dict[str, int]:
    """num_layers, num_heads, num_kv_heads and head_dim, from fields named as Llama names them.

    Raises ValueError as `read_config` does.

    >>> known = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "hidden_size": 64}
    >>> attention_shape(known)
    {'num_layers': 2, 'num_heads': 4, 'num_kv_heads': 1, 'head_dim': 16}
    """
    layers, heads = field(config, "num_hidden_layers"), field(config, "num_attention_heads")
    kv_heads = field(config, "num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise ValueError(f"num_key_value_heads is {kv_heads}, which does not divide num_attention_heads, {heads}")
    if config.get("head_dim") is not None:
        head_dim = field(config, "head_dim")
    else:
        head_dim = divided(field(config, "hidden_size"), heads, "num_attention_heads", "hidden_size")
    return {"num_layers": layers, "num_heads": heads, "num_kv_heads": kv_heads, "head_dim": head_dim}


def type_of(config: Mapping[str, Any]) -> Any:
    """The model_type. ValueError for what is no config at all."""
    if not isinstance(config, Mapping):
        raise ValueError(f"a config is a dict, as a config.json holds it, got {type(config).__name__}")
    return config.get("model_type")


def field(config: Mapping[str, Any], name: str, default: int | None = None, at_least: int = 1) -> int:
    """A whole number from a config. A missing field, or null, is the default; without one it is a ValueError."""
    value = config.get(name)
    if value is None:
        if default is None:
            raise ValueError(f"the config has no {name}, and it is needed")
        return default
    return whole(name, value, at_least)


def divided(width: int, heads: int, heads_name: str, width_name: str) -> int:
    """The head dim, width // heads, where it must be worked out. ValueError where heads do not divide the width."""
    if width % heads:
        raise ValueError(f"no head_dim is given, and {heads_name}, {heads}, does not divide {width_name}, {width}")
    return width // heads
