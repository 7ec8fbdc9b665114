"""The pages of the site that are made, not written: lessons, reference and matrix. docs/conf.py calls `write_pages`."""

from __future__ import annotations

import shutil
from pathlib import Path

from autograde.authoring.course import Course


def write_pages(folder: Path, course: Course | None = None) -> None:
    """Write every made page into a folder, which is emptied first: `lessons/`, `reference/` and `matrix/` in it."""
    from autograde.authoring.site.lessons import write_lessons
    from autograde.authoring.site.matrix import write_matrix
    from autograde.authoring.site.reference import write_reference

    course = course or Course()
    shutil.rmtree(folder, ignore_errors=True)
    write_lessons(course, folder / "lessons")
    write_matrix(course, folder / "matrix")
    write_reference(course, folder / "reference")
