"""The trusted model of exercise 4.6 does what the lesson's torch cache does, chunk by chunk."""

from __future__ import annotations

import inspect
from itertools import product

import numpy as np
import pytest

from autograde.exercises.find_the_bug.candidates import MISTAKES, VARIANTS
from autograde.exercises.find_the_bug.model import Run, append_all
from kvlib.find_the_bug import breaking_chunks

torch = pytest.importorskip("torch")
B, HKV, D = 2, 3, 5  # as many sequences, heads or features as rows would hide a spread along another axis


def in_torch(max_len: int, chunks: list[int]) -> Run:
    """The same run with the lesson's cache: every row holds its token's number, in every sequence, head and feature."""
    from kvlib.minimal_cache import MinimalCache

    cache, appended = MinimalCache(B, HKV, max_len, D), 0
    for number, size in enumerate(chunks, start=1):
        try:
            tokens = torch.arange(appended + 1, appended + size + 1, dtype=torch.float32)
            k = tokens[:, None].expand(B, HKV, size, D)  # (B, Hkv, T, D)
            K, V = cache.append(k, -k)
        except RuntimeError as error:
            return Run(appended, 0, cache.used, number, str(error))
        appended += size
        assert K.equal(-V)
        assert K.shape == (B, HKV, min(cache.used, max_len), D)
    kept = set(cache.K[:, :, : cache.used].flatten().int().tolist())
    return Run(appended, sum(token not in kept for token in range(1, appended + 1)), cache.used)


def assert_same(max_len: int, chunks: list[int]) -> None:
    ours, theirs = append_all(max_len, chunks), in_torch(max_len, chunks)
    assert bool(ours.raised) == bool(theirs.raised), (max_len, chunks, theirs.raised)
    assert (ours.appended, ours.lost, ours.used, ours.chunk) == (
        theirs.appended,
        theirs.lost,
        theirs.used,
        theirs.chunk,
    ), (max_len, chunks)


@pytest.mark.parametrize("max_len", [1, 2, 3, 4])
def test_the_model_is_the_torch_cache_for_every_short_list(max_len: int) -> None:
    for length in range(4):
        for chunks in product(range(max_len + 3), repeat=length):
            assert_same(max_len, list(chunks))


def test_the_model_is_the_torch_cache_for_longer_lists() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        max_len = int(rng.integers(5, 13))
        assert_same(max_len, [int(size) for size in rng.choice([0, 1, 1, 1, 2, 3, max_len], rng.integers(1, 12))])


@pytest.mark.parametrize("chunks", [[-1], [3, -1], [8, -1, 1], [9, -1], [8, 1, -1]])
def test_a_size_that_no_tensor_has_raises_in_both(chunks: list[int]) -> None:
    assert_same(8, chunks)
    assert append_all(8, chunks).raised


@pytest.mark.parametrize("chunks", [[10**15], [8, 10**15]])
def test_a_chunk_far_too_large_is_refused_without_being_made(chunks: list[int]) -> None:
    assert append_all(8, chunks).raised


@pytest.mark.parametrize("max_len", [1, 2, 7, 8, 64])
def test_what_counts_as_found_loses_a_token_in_torch(max_len: int) -> None:
    right = [("reference", breaking_chunks), *((variant.name, variant.candidate) for variant in VARIANTS)]
    for name, find in right:
        run = in_torch(max_len, [int(size) for size in find(max_len)])
        assert not run.raised, name
        assert run.lost > 0, name


def test_what_does_not_count_keeps_every_token_or_raises_in_torch() -> None:
    seen = 0
    for mistake in MISTAKES:
        chunks = mistake.candidate(8)
        sizes = isinstance(chunks, list) and len(chunks) < 100 and all(type(size) is int for size in chunks)
        if sizes and mistake.killed_by == "room for eight":
            run = in_torch(8, chunks)
            assert run.raised or not run.lost, mistake.name
            seen += 1
    assert seen >= 15


def test_the_cache_has_no_check_of_its_capacity() -> None:
    """Whoever mends it takes the exercise away."""
    from kvlib.minimal_cache import MinimalCache

    assert "raise" not in inspect.getsource(MinimalCache)
