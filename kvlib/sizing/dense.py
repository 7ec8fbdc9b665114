"""Decoders in which every token meets every parameter."""

from __future__ import annotations

from kvlib.sizing.config import attention_shape, divided, field
from kvlib.sizing.parts import Architecture, Config, assembled, attention, gated_mlp, linear, window_of


def llama_like(config: Config) -> Architecture:
    """llama, mistral, qwen2, qwen3, gemma2: RMSNorm, gated MLP, no learned positions."""
    kind, width = config["model_type"], field(config, "hidden_size")
    shape = attention_shape(config)
    bias = bool(config.get("attention_bias"))
    layer = attention(config, qkv_bias=bias or kind == "qwen2", out_bias=bias)
    layer += gated_mlp(width, field(config, "intermediate_size"))
    if config.get("mlp_bias"):
        layer += 2 * field(config, "intermediate_size") + width
    layer += (4 if kind == "gemma2" else 2) * width  # norms; gemma2 has some after the sub-layers as well
    if kind == "qwen3":
        layer += 2 * shape["head_dim"]  # norms of queries and keys
    layers = window_of(config, _windowed(config, shape["num_layers"]))
    return assembled(config, layers, shape["num_layers"] * layer + width, tied=kind == "gemma2")


def _windowed(config: Config, num_layers: int) -> list[bool]:
    """Which layers have a window, by the rule of the family."""
    kind = config["model_type"]
    if kind == "gemma2":
        return [i % 2 == 0 for i in range(num_layers)]
    if kind in ("qwen2", "qwen3"):
        full = field(config, "max_window_layers", default=0, at_least=0)
        return [bool(config.get("use_sliding_window")) and i >= full for i in range(num_layers)]
    return [kind == "mistral" and config.get("sliding_window") is not None] * num_layers


def gpt2(config: Config) -> Architecture:
    """Learned positions, LayerNorm, biases everywhere; input and output share one table.

    >>> known = {"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2, "n_positions": 3, "vocab_size": 5}
    >>> model = gpt2(known)
    >>> model.head, model.tables  # 5 tokens of width 2, and 3 positions of width 2
    (10, 6)
    >>> model.parameters - model.head - model.tables  # (2 + 1) * (6 + 2 + 8) + (8 + 1) * 2, and three norms of 4
    78
    """
    num_layers, heads, width = (field(config, name) for name in ("n_layer", "n_head", "n_embd"))
    hidden = field(config, "n_inner", default=4 * width)
    layer = linear(width, 3 * width, True) + linear(width, width, True)
    layer += linear(width, hidden, True) + linear(hidden, width, True) + 4 * width
    cache = {"kind": "full", "num_kv_heads": heads, "head_dim": divided(width, heads, "n_head", "n_embd")}
    positions = field(config, "n_positions") * width
    return assembled(config, (cache,) * num_layers, num_layers * layer + 2 * width, tied=True, positions=positions)


def opt(config: Config) -> Architecture:
    """As gpt2, with two more positions than it can use. ValueError where embeddings have a width of their own."""
    shape, width = attention_shape(config), field(config, "hidden_size")
    if field(config, "word_embed_proj_dim", default=width) != width:
        raise ValueError("an opt whose word_embed_proj_dim differs from its hidden_size is not supported")
    hidden = field(config, "ffn_dim")
    layer = attention(config, True, True) + linear(width, hidden, True) + linear(hidden, width, True) + 4 * width
    positions = (field(config, "max_position_embeddings") + 2) * width
    layers = window_of(config, [False] * shape["num_layers"])
    return assembled(config, layers, shape["num_layers"] * layer + 2 * width, tied=True, positions=positions)


def falcon(config: Config) -> Architecture:
    """One KV head with `multi_query`; the newer architecture names its own number."""
    heads, width = field(config, "num_attention_heads"), field(config, "hidden_size")
    new, parallel = bool(config.get("new_decoder_architecture")), bool(config.get("parallel_attn", True))
    kv_heads = field(config, "num_kv_heads", default=heads) if new else (1 if config.get("multi_query") else heads)
    named = {**config, "num_key_value_heads": kv_heads}
    shape, bias = attention_shape(named), bool(config.get("bias"))
    hidden = field(config, "ffn_hidden_size", default=4 * width)
    layer = attention(named, bias, bias) + linear(width, hidden, bias) + linear(hidden, width, bias)
    layer += (2 if parallel and not new else 4) * width  # a LayerNorm has a scale and a shift
    layers = window_of(named, [False] * shape["num_layers"])
    return assembled(config, layers, shape["num_layers"] * layer + 2 * width, tied=True)
