"""What one GPU of several holds, reads and calculates."""

from __future__ import annotations

from collections.abc import Iterable

from kvlib.sizing.capacity import kv_heads_on_one
from kvlib.sizing.formats import Format
from kvlib.sizing.parts import Architecture, Layer


def share(model: Architecture, tp: int) -> list[Layer]:
    """The layers as one of `tp` GPUs keeps them: its part of the KV heads and of the states.

    A latent has no heads to share out, so each GPU keeps all of it. ValueError when the heads do not divide.

    >>> from kvlib.sizing.architecture import architecture
    >>> from kvlib.sizing.models import load_config
    >>> share(architecture(load_config("llama-3-8b")), tp=4)[0]
    {'kind': 'full', 'num_kv_heads': 2, 'head_dim': 128}
    """
    if model.num_heads % tp:
        raise ValueError(f"{tp} GPUs do not divide the {model.num_heads} query heads of this model")
    return [_share_of(layer, tp) for layer in model.layers]


def _share_of(layer: Layer, tp: int) -> Layer:
    if layer["kind"] == "state":
        return layer | {"state_bytes": -(-layer["state_bytes"] // tp)}
    if "num_kv_heads" in layer:
        return layer | {"num_kv_heads": kv_heads_on_one(layer["num_kv_heads"], tp)}
    return layer


def kept(layers: Iterable[Layer], fmt: Format) -> list[Layer]:
    """The same layers counted in bytes: rows of one-byte elements, as long as a row is in this format.

    `layer_bytes` with one byte for each element then also counts scales and zero points. States keep their bytes.
    """
    rows = ("head_dim", "kv_lora_rank", "qk_rope_head_dim")
    return [{key: fmt.row_bytes(value) if key in rows else value for key, value in layer.items()} for layer in layers]


def weights(model: Architecture, fmt: Format) -> int:
    """Bytes of all weights. In fewer than 16 bits only what lies between the tables and the output head is kept."""
    outside = model.tables + model.head
    wide = max(fmt.bits, 16) // 8
    return fmt.row_bytes(model.parameters - outside) + outside * wide


def read_weights(model: Architecture, fmt: Format, batch: int) -> int:
    """Bytes of weights that a decode step reads: no tables, and of the experts those that some token visits.

    A table gives one row for each token, which is nothing beside the rest. Tokens choose experts as by lot: one expert
    is left alone by all of them with probability (1 - visited/experts)^B.
    """
    routed = fmt.row_bytes(model.routed) if model.routed else 0
    left_alone = (1 - model.visited / model.num_experts) ** batch
    tables = model.tables * (max(fmt.bits, 16) // 8)
    return weights(model, fmt) - tables - round(routed * left_alone)


def attention_flops(model: Architecture, context: int) -> int:
    """FLOP of one new token's attention to `context` tokens: a multiply and an add for scores, and for values."""
    flops = 0
    for layer in model.layers:
        if layer["kind"] == "latent":  # scores against latent and rotary key, values from the latent
            width = 2 * layer["kv_lora_rank"] + layer["qk_rope_head_dim"]
            flops += 2 * model.num_heads * width * context
        elif "head_dim" in layer:
            flops += 4 * model.num_heads * layer["head_dim"] * min(context, layer.get("window", context))
    return flops
