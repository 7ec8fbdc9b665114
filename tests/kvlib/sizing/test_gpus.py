"""The table of GPUs."""

from __future__ import annotations

import pytest

from kvlib.sizing.gpus import GPUS, find_gpu


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_rows_hold_what_a_gpu_can_have(gpu):
    assert find_gpu(gpu.name) is gpu
    assert gpu.memory % 10**9 == 0  # as the vendor prints it
    assert 16e9 <= gpu.memory <= 300e9 and 0.3e12 <= gpu.bandwidth <= 8e12 and 65e12 <= gpu.flops <= 2.5e15
    assert gpu.fp8_flops is None or 1.9 <= gpu.fp8_flops / gpu.flops <= 2.1
    assert "NVIDIA" in gpu.source


def test_a_size_in_a_name_is_the_size():
    for gpu in GPUS:
        if "GB" in gpu.name:
            assert gpu.name.endswith(f"-{gpu.memory // 10**9}GB")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("h100", "H100"),
        ("H100 SXM", "H100"),
        ("h100-pcie", "H100-PCIe"),
        ("nvidia t4", "T4"),
        ("a100_80gb", "A100-80GB"),
        ("A100 40GB", "A100-40GB"),
        (" l40s ", "L40S"),
    ],
)
def test_lookup_forgives_spelling(name, found):
    assert find_gpu(name).name == found


@pytest.mark.parametrize("name", ["A100", "H1000", "", "L4000", None, 100])
def test_lookup_does_not_guess(name):
    with pytest.raises(ValueError, match="no GPU .* in the table: there are T4, L4, L40S, A100-40GB"):
        find_gpu(name)


def test_only_the_oldest_lacks_bf16():
    assert [gpu.name for gpu in GPUS if not gpu.bf16] == ["T4"]
