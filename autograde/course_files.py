"""Where the course's notebooks lie: in the checkout, or in the installed wheel, which carries a copy."""

from __future__ import annotations

import json
from pathlib import Path

from autograde.lessons import LESSONS, Lesson

PACKAGE = Path(__file__).resolve().parent


class CourseFilesError(Exception):
    """The course's notebooks are not there, or not what they should be; the message is one line."""


def course_files(package: Path = PACKAGE) -> Path:
    """The folder with `lessons/` and `solutions/`: the wheel's copy, else the checkout that `package` lies in.

    Raises `CourseFilesError` where there is neither.
    """
    # The copy first: beside an installed package lie other people's, and one of them may be called lessons.
    for folder in (package / "course", package.parent):
        if all((folder / name).is_dir() for name in ("lessons", "solutions")):
            return folder
    raise CourseFilesError(f"the course's notebooks are neither in {package / 'course'} nor beside {package}")


def lesson_of(exercise_id: str) -> Lesson:
    """The lesson that holds an exercise. Raises `CourseFilesError`, which names the exercises, where none does."""
    for lesson in LESSONS:
        if exercise_id in lesson.exercises:
            return lesson
    raise CourseFilesError(f"there is no exercise {exercise_id!r}; they go from {_ends()}")


def template(exercise_id: str) -> str:
    """What the answer cell of an exercise holds when students get it. Raises `CourseFilesError`."""
    slug = lesson_of(exercise_id).slug
    path = course_files() / "lessons" / slug / f"{slug}.ipynb"
    wanted = f"exercise-{exercise_id.replace('.', '-')}"
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return next("".join(cell["source"]) for cell in cells if cell.get("id") == wanted)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
        raise CourseFilesError(f"{path} cannot be read, or has no cell {wanted}: {error!r}") from error


def _ends() -> str:
    first, last = LESSONS[0].exercises[0], LESSONS[-1].exercises[-1]
    return f"{first} to {last}, such as {LESSONS[1].exercises[1]!r}"
