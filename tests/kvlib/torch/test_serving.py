"""Requests served together, from pools large and small: each gets the tokens and logits that it gets alone."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")

from kvlib.serve import serve  # noqa: E402
from kvlib.serving import Engine, alone  # noqa: E402

SIZES = [(5, 9), (3, 1), (8, 11), (2, 14), (5, 6), (1, 12)]  # p and n: at most 18 tokens each, five blocks of 4


class Keeping(Engine):
    """Keeps the logits that each token was chosen by, in order."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.logits = {}

    def choose(self, ids, logits):
        for i, row in zip(ids, logits, strict=True):
            self.logits.setdefault(i, []).append(row)
        return super().choose(ids, logits)


def requests_of(sizes, vocab_size=13):
    draw = random.Random(3)
    return [{"prompt": [draw.randrange(vocab_size) for _ in range(p)], "new": n} for p, n in sizes]


def same_as_alone(model, engine, requests, results):
    """Tokens, and the logits behind each of them, against full recomputation without any cache."""
    for i, (request, tokens) in enumerate(zip(requests, results, strict=True)):
        assert tokens == alone(model, request)
        whole = torch.tensor([[*request["prompt"], *tokens[:-1]]])
        want = model.logits(whole)[0, len(request["prompt"]) - 1 :]  # (n, vocab)
        torch.testing.assert_close(torch.stack(engine.logits[i]), want, rtol=0, atol=1e-11)


@pytest.mark.parametrize("num_blocks", [40, 17, 11, 8, 6, 5])
def test_each_request_gets_what_it_gets_alone(make_model, num_blocks):
    """From a pool for all of them to one that the largest fills."""
    model, requests = make_model(), requests_of(SIZES)
    engine = Keeping(model, num_blocks, 4)
    same_as_alone(model, engine, requests, serve(engine, requests))
    assert engine.free_blocks() == num_blocks
    assert engine.running == []
    assert engine.most_blocks <= num_blocks
    least = sum(p + n - 1 for p, n in SIZES)
    if num_blocks == 40:
        assert (engine.preemptions, engine.computed, engine.steps) == (0, least, 13)
    elif num_blocks <= 8:
        assert engine.preemptions > 0
        assert engine.computed > least


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(4, 4), (6, 1)])
def test_other_blocks_and_heads(make_model, block_size, num_heads, num_kv_heads):
    model, requests = make_model(2, num_heads, num_kv_heads), requests_of(SIZES)
    engine = Keeping(model, -(-23 // block_size), block_size)  # the largest takes 18
    same_as_alone(model, engine, requests, serve(engine, requests))
    assert engine.free_blocks() == engine.num_blocks


def test_what_lies_in_free_blocks_does_not_matter(make_model):
    """The pool is full of NaN at first, and a block that comes back is filled with it again."""

    class Poisons(Keeping):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.cache.pools.fill_(float("nan"))

        def stop(self, i):
            blocks = self.cache.tables.table(i)
            super().stop(i)
            self.cache.pools[:, :, blocks] = float("nan")

    model, requests = make_model(), requests_of(SIZES)
    engine = Poisons(model, 7, 4)
    same_as_alone(model, engine, requests, serve(engine, requests))
    assert engine.preemptions > 0


def test_a_request_that_can_never_fit_disturbs_nobody(make_model):
    model, requests = make_model(), requests_of([(4, 3), (9, 5), (5, 4)])  # 6, 13 and 8 tokens: 12 fit
    engine = Engine(model, 3, 4)
    first, never, last = serve(engine, requests)
    assert never is None
    assert [first, last] == [alone(model, requests[0]), alone(model, requests[2])]
    requests[1]["new"] = 4  # 12 tokens
    assert serve(Engine(model, 3, 4), requests)[1] == alone(model, requests[1])


def test_a_step_of_some_leaves_the_others_as_they_are(make_model):
    """Requests may be stepped in any groups and in any order."""
    model, requests = make_model(), requests_of([(5, 6), (2, 6), (7, 6)])
    engine = Engine(model, 12, 4)
    made = {i: [engine.start(i, request["prompt"])] for i, request in enumerate(requests)}
    for ids in ([2, 0], [1], [0, 1, 2], [2, 1], [0], [1, 0, 2], [2, 1, 0]):
        for i, token in zip(ids, engine.step(ids), strict=True):
            made[i].append(token)
    for i, request in enumerate(requests):
        assert made[i] == alone(model, {**request, "new": len(made[i])})


def test_refusals_change_nothing(make_model):
    model, (first, second) = make_model(), requests_of([(4, 9), (3, 9)])
    engine = Keeping(model, 3, 4)
    with pytest.raises(ValueError, match="tokens must be"):
        engine.start(0, [])
    with pytest.raises(ValueError, match="tokens must be 0 to 12, got 13"):
        engine.start(0, [13])
    with pytest.raises(ValueError, match="4 blocks, 3 of 3 are free"):
        engine.start(0, [1] * 13)
    assert (engine.free_blocks(), engine.computed, engine.preemptions) == (3, 0, 0)
    made = [[engine.start(0, first["prompt"])], [engine.start(1, second["prompt"])]]
    for refused, words in (
        (lambda: engine.start(1, [1]), "request 1 is running already"),
        (lambda: engine.step([0, 2]), "request 2 is not running"),
        (lambda: engine.step([0, 0]), "different sequences"),
        (lambda: engine.stop(2), "request 2 is not running"),
    ):
        with pytest.raises(ValueError, match=words):
            refused()
    assert engine.step([]) == []
    for i, token in enumerate(engine.step([0, 1])):  # the first takes the last block
        made[i].append(token)
    with pytest.raises(ValueError, match="1 blocks, 0 of 3 are free"):
        engine.step([0, 1])  # the second's only block is full now
    assert (engine.running, engine.steps, engine.computed) == ([0, 1], 1, 9)
    made[0] += engine.step([0])  # and nothing was stored by the refused step
    engine.stop(0)
    made[1] += engine.step([1])
    assert made == [alone(model, {**first, "new": 3}), alone(model, {**second, "new": 3})]


def test_the_pool_is_of_the_weights_dtype(make_model):
    from kvlib.transformer import Transformer

    wide = make_model()
    model = Transformer(wide.config, {name: weight.float() for name, weight in wide.weights.items()})
    engine = Engine(model, 9, 4)
    assert engine.cache.pools.dtype == torch.float32
    assert engine.cache.nbytes == 2 * 3 * 9 * 4 * 2 * 8 * 4
    requests = requests_of(SIZES)
    assert serve(engine, requests) == [alone(model, request) for request in requests]
