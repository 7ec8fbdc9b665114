"""Reads every notebook in a folder, a zip or a single file, without following a link out of it."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autograde.classroom.archive import (
    MAX_DEPTH,
    MAX_INNER,
    METADATA,
    Budget,
    Member,
    interesting,
    is_junk,
    read_archive,
)
from autograde.classroom.course import CourseError
from autograde.classroom.gradescope import Uploaded, read_metadata
from autograde.classroom.intake import MAX_BYTES, NO_LINKS, Reason, read_cells, read_file


@dataclass(frozen=True)
class File:
    """A file of a source. Its bytes, when it could be read, wait in a file of ours."""

    source: str  # the path, for people
    parts: tuple[str, ...]  # the path inside the source
    content: Path | Reason
    digest: str = ""
    grade_ids: frozenset[str] = frozenset()  # ids of its cells; nbgrader's, or the notebook's own where those are lost
    problem: str = ""  # why it is not a notebook; it may be handed in all the same
    modified: float = 0.0  # seconds since 1970; orders files, but is no hand-in time: unpacking sets it too
    owner: str = ""  # the login name of its folder's owner; empty in a zip


@dataclass(frozen=True)
class Source:
    """What one source holds. `uploads`: Gradescope's table, by the folder that it lies in."""

    files: list[File]
    uploads: dict[tuple[str, ...], dict[str, Uploaded]]


def read_source(path: Path, spool: Path) -> Source:
    """Read a folder, a zip file or a notebook; copies land in the folder `spool`.

    Raises `CourseError` when there is no such thing. The path itself is the instructor's and may be a link.
    """
    if not path.exists():
        raise CourseError(f"there is no file or folder {path}")
    budget, found = Budget(), Source([], {})
    real = path.resolve()
    is_folder = real.is_dir()
    try:
        folder = os.open(real if is_folder else real.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise CourseError(f"{path} cannot be opened: {error.strerror}") from None
    try:
        for member, owner in _folder(folder, (), budget) if is_folder else _file(folder, real.name, (), (), budget):
            parts = tuple(member.path.split("/"))
            if parts[-1] == METADATA and isinstance(member.content, bytes):
                found.uploads[parts[:-1]] = read_metadata(member.content)
            else:
                name = str(path) if not is_folder and parts == (real.name,) else f"{path}/{member.path}"
                found.files.append(_keep(name, parts, member, owner, spool))
    finally:
        os.close(folder)
    return found


def _keep(source: str, parts: tuple[str, ...], member: Member, owner: str, spool: Path) -> File:
    if isinstance(member.content, Reason):
        return File(source, parts, member.content, modified=member.modified, owner=owner)
    number, copy = tempfile.mkstemp(dir=spool)
    with open(number, "wb") as file:
        file.write(member.content)
    ids, problem = frozenset[str](), ""
    try:
        ids = frozenset(cell.grade_id or cell.id for cell in read_cells(member.content)) - {""}
    except ValueError as error:
        problem = str(error)
    digest = hashlib.sha256(member.content).hexdigest()
    return File(source, parts, Path(copy), digest, ids, problem, member.modified, owner)


def _folder(folder: int, above: tuple[str, ...], budget: Budget) -> Iterator[tuple[Member, str]]:
    """The files below an open folder, each with the owner of the folder that it lies in."""
    for name in sorted(os.listdir(folder)):
        if is_junk(name):
            continue
        path = "/".join((*above, name))
        if not budget.members:
            yield Member(path, Reason("too many files: this one and what follows is not read")), ""
            return
        budget.members -= 1
        if not _is_folder(folder, name):
            yield from _file(folder, name, above, (*above, name), budget)
        elif len(above) == MAX_DEPTH:
            yield Member(path, Reason(f"more than {MAX_DEPTH} folders deep")), ""
        else:
            try:
                inner = os.open(name, NO_LINKS | os.O_DIRECTORY, dir_fd=folder)
            except OSError as error:
                yield Member(path, Reason(f"cannot be opened: {error.strerror}")), ""
                continue
            try:
                yield from _folder(inner, (*above, name), budget)
            finally:
                os.close(inner)


def _file(
    folder: int, name: str, above: tuple[str, ...], zipped: tuple[str, ...], budget: Budget
) -> Iterator[tuple[Member, str]]:
    """A file in an open folder; of a zip, its members, whose paths begin with `zipped`."""
    path, owner = "/".join((*above, name)), _owner(folder)
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            yield Member(path, Reason("a link or another special file")), owner
        elif not interesting(name):
            yield Member(path, Reason("not a notebook"), status.st_mtime), owner
        elif name.lower().endswith(".zip"):
            with open(os.open(name, NO_LINKS, dir_fd=folder), "rb") as file:
                for member in read_archive(file, budget):
                    yield replace(member, path="/".join((*zipped, member.path))), ""
        elif not budget.total:
            yield Member(path, Reason("too much in one source: it is not read")), owner
        else:
            data = read_file(folder, name, MAX_INNER if name == METADATA else MAX_BYTES)
            budget.total -= min(len(data), budget.total)
            yield Member(path, data, status.st_mtime), owner
    except ValueError as error:
        yield Member(path, Reason(str(error))), owner
    except OSError as error:
        yield Member(path, Reason(f"cannot be opened: {error.strerror}")), owner


def _is_folder(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _owner(folder: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(os.fstat(folder).st_uid).pw_name
    except (ImportError, KeyError):  # not on Windows; an unknown number
        return ""
