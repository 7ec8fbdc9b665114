"""What this machine can run, and what the course skips on it.

`capabilities` looks; `skips` and `table` only word what it found, so they can describe any machine on any other.
"""

from __future__ import annotations

import platform
import warnings
from importlib import import_module, metadata
from typing import Any

Found = dict[str, Any]

# The first compute capability of NVIDIA GPUs that calculate in this format: 8.0 is an A100, 8.9 an L4, 9.0 an H100.
BF16_FROM = (8, 0)
FP8_FROM = (8, 9)


def capabilities() -> Found:
    """Look at this machine. Never raises, and takes no time to speak of where torch is missing.

    python, numpy, torch, triton: versions, or None where missing. gpu: its name, or None.
    compute_capability: a pair such as (9, 0), or None. bf16, fp8_native: whether the GPU calculates in the format.
    fp8_storage: whether torch can hold FP8 numbers.
    torch_error, gpu_error: why a torch or a GPU that is there cannot be used, or None.
    """
    found: Found = {"python": platform.python_version(), "numpy": _version("numpy")}
    with warnings.catch_warnings():  # an old driver makes torch warn; the table says it in its own words
        warnings.simplefilter("ignore")
        found |= _look_at_torch()
    native = found["compute_capability"] if found["gpu_error"] is None else None
    found["bf16"] = native is not None and native >= BF16_FROM
    found["fp8_native"] = native is not None and native >= FP8_FROM
    return found | {"triton": _version("triton")}


def skips(found: Found) -> dict[str, str]:
    """What the course leaves out on such a machine, and why. The keys are rows of the table."""
    no_torch = found["torch_error"] or (None if found["torch"] else "torch is not installed")
    no_gpu = no_torch or found["gpu_error"] or (None if found["gpu"] else "no GPU")
    skipped = {}
    if no_torch:
        skipped["torch"] = f"lessons 04 to 12 need PyTorch: {no_torch}"
    if no_gpu:
        skipped["GPU"] = f"lesson 07's GPU laboratory is skipped: {no_gpu}"
    if found["gpu_error"]:
        no_gpu = "no GPU that torch can use"  # the row above says why
    if not found["fp8_storage"]:
        skipped["FP8 storage"] = f"lesson 07's FP8 cache is skipped: {no_torch or 'this torch has no float8_e4m3fn'}"
    if not found["fp8_native"]:
        why = no_gpu or _too_old(found, FP8_FROM)
        skipped["native FP8"] = f"FP8 arithmetic is skipped: {why}"
    if not found["bf16"]:
        why = no_gpu or _too_old(found, BF16_FROM)
        skipped["native bf16"] = f"bfloat16 timings are skipped: {why}"
    if not found["triton"]:
        skipped["Triton"] = "Triton kernels are skipped: triton is not installed"
    return skipped


def table(found: Found) -> str:
    """An aligned table of what there is, and what is skipped for want of it. found: as `capabilities` gives it.

    >>> found = dict.fromkeys(("torch", "torch_error", "gpu", "gpu_error", "compute_capability", "triton"))
    >>> found |= dict.fromkeys(("fp8_storage", "fp8_native", "bf16"), False) | {"python": "3.11.9", "numpy": "2.3.0"}
    >>> print(table(found))
    Python       3.11.9
    NumPy        2.3.0
    torch        not installed         lessons 04 to 12 need PyTorch: torch is not installed
    ...
    """
    gpu = found["gpu"] or ("none" if found["torch"] else "only torch could tell")
    if found["compute_capability"]:
        gpu += f", compute capability {_dotted(found['compute_capability'])}"
    rows = {
        "Python": found["python"],
        "NumPy": found["numpy"] or "not installed",
        "torch": found["torch"] or ("does not import" if found["torch_error"] else "not installed"),
        "GPU": gpu,
        "FP8 storage": "yes" if found["fp8_storage"] else "no",
        "native FP8": "yes" if found["fp8_native"] else "no",
        "native bf16": "yes" if found["bf16"] else "no",
        "Triton": found["triton"] or "not installed",
    }
    skipped = skips(found)
    names, values = max(map(len, rows)), max(map(len, rows.values()))
    lines = [f"{name:{names}}  {value:{values}}  {skipped.get(name, '')}".rstrip() for name, value in rows.items()]
    return "\n".join([*lines, "", "Nothing that is graded needs a GPU."])


def report() -> None:
    """Print what this machine can run, and what the course skips on it and why."""
    print(table(capabilities()))


def _look_at_torch() -> Found:
    """Everything that only torch can tell."""
    found: Found = dict.fromkeys(("torch", "torch_error", "gpu", "gpu_error", "compute_capability"))
    found["fp8_storage"] = False
    try:
        torch = import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            found["torch_error"] = _first_line(error)
        return found
    except Exception as error:  # a build that does not fit the machine raises whatever it likes
        return found | {"torch_error": _first_line(error)}
    found["torch"] = str(torch.__version__)
    found["fp8_storage"] = hasattr(torch, "float8_e4m3fn")
    try:
        if torch.cuda.is_available():
            found["gpu"] = torch.cuda.get_device_name(0)
            if torch.version.hip:  # an AMD GPU: its capability numbers mean something else
                return found | {"gpu_error": "it is not an NVIDIA GPU"}
            found["compute_capability"] = tuple(torch.cuda.get_device_capability(0))
            torch.ones(1, device="cuda").add(1).item()  # a GPU too old for this torch is listed, and fails only here
    except Exception as error:
        found["gpu_error"] = f"torch cannot use it ({_first_line(error)})"
    return found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except Exception:  # not installed, or installed in pieces
        return None


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:70]


def _too_old(found: Found, needed: tuple[int, int]) -> str:
    return f"needs compute capability {_dotted(needed)}, this GPU has {_dotted(found['compute_capability'])}"


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
