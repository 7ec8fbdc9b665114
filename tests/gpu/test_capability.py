"""What is chosen for machines that are not here."""

from __future__ import annotations

import pytest

from kvlib import machine as looks
from kvlib.gpu import capability
from kvlib.gpu.capability import Machine, choose, detect

GPUS = {
    "V100": ((7, 0), "float16", "bits", "triton"),
    "T4": ((7, 5), "float16", "bits", "triton"),
    "A100": ((8, 0), "bfloat16", "bits", "triton"),
    "A10": ((8, 6), "bfloat16", "bits", "triton"),
    "L4": ((8, 9), "bfloat16", "native", "triton"),
    "H100": ((9, 0), "bfloat16", "native", "triton"),
    "B200": ((10, 0), "bfloat16", "native", "triton"),
    "P100": ((6, 0), "float16", "bits", "torch"),
}


@pytest.mark.parametrize("name", GPUS)
def test_each_gpu(name):
    pair, dtype, fp8, attention = GPUS[name]
    choice = choose(Machine(name, pair, 5 << 30))
    assert (choice.device, choice.dtype, choice.fp8, choice.attention) == ("cuda", dtype, fp8, attention)
    assert choice.why[0] == f"{name}, compute capability {pair[0]}.{pair[1]}, 5.0 GiB free"
    steps_down = " ".join(choice.why[1:])
    assert ("float16 in place of bfloat16" in steps_down) == (dtype == "float16")
    assert ("bit by bit" in steps_down) == (fp8 == "bits")
    assert ("Triton kernel" in steps_down) == (attention == "torch")
    assert ("matrix units" in steps_down) == (attention == "triton" and pair < (8, 0))


def test_the_best_gpu_needs_no_excuse():
    assert len(choose(Machine("H100", (9, 0), 1)).why) == 1


@pytest.mark.parametrize(
    ("lacking", "says"),
    [
        ({"has_triton": False}, "triton is not installed"),
        ({"has_compiler": False}, "C compiler"),
    ],
)
def test_what_is_missing_beside_the_gpu(lacking, says):
    choice = choose(Machine("H100", (9, 0), 1, **lacking))
    assert (choice.device, choice.attention, choice.fp8) == ("cuda", "torch", "native")
    assert says in choice.why[1]


def test_no_gpu():
    choice = choose(Machine(no_gpu="torch is not installed"))
    assert (choice.device, choice.fp8, choice.attention) == ("cpu", "bits", "torch")
    assert choice.why[0].startswith("torch is not installed: attention runs on the CPU")


def test_a_torch_without_fp8():
    for pair in (None, (9, 0)):
        choice = choose(Machine("some", pair, 1, has_fp8_storage=False))
        assert choice.fp8 == "none"
        assert any("float8_e4m3fn" in reason for reason in choice.why)


FOUND = {"torch": "2.13.0", "torch_error": None, "gpu": None, "gpu_error": None, "compute_capability": None}
FOUND |= {"fp8_storage": True, "triton": None}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({}, "no GPU"),
        ({"torch": None}, "torch is not installed"),
        ({"torch_error": "OSError: no libcudart"}, "OSError: no libcudart"),
        (
            {"gpu": "Tesla V100", "compute_capability": (7, 0), "gpu_error": "torch cannot use it (RuntimeError: no)"},
            "the GPU (Tesla V100) cannot be used: torch cannot use it (RuntimeError: no)",
        ),
        ({"gpu": "MI300", "gpu_error": "it is not an NVIDIA GPU"}, "the GPU (MI300) cannot be used: it is not"),
    ],
)
def test_a_gpu_that_cannot_be_used_is_none(found, says, monkeypatch):
    monkeypatch.setattr(capability, "capabilities", lambda: FOUND | found)
    machine = detect()
    assert machine.capability is None and not machine.has_triton
    assert machine.no_gpu.startswith(says)


def test_detect_and_the_machine_report_agree():
    found, machine = looks.capabilities(), detect()
    assert machine.has_triton == (found["triton"] is not None)
    assert (machine.capability is None) == (found["compute_capability"] is None or found["gpu_error"] is not None)
    assert (capability.BF16_FROM, capability.NATIVE_FP8_FROM) == (looks.BF16_FROM, looks.FP8_FROM)


def test_a_compiler_without_pythons_headers_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "/bin/true")
    monkeypatch.setattr(capability.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert not capability._has_compiler()
    (tmp_path / "Python.h").touch()
    assert capability._has_compiler()
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not capability._has_compiler()
