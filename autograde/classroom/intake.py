"""Reads what a student handed in, without trusting any of it.

No link is followed, nothing that is not a plain file is opened, and of the notebook only cell types, sources and ids
are kept.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass
from typing import Any

from autograde.classroom.course import Course
from autograde.reset import KEPT

MAX_BYTES = 5 * 2**20
MAX_CELLS = 500
MAX_SOURCE = 200_000  # characters in one cell
LONGEST_NOTE = 120  # characters
# No glob or path characters, since nbgrader matches folders by pattern; short enough for a file's name in any script;
# neither a name that a file system or nbgrader would shorten, nor that of the index of pages.
STUDENT_NAME = re.compile(r"(?!index\.html\Z)\w(?:[\w .@+-]{0,57}[\w@+-])?")
NO_LINKS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True)
class Reason:
    """Why a submission cannot be graded, for the student to read, and when it was handed in, if that is known."""

    text: str
    timestamp: str = ""


@dataclass(frozen=True)
class StudentCell:
    """What is kept of one cell."""

    kind: str  # "code", "markdown" or "raw"
    source: str
    id: str = ""
    grade_id: str = ""


@dataclass(frozen=True)
class Submission:
    """The cells of a student's notebook in their order, when it was handed in, and what was odd about it."""

    cells: tuple[StudentCell, ...]
    timestamp: str = ""  # as nbgrader wrote it; empty when there is none
    notes: tuple[str, ...] = ()


def read_submission(course: Course, student: str, lesson: str) -> Submission | Reason | None:
    """Read submitted/STUDENT/LESSON/LESSON.ipynb. None when the student has no folder for this lesson."""
    notes: list[str] = []
    try:
        folder = open_folder(str(course.submitted), student, lesson)
    except FileNotFoundError:
        return None
    except OSError:
        return Reason("the submission's folder is a link or not a folder")
    timestamp = ""
    try:
        timestamp = _timestamp(folder, notes)
        name = _notebook_name(folder, lesson)
        if isinstance(name, Reason):
            return Reason(name.text, timestamp)
        if name != f"{lesson}.ipynb":
            notes.append(f"the file was called {one_line(name)}")
        cells = read_cells(read_file(folder, name, MAX_BYTES))
    except ValueError as error:
        return Reason(str(error), timestamp)
    except OSError:
        return Reason("the notebook is a link or could not be opened", timestamp)
    finally:
        os.close(folder)
    return Submission(tuple(cells), timestamp, tuple(notes))


def read_cells(data: bytes) -> list[StudentCell]:
    """The cells of a notebook's bytes. Raises `ValueError`, worded for the student, when it is not one."""
    if not data.strip():
        raise ValueError("the notebook file is empty")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("the file is not a notebook (not JSON in UTF-8: it was saved as UTF-16)")
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ValueError("the file is not a notebook (not JSON)") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("the file is not a notebook (no cells)")
    if notebook.get("nbformat") != 4:
        raise ValueError("the notebook's format is not version 4")
    if len(notebook["cells"]) > MAX_CELLS:
        raise ValueError(f"the notebook has {len(notebook['cells'])} cells, at most {MAX_CELLS} are read")
    return [kept for cell in notebook["cells"] if (kept := keep(cell)) is not None]


def keep(cell: Any) -> StudentCell | None:
    """What is kept of a cell's JSON; None when it is not a cell."""
    if not isinstance(cell, dict):
        return None
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if cell.get("cell_type") not in ("code", "markdown", "raw") or not isinstance(source, str):
        return None
    if len(source) > MAX_SOURCE:
        raise ValueError(f"a cell has {len(source)} characters, at most {MAX_SOURCE} are read")
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    nbgrader = metadata.get("nbgrader")
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    own_id = cell.get("id") or metadata.get("id")  # Colab keeps ids in the metadata
    return StudentCell(cell["cell_type"], _clean(source), _text(own_id), _text(grade_id))


def one_line(text: str, longest: int = LONGEST_NOTE) -> str:
    """One line without control characters, at most `longest` characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in _clean(text)).split())
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _text(value: Any) -> str:
    return _clean(value) if isinstance(value, str) else ""


def _clean(text: str) -> str:
    """Without NULs, and without half characters that cannot be written to a file."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def open_folder(top: str, *names: str) -> int:
    """A descriptor of top/names[0]/names[1]..., none of whose names may be a link."""
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for name in names:
        try:
            inner = os.open(name, NO_LINKS | os.O_DIRECTORY, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _notebook_name(folder: int, lesson: str) -> str | Reason:
    """LESSON.ipynb, or the only other notebook: browsers rename downloads to "LESSON (1).ipynb"."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(".ipynb") and not name.startswith("."))
    names = [name for name in names if not KEPT.search(name)]
    if f"{lesson}.ipynb" in names:
        return f"{lesson}.ipynb"
    if len(names) == 1:
        return names[0]
    found = one_line(", ".join(names)) or "no notebook"
    return Reason(f"there is no {lesson}.ipynb (found {found})")


def read_file(folder: int, name: str, limit: int) -> bytes:
    """The bytes of a plain file in an open folder. Raises `ValueError` when it is another kind of file or too large."""
    with open(os.open(name, NO_LINKS, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("the notebook is not a plain file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"the notebook is larger than {limit // 2**20} MiB")
    return data


def _timestamp(folder: int, notes: list[str]) -> str:
    from nbgrader.utils import parse_utc

    try:
        text = read_file(folder, "timestamp.txt", 1000).decode().strip()
        if text:
            parse_utc(text)
        return text
    except FileNotFoundError:
        return ""
    except Exception:  # dateutil raises many kinds
        notes.append("timestamp.txt could not be read: the work counts as on time")
        return ""
