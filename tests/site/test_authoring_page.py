"""What the page on authoring shows works: its mistake is caught, its exercise holds, its cells make a lesson."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from nbformat import NotebookNode

import autograde.exercises
from autograde.authoring.course import Course
from autograde.authoring.notebook import compose
from autograde.exercise import Exercise
from autograde.exercises import load
from autograde.exercises.toy_cache import candidates
from autograde.judge import judge_here
from autograde.lessons import Lesson
from autograde.matrix import SEEDS
from tests.site.blocks import DOCS, blocks

PAGE = "authoring.md"


def shown(start: str) -> str:
    """The block of Python on the page that begins so; those in a list are indented."""
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    found = [code for _, code in blocks(PAGE) if code.startswith(start)]
    found += [dedent(part.partition("```")[0]) for part in text.split("   ```python\n")[1:]]
    return next(code for code in found if code.startswith(start))


def assert_caught(exercise: Exercise, seed: str) -> None:
    """Every mistake loses marks at its stage and is the only one named; every variant gets full marks."""
    for mistake in exercise.mistakes:
        verdict = judge_here(exercise, mistake.fresh(), seed)
        assert verdict.failure, mistake.name
        assert verdict.failure.stage.name == mistake.killed_by
        assert [found.name for found in verdict.diagnosis.mistakes] == [mistake.name]
    for work in (exercise.reference, *(variant.candidate for variant in exercise.variants)):
        assert judge_here(exercise, work, seed).points == exercise.points


def test_the_mistake_of_the_page() -> None:
    scope = dict(vars(candidates))
    exec(shown("class KeyAsQuery"), scope)
    mistake = eval(shown("Mistake("), scope)
    exercise = load()["1.3"]
    more = replace(exercise, mistakes=(*exercise.mistakes, mistake))
    for seed in SEEDS[:5]:
        verdict = judge_here(more, mistake.fresh(), seed)
        assert verdict.failure.stage.name == mistake.killed_by
        assert [found.name for found in verdict.diagnosis.mistakes] == [mistake.name]


@pytest.fixture
def exercise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Exercise]:
    """The exercise of the page, in a temporary folder that the package of exercises looks into."""
    for name in ("candidates.py", "__init__.py"):
        code = shown(f"# autograde/exercises/row_bytes/{name}\n")
        file = tmp_path / "exercises" / "row_bytes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code, encoding="utf-8")
    monkeypatch.setattr(autograde.exercises, "__path__", [*autograde.exercises.__path__, str(tmp_path / "exercises")])
    from importlib import import_module

    yield import_module("autograde.exercises.row_bytes").EXERCISE
    for name in [name for name in sys.modules if name.startswith("autograde.exercises.row_bytes")]:
        del sys.modules[name]
    vars(autograde.exercises).pop("row_bytes", None)


def test_the_exercise_of_the_page(exercise: Exercise) -> None:
    for seed in SEEDS:
        assert_caught(exercise, seed)


def composed(root: Path, lesson: Lesson, registry: dict[str, Exercise], cells: str) -> list[NotebookNode]:
    """The cells of a lesson whose source is a title and what the page shows."""
    course = Course(root=root, lessons=(lesson,), registry=lambda: registry)
    source = course.source(lesson)
    source.parent.mkdir()
    source.write_text("# %% [markdown]\n# # 01 · A cache\n\n" + cells, encoding="utf-8")
    return compose(course, lesson).cells


def test_the_cells_of_the_page_make_a_lesson(exercise: Exercise, tmp_path: Path) -> None:
    lesson = Lesson("01-toy-cache", "A cache", 2, ("1.4",), (), ())
    page = shown("# solutions/01-toy-cache.py\n").partition("\n")[2]
    text = {cell.id: cell.source for cell in composed(tmp_path, lesson, {"1.4": exercise}, page)}
    assert "BEGIN SOLUTION" in text["exercise-1-4"]
    assert text["check-1-4"] == 'check("1.4")'
    assert any(exercise.title in source for source in text.values())
    assert any(exercise.hints[0] in source for source in text.values())


def test_the_question_of_the_page_is_one_that_a_person_marks(tmp_path: Path) -> None:
    [page] = [text for _, text in blocks(PAGE) if 'written="' in text]
    cells = composed(tmp_path, Lesson("01-toy-cache", "A cache", 0, (), (), ()), {}, page)
    [tag] = [cell.metadata.nbgrader for cell in cells if cell.metadata.get("nbgrader", {}).get("points")]
    assert (tag.grade, tag.solution, tag.points) == (True, True, 2)
