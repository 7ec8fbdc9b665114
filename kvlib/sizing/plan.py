"""A model on GPUs: what it takes, what fits, and how fast a decode step can be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kvlib.sizing.architecture import architecture
from kvlib.sizing.assumptions import assumptions
from kvlib.sizing.formats import find_format
from kvlib.sizing.gpus import Gpu, find_gpu
from kvlib.sizing.layers import layer_bytes
from kvlib.sizing.parts import Config
from kvlib.sizing.roofline import decode_step, roofline
from kvlib.sizing.split import attention_flops, kept, read_weights, share, weights
from kvlib.sizing.whole import whole


@dataclass(frozen=True)
class Plan:
    """The answer. Sizes are bytes; `rank` is one GPU of `tp`; a step makes one token for each sequence of the batch."""

    model: str
    model_type: str
    gpu: str
    gpu_bytes: int
    bandwidth: int
    peak_flops: int
    tp: int
    context: int
    batch: int
    weights_format: str
    kv_format: str
    utilisation: float
    reserve_bytes: int
    block_size: int
    num_layers: int
    parameters: int
    active_parameters: int
    weight_bytes: int
    weight_bytes_per_rank: int
    kv_bytes_per_token: int  # of the whole model, one copy, while no window is full
    kv_bytes_per_token_per_rank: int
    kv_bytes_next_token_per_rank: int  # what the cache grows by at this context
    sequence_bytes_per_rank: int  # at this context, in whole blocks, with states
    budget_per_rank: int  # left for caches; negative when the weights alone are too much
    sequences_that_fit: int
    step_bytes_per_rank: int
    step_flops_per_rank: int
    intensity: float
    ridge: float
    step_seconds: float
    tokens_per_second: float
    tokens_per_second_per_sequence: float
    binds: str  # "memory capacity", "memory bandwidth" or "compute"
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"assumptions": list(self.assumptions)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Plan:
        """The plan that `to_dict` was called on."""
        return cls(**{**values, "assumptions": tuple(values["assumptions"])})


def make_plan(
    config: Config,
    gpu: str | Gpu,
    *,
    name: str = "model",
    tp: int = 1,
    context: int = 4096,
    batch: int = 1,
    weights_dtype: str = "bf16",
    kv_dtype: str = "bf16",
    weights_group: int | None = None,
    kv_group: int | None = None,
    utilisation: float = 0.9,
    reserve_bytes: int = 0,
    block_size: int = 16,
) -> Plan:
    """Size the model of a config.json on `tp` GPUs, for `batch` sequences of `context` tokens each.

    utilisation: the part of each GPU's memory that may be used. reserve_bytes: kept free of that on each GPU.
    block_size: the tokens of a block of cache; a sequence takes whole blocks. The group sizes are those of int8 and
    int4. ValueError names an unknown model type, GPU or format, and a number that makes no sense.

    >>> from kvlib.sizing.models import load_config
    >>> plan = make_plan(load_config("llama-3-8b"), "H100", context=8192)
    >>> plan.kv_bytes_per_token, plan.sequence_bytes_per_rank == 8192 * plan.kv_bytes_per_token
    (131072, True)
    >>> plan.sequences_that_fit, plan.binds
    (52, 'memory bandwidth')
    """
    model, gpu = architecture(config), gpu if isinstance(gpu, Gpu) else find_gpu(gpu)
    w, kv = find_format(weights_dtype, weights_group), find_format(kv_dtype, kv_group)
    for what, number in {"tp": tp, "context": context, "batch": batch, "block_size": block_size}.items():
        whole(what, number, at_least=1)
    whole("reserve_bytes", reserve_bytes)
    if isinstance(utilisation, bool | str | None) or not 0 < utilisation <= 1:
        raise ValueError(f"utilisation is a part of the memory, above 0 and at most 1, got {utilisation!r}")

    here = kept(share(model, tp), kv)  # what one GPU keeps
    token = layer_bytes(here, 1, 1) - layer_bytes(here, 0, 1)
    slots = -(-context // block_size) * block_size
    sequence = layer_bytes(here, slots, 1)
    whole_model = kept(model.layers, kv)

    weight_bytes = weights(model, w)
    per_rank = -(-weight_bytes // tp)
    budget = round(gpu.memory * utilisation) - per_rank - reserve_bytes
    fit = max(0, budget // sequence) if sequence else 0

    read = -(-read_weights(model, w, batch) // tp)
    # A cache need not grow evenly with the tokens: that of a whole sequence is passed, and how many there are of it.
    moved, _, _ = decode_step(read, layer_bytes(here, context, 1), [batch], gpu.bandwidth)
    flops = batch * (2 * model.active_parameters + attention_flops(model, context)) // tp
    peak = gpu.fp8_flops if w.name == "fp8" and gpu.fp8_flops else gpu.flops
    intensity, ridge, seconds, binds = roofline(flops, moved, peak, gpu.bandwidth)
    return Plan(
        model=name,
        model_type=model.model_type,
        gpu=gpu.name,
        gpu_bytes=gpu.memory,
        bandwidth=gpu.bandwidth,
        peak_flops=peak,
        tp=tp,
        context=context,
        batch=batch,
        weights_format=str(w),
        kv_format=str(kv),
        utilisation=utilisation,
        reserve_bytes=reserve_bytes,
        block_size=block_size,
        num_layers=len(model.layers),
        parameters=model.parameters,
        active_parameters=model.active_parameters,
        weight_bytes=weight_bytes,
        weight_bytes_per_rank=per_rank,
        kv_bytes_per_token=layer_bytes(whole_model, 1, 1) - layer_bytes(whole_model, 0, 1),
        kv_bytes_per_token_per_rank=token,
        kv_bytes_next_token_per_rank=layer_bytes(here, context + 1, 1) - layer_bytes(here, context, 1),
        sequence_bytes_per_rank=sequence,
        budget_per_rank=budget,
        sequences_that_fit=fit,
        step_bytes_per_rank=int(moved),
        step_flops_per_rank=flops,
        intensity=intensity,
        ridge=ridge,
        step_seconds=seconds,
        tokens_per_second=batch / seconds,
        tokens_per_second_per_sequence=1 / seconds,
        binds="memory capacity" if batch > fit else {"memory": "memory bandwidth"}.get(binds, binds),
        assumptions=assumptions(model, gpu, w, kv, tp=tp, context=context, utilisation=utilisation),
    )
