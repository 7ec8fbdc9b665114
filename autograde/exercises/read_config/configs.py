"""Configs to be read, made from the answer, so that nothing has to be worked out to know it."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]
Want = dict[str, int]

NO_HEAD_DIM = -1  # the field is left out
OTHERS = {"vocab_size": 32_003, "torch_dtype": "bfloat16", "max_position_embeddings": 4096}  # nobody asks for them
SHOWN: tuple[str, ...]
SHOWN = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim")
SHOWN += ("n_layer", "n_head", "n_embd")


def like_llama(
    model_type: str,
    layers: int,
    kv_heads: int,
    group: int,
    dim: int,
    hidden_size: int | None = None,
    head_dim: int | None = NO_HEAD_DIM,
) -> tuple[Config, Want]:
    """A config with Llama's names and what it says, for `group` query heads to each KV head.

    Without `hidden_size` the heads together are as wide as the model. A `head_dim` of None is a field that is null.
    """
    heads = kv_heads * group
    config = {
        "architectures": ["SomeModel"],
        "model_type": model_type,
        "hidden_size": heads * dim if hidden_size is None else hidden_size,
        "intermediate_size": 2 * heads * dim + 6,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        **OTHERS,
    }
    if head_dim != NO_HEAD_DIM:
        config["head_dim"] = head_dim
    return config, {"num_layers": layers, "num_kv_heads": kv_heads, "head_dim": dim}


def gpt2(layers: int, heads: int, dim: int) -> tuple[Config, Want]:
    """A config with GPT-2's names, and what it says."""
    config = {"model_type": "gpt2", "n_layer": layers, "n_head": heads, "n_embd": heads * dim, "n_positions": 1024}
    return config, {"num_layers": layers, "num_kv_heads": heads, "head_dim": dim}


def in_words(config: Config) -> str:
    """The fields that matter, for the learner."""
    fields = ", ".join(f"{name} {config[name]}" for name in SHOWN if name in config)
    return f"a {config.get('model_type')} config with {fields}"
