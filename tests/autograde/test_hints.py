"""Hints come one at a time, from a nudge to almost the answer."""

from __future__ import annotations

import pytest

from autograde import hint, hints
from autograde.exercises import load


@pytest.fixture(autouse=True)
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new kernel: nothing was given away yet."""
    monkeypatch.setattr(hints, "_given", {})


def said(capsys, *args) -> str:
    hint(*args)
    return capsys.readouterr().out


def test_one_hint_at_a_time(capsys) -> None:
    """The third hint is almost the answer: it must not come first, and it comes again at the end."""
    for number in (1, 2, 3):
        assert said(capsys, "1.3").startswith(f"Hint {number} of 3 for 1.3: {load()['1.3'].hints[number - 1][:20]}")
    once_more = said(capsys, "1.3")
    assert once_more.startswith("That was the last of the 3 hints for 1.3")
    assert f"Hint 3 of 3 for 1.3: {load()['1.3'].hints[2][:20]}" in once_more
    assert said(capsys, "1.1").startswith("Hint 1 of 3 for 1.1")


def test_a_hint_by_its_number(capsys) -> None:
    """Back to the first, and on from there."""
    assert said(capsys, "1.3", 3).startswith("Hint 3 of 3")
    assert said(capsys, "1.3", 1).startswith("Hint 1 of 3")
    assert said(capsys, "1.3").startswith("Hint 2 of 3")


@pytest.mark.parametrize("number", [0, 4, -1, "2", 1.5, float("nan")])
def test_a_hint_that_does_not_exist(capsys, number) -> None:
    """Nothing is given away, and nothing raises."""
    assert said(capsys, "1.3", number) == f"There is no hint {number} of exercise 1.3: there are hints 1 to 3.\n"
    assert said(capsys, "1.3").startswith("Hint 1 of 3")


@pytest.mark.parametrize("exercise", ["9.9", 1.3, None, [], load])
def test_an_unknown_exercise(capsys, exercise) -> None:
    """As `check` says it."""
    text = said(capsys, exercise)
    assert "There are: 0.1, 1.1" in text
    assert "1.3" in text


@pytest.mark.parametrize("exercise", load().values(), ids=lambda exercise: exercise.id)
def test_every_exercise_has_three(capsys, exercise) -> None:
    """Each says something, and no two say the same."""
    texts = [said(capsys, exercise.id) for _ in range(3)]
    assert len({text.split(": ", 1)[1] for text in texts}) == 3
    assert all(20 < len(text) < 600 for text in texts)
