"""From a lesson's notebook to what students open, through nbgrader's own converter."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import capture_log, compute_checksum
from traitlets.config import Config

from autograde.authoring.course import Course, LessonError
from autograde.authoring.notebook import to_text
from autograde.authoring.source import read_source
from autograde.lessons import Lesson


def stage(course: Course, lesson: Lesson, notebook: nbformat.NotebookNode, staging: Path) -> Path:
    """Lay out `staging/solutions/NN-slug/`: the notebook and the files that its text lists. Returns the folder."""
    folder = staging / "solutions" / lesson.slug
    folder.mkdir(parents=True, exist_ok=True)
    for name in read_source(course, lesson).files:
        original = course.solution(lesson).parent / name
        if Path(name).name != name or name.endswith(".ipynb") or not original.is_file():
            raise LessonError(lesson.slug, "", f"files= lists {name!r}: no such file in {lesson.slug}/")
        shutil.copy(original, folder / name)
    (folder / f"{lesson.slug}.ipynb").write_text(to_text(notebook), encoding="utf-8")
    return folder


def release(lesson: Lesson, staging: Path) -> Path:
    """Have nbgrader make `staging/lessons/NN-slug/` from `staging/solutions/NN-slug/`. Returns the folder.

    No gradebook is read or written: one that holds submissions would refuse, after the old release was deleted.
    Raises `LessonError` with nbgrader's own words when it refuses.
    """
    config = Config()
    config.CourseDirectory.root = str(staging.resolve())
    config.CourseDirectory.source_directory = "solutions"
    config.CourseDirectory.release_directory = "lessons"
    config.CourseDirectory.assignment_id = lesson.slug
    config.GenerateAssignment.no_database = True
    config.SaveCells.enabled = False
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    result = capture_log(converter)
    if not result["success"]:
        raise LessonError(lesson.slug, "", f"nbgrader refused:\n{result.get('log', '')}{result.get('error', '')}")
    return staging / "lessons" / lesson.slug


def holds_work(notebook: nbformat.NotebookNode) -> str:
    """The first cell of a released notebook that somebody has worked in, or "" when it is as released."""
    for cell in notebook.cells:
        released = cell.metadata.get("nbgrader", {}).get("checksum")
        if cell.get("outputs") or cell.get("execution_count") or (released and released != compute_checksum(cell)):
            return cell.get("id", "")
    return ""
