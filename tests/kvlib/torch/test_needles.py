"""Texts with needles: what they are made of, read back with plain loops."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvlib.needles import (  # noqa: E402
    CHAIN,
    FIRST_KEY,
    FRESH,
    KEY,
    KNOWN,
    NUM_KEYS,
    NUM_SYMBOLS,
    OTHER,
    START,
    VOCAB_SIZE,
    sample_questions,
    sample_texts,
    spelled,
)


def is_key(token: int) -> bool:
    return FIRST_KEY <= token < FIRST_KEY + NUM_KEYS


def test_every_slot_is_a_needle_or_two_steps_of_the_chain(rng):
    text = sample_texts(30, 129, rng)
    assert text.tokens.shape == text.kinds.shape == (30, 129) and VOCAB_SIZE == 37
    followers: dict[int, set[int]] = {}
    needles = 0
    for tokens, kinds in zip(text.tokens.tolist(), text.kinds.tolist(), strict=True):
        assert (tokens[0], kinds[0]) == (START, OTHER)
        values: dict[int, int] = {}
        for i in range(1, 129, 2):
            first, second = tokens[i : i + 2]
            if is_key(first):
                needles += 1
                assert kinds[i : i + 2] == [KEY, KNOWN if first in values else FRESH]
                assert values.setdefault(first, second) == second  # a key's value never changes
            else:
                assert kinds[i : i + 2] == [CHAIN, CHAIN]
                if i > 1:
                    followers.setdefault(tokens[i - 1], set()).add(first)
                followers.setdefault(first, set()).add(second)
            assert 1 <= second <= NUM_SYMBOLS
    assert len(followers) == NUM_SYMBOLS
    assert all(len(after) == 3 for after in followers.values())  # the same three in all texts
    assert 0.45 < needles / (30 * 64) < 0.55


def test_values_are_another_texts_own(rng):
    text = sample_texts(200, 65, rng)
    seen: dict[int, set[int]] = {}
    for tokens in text.tokens.tolist():
        for i in range(1, 65, 2):
            if is_key(tokens[i]):
                seen.setdefault(tokens[i], set()).add(tokens[i + 1])
    assert len(seen) == NUM_KEYS and all(len(values) > 15 for values in seen.values())


@pytest.mark.parametrize(("num_tokens", "gap"), [(4, 2), (100, 2), (100, 64), (100, 98)])
def test_a_question_names_its_key_twice_and_the_answer_once(rng, num_tokens, gap):
    tokens, wanted = sample_questions(40, num_tokens, gap, rng)
    assert tokens.shape == (40, num_tokens) and wanted.shape == (40,)
    for row, value in zip(tokens.tolist(), wanted.tolist(), strict=True):
        assert is_key(row[-1])
        assert [i for i, token in enumerate(row) if token == row[-1]] == [num_tokens - 1 - gap, num_tokens - 1]
        assert row[num_tokens - gap] == value
    assert len(set(wanted.tolist())) > 10


def test_fewer_needles_on_demand(rng):
    none = sample_texts(5, 65, rng, share=0.0)
    assert not (none.kinds == KEY).any()
    tokens, _ = sample_questions(5, 64, 20, rng, share=0.0)
    assert ((tokens >= FIRST_KEY).sum(1) == 2).all()


def test_a_text_in_letters():
    assert spelled(torch.tensor([0, 1, 24, 25, 36])) == "^axAL"


def test_the_same_seed_gives_the_same_texts():
    one, two = (sample_texts(2, 33, torch.Generator().manual_seed(4)).tokens for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("num_tokens", [1, 2, 64, -3])
def test_a_text_that_does_not_end_with_a_slot_is_refused(rng, num_tokens):
    with pytest.raises(ValueError, match=f"odd number of 3 or more; got {num_tokens}"):
        sample_texts(1, num_tokens, rng)


@pytest.mark.parametrize(("num_tokens", "gap"), [(65, 20), (64, 21), (64, 0), (64, 64), (64, 63)])
def test_a_question_without_room_is_refused(rng, num_tokens, gap):
    with pytest.raises(ValueError, match=f"got gap {gap}, num_tokens {num_tokens}"):
        sample_questions(1, num_tokens, gap, rng)
