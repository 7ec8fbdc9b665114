"""A home and a progress folder of their own for all tests here, a way to run a check, and a tiny exercise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograde import check
from autograde.exercise import Exercise, Mistake, Stage, Variant, stage
from autograde.exercises import load
from autograde.expect import equals


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home: no test may write to the real one."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
    for name in ("AUTOGRADE_PROGRESS", "NBGRADER_EXECUTION"):
        monkeypatch.delenv(name, raising=False)
    return folder


@dataclass(frozen=True)
class Checked:
    """What one check returned and showed."""

    points: Any
    text: str


@pytest.fixture
def checked(capfd: pytest.CaptureFixture) -> Callable[..., Checked]:
    """`checked("1.1", attend)` runs a check, and holds it against what every check promises."""

    def run(*args: Any) -> Checked:
        capfd.readouterr()
        points = check(*args)
        out, err = capfd.readouterr()
        exercise = load().get(args[0]) if args and isinstance(args[0], str) else None
        assert type(points) is float, "nbgrader gives full marks for what is no plain number"
        assert 0.0 <= points <= (exercise.points if exercise else 0.0)
        assert err == "", "a line on stderr is worth 0 marks to nbgrader"
        assert 1 <= len(out.rstrip("\n").split("\n")) <= 8, out
        assert out.strip() != "None"
        assert all(len(line) <= 120 for line in out.splitlines()), out
        return Checked(points, out)

    return run


@pytest.fixture
def double() -> Exercise:
    """An exercise of two stages, double(3) and double(5), for tests of the machinery itself."""

    def asks(name: str, value: int) -> Stage:
        @stage(name, why=f"{value} and {value} are {2 * value}.")
        def run(subject, rng):
            yield equals(subject, subject.run(value), 2 * value, key="double", fact=f"double({value}) is right")

        return run

    return Exercise(
        id="7.1",
        name="double",
        title="Twice as much",
        goal="Return twice the number.",
        points=4,
        minutes=1,
        difficulty=1,
        hints=("Add.", "Add it to itself.", "`return x + x`"),
        stages=(asks("small", 3), asks("large", 5)),
        reference=lambda x: x + x,
        mistakes=(
            Mistake("triples", lambda x: 3 * x, "This is three times the number.", "small"),
            Mistake("triples-small-ones", lambda x: 3 * x if x < 4 else 2 * x, "Small numbers are tripled.", "small"),
            Mistake("forgets", lambda x: None, "Nothing is returned.", "small"),
            Mistake("right-when-small", lambda x: 2 * x if x < 4 else 0, "Large numbers give 0.", "large"),
        ),
        variants=(Variant("shift", lambda x: x << 1),),
    )
