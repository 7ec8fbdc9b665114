"""The size of a cache whose layers differ: windows, latents, states, and layers that share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvlib.sizing.whole import whole

FIELDS = {
    "full": ("num_kv_heads", "head_dim"),
    "window": ("num_kv_heads", "head_dim", "window"),
    "latent": ("kv_lora_rank", "qk_rope_head_dim"),
    "state": ("state_bytes",),
    "shared": (),
}


def layer_bytes(layers: Iterable[Mapping[str, Any]], num_tokens: int, bytes_per_element: int) -> int:
    """Bytes that one sequence of `num_tokens` tokens takes in all these layers together.

    Each layer is a dict with a `kind` and the fields of that kind; others are not looked at:

    - full: num_kv_heads, head_dim. A key and a value of every token.
    - window: num_kv_heads, head_dim, window. The same, for the last `window` tokens at most.
    - latent: kv_lora_rank, qk_rope_head_dim. One latent and one rotary key for each token, shared by all heads.
    - state: state_bytes. As many bytes whatever the number of tokens.
    - shared: nothing. It reads the cache of an earlier layer.

    ValueError names an unknown kind, a missing field, or what is not a whole number.

    >>> full = {"kind": "full", "num_kv_heads": 16, "head_dim": 128}
    >>> local = {"kind": "window", "num_kv_heads": 16, "head_dim": 128, "window": 4096}
    >>> layer_bytes([full, local] * 23, 8192, 2)  # Gemma-2-27B
    2315255808
    """
    tokens = whole("num_tokens", num_tokens)
    width = whole("bytes_per_element", bytes_per_element, at_least=1)
    return sum(_bytes_of(layer, i, tokens, width) for i, layer in enumerate(layers))


def _bytes_of(layer: Mapping[str, Any], i: int, tokens: int, width: int) -> int:
    if not isinstance(layer, Mapping):
        raise ValueError(f"layer {i} must be a dict with a kind, got {layer!r}")
    kind = layer.get("kind")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise ValueError(f"layer {i} is of kind {kind!r}; known are {', '.join(FIELDS)}")
    missing = [name for name in FIELDS[kind] if name not in layer]
    if missing:
        raise ValueError(f"layer {i}, of kind {kind!r}, lacks {', '.join(missing)}")
    field = {
        name: whole(f"{name} of layer {i}", layer[name], at_least=0 if name == "state_bytes" else 1)
        for name in FIELDS[kind]
    }
    if kind == "shared":
        return 0
    if kind == "state":
        return field["state_bytes"]
    if kind == "latent":
        return (field["kv_lora_rank"] + field["qk_rope_head_dim"]) * tokens * width
    held = min(tokens, field["window"]) if kind == "window" else tokens
    return 2 * field["num_kv_heads"] * field["head_dim"] * held * width
