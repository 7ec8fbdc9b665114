"""The server over an engine without a model: what its clients get, and what is left. Plain Python."""

from __future__ import annotations

import random

import pytest

from kvlib.server import run_server


def after(tokens):
    return hash(tuple(tokens)) % 10007


def alone(prompt, new):
    tokens = list(prompt)
    for _ in range(new):
        tokens.append(after(tokens))
    return tokens[len(prompt) :]


class Counting:
    """A pool of blocks; the next token follows from all tokens before it. The whole blocks of `cached` are found."""

    def __init__(self, num_blocks, block_size, max_tokens, cached=()):
        self.num_blocks, self.block_size, self.max_tokens = num_blocks, block_size, max_tokens
        self.cached, self.held, self.log = list(cached), {}, []

    def blocks(self, count):
        return -(-count // self.block_size)

    def free_blocks(self):
        return self.num_blocks - sum(self.blocks(len(tokens)) for tokens in self.held.values())

    def admit(self, i, tokens):
        assert i not in self.held
        found = 0
        while (
            found + self.block_size < len(tokens)
            and tokens[: found + self.block_size] == self.cached[: found + self.block_size]
        ):
            found += self.block_size
        self.held[i] = list(tokens[:found])
        self.log.append(("admit", i, found))
        return found

    def step(self, work):
        assert work and len({i for i, _ in work}) == len(work) and all(tokens for _, tokens in work)
        assert sum(len(tokens) for _, tokens in work) <= self.max_tokens
        need = sum(self.blocks(len(self.held[i]) + len(tokens)) - self.blocks(len(self.held[i])) for i, tokens in work)
        if need > self.free_blocks():
            self.log.append(("refused", len(work)))
            raise ValueError("no blocks")
        for i, tokens in work:
            self.held[i] += tokens
        self.log.append(("step", [(i, len(tokens)) for i, tokens in work]))
        return [after(self.held[i]) for i, _ in work]

    def release(self, i):
        del self.held[i]
        self.log.append(("release", i))

    def count(self, what):
        return sum(entry[0] == what for entry in self.log)


class Script:
    """A desk that hands out lists of events one after the other, one at each call of news, or of wait."""

    def __init__(self, *batches):
        self.batches, self.sent, self.closed, self.waits = list(batches), {}, {}, 0

    def wait(self):
        assert not set(self.sent) - set(self.closed), "somebody is open"
        self.waits += 1
        return self.batches.pop(0) if self.batches else []

    def news(self):
        events = self.batches.pop(0) if self.batches else []
        return events

    def send(self, i, token):
        assert i not in self.closed
        self.sent.setdefault(i, []).append(token)

    def close(self, i, reason):
        assert i not in self.closed
        self.closed[i] = reason


def ask(i, prompt, new):
    return {"kind": "ask", "id": i, "prompt": prompt, "new": new}


def abort(i):
    return {"kind": "abort", "id": i}


def asks(sizes, seed=1):
    draw = random.Random(seed)
    return [ask(7 * k + 3, [draw.randrange(100) for _ in range(p)], n) for k, (p, n) in enumerate(sizes)]


def served(engine, desk, events):
    """Serves, and checks what holds for every pool: tokens as alone, or a refusal; nothing is left."""
    assert run_server(engine, desk) is None
    for event in events:
        i, p, n = event["id"], len(event["prompt"]), event["new"]
        if p + n - 1 > engine.num_blocks * engine.block_size:
            assert (desk.sent.get(i), desk.closed[i]) == (None, "refused")
        elif desk.closed[i] == "aborted":
            assert desk.sent.get(i, []) == alone(event["prompt"], n)[: len(desk.sent.get(i, []))]
        else:
            assert (desk.sent[i], desk.closed[i]) == (alone(event["prompt"], n), "done")
    assert not engine.held


def test_one_request_step_by_step() -> None:
    engine, event = Counting(7, 4, 5), ask(3, list(range(12)), 3)
    served(engine, Script([event]), [event])
    assert engine.log == [
        ("admit", 3, 0),
        ("step", [(3, 5)]),
        ("step", [(3, 5)]),
        ("step", [(3, 2)]),  # the first new token
        ("step", [(3, 1)]),
        ("step", [(3, 1)]),  # the last new token is never stored
        ("release", 3),
    ]


def test_prompts_get_what_decoding_leaves() -> None:
    events = asks([(2, 9), (11, 2), (4, 3)])
    engine = Counting(29, 4, 5)
    served(engine, Script(events[:1], events[1:]), events)
    steps = [entry[1] for entry in engine.log if entry[0] == "step"]
    assert steps[:4] == [[(3, 2)], [(3, 1), (10, 4)], [(3, 1), (10, 4)], [(3, 1), (10, 3), (17, 1)]]
    assert len(steps) == 9  # nobody has waited for anybody
    assert engine.count("refused") == 0


def test_what_is_found_is_not_computed() -> None:
    prompt = list(range(50, 63))
    engine, event = Counting(9, 4, 99, cached=prompt), ask(0, prompt, 2)
    served(engine, Script([event]), [event])
    assert engine.log[:2] == [("admit", 0, 12), ("step", [(0, 1)])]


def test_the_newest_gives_way_and_goes_on_where_it_was() -> None:
    events = asks([(4, 9), (5, 10)])
    engine = Counting(5, 4, 11)
    served(engine, Script(events), events)
    assert engine.count("refused") >= 1
    first = [entry for entry in engine.log if entry[0] == "release"][0]
    assert first == ("release", 10)  # the oldest is never thrown out
    assert engine.count("admit") == 3


def test_who_gave_way_comes_before_those_that_wait() -> None:
    events = asks([(4, 9), (5, 10), (13, 2)])
    engine = Counting(5, 4, 11)
    served(engine, Script(events), events)
    assert [entry[1] for entry in engine.log if entry[0] == "admit"] == [3, 10, 10, 17]


def test_more_than_one_may_have_to_give_way() -> None:
    events = asks([(4, 6), (4, 7), (4, 5), (4, 8)])
    engine = Counting(5, 4, 17)
    desk = Script(events)
    served(engine, desk, events)


@pytest.mark.parametrize("seed", range(40))
def test_any_pool_and_any_requests(seed) -> None:
    draw = random.Random(seed)
    num_blocks, block_size = draw.randrange(2, 9), draw.randrange(1, 6)
    sizes = [(draw.randrange(1, 20), draw.randrange(1, 14)) for _ in range(draw.randrange(1, 12))]
    events, batches = asks(sizes, seed), []
    for event in events:
        if not batches or draw.random() < 0.6:
            batches.append([])
        batches[-1].append(event)
        if draw.random() < 0.3:
            batches += [[] for _ in range(draw.randrange(3))]
            batches.append([abort(event["id"])])
    if [] in batches[:1]:
        batches.pop(0)
    batches = [batch for batch in batches if batch]  # an empty list at wait would be the end
    served(Counting(num_blocks, block_size, draw.randrange(1, 12)), Script(*batches), events)


def test_aborts_wherever_a_request_is() -> None:
    events = asks([(3, 9), (14, 3), (6, 4), (2, 2)])
    i, prefilling, waiting, short = (event["id"] for event in events)
    batches = [events[:2] + events[3:], [], [abort(prefilling), events[2], abort(waiting)], [abort(i)], [abort(short)]]
    engine, desk = Counting(9, 4, 5), Script(*batches)
    served(engine, desk, events)
    assert desk.closed == {i: "aborted", prefilling: "aborted", waiting: "aborted", short: "done"}


def test_it_waits_when_nothing_is_open_and_only_then() -> None:
    events = asks([(3, 2), (5, 1), (2, 4)])
    desk = Script(*([event] for event in events[:1]))
    served(Counting(9, 4, 11), desk, events[:1])
    assert desk.waits == 2  # for the first, and for the end
    desk = Script()
    run_server(Counting(9, 4, 11), desk)
    assert desk.waits == 1


def test_what_does_not_fit_alone_is_raised() -> None:
    """Somebody else holds blocks: nothing that the server can do about it."""
    engine = Counting(4, 4, 11)
    engine.held["somebody"] = list(range(12))
    with pytest.raises(ValueError, match="no blocks"):
        run_server(engine, Script([ask(1, [5] * 9, 3)]))


def test_prompts_that_are_passed_in_stay_as_they_are() -> None:
    event = ask(4, [1, 2, 3], 5)
    served(Counting(5, 4, 2), Script([event]), [event])
    assert event == ask(4, [1, 2, 3], 5)
