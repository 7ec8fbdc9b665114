"""The scheduler over an engine without a model: who runs, who waits, and what comes of it. Plain Python."""

from __future__ import annotations

import random

import pytest

from kvlib.serve import serve


class Counting:
    """A pool of blocks; the next token is a number that follows from all tokens before it."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.held = {}  # of each that runs: all its tokens, of which the last is not stored
        self.log = []

    def blocks(self, i):
        return -(-(len(self.held[i]) - 1) // self.block_size)

    def free_blocks(self):
        return self.num_blocks - sum(map(self.blocks, self.held))

    def start(self, i, tokens):
        if i in self.held or -(-len(tokens) // self.block_size) > self.free_blocks():
            raise ValueError("does not fit")
        self.held[i] = [*tokens, after(tokens)]
        self.log.append(("start", i, len(tokens)))
        return self.held[i][-1]

    def step(self, ids):
        assert len(set(ids)) == len(ids) > 0
        if sum((len(self.held[i]) - 1) % self.block_size == 0 for i in ids) > self.free_blocks():
            self.log.append(("refused", len(ids)))
            raise ValueError("does not fit")
        for i in ids:
            self.held[i].append(after(self.held[i]))
        self.log.append(("step", *ids))
        return [self.held[i][-1] for i in ids]

    def stop(self, i):
        del self.held[i]
        self.log.append(("stop", i))

    def count(self, what):
        return sum(entry[0] == what for entry in self.log)


def after(tokens):
    return hash(tuple(tokens)) % 10007


def alone(request):
    tokens = list(request["prompt"])
    for _ in range(request["new"]):
        tokens.append(after(tokens))
    return tokens[len(request["prompt"]) :]


def requests_of(sizes, seed=1):
    draw = random.Random(seed)
    return [{"prompt": [draw.randrange(100) for _ in range(p)], "new": n} for p, n in sizes]


def served(engine, requests):
    """Serves, and checks what holds for every pool."""
    results = serve(engine, requests)
    room = engine.num_blocks * engine.block_size
    fit = [len(request["prompt"]) + request["new"] - 1 <= room for request in requests]
    assert results == [alone(request) if fits else None for request, fits in zip(requests, fit, strict=True)]
    assert engine.held == {}
    return results


@pytest.mark.parametrize("seed", range(40))
def test_every_request_gets_what_it_gets_alone(seed):
    """Pools of any size, requests of any size: those that can never fit, ties and twins among them."""
    draw = random.Random(seed)
    engine = Counting(draw.randint(1, 9), draw.randint(1, 5))
    room = engine.num_blocks * engine.block_size
    sizes = [(draw.randint(1, room + 2), draw.randint(1, room + 2)) for _ in range(draw.randint(0, 4))]
    sizes += [(draw.randint(1, -(-room // 3)), draw.randint(1, -(-2 * room // 3))) for _ in range(draw.randint(1, 7))]
    requests = requests_of(sizes, seed)
    served(engine, requests + requests[:2])


def test_where_all_fit_nothing_is_computed_twice():
    engine = Counting(30, 4)
    served(engine, requests_of([(5, 9), (3, 1), (8, 4), (2, 12)]))
    assert [engine.count(what) for what in ("start", "step", "stop", "refused")] == [4, 11, 4, 0]
    steps = [entry[1:] for entry in engine.log if entry[0] == "step"]
    assert steps == [(0, 2, 3)] * 3 + [(0, 3)] * 5 + [(3,)] * 3


def test_who_waits_is_started_when_blocks_come_back():
    """Four blocks: the first two take three, with one in reserve; the third starts while the first goes on."""
    engine = Counting(4, 4)
    served(engine, requests_of([(5, 4), (3, 2), (4, 2)]))
    assert engine.log.index(("stop", 1)) < engine.log.index(("start", 2, 4)) < engine.log.index(("stop", 0))


def test_the_newest_gives_way_and_goes_on_with_all_that_it_has_made():
    engine = Counting(5, 4)
    served(engine, requests_of([(4, 9), (4, 9)]))
    assert engine.count("refused") == 1
    starts = [entry[1:] for entry in engine.log if entry[0] == "start"]
    assert starts == [(0, 4), (1, 4), (1, 9)]


def test_several_give_way_to_one_step():
    """Three are at the end of a block at once, and the newest holds two blocks only."""
    engine = Counting(8, 4)
    served(engine, requests_of([(4, 9), (4, 9), (4, 9), (2, 9)]))
    first = engine.log.index(("refused", 4))
    assert engine.log[first + 1 : first + 4] == [("stop", 3), ("refused", 3), ("stop", 2)]


def test_the_oldest_is_never_stopped_before_its_end():
    engine = Counting(5, 3)
    served(engine, requests_of([(3, 12), (4, 11), (2, 13), (3, 5)]))
    finished = [entry[1] for entry in engine.log if entry[0] == "stop"]
    assert finished.count(0) == 1
    assert engine.count("stop") > 4


@pytest.mark.parametrize(
    ("p", "n", "fits"), [(7, 6, True), (12, 1, True), (7, 7, False), (13, 1, False), (1, 13, False)]
)
def test_the_last_new_token_needs_no_room(p, n, fits):
    first, asked, last = served(Counting(4, 3), requests_of([(2, 3), (p, n), (5, 4)]))
    assert (asked is not None) is fits
    assert (len(first), len(last)) == (3, 4)


def test_no_requests():
    assert serve(Counting(3, 4), []) == []


@pytest.mark.parametrize(("prompt", "new"), [([], 3), ([1], 0), ([1], -2)])
def test_sizes_that_are_none_are_refused_before_anything_is_started(prompt, new):
    engine = Counting(3, 4)
    with pytest.raises(ValueError, match=f"got {len(prompt)} and {new}"):
        serve(engine, [{"prompt": [1, 2], "new": 2}, {"prompt": prompt, "new": new}])
    assert engine.log == []


def test_what_an_engine_refuses_a_request_that_runs_alone_is_not_asked_for_ever():
    class Broken(Counting):
        def step(self, ids):
            raise ValueError("out of order")

    with pytest.raises(ValueError, match="out of order"):
        serve(Broken(9, 4), requests_of([(3, 4), (2, 5)]))
    engine = Counting(4, 4)
    engine.start("somebody else", [1, 2, 3])
    with pytest.raises(ValueError, match="does not fit"):
        serve(engine, requests_of([(3, 4), (13, 3)]))
