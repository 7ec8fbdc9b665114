"""A cache held against full recomputation: a right one passes, and no broken one slips through."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from kvlib.compare_runs import CachedTransformer, compare_runs  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402


class Scripted:
    """Full logits are rows of a table by the last token; `told` changes those of the cached arm, step by step."""

    table = torch.tensor([[0.0, 3.0, 1.0], [0.5, 0.0, 2.0], [4.0, 1.0, 0.0]], dtype=torch.float64)

    def __init__(self, **told) -> None:
        self.told = {int(step[1:]): change for step, change in told.items()}
        self.asked: list = []

    def start(self) -> None:
        self.asked.append("start")

    def full(self, tokens) -> torch.Tensor:
        self.asked.append(("full", list(tokens)))
        return self.table[list(tokens)]

    def cached(self, tokens) -> torch.Tensor:
        self.asked.append(("cached", list(tokens)))
        rows = self.table[list(tokens)].clone()
        step = sum(what[0] == "cached" for what in self.asked) - 1
        for place, by in self.told.get(step, {}).items():
            rows[-1, place] += by
        return rows


def test_both_arms_get_the_same_tokens():
    model = Scripted(s1={0: 5.0})  # the cached arm prefers another token there
    assert compare_runs(model, (2, 0), 3) == {"same": 2, "first": 1, "largest": 5.0}
    assert model.asked[0] == "start"
    assert [what[1] for what in model.asked if what[0] == "cached"] == [[2, 0], [1], [2]]
    assert [what[1] for what in model.asked if what[0] == "full"] == [[2, 0], [2, 0, 1], [2, 0, 1, 2]]


@pytest.mark.parametrize(
    ("told", "same", "first", "largest"),
    [
        ({}, 4, None, 0.0),
        ({"s0": {2: 0.25}, "s3": {2: -0.75}}, 4, None, 0.75),
        ({"s0": {2: 2.5}}, 3, 0, 2.5),
        ({"s3": {0: 9.0}}, 3, 3, 9.0),
        ({"s1": {1: 3.0}, "s2": {0: -3.5}}, 2, 1, 3.5),
        ({"s2": {1: -math.inf}}, 4, None, math.inf),
        ({"s2": {1: math.nan}}, 3, 2, math.inf),
        ({"s2": {0: math.nan}}, 3, 2, math.inf),  # the best one itself
        ({"s0": {0: math.nan}, "s3": {2: 0.5}}, 3, 0, math.inf),
    ],
    ids=str,
)
def test_what_is_reported(told, same, first, largest):
    """The text is 0, then 1, 2, 0, 1: with these rows each token has one that follows."""
    assert compare_runs(Scripted(**told), [0], 4) == {"same": same, "first": first, "largest": largest}


@pytest.mark.parametrize(("length", "steps"), [(5, 7), (1, 3), (4, 1)])
def test_a_right_cache_differs_by_rounding(make_model, make_tokens, length, steps):
    model = make_model()
    runs = CachedTransformer.with_room(model, length + steps - 1)  # the last token made is not pushed
    prompt = make_tokens(1, length)[0].tolist()
    for _ in range(2):  # the second time the cache is full
        found = compare_runs(runs, prompt, steps)
        assert (found["same"], found["first"]) == (steps, None)
        assert 0 <= found["largest"] < 1e-12
    assert len(runs.cache) == length + steps - 1


class Broken(GQACache):
    """One row is another one than was appended, from a length on."""

    at, wrong = 7, 0.0

    def append(self, layer, k, v):
        K, V = super().append(layer, k, v)
        if layer == 1 and K.shape[2] > self.at:
            V = V.clone()
            V[:, :, 2] = self.wrong
        return K, V


@pytest.mark.parametrize("at", [5, 7, 10])
def test_a_broken_cache_is_found(make_model, make_tokens, at):
    """Up to the step at which it breaks there is rounding only; from then on there is a difference."""
    model, prompt = make_model(), make_tokens(1, 5)[0].tolist()
    cache = Broken(3, 1, 2, 12, 8, torch.float64)
    cache.at = at
    runs = CachedTransformer(model, cache)
    before = at - 5 + 1  # steps whose pass holds at most `at` tokens
    assert compare_runs(runs, prompt, before)["largest"] < 1e-12
    found = compare_runs(runs, prompt, before + 1)
    assert 1e-3 < found["largest"] < 100
    assert found["first"] in (None, before) and found["same"] >= before


def test_a_nan_in_the_cache_is_infinite(make_model, make_tokens):
    cache = Broken(3, 1, 2, 12, 8, torch.float64)
    cache.wrong = math.nan
    found = compare_runs(CachedTransformer(make_model(), cache), make_tokens(1, 5)[0].tolist(), 6)
    assert found["largest"] == math.inf


def test_no_room_comes_through(make_model):
    with pytest.raises(ValueError, match="holds 5 of 5 tokens"):
        compare_runs(CachedTransformer.with_room(make_model(), 5), [1, 2, 3, 4], 3)


def test_both_arms_alone(make_model, make_tokens):
    """Shapes, and that tokens follow what is held."""
    model, tokens = make_model(), make_tokens(1, 6)
    runs = CachedTransformer.with_room(model, 6)
    full = runs.full(tokens[0].tolist())
    torch.testing.assert_close(full, model.logits(tokens)[0])
    assert full.shape == (6, 13)
    got = torch.cat([runs.cached(tokens[0, :4].tolist()), runs.cached(tokens[0, 4:].tolist())])
    torch.testing.assert_close(got, full, atol=1e-12, rtol=0)
    runs.start()
    assert len(runs.cache) == 0
