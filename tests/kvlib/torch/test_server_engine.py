"""The server's engine under all kinds of schedules: each request gets what it gets alone, and no block is lost."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")

from kvlib.request_stream import uniform  # noqa: E402
from kvlib.server_engine import ServerEngine, alone  # noqa: E402
from kvlib.stream import Stream  # noqa: E402

PROMPTS = [(3, 1, 4, 1, 5, 9, 2), (3, 1, 4, 1, 5, 9, 2, 6, 5), (3, 1, 4, 8), (7,), (3, 1, 4, 1, 5, 9, 2, 6, 11, 12, 0)]
NEW = [9, 6, 12, 11, 4]


def greedy(_i):
    return None


def sampled(i):
    return Stream(uniform, 40 + i, 0.8, 5)


def by_recomputation(model, prompt, new, sampler):
    """The new tokens without any cache, and the logits that each was chosen by."""
    made, logits = [], []
    for _ in range(new):
        logits.append(model.logits(torch.tensor([[*prompt, *made]]))[0, -1])
        made.append(int(logits[-1].argmax()) if sampler is None else sampler.draw(logits[-1].tolist()))
    return made, torch.stack(logits)


class Watched(ServerEngine):
    """Keeps the logits of each step, and fills blocks that nobody holds, and cannot be found, with NaN before it."""

    def _forward(self, x, work):
        tables = self.cache.tables
        held = {block for seq in tables.sequences for block in tables.table(seq)}
        self.cache.pools[:, :, [block for block in range(self.num_blocks) if block not in held]] = float("nan")
        logits = super()._forward(x, work)
        self.logits = dict(zip((i for i, _ in work), logits, strict=True))
        return logits


def drive(engine, rng):
    """Admit, step and preempt as it comes, until all have their tokens; the tokens, and the logits behind each."""
    known = {i: list(prompt) for i, prompt in enumerate(PROMPTS)}
    logits = {i: [] for i in known}
    stored: dict[int, int] = {}
    refused = 0
    while known.keys() - stored.keys() or stored:
        waiting = [i for i in known if i not in stored and len(logits[i]) < NEW[i]]
        if waiting and rng.random() < 0.5:
            i = rng.choice(waiting)
            stored[i] = engine.admit(i, known[i])
            assert stored[i] % engine.block_size == 0 and stored[i] < len(known[i])
        if stored and rng.random() < 0.1:
            i = rng.choice(list(stored))
            engine.release(i)
            del stored[i]
        work, left = [], engine.max_tokens
        for i in rng.sample(list(stored), rng.randint(0, len(stored))):
            if count := min(left, rng.randint(1, len(known[i]) - stored[i])):
                work.append((i, known[i][stored[i] : stored[i] + count]))
                left -= count
        before = state(engine)
        try:
            made = engine.step(work)
        except ValueError:
            assert state(engine) == before
            refused += 1
            i = rng.choice(list(stored))
            engine.release(i)
            del stored[i]
            continue
        for (i, tokens), token in zip(work, made, strict=True):
            stored[i] += len(tokens)
            if stored[i] == len(known[i]):
                known[i].append(token)
                logits[i].append(engine.logits[i])
                if len(logits[i]) == NEW[i]:
                    engine.release(i)
                    del stored[i]
        if all(len(logits[i]) == NEW[i] for i in known):
            break
    assert not stored
    return {i: tokens[len(PROMPTS[i]) :] for i, tokens in known.items()}, logits, refused


def state(engine):
    """All that a refused call must leave as it is."""
    tables = engine.cache.tables
    return (
        {i: (row.seq, tuple(row.tokens)) for i, row in engine._held.items()},
        [(seq, tuple(row.tokens)) for seq, row in engine._kept.items()],
        {seq: (tables.table(seq), tables.length(seq)) for seq in tables.sequences},
        engine.free_blocks(),
        (engine.computed, engine.reused, engine.steps, engine.preemptions, engine.most_blocks),
        {i: (asked.prompt, tuple(asked.drawn)) for i, asked in engine._asked.items()},
    )


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("makers", [greedy, sampled])
@pytest.mark.parametrize(("num_blocks", "block_size", "max_tokens"), [(40, 4, 13), (6, 4, 7), (7, 3, 5)])
def test_any_schedule_gives_what_each_gets_alone(make_model, makers, reuse, num_blocks, block_size, max_tokens):
    """From a pool for all to one that the largest fills, nearly; preempted at any moment, prompts in any pieces."""
    model, refusals = make_model(2), 0
    want = [by_recomputation(model, p, n, makers(i)) for i, (p, n) in enumerate(zip(PROMPTS, NEW, strict=True))]
    for seed in range(2):
        sampler = None if makers is greedy else sampled
        engine = Watched(model, num_blocks, block_size, max_tokens, sampler, reuse)
        tokens, logits, refused = drive(engine, random.Random(seed))
        for i, (made, whole) in enumerate(want):
            assert tokens[i] == made
            torch.testing.assert_close(torch.stack(logits[i]), whole, rtol=0, atol=1e-11)
        assert engine.free_blocks() == num_blocks
        assert engine.most_blocks <= num_blocks
        assert (engine.reused > 0) == reuse
        refusals += refused
    assert (refusals > 0) == (num_blocks < 40)


def test_alone_is_full_recomputation(make_model):
    model = make_model()
    assert alone(model, PROMPTS[0], 9) == by_recomputation(model, PROMPTS[0], 9, None)[0]
    assert alone(model, PROMPTS[0], 9, sampled(2)) == by_recomputation(model, PROMPTS[0], 9, sampled(2))[0]


def test_what_is_found_is_whole_computed_blocks_of_the_same_beginning(make_model):
    engine = ServerEngine(make_model(1), 20, 4, 50)
    prompt = list(range(11))
    assert engine.admit("a", prompt) == 0
    assert engine.admit("b", prompt) == 0  # nothing is computed yet
    engine.step([("a", prompt[:9])])
    assert engine.admit("c", prompt) == 8  # of one that runs; the block of token 8 is not full
    assert engine.admit("d", prompt[:8]) == 4  # one token is left to compute
    assert engine.admit("e", [*prompt[:5], 12, *prompt[6:]]) == 4
    assert engine.admit("f", [12, *prompt[1:]]) == 0
    assert engine.blocks_in_use == 3
    engine.step([("a", prompt[9:])])
    for i in "abcdef":
        engine.release(i)
    assert engine.free_blocks() == 20
    assert engine.admit("g", prompt) == 8  # of one that is gone
    assert engine.blocks_in_use == 2
    assert engine.reused == 8 + 4 + 4 + 8


def test_new_tokens_can_be_found_too(make_model):
    """A second turn of a talk begins with the first one's prompt and answer."""
    model = make_model(2)
    engine = ServerEngine(model, 20, 4, 50)
    made = alone(model, [5, 6, 7], 6)
    engine.admit(1, [5, 6, 7])
    engine.step([(1, [5, 6, 7])])
    for token in made[:5]:
        engine.step([(1, [token])])
    engine.release(1)
    talk = [5, 6, 7, *made, 9]
    assert engine.admit(2, talk) == 8
    assert engine.step([(2, talk[8:])]) == alone(model, talk, 1)


def test_what_was_released_first_is_given_out_first_and_its_end_before_its_beginning(make_model):
    prompts = {"old": [1, 2, 3, 4, 5], "young": [9, 8, 7, 6, 5]}
    for again, left in (("young", {"old": 0, "young": 4}), ("old", {"old": 2, "young": 2})):
        engine = ServerEngine(make_model(1), 6, 2, 50)
        for i, prompt in prompts.items():
            engine.admit(i, prompt)
            engine.step([(i, prompt)])
            engine.release(i)
        engine.admit("other", [0] * 6)
        engine.step([("other", [0] * 6)])  # three blocks: two lay empty, the end of old is taken
        engine.admit(again, prompts[again])  # what was found last is given out last
        engine.release(again)
        engine.admit("last", [3])
        engine.step([("last", [3])])  # nothing lies empty
        assert {i: engine.admit(f"{i} again", prompt) for i, prompt in prompts.items()} == left


def test_many_that_share_their_blocks_are_kept_once(make_model):
    engine = ServerEngine(make_model(1), 8, 2, 50)
    for i in range(30):
        engine.admit(i, [1, 2, 3, 4, 5])
        engine.step([(i, [1, 2, 3, 4, 5][0 if i == 0 else 4 :])])
        engine.release(i)
    assert len(engine._kept) == 1
    assert engine.computed == 5 + 29


def test_nothing_is_kept_without_reuse(make_model):
    engine = ServerEngine(make_model(1), 8, 2, 50, reuse=False)
    engine.admit(1, [1, 2, 3])
    engine.step([(1, [1, 2, 3])])
    assert engine.admit(2, [1, 2, 3]) == 0
    engine.release(1)
    assert engine.cache.num_free == 8
    assert engine.admit(1, [1, 2, 3]) == 0
    assert engine.preemptions == 1


def test_a_place_is_drawn_once(make_model):
    """Guesses in the middle of a prompt draw nothing; a token whose request was preempted before it was used stays."""
    asked = []

    class Counts(Stream):
        def draw(self, logits):
            asked.append(self.seed)
            return super().draw(logits)

    model, prompt = make_model(2), [4, 3, 2, 1, 0]
    engine = ServerEngine(model, 20, 4, 3, lambda i: Counts(uniform, 50 + i, 1.0, 0))
    want = alone(model, prompt, 3, Stream(uniform, 51, 1.0, 0))
    engine.admit(1, prompt)
    engine.step([(1, prompt[:3])])
    assert asked == []
    assert engine.step([(1, prompt[3:])]) == want[:1]
    assert engine.step([(1, want[:1])]) == want[1:2]
    engine.release(1)
    assert engine.admit(1, [*prompt, want[0]]) == 4  # as if the second one had been lost
    assert engine.step([(1, [prompt[4], want[0]])]) == want[1:2]
    assert asked == [51, 51]
    assert engine.step([(1, [want[1]])]) == want[2:]


def test_refusals_change_nothing(make_model):
    engine = Watched(make_model(1), 3, 4, 9)
    engine.admit("a", [1, 2, 3, 4, 5])
    engine.step([("a", [1, 2, 3, 4, 5])])
    engine.admit("b", [9, 9])
    before = state(engine)
    for refused, words in (
        (lambda: engine.admit("a", [1]), "'a' is admitted already"),
        (lambda: engine.admit("c", []), "'c' has no tokens"),
        (lambda: engine.release("c"), "'c' is not admitted"),
        (lambda: engine.step([("b", [9]), ("c", [1])]), "'c' is not admitted"),
        (lambda: engine.step([("b", [9]), ("b", [9])]), "each request once"),
        (lambda: engine.step([("a", [6]), ("b", [])]), "at least 1 token"),
        (lambda: engine.step([("a", [6]), ("b", [13])]), "tokens must be 0 to 12"),
        (lambda: engine.step([("a", [6]), ("b", [0.5])]), "tokens must be int64"),
        (lambda: engine.step([("a", [6] * 4), ("b", [9] * 6)]), "9 tokens at most, got 10"),
        (lambda: engine.step([("a", [6] * 4), ("b", [9])]), "take 2 blocks more, 1 are free"),
    ):
        with pytest.raises(ValueError, match=words):
            refused()
        assert state(engine) == before
    assert engine.step([]) == []
    assert state(engine) == before
    engine.step([("a", [6] * 3), ("b", [9])])
    for sizes in ((3, 4, 0), (0, 4, 3), (3, 0, 3)):
        with pytest.raises(ValueError, match="at least 1"):
            ServerEngine(make_model(1), *sizes)


def test_lists_of_the_caller_are_left_alone(make_model):
    engine = ServerEngine(make_model(1), 9, 4, 9)
    prompt = [1, 2, 3]
    engine.admit(1, prompt)
    work = [[1, prompt]]
    engine.step(work)
    prompt.append(7)
    assert work == [[1, [1, 2, 3, 7]]]
    assert engine.step([[1, [4]]]) == alone(engine.model, [1, 2, 3, 4], 1)


def test_the_pool_is_of_the_weights_dtype(make_model):
    from kvlib.transformer import Transformer

    wide = make_model(1)
    model = Transformer(wide.config, {name: weight.float() for name, weight in wide.weights.items()})
    engine = ServerEngine(model, 9, 4, 9)
    assert engine.cache.pools.dtype == torch.float32
    engine.admit(1, [1, 2, 3])
    assert engine.step([(1, [1, 2, 3])]) == alone(model, [1, 2, 3], 1)
