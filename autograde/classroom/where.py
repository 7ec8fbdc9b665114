"""Which course a command works on."""

from __future__ import annotations

from pathlib import Path

from autograde.classroom.course import CourseError

CHECKOUT = Path(__file__).resolve().parents[2]


def course_root(given: Path | None, classroom: Path | None = None) -> Path:
    """The course's folder: `given`, else the one that the class lies in, else the current folder, else this checkout.

    A class is graded with the settings and lessons beside it, from wherever the command is typed. Raises `CourseError`,
    which names what is wanted, where there is none.
    """
    if given is not None:
        if not given.is_dir():
            raise CourseError(f"--course: there is no folder {given}")
        if not _is_course(given):
            raise CourseError(f"--course: wanted a folder with solutions/ and lessons/, got {given}")
        return given.resolve()
    here = Path.cwd()
    for folder in (*([classroom.resolve().parent] if classroom else []), here):
        if _is_course(folder):
            return folder
    # Beside an installed package lie other people's, and one may be called lessons: the settings tell them apart.
    if _is_course(CHECKOUT) and (CHECKOUT / "nbgrader_config.py").is_file():
        return CHECKOUT
    raise CourseError(
        f"no course: wanted a folder with solutions/ and lessons/, and {here} has none. "
        "`autograde quickstart FOLDER` makes one; go into it, or name it with --course"
    )


def _is_course(folder: Path) -> bool:
    return (folder / "solutions").is_dir() and (folder / "lessons").is_dir()
