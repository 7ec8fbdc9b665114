"""What decoders are made of: layers with a cache, and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvlib.sizing.config import attention_shape, field

Layer = dict[str, Any]  # as kvlib.sizing.layers takes it
Config = Mapping[str, Any]
WINDOWED = {"sliding_attention": True, "full_attention": False}


@dataclass(frozen=True)
class Architecture:
    """The layers of a model, and its parameters by what happens to them in a decode step.

    num_heads: query heads. tables: parameters looked up by token or position, not multiplied (an input table that is
    tied to the output head is counted as the head). head: parameters of the output head. routed: those of all experts
    of which a token visits `visited` of `num_experts`. All are part of `parameters`. max_positions: the longest context
    that the config allows, or None.
    """

    model_type: str
    layers: tuple[Layer, ...]
    num_heads: int
    parameters: int
    tables: int
    head: int
    max_positions: int | None = None
    routed: int = 0
    num_experts: int = 1
    visited: int = 1

    @property
    def active_parameters(self) -> int:
        """Parameters that one token is multiplied with: no tables, and only the experts that it visits."""
        return self.parameters - self.tables - self.routed + self.routed * self.visited // self.num_experts


def linear(inputs: int, outputs: int, bias: bool = False) -> int:
    """Parameters of one matrix.

    >>> linear(2, 3), linear(2, 3, bias=True)
    (6, 9)
    """
    return inputs * outputs + (outputs if bias else 0)


def attention(config: Config, qkv_bias: bool = False, out_bias: bool = False) -> int:
    """Parameters of the four projections of one attention layer, with fields named as Llama names them."""
    width, shape = field(config, "hidden_size"), attention_shape(config)
    query = shape["num_heads"] * shape["head_dim"]
    key = shape["num_kv_heads"] * shape["head_dim"]
    return linear(width, query + 2 * key, qkv_bias) + linear(query, width, out_bias)


def gated_mlp(width: int, hidden: int) -> int:
    """Parameters of gate, up and down, without biases.

    >>> gated_mlp(2, 3)
    18
    """
    return 3 * width * hidden


def window_of(config: Config, windowed: list[bool]) -> tuple[Layer, ...]:
    """Layers with their caches. `windowed` is the family's rule; a list `layer_types` in the config beats it.

    Raises ValueError for a `layer_types` that is no list, has unknown names, or is not as long as there are layers.
    """
    shape = attention_shape(config)
    heads = {"num_kv_heads": shape["num_kv_heads"], "head_dim": shape["head_dim"]}
    types = config.get("layer_types")
    if types is not None:
        if not isinstance(types, list):
            raise ValueError(f"layer_types must be a list with a name for each layer, got {types!r}")
        unknown = sorted({str(name) for name in types} - set(WINDOWED))
        if unknown:
            raise ValueError(f"layer_types holds {', '.join(unknown)}; known are {', '.join(WINDOWED)}")
        windowed = [WINDOWED[name] for name in types]
    if len(windowed) != shape["num_layers"]:
        raise ValueError(f"layer_types names {len(windowed)} layers, and num_hidden_layers is {shape['num_layers']}")
    window = {"window": field(config, "sliding_window")} if any(windowed) else {}
    return tuple({"kind": "window", **heads, **window} if local else {"kind": "full", **heads} for local in windowed)


def assembled(
    config: Config, layers: tuple[Layer, ...], body: int, *, tied: bool, positions: int = 0, **more: Any
) -> Architecture:
    """An architecture from its layers and the parameters between the embeddings and the output head.

    tied: what the family does where the config is silent. positions: parameters of learned positions.
    """
    head = field(config, "vocab_size") * field(config, "hidden_size", default=config.get("n_embd"))
    setting = config.get("tie_word_embeddings")
    tables = positions + (0 if (tied if setting is None else setting) else head)
    heads = field(config, "num_attention_heads", default=config.get("n_head"))
    longest = field(config, "max_position_embeddings", field(config, "n_positions", 0, at_least=0), at_least=0) or None
    return Architecture(config["model_type"], layers, heads, body + tables + head, tables, head, longest, **more)
