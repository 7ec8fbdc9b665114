"""Reads a zip file without trusting it: nothing is unpacked to disk, and no size that it declares is believed."""

from __future__ import annotations

import io
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO

from autograde.classroom.intake import MAX_BYTES, Reason
from autograde.reset import KEPT

MAX_MEMBERS = 10_000  # files and folders, all levels together
MAX_TOTAL = 2**30  # bytes unpacked, all levels together
MAX_INNER = 50 * 2**20  # bytes of a zip inside a zip: it is held in memory
MAX_DIRECTORY = 8 * 2**20  # bytes of a zip's list of members: zipfile makes objects of all of it
MAX_RATIO = 200  # bytes unpacked for each packed one, beyond the first MiB
MAX_NAME = 500  # characters of a whole path
MAX_DEPTH = 10  # folders in a path
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others cannot be unpacked up to a limit
ENCRYPTED = 0x1 | 0x40 | 0x2000
UTF8 = 0x800
JUNK = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints", ".git"})
METADATA = "submission_metadata.yml"  # where Gradescope says whose folder is whose


@dataclass(frozen=True)
class Member:
    """One file of an archive. A path through an inner zip reads "inner.zip/name"."""

    path: str
    content: bytes | Reason
    modified: float = 0.0  # seconds since 1970, by this machine's time zone: a zip says no zone


@dataclass
class Budget:
    """What may still be read. One budget serves a zip, the zips in it, and the folder that they lie in."""

    members: int = MAX_MEMBERS
    total: int = MAX_TOTAL


class _TooLong(Exception):
    """The list of a zip's files is too long to read."""


class _Bounded:
    """A file that hands out no more than `MAX_DIRECTORY` bytes at once: zipfile reads the whole directory in one go."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable, self.close = file.seek, file.tell, file.seekable, file.close

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size if 0 <= size <= MAX_DIRECTORY else MAX_DIRECTORY + 1)
        if len(data) > MAX_DIRECTORY:
            raise _TooLong
        return data


def read_archive(file: IO[bytes], budget: Budget | None = None, inner: bool = False) -> Iterator[Member]:
    """Every file in a zip, with its bytes or with why it was not read.

    Raises `ValueError`, worded for a person, when the whole zip is refused. Zips inside are read too, one level deep.
    """
    budget = budget or Budget()
    try:
        archive = zipfile.ZipFile(_Bounded(file))
        infos = archive.infolist()
        overlap = _overlap(archive, infos)
    except _TooLong:
        raise ValueError(f"the zip's list of files is larger than {MAX_DIRECTORY // 2**20} MiB") from None
    except UnicodeDecodeError:
        raise ValueError("a name in the zip is not the UTF-8 that it says it is") from None
    except Exception:  # zipfile raises many kinds
        raise ValueError("the file is not a zip file, or is damaged") from None
    if overlap:
        raise ValueError("the zip's files overlap")
    if len(infos) > budget.members:
        raise ValueError(f"the zip holds {len(infos)} files, at most {budget.members} more are read")
    budget.members -= len(infos)
    times_named = Counter(_path(info) for info in infos)
    for info in infos:
        path = _path(info)
        if path.endswith("/") or any(is_junk(part) for part in path.split("/")):
            continue
        problem = _problem(info, path) or ("two files have this name" if times_named[path] > 1 else "")
        content = Reason(problem) if problem else _read(archive, info, path, budget)
        if isinstance(content, bytes) and path.lower().endswith(".zip"):
            yield from _inner(path, content, budget, inner)
        else:
            yield Member(path, content, _modified(info))


def interesting(name: str) -> bool:
    """Whether a file of this name is read at all."""
    return name.lower().endswith((".ipynb", ".zip")) or name == METADATA


def is_junk(name: str) -> bool:
    """Whether a file or folder is what a computer puts everywhere or what `reset` keeps, and no work to grade."""
    return name in JUNK or name.startswith("._") or bool(KEPT.search(name))


def _inner(path: str, data: bytes, budget: Budget, inner: bool) -> Iterator[Member]:
    if inner:
        yield Member(path, Reason("a zip inside a zip inside a zip is not opened"))
        return
    try:
        for member in read_archive(io.BytesIO(data), budget, inner=True):
            yield Member(f"{path}/{member.path}", member.content, member.modified)
    except ValueError as error:
        yield Member(path, Reason(str(error)))


def _path(info: zipfile.ZipInfo) -> str:
    """The name as stored. Without the UTF-8 mark it is tried as UTF-8 all the same: macOS forgets the mark."""
    name = info.orig_filename
    if not info.flag_bits & UTF8:
        try:
            return name.encode("cp437").decode()
        except UnicodeError:
            pass
    return name


def _problem(info: zipfile.ZipInfo, path: str) -> str:
    """Why this member is refused unread; empty when it may be read."""
    parts = path.split("/")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if len(path) > MAX_NAME or len(parts) > MAX_DEPTH + 1:
        return f"its path is longer than {MAX_NAME} characters or {MAX_DEPTH} folders"
    if "\\" in path or "\0" in path or ":" in parts[0][:2] or not all(parts) or {".", ".."} & set(parts):
        return "its path is not a plain one"
    if kind not in (0, stat.S_IFREG):
        return "a link or another special file"
    if info.flag_bits & ENCRYPTED:
        return "encrypted"
    if not interesting(parts[-1]):
        return "not a notebook"
    if info.compress_type not in METHODS:
        return "packed in a way that is not read; use an ordinary zip"
    return ""


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, budget: Budget) -> bytes | Reason:
    limit = MAX_BYTES if path.lower().endswith(".ipynb") else MAX_INNER
    try:
        with archive.open(info) as file:
            data = file.read(min(limit, budget.total) + 1)
    except Exception:  # zipfile and zlib raise many kinds
        return Reason("damaged inside the zip")
    budget.total -= min(len(data), budget.total)
    if len(data) > limit:
        return Reason(f"larger than {limit // 2**20} MiB")
    if not budget.total:
        return Reason(f"the zip unpacks to more than {MAX_TOTAL // 2**20} MiB")
    if len(data) > 2**20 + MAX_RATIO * info.compress_size:
        return Reason(f"packed more than {MAX_RATIO} to 1")
    return data


def _overlap(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo]) -> bool:
    """Whether two members share bytes: the trick of the small zip that unpacks to terabytes."""
    starts = sorted((info.header_offset, info.compress_size) for info in infos)
    ends = [start for start, _ in starts[1:]] + [archive.start_dir]
    return any(start < 0 or start + 30 + size > end for (start, size), end in zip(starts, ends, strict=False))


def _modified(info: zipfile.ZipInfo) -> float:
    try:
        return datetime(*info.date_time).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
