"""What a machine is said to run and to skip: every machine here is made up."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import pytest

from kvlib import machine
from kvlib.machine import capabilities, report, skips, table


def fake_torch(gpu=None, capability=None, *, fp8=True, hip=None, broken=None):
    """A torch that sees this GPU. broken: what its first kernel raises."""

    def ones(count, device):
        if broken:
            raise broken
        return SimpleNamespace(add=lambda one: SimpleNamespace(item=lambda: 2.0))

    cuda = SimpleNamespace(
        is_available=lambda: gpu is not None,
        get_device_name=lambda index: gpu,
        get_device_capability=lambda index: capability,
    )
    torch = SimpleNamespace(__version__="2.13.0", cuda=cuda, version=SimpleNamespace(hip=hip), ones=ones)
    if fp8:
        torch.float8_e4m3fn = object()
    return torch


@pytest.fixture
def on(monkeypatch):
    """What `capabilities` finds on a machine with this torch (None: not installed) and this Triton."""

    def find(torch, triton=None):
        monkeypatch.setitem(sys.modules, "torch", torch)  # None makes the import fail as a missing package does
        real = machine._version
        monkeypatch.setattr(machine, "_version", lambda name: triton if name == "triton" else real(name))
        return capabilities()

    return find


@pytest.mark.parametrize(
    ("name", "capability", "bf16", "fp8"),
    [
        ("Tesla T4", (7, 5), False, False),
        ("NVIDIA A100-SXM4-80GB", (8, 0), True, False),
        ("NVIDIA L4", (8, 9), True, True),
        ("NVIDIA H100 80GB HBM3", (9, 0), True, True),
        ("NVIDIA B200", (10, 0), True, True),
    ],
)
def test_formats_by_gpu(on, name, capability, bf16, fp8):
    found = on(fake_torch(name, capability))
    assert (found["gpu"], found["compute_capability"]) == (name, capability)
    assert (found["bf16"], found["fp8_native"], found["fp8_storage"]) == (bf16, fp8, True)
    skipped = skips(found)
    assert "GPU" not in skipped and "torch" not in skipped
    assert ("native bf16" in skipped, "native FP8" in skipped) == (not bf16, not fp8)


def test_everything_there_skips_nothing(on):
    found = on(fake_torch("NVIDIA H100 80GB HBM3", (9, 0)), triton="3.7.0")
    assert skips(found) == {}
    assert "skipped" not in table(found)


def test_a_t4_says_which_number_is_too_low(on):
    skipped = skips(on(fake_torch("Tesla T4", (7, 5)), triton="3.7.0"))
    assert skipped == {
        "native FP8": "FP8 arithmetic is skipped: needs compute capability 8.9, this GPU has 7.5",
        "native bf16": "bfloat16 timings are skipped: needs compute capability 8.0, this GPU has 7.5",
    }


def test_no_gpu(on):
    found = on(fake_torch())
    assert (found["gpu"], found["compute_capability"], found["bf16"], found["fp8_native"]) == (None, None, False, False)
    assert skips(found)["GPU"] == "lesson 07's GPU laboratory is skipped: no GPU"
    assert "FP8 storage" not in skips(found)  # FP8 numbers can be stored and converted on a CPU


def test_no_torch(on):
    found = on(None)
    assert (found["torch"], found["torch_error"], found["gpu"], found["fp8_storage"]) == (None, None, None, False)
    assert set(skips(found)) == {"torch", "GPU", "FP8 storage", "native FP8", "native bf16", "Triton"}
    assert skips(found)["GPU"] == "lesson 07's GPU laboratory is skipped: torch is not installed"
    assert "only torch could tell" in table(found)


def test_an_old_torch_without_fp8(on):
    assert skips(on(fake_torch(fp8=False)))["FP8 storage"].endswith("this torch has no float8_e4m3fn")


@pytest.mark.parametrize(
    "error",
    [
        OSError("libcudart.so.13: no such file"),
        RuntimeError("no"),
        ImportError("no"),
        ModuleNotFoundError("No module named 'sympy'", name="sympy"),
    ],
)
def test_a_torch_that_does_not_import(on, monkeypatch, error):
    def fail(name):
        raise error

    monkeypatch.setattr(machine, "import_module", fail)
    found = on(None)
    assert found["torch"] is None
    assert found["torch_error"] == f"{type(error).__name__}: {error}"
    assert "does not import" in table(found)
    assert skips(found)["torch"].endswith(found["torch_error"])


def test_a_gpu_that_this_torch_has_no_kernels_for(on):
    """It is listed, has a name and a capability, and fails at its first kernel."""
    broken = RuntimeError("CUDA error: no kernel image\nand three more lines")
    found = on(fake_torch("Tesla P100", (6, 0), broken=broken))
    assert found["gpu"] == "Tesla P100"
    assert skips(found)["GPU"].endswith("torch cannot use it (RuntimeError: CUDA error: no kernel image)")
    assert skips(found)["native FP8"] == "FP8 arithmetic is skipped: no GPU that torch can use"
    assert "three more lines" not in table(found)

    newer = on(fake_torch("a GPU newer than this torch", (12, 0), broken=broken))
    assert (newer["bf16"], newer["fp8_native"]) == (False, False)


def test_an_amd_gpu_is_not_judged_by_nvidias_numbers(on):
    found = on(fake_torch("AMD Instinct MI250X", (9, 0), hip="6.4"))
    assert (found["bf16"], found["fp8_native"], found["compute_capability"]) == (False, False, None)
    assert skips(found)["GPU"] == "lesson 07's GPU laboratory is skipped: it is not an NVIDIA GPU"


def test_the_driver_may_raise(on):
    def fail():
        raise RuntimeError("driver")

    torch = fake_torch()
    torch.cuda.is_available = fail
    assert on(torch)["gpu_error"] == "torch cannot use it (RuntimeError: driver)"


@pytest.mark.filterwarnings("error")
def test_the_driver_may_warn(on):
    torch = fake_torch()
    torch.cuda.is_available = lambda: bool(warnings.warn("driver too old", stacklevel=1))
    found = on(torch)
    assert (found["gpu"], found["gpu_error"]) == (None, None)


def test_the_columns_are_aligned(on):
    lines = table(on(fake_torch("Tesla T4", (7, 5)))).splitlines()[:8]
    names = ["Python", "NumPy", "torch", "GPU", "FP8 storage", "native FP8", "native bf16", "Triton"]
    assert [line[:11].rstrip() for line in lines] == names
    assert {line[11:13] for line in lines} == {"  "}
    starts = [line.index(text) for line, text in zip(lines[5:], ("FP8 arith", "bfloat16", "Triton ker"), strict=True)]
    assert len(set(starts)) == 1


def test_this_very_machine(capsys):
    report()
    out, err = capsys.readouterr()
    assert out.startswith("Python") and out.count("\n") == 10
    assert err == ""
