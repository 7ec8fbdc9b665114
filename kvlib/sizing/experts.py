"""Decoders in which a token meets some experts of many, and those whose layers differ in kind."""

from __future__ import annotations

from typing import Any

from kvlib.sizing.config import attention_shape, field
from kvlib.sizing.parts import Architecture, Config, assembled, attention, gated_mlp, linear, window_of

STATE_ELEMENT = 2  # bytes: recurrent states in 16 bit, as the weights


def mixtral(config: Config) -> Architecture:
    """Mistral's layers, with experts for an MLP. ValueError where a token visits more experts than there are.

    >>> from kvlib.sizing.models import load_config
    >>> model = mixtral(load_config("mixtral-8x7b"))
    >>> model.num_experts, model.visited
    (8, 2)
    >>> f"{model.parameters / 1e9:.1f} billion parameters, {model.active_parameters / 1e9:.1f} multiplied"
    '46.7 billion parameters, 12.7 multiplied'
    """
    width, num_layers = field(config, "hidden_size"), field(config, "num_hidden_layers")
    num_experts, visited = field(config, "num_local_experts"), field(config, "num_experts_per_tok")
    routed = num_layers * num_experts * gated_mlp(width, field(config, "intermediate_size"))
    layer = attention(config) + linear(width, num_experts) + 2 * width
    layers = window_of(config, [config.get("sliding_window") is not None] * num_layers)
    body = num_layers * layer + routed + width
    return assembled(config, layers, body, tied=False, **_routing(routed, num_experts, visited))


def gpt_oss(config: Config) -> Architecture:
    """Every other layer has a window; biases everywhere; one learned attention sink for each query head."""
    width, num_layers = field(config, "hidden_size"), field(config, "num_hidden_layers")
    hidden, num_experts = field(config, "intermediate_size"), field(config, "num_local_experts")
    expert = linear(width, 2 * hidden, True) + linear(hidden, width, True)
    routed = num_layers * num_experts * expert
    layer = attention(config, True, True) + field(config, "num_attention_heads")
    layer += linear(width, num_experts, True) + 2 * width
    layers = window_of(config, [i % 2 == 0 for i in range(num_layers)])
    routing = _routing(routed, num_experts, field(config, "num_experts_per_tok"))
    return assembled(config, layers, num_layers * layer + routed + width, tied=False, **routing)


def deepseek(config: Config) -> Architecture:
    """deepseek_v2, deepseek_v3: one latent and one rotary key for each token, whatever the heads.

    Source of the latent: DeepSeek-AI 2024 (DeepSeek-V2). ValueError for a `moe_layer_freq` that is not 1.
    """
    num_layers, width = field(config, "num_hidden_layers"), field(config, "hidden_size")
    heads = field(config, "num_attention_heads")
    latent, rope, nope, value = (
        field(config, name) for name in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    )
    rank = field(config, "q_lora_rank", default=0)
    layer = linear(width, rank) + rank if rank else 0  # queries are narrowed first, or not
    layer += linear(rank or width, heads * (nope + rope))
    layer += linear(width, latent + rope) + latent + linear(latent, heads * (nope + value))
    layer += linear(heads * value, width) + 2 * width
    dense = min(num_layers, field(config, "first_k_dense_replace", default=0, at_least=0))
    if field(config, "moe_layer_freq", default=1) != 1:
        raise ValueError("a deepseek whose moe_layer_freq is not 1 is not supported")
    num_experts, sparse = field(config, "n_routed_experts"), num_layers - dense
    expert = gated_mlp(width, field(config, "moe_intermediate_size"))
    routed = sparse * num_experts * expert
    body = num_layers * layer + dense * gated_mlp(width, field(config, "intermediate_size")) + width + routed
    body += sparse * (field(config, "n_shared_experts", default=0, at_least=0) * expert + linear(width, num_experts))
    if config["model_type"] == "deepseek_v3":
        body += sparse * num_experts  # a correction of the router's scores, which balances the load
    cache = {"kind": "latent", "kv_lora_rank": latent, "qk_rope_head_dim": rope}
    routing = _routing(routed, num_experts, field(config, "num_experts_per_tok"))
    return assembled(config, (cache,) * num_layers, body, tied=False, **routing)


def jamba(config: Config) -> Architecture:
    """One attention layer in every `attn_layer_period`; the others are Mamba, with a state of fixed size."""
    shape, width = attention_shape(config), field(config, "hidden_size")
    inner = field(config, "mamba_expand") * width
    state, conv = field(config, "mamba_d_state"), field(config, "mamba_d_conv")
    rank = -(-width // 16) if config.get("mamba_dt_rank") == "auto" else field(config, "mamba_dt_rank")
    mamba = linear(width, 2 * inner, bool(config.get("mamba_proj_bias"))) + inner * conv
    mamba += inner if config.get("mamba_conv_bias", True) else 0
    mamba += linear(inner, rank + 2 * state) + linear(rank, inner, True) + inner * state + inner
    mamba += linear(inner, width, bool(config.get("mamba_proj_bias"))) + rank + 2 * state  # and three small norms
    full = {"kind": "full", "num_kv_heads": shape["num_kv_heads"], "head_dim": shape["head_dim"]}
    recurrent = {"kind": "state", "state_bytes": inner * (state + conv) * STATE_ELEMENT}
    attends, sparse = (_every(config, name, shape["num_layers"]) for name in ("attn", "expert"))
    num_experts, expert = field(config, "num_experts"), gated_mlp(width, field(config, "intermediate_size"))
    routed = sum(sparse) * num_experts * expert
    body = shape["num_layers"] * 2 * width + width + routed + sum(sparse) * linear(width, num_experts)
    body += sum(attention(config) if here else mamba for here in attends) + sparse.count(False) * expert
    layers = tuple(full if here else recurrent for here in attends)
    routing = _routing(routed, num_experts, field(config, "num_experts_per_tok"))
    return assembled(config, layers, body, tied=False, **routing)


def _every(config: Config, name: str, num_layers: int) -> list[bool]:
    period, offset = field(config, f"{name}_layer_period"), field(config, f"{name}_layer_offset", at_least=0)
    return [i % period == offset for i in range(num_layers)]


def _routing(routed: int, num_experts: int, visited: int) -> dict[str, Any]:
    if visited > num_experts:
        raise ValueError(f"a token cannot visit {visited} of {num_experts} experts")
    return {"routed": routed, "num_experts": num_experts, "visited": visited}
