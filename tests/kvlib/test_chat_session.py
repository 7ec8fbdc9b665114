"""A conversation in turns: answers as if everything were computed anew, and nothing computed twice."""

from __future__ import annotations

import random

import pytest

from kvlib.chat_session import ChatSession


class Model:
    """Its logits are the tokens that it holds."""

    def __init__(self, room: int = 100) -> None:
        self.room, self.held, self.pushed = room, (), []

    def extend(self, tokens) -> tuple:
        assert tokens, "rows that are held give no logits"
        if len(self.held) + len(tokens) > self.room:
            raise ValueError("the model is full")
        self.held += tuple(tokens)
        self.pushed.append(len(tokens))
        return self.held

    def truncate(self, length: int) -> None:
        assert 0 <= length <= len(self.held)
        self.held = self.held[:length]

    def length(self) -> int:
        return len(self.held)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def session(model) -> ChatSession:
    return ChatSession(model)


def test_a_growing_conversation(session, model):
    for n in (3, 4, 5, 9):
        assert session.logits(range(n)) == tuple(range(n))
    assert model.pushed == [3, 1, 1, 4]


@pytest.mark.parametrize(
    ("tokens", "new"),
    [
        ([5, 6, 0, 7, 8, 9], 1),
        ([5, 6, 0, 7, 8], 1),  # the same again: the last token
        ([5, 6, 0], 1),  # a beginning of it
        ([5], 1),
        ([5, 6, 1, 7, 8], 3),  # one token in the middle, and the same ones behind it
        ([5, 6, 0, 7, 9, 9], 2),
        ([6, 5, 0, 7, 8], 5),
        ([9], 1),
    ],
    ids=str,
)
def test_what_follows_another_conversation(session, model, tokens, new):
    session.logits([5, 6, 0, 7, 8])
    for _ in range(2):  # the second time it is held
        assert session.logits(tokens) == tuple(tokens)
    assert model.pushed == [5, new, 1]


def test_many_turns_against_a_plain_list(session, model):
    draw, held, tokens = random.Random(20), [], []
    for _ in range(500):
        tokens = tokens[: draw.randint(0, len(tokens))] if draw.random() < 0.4 else tokens
        tokens = [*tokens, *draw.choices([0, 1, 300], k=draw.randint(not tokens, 4))]
        tokens = tokens[:90]
        alike = next((i for i, (a, b) in enumerate(zip(held, tokens, strict=False)) if a != b), None)
        alike = min(len(held), len(tokens)) if alike is None else alike
        calls = len(model.pushed)
        assert session.logits([int(str(token)) for token in tokens]) == tuple(tokens)  # equal numbers, other objects
        assert model.pushed[calls:] == [max(len(tokens) - alike, 1)]
        held = list(tokens)


def test_no_token_is_refused_and_nothing_changes(session, model):
    for held in ((), (1, 2)):
        with pytest.raises(ValueError, match="at least one token, got none"):
            session.logits([])
        assert model.held == held
        session.logits([1, 2])
    assert model.pushed == [2, 1]


@pytest.mark.parametrize("after", [[1, 2, 7, 7], [1, 2, 3, 4]], ids=["of the refused one", "of the one before"])
def test_a_full_model_refuses_and_the_session_goes_on(after):
    model = Model(room=5)
    session = ChatSession(model)
    session.logits([1, 2, 3, 4])
    with pytest.raises(ValueError, match="full"):
        session.logits([1, 2, 7, 7, 7, 7])
    assert model.held == (1, 2)
    assert session.logits(after) == tuple(after)
    assert model.pushed == [4, 2]


def test_sessions_share_nothing():
    one, other = ChatSession(Model()), ChatSession(Model())
    one.logits([1, 2, 3])
    assert other.logits([1, 2]) == (1, 2) and one.logits([1, 2, 4]) == (1, 2, 4)
    assert one.model.pushed == [3, 1] and other.model.pushed == [2]


def test_the_callers_list_may_grow(session, model):
    """As a loop does that appends each new token to the list that it hands over."""
    talk = [1, 2]
    for token in (3, 4, 5):
        assert session.logits(talk) == tuple(talk)
        talk.append(token)
    assert model.pushed == [2, 1, 1] and talk == [1, 2, 3, 4, 5]
