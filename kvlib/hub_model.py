"""Reads a model of the Llama family as the model hub keeps it, a folder with `config.json` and safetensors files.

Only what `kvlib.transformer.Transformer` can be is taken; anything else is refused by name, since a part that is left
out gives fluent nonsense. The files are read here, without another package. Rows of q and k lie in halves already.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from kvlib.transformer import Transformer, TransformerConfig

FAMILY = ("LlamaForCausalLM", "MistralForCausalLM")
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
PARTS = {  # ours, and the file's
    "norm1": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "norm2": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
OUTER = {"embedding": "model.embed_tokens", "final_norm": "model.norm", "unembedding": "lm_head"}
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"


def load_from_hub(name_or_folder: str | Path, dtype: torch.dtype = torch.float32) -> Transformer:
    """A model as one of ours, its weights turned into `dtype`.

    name_or_folder: a folder on this machine, or a model's name on the hub. A name is downloaded with the package
    `transformers`, if it is installed. Raises ValueError for a model that is built in another way, naming the first
    thing that differs, and for a file that is damaged; FileNotFoundError for a folder without a model.
    """
    fetch = _files_of(name_or_folder)
    config = read_hub_config(json.loads(fetch(CONFIG).read_text(encoding="utf-8")))
    wanted = {hub_name(name): name for name in config.shapes()}
    weights = {}
    for path in _weight_files(fetch):
        for theirs, weight in read_safetensors(path):
            if theirs in wanted:
                weights[wanted[theirs]] = weight.to(dtype)
            elif not theirs.endswith(("rotary_emb.inv_freq", "lm_head.weight")):  # worked out, or tied
                raise ValueError(f"the model has a weight {theirs!r}, for which there is no place here")
    return Transformer(config, weights)


def read_hub_config(known: Mapping[str, Any]) -> TransformerConfig:
    """The sizes in a `config.json`. Raises ValueError for whatever `kvlib.transformer` does not do.

    >>> known = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100}
    >>> known |= {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128}
    >>> config = read_hub_config(known)
    >>> config.num_kv_heads, config.head_dim
    (2, 16)
    """
    if not isinstance(known, Mapping):
        raise ValueError(f"{CONFIG} must hold names and values, got a {type(known).__name__}")
    kind = (known.get("architectures") or ["none"])[0]
    if kind not in FAMILY:
        raise ValueError(f"architecture {kind}: known here are {' and '.join(FAMILY)}")
    rope: Mapping[str, Any] = known.get("rope_parameters") or known.get("rope_scaling") or {}
    given = (rope, known.get("rope_scaling") or {})  # files of today have one, older ones the other, some both
    scaled = [way for way in given if way.get("rope_type", way.get("type", "default")) != "default"]
    has = {
        "biases in attention": known.get("attention_bias"),
        "biases in the feed-forward part": known.get("mlp_bias"),
        f"the activation {known.get('hidden_act')!r}": known.get("hidden_act", "silu") not in ("silu", "swish"),
        f"rotary positions scaled by {scaled[0] if scaled else None}": scaled,
        "heads that are turned in part": rope.get("partial_rotary_factor", known.get("partial_rotary_factor", 1)) != 1,
        f"a sliding window of {known.get('sliding_window')}": known.get("sliding_window"),
        "quantised weights": known.get("quantization_config"),
    }
    if found := [what for what, there in has.items() if there]:
        raise ValueError(f"the model has {found[0]}, which a kvlib Transformer has not")
    needed = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")
    if lost := [name for name in needed if type(known.get(name)) is not int]:
        raise ValueError(f"{CONFIG} must have a whole number {lost[0]}, got {known.get(lost[0])!r}")
    num_heads = known["num_attention_heads"]
    return TransformerConfig(
        num_layers=known["num_hidden_layers"],
        width=known["hidden_size"],
        num_heads=num_heads,
        num_kv_heads=known.get("num_key_value_heads") or num_heads,
        head_dim=known.get("head_dim") or known["hidden_size"] // num_heads,
        hidden=known["intermediate_size"],
        vocab_size=known["vocab_size"],
        rope_base=float(rope.get("rope_theta", known.get("rope_theta", 10000.0))),
        eps=known.get("rms_norm_eps") or 1e-6,
        tied=bool(known.get("tie_word_embeddings", False)),
    )


def hub_name(name: str) -> str:
    """The file's name of one of our weights.

    >>> hub_name("0.q"), hub_name("embedding")
    ('model.layers.0.self_attn.q_proj.weight', 'model.embed_tokens.weight')
    """
    if name in OUTER:
        return f"{OUTER[name]}.weight"
    layer, part = name.split(".")
    return f"model.layers.{layer}.{PARTS[part]}.weight"


def read_safetensors(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """The names and tensors of one file: 8 bytes of length, so much JSON, then the numbers, one tensor at a time.

    Each has the shape and the dtype that the file names. Raises ValueError where the file ends too soon, and for
    numbers that are not floats of 16, 32 or 64 bits.
    """
    with path.open("rb") as file:
        head = int.from_bytes(file.read(8), "little")
        if head > path.stat().st_size - 8:
            raise ValueError(f"{path.name}: no safetensors file, or cut off")
        table = json.loads(file.read(head))
        if not isinstance(table, dict):
            raise ValueError(f"{path.name}: the table of tensors is a {type(table).__name__}")
        for name, entry in table.items():
            if name == "__metadata__":
                continue
            if not {"dtype", "shape", "data_offsets"} <= set(entry):
                raise ValueError(f"{path.name}: {name} has {sorted(entry)}, wanted dtype, shape and data_offsets")
            if entry["dtype"] not in DTYPES:
                raise ValueError(f"{path.name}: {name} is of {entry['dtype']}; known here: {', '.join(DTYPES)}")
            dtype, (first, last) = DTYPES[entry["dtype"]], entry["data_offsets"]
            size = math.prod(entry["shape"]) * dtype.itemsize
            if first < 0 or last - first != size or not size:
                raise ValueError(f"{path.name}: {name} has bytes {first} to {last}, its shape takes {size}")
            file.seek(8 + head + first)
            data = bytearray(file.read(last - first))
            if len(data) != last - first:
                raise ValueError(f"{path.name}: the file ends within {name}")
            yield name, torch.frombuffer(data, dtype=dtype).view(entry["shape"])


def _files_of(name_or_folder: str | Path) -> Callable[[str], Path]:
    """A function that gives the path of a model's file, or raises FileNotFoundError."""
    folder = Path(name_or_folder)
    if folder.is_dir():

        def local(file: str) -> Path:
            if not (folder / file).is_file():
                raise FileNotFoundError(f"{folder} has no {file}")
            return folder / file

        return local
    try:
        from transformers.utils import cached_file
    except ImportError:
        message = f"{name_or_folder} is no folder here, and to download a model the package transformers is needed"
        raise FileNotFoundError(message) from None

    def remote(file: str) -> Path:
        try:
            path: Any = cached_file(str(name_or_folder), file)  # a text: what is missing, it raises for
            return Path(path)
        except OSError as error:
            raise FileNotFoundError(f"{name_or_folder} has no {file}: {str(error)[:200]}") from None

    return remote


def _weight_files(fetch: Callable[[str], Path]) -> list[Path]:
    """One file, or those that an index names."""
    try:
        return [fetch(WEIGHTS)]
    except FileNotFoundError as missing:
        try:
            index = json.loads(fetch(INDEX).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise missing from None  # it is the file of weights that is missed, not its index
        if not isinstance(index, dict) or not isinstance(index.get("weight_map"), dict):
            raise ValueError(f"{INDEX} has no weight_map") from None
        return [fetch(file) for file in sorted(set(index["weight_map"].values()))]
