"""Building the lessons: text, notebook, executed notebook, release.

Everything is made in a staging folder, and only a lesson that went all the way replaces what was there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from autograde.authoring import stamps
from autograde.authoring.course import Course, LessonError
from autograde.lessons import Lesson


def build(
    course: Course | None = None,
    only: Sequence[str] = (),
    *,
    force: bool = False,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Build what is out of date, or with `force` everything; returns the slugs of the lessons that were built.

    `only` names lessons by number or slug. Raises `LessonError`, naming the cell, when a lesson cannot be built; the
    notebooks that were there are then untouched.
    """
    course = course or Course()
    lessons = [lesson for lesson in course.lessons if not only or lesson.slug in only or _number(lesson) in only]
    unknown = set(only) - {name for lesson in lessons for name in (lesson.slug, _number(lesson))}
    if unknown:
        raise LessonError("", "", f"there is no lesson {sorted(unknown)[0]}")
    stale = [lesson for lesson in lessons if force or not stamps.is_fresh(course, lesson)]
    for lesson in stale:
        say(f"{lesson.slug}: building")
        build_lesson(course, lesson)
    if not stale:
        say(f"Nothing to build: {len(lessons)} lessons are up to date.")
    return [lesson.slug for lesson in stale]


def build_lesson(course: Course, lesson: Lesson) -> None:
    """Build one lesson, whether or not it is up to date."""
    # Imported here, because they take seconds and a build with nothing to do needs none of them.
    from autograde.authoring.execute import execute
    from autograde.authoring.header import SET_UP
    from autograde.authoring.notebook import compose, to_text
    from autograde.authoring.release import release, stage

    notebook = compose(course, lesson)
    made_from = stamps.ingredients(course, lesson)  # before it runs: an edit meanwhile leaves the stamp out of date
    _refuse_to_overwrite_work(course, lesson)
    with tempfile.TemporaryDirectory(dir=stamps.cache(course)) as staging:
        solution = stage(course, lesson, notebook, Path(staging))
        # The release is made before the notebook is executed, so that no output can reach it.
        released = release(lesson, Path(staging))
        files = sorted(file.name for file in released.iterdir())
        ran = execute(notebook, lesson, solution, course.root)
        for cell in ran.cells:
            if cell.id == SET_UP:
                cell.outputs = []  # it tells of the machine that built
        (solution / f"{lesson.slug}.ipynb").write_text(to_text(ran), encoding="utf-8")
        made = [_move(solution / f"{lesson.slug}.ipynb", course.solution(lesson))]
        made += [_move(released / name, course.release(lesson).parent / name) for name in files]
    stamps.record(course, lesson, made_from, made)


def _refuse_to_overwrite_work(course: Course, lesson: Lesson) -> None:
    from autograde.authoring.notebook import read_notebook
    from autograde.authoring.release import holds_work

    path = course.release(lesson)
    cell = holds_work(read_notebook(course, lesson, path)) if path.is_file() else ""
    if cell:
        text = f"{course.relative(path)} has been worked in: save it elsewhere and delete it, then build again"
        raise LessonError(lesson.slug, f"cell {cell}", text)


def _move(file: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(file, target)
    return target


def _number(lesson: Lesson) -> str:
    return lesson.slug.split("-")[0]
