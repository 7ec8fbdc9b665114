"""Editing a lesson as a notebook leaves its text as it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.source import FORMAT, read_text
from autograde.lessons import Lesson


def pairing(course: Course) -> list[Problem]:
    """Texts that jupytext would rewrite on the first save from JupyterLab."""
    return each_lesson(course, _of_lesson)


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    import jupytext

    text = read_text(course, lesson)
    notebook = jupytext.reads(text, fmt=FORMAT)
    notebook.metadata["jupytext"] = {"notebook_metadata_filter": "-all"}  # as jupytext.toml says: no header
    written = jupytext.writes(notebook, fmt=FORMAT)
    pairs = zip_longest(text.split("\n"), written.split("\n"))
    for number, (ours, theirs) in enumerate(pairs, start=1):
        if ours != theirs:
            yield Problem(lesson.slug, f"line {number}", f"is {ours!r}, and {theirs!r} once saved from JupyterLab")
            return
