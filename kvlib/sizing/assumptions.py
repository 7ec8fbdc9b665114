"""What a plan takes for granted, in words."""

from __future__ import annotations

from kvlib.sizing.formats import Format
from kvlib.sizing.gpus import Gpu
from kvlib.sizing.parts import Architecture


def assumptions(
    model: Architecture, gpu: Gpu, weights: Format, kv: Format, *, tp: int, context: int, utilisation: float
) -> tuple[str, ...]:
    """One sentence each.

    tp: GPUs that share the model. context: tokens of each sequence. utilisation: the usable part of the memory, 0 to 1.

    >>> from kvlib.sizing.architecture import architecture
    >>> from kvlib.sizing.formats import find_format
    >>> from kvlib.sizing.gpus import find_gpu
    >>> from kvlib.sizing.models import load_config
    >>> model, bf16 = architecture(load_config("llama-3-8b")), find_format("bf16")
    >>> assumptions(model, find_gpu("T4"), bf16, bf16, tp=1, context=4096, utilisation=0.9)[-1]
    'A T4 does not calculate in bf16: use fp16, which takes as many bytes.'
    """
    kinds = {layer["kind"] for layer in model.layers}
    said = [
        f"Sizes and speeds of the {gpu.name}: {gpu.source}.",
        f"{utilisation:.0%} of the memory may be used; the rest, and the reserve, is for the runtime and activations.",
        "Every sequence holds the full context. Blocks are not shared between sequences.",
        "Times are lower bounds: bytes over bandwidth or FLOP over the dense peak, whichever takes longer.",
    ]
    if model.tables:
        said.append("A step reads all weights but the tables that tokens are looked up in: a row of those is nothing.")
    if model.max_positions is not None and context > model.max_positions:
        said.append(f"The context is longer than the {model.max_positions:,} positions that the config allows.")
    if weights.bits < 16:
        said.append(f"Weights: {weights}. Embeddings and the output head stay in 16 bit.")
    if kv.group_size is not None:
        said.append(f"Cache: {kv}, along the row of each head.")
    elif kv.name == "fp8":
        said.append("Cache: fp8 with one scale for a whole tensor.")
    if tp > 1:
        said.append("Weights and KV heads are shared out evenly; KV heads fewer than GPUs are held more than once.")
        said.append("Communication between GPUs takes no time here; it does in life.")
    if model.routed:
        said.append("A step reads the experts that some token visits, with tokens spread over them as by lot.")
    if "latent" in kinds:
        said.append("The latent is cached as it is, and the decode step works on it directly.")
        if tp > 1:
            said.append("A latent has no heads to share out: every GPU holds all of it.")
    if "window" in kinds:
        said.append("A layer with a window frees what leaves it.")
    if "state" in kinds:
        said.append("Recurrent states are held in 16 bit, one for each sequence, whatever its length.")
    if not gpu.bf16 and "bf16" in (weights.name, kv.name):
        said.append(f"A {gpu.name} does not calculate in bf16: use fp16, which takes as many bytes.")
    return tuple(said)
