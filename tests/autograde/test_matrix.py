"""The table of mistakes. Its lines are held against fresh verdicts in the mutation tests; here is the rest of it."""

from __future__ import annotations

import pytest

from autograde import matrix
from autograde.cli import main
from autograde.exercises import load
from autograde.judge import PRACTICE, judge_here
from autograde.matrix import FILE, SEEDS, heading, mistake_line, section, variants_heading

EXERCISES = list(load().values())


def rows(lines: list[str]) -> list[tuple[str, str]]:
    """Exercise and name of every row about a piece of work."""
    cells = [line.split(" | ") for line in lines if line.startswith("| ")]
    return [(row[0].strip("| "), row[1]) for row in cells if row[0].strip("| ") in load()]


def test_the_file_has_a_row_for_each_mistake_and_variant() -> None:
    """A mistake that was renamed or taken out left its old row behind, and the table promised too much."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    wanted = [(exercise.id, mistake.name) for exercise in EXERCISES for mistake in exercise.mistakes]
    wanted += [(exercise.id, variant.name) for exercise in EXERCISES for variant in exercise.variants]
    assert rows(lines) == wanted
    skeleton = [
        *heading(EXERCISES),
        *(line for exercise in EXERCISES for line in section(exercise)),
        *variants_heading(),
    ]
    assert [line for line in lines if not rows([line])] == skeleton


def test_the_totals_are_counted(double) -> None:
    """No number in the table is typed in."""
    assert f"| 1 | {len(double.mistakes)} | {len(double.variants)} | {len(SEEDS)} |" in heading([double])
    everything = (
        len(EXERCISES),
        sum(len(exercise.mistakes) for exercise in EXERCISES),
        sum(len(exercise.variants) for exercise in EXERCISES),
        len(SEEDS),
    )
    assert f"| {' | '.join(map(str, everything))} |" in FILE.read_text(encoding="utf-8").splitlines()


def test_the_seeds_hold_the_notebooks_own() -> None:
    """What learners see must be among what was proven."""
    assert SEEDS[0] == PRACTICE
    assert len(set(SEEDS)) == 20


def test_a_row_tells_what_was_seen_not_what_was_hoped(double) -> None:
    """A mistake that slips through, fails elsewhere or is taken for another shows in its row."""
    first, late = double.mistakes[0], double.mistakes[3]
    wrong = [judge_here(double, first.candidate)]
    assert mistake_line(double, first, wrong) == "| 7.1 | triples | small | triples | 1 of 1 |"
    assert mistake_line(double, late, wrong) == "| 7.1 | right-when-small | small | triples | 1 of 1 |"
    right = judge_here(double, double.reference)
    assert mistake_line(double, first, [*wrong, right]) == "| 7.1 | triples | small | triples | 1 of 2 |"


@pytest.fixture
def small(double, monkeypatch, tmp_path):
    """A catalogue of one exercise, and a table of its own."""
    monkeypatch.setattr(matrix, "FILE", tmp_path / "MATRIX.md")
    monkeypatch.setattr("autograde.exercises.load", lambda: {"7.1": double})
    return tmp_path / "MATRIX.md"


def test_the_command_writes_and_checks(small, capsys) -> None:
    """Twice the same text; and a table that is missing or out of date is said to be, with the lines that differ."""
    assert main(["matrix", "--check"]) == 1
    assert main(["matrix"]) == 0
    text = small.read_text(encoding="utf-8")
    assert main(["matrix"]) == 0
    assert small.read_text(encoding="utf-8") == text
    assert main(["matrix", "--check"]) == 0
    capsys.readouterr()
    small.write_text(text.replace("| 20 of 20 |", "| 19 of 20 |", 1), encoding="utf-8")
    assert main(["matrix", "--check"]) == 1
    err = capsys.readouterr().err
    assert "- | 7.1 | triples | small | triples | 19 of 20 |" in err
    assert "+ | 7.1 | triples | small | triples | 20 of 20 |" in err
    assert "19 of 20" in small.read_text(encoding="utf-8"), "checking writes nothing"
