"""The kernel's sizes: powers of two that hold the model, and a number of parts that fits the context."""

from __future__ import annotations

from itertools import product

import pytest

from kvlib.gpu.plan import MAX_SPLITS, choose_splits, plan


@pytest.mark.parametrize("compute", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("matrix_units", [False, True])
def test_powers_of_two_that_hold_the_model(compute, matrix_units):
    for (H, Hkv), D in product([(32, 8), (9, 3), (20, 1), (4, 4), (71, 1)], [1, 16, 64, 80, 128, 129, 256, 576]):
        built = plan(H, Hkv, D, compute, matrix_units)
        for size in (built.group, built.dim, built.tile):
            assert size > 0 and size & (size - 1) == 0
        assert H // Hkv <= built.group and built.dim >= D
        least = 16 if matrix_units and compute != "float32" else 1
        assert built.group >= least and built.dim >= 16 and built.tile >= 16


def test_the_usual_model():
    built = plan(32, 8, 128, "bfloat16", matrix_units=True)
    assert (built.group, built.dim, built.tile) == (16, 128, 64)
    assert plan(32, 8, 128, "float32", matrix_units=True).group == 4  # no padding where it would only be work


def test_parts():
    assert choose_splits(65536, 8, 132, 64) == 33  # one sequence: twice as many programs as processors
    assert choose_splits(65536, 128, 132, 64) == 3
    assert choose_splits(65536, 1000, 132, 64) == 1  # enough work without
    assert choose_splits(256, 8, 132, 64) == 1  # too short to be cut
    assert choose_splits(1024, 8, 132, 64) == 4
    assert choose_splits(1 << 20, 1, 132, 64) == MAX_SPLITS
    assert choose_splits(16, 0, 1, 64) == 1
