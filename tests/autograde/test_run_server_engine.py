"""The engine and the desk that exercise 12.3 lends: what they refuse, what they find again, and that they end."""

from __future__ import annotations

import numpy as np
import pytest

from autograde.exercises.run_server.desk import LentDesk
from autograde.exercises.run_server.engine import LentEngine
from autograde.exercises.run_server.world import IN_VAIN, NO_GAIN, Ask, World


def made(asks, pool=(7, 4, 9)):
    """An engine and a desk whose first requests were handed out, and the world behind them."""
    world = World(np.random.default_rng(1), pool, asks)
    desk = LentDesk(world)
    engine = LentEngine(world, desk.look)
    desk.wait()
    return engine, desk, world


def state(engine):
    held = {i: (list(held.table), held.stored) for i, held in engine.held.items()}
    return held, list(engine.free), list(engine.holders), engine.world.clock


def computed(engine, client, tokens):
    """Admits a request, and computes these tokens of it in steps as large as may be."""
    found = engine.admit(client.id, tokens)
    for start in range(found, len(tokens), engine.max_tokens):
        engine.step([[client.id, tokens[start : start + engine.max_tokens]]])
    return found


def test_a_request_alone_makes_its_tokens() -> None:
    engine, _, world = made([Ask(10, 4)])
    client = world.clients[0]
    engine.admit(client.id, client.prompt)
    engine.step([[client.id, client.prompt[:9]]])
    tokens = [engine.step([[client.id, client.prompt[9:]]])[0]]
    for _ in range(3):
        tokens += engine.step([[client.id, tokens[-1:]]])
    assert tokens == client.want
    assert engine.free_blocks() == 7 - 4  # 13 tokens are stored


def test_full_computed_blocks_are_found_and_shared() -> None:
    engine, _, world = made([Ask(10, 2), Ask(12, 2, like=(0, 10)), Ask(8, 2, like=(0, 8))])
    a, b, c = world.clients
    assert computed(engine, a, a.prompt) == 0
    assert engine.free_blocks() == 4
    assert engine.admit(b.id, b.prompt) == 8  # two full blocks, shared
    assert engine.admit(c.id, c.prompt) == 4  # one token has to be left
    assert engine.free_blocks() == 4
    engine.release(a.id)
    assert engine.free_blocks() == 5  # only the last block of a was a's alone
    engine.release(b.id)
    engine.release(c.id)
    assert engine.free_blocks() == 7
    assert engine.admit(b.id, b.prompt) == 8  # nobody held it, and it is still there


def test_what_is_given_out_is_not_found_any_more() -> None:
    engine, _, world = made([Ask(10, 2), Ask(28, 1), Ask(10, 2, like=(0, 10))])
    a, b, c = world.clients
    computed(engine, a, a.prompt)
    engine.release(a.id)
    computed(engine, b, b.prompt)  # takes every block
    engine.release(b.id)
    assert engine.admit(c.id, c.prompt) == 0


def test_two_copies_and_one_of_them_is_given_out() -> None:
    engine, _, world = made([Ask(5, 2), Ask(5, 2, like=(0, 5)), Ask(20, 1), Ask(6, 2, like=(0, 5))], (7, 4, 25))
    a, b, big, c = world.clients
    for client in (a, b):
        engine.admit(client.id, client.prompt)
    engine.step([[client.id, client.prompt] for client in (a, b)])
    engine.release(b.id)
    computed(engine, big, big.prompt)
    assert engine.admit(c.id, c.prompt) == 4  # a's


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda engine, a, b: engine.step([[a, [1] * 10]]), "10 tokens, max_tokens is 9"),
        (lambda engine, a, b: engine.step([[a, [1] * 8], [b, [1]]]), "needs 3 more blocks, 2 of 4 are free"),
        (lambda engine, a, b: engine.step([[a, [1]], [a, [2]]]), "there twice"),
        (lambda engine, a, b: engine.step([[b, []]]), "at least one"),
        (lambda engine, a, b: engine.step([[1234, [1]]]), "nobody has asked as 1234"),
        (lambda engine, a, b: engine.step([a, [1]]), "a list of"),
        (lambda engine, a, b: engine.admit(a, [1, 2]), "admitted already"),
        (lambda engine, a, b: engine.admit(0, [1, 2]), "nobody has asked"),
        (lambda engine, a, b: engine.release(1234), "nobody has asked"),
    ],
)
def test_refusals_change_nothing(call, says) -> None:
    engine, _, world = made([Ask(6, 2), Ask(4, 2), Ask(3, 1)], (4, 4, 9))
    a, b, c = world.clients
    computed(engine, a, a.prompt[:5])
    engine.admit(b.id, b.prompt)
    before = state(engine)
    with pytest.raises(ValueError, match=says):
        call(engine, a.id, b.id)
    assert state(engine) == before
    with pytest.raises(ValueError, match="not admitted"):
        engine.release(c.id)


def test_the_desk_refuses_and_notes() -> None:
    engine, desk, world = made([Ask(3, 1), Ask(3, 2, abort_at=0), Ask(2, 1, at=5)])
    a, b, c = world.clients
    with pytest.raises(ValueError, match="no token is sent after its abort came"):
        desk.send(b.id, 1)
    desk.send(a.id, 1)
    with pytest.raises(ValueError, match="as many tokens"):
        desk.send(a.id, 1)
    desk.close(a.id, "done")
    with pytest.raises(ValueError, match="closed once"):
        desk.close(a.id, "aborted")
    with pytest.raises(ValueError, match="nobody has asked"):
        desk.send(c.id, 1)
    with pytest.raises(ValueError, match="aborted, refused"):
        desk.close(b.id, "gone")
    assert set(world.faults) == {"sent after its abort", "too many sent", "closed twice"}


def test_what_has_no_end_is_ended() -> None:
    _, desk, _ = made([Ask(3, 1)])
    with pytest.raises(RuntimeError, match="no end: .* changed nothing; open: 91; last call: news"):
        for _ in range(IN_VAIN + 2):
            desk.news()
    engine, _, world = made([Ask(3, 1)])
    client = world.clients[0]
    with pytest.raises(RuntimeError, match="computed only what had been computed before"):
        for _ in range(NO_GAIN + 2):
            engine.admit(client.id, client.prompt)
            engine.step([[client.id, client.prompt]])
            engine.release(client.id)
