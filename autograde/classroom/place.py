"""Chooses the file that counts of each student's, and copies it into submitted/ without following a link."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from autograde.classroom.course import Course
from autograde.classroom.intake import MAX_BYTES, NO_LINKS, open_folder, read_file
from autograde.classroom.loose import Found


def choose(found: list[Found]) -> list[Found]:
    """Mark the one file that counts of each student's files for a lesson: the newest. Two that tie do not count."""
    clear = sorted((one for one in found if one.clear), key=lambda one: (one.student, one.lesson))
    chosen = [one for one in found if not one.clear]
    for _, group in groupby(clear, key=lambda one: (one.student, one.lesson)):
        best, *rest = sorted(group, key=lambda one: one.rank, reverse=True)
        ties = [one for one in rest if one.rank == best.rank and one.file.digest != best.file.digest]
        if ties:
            text = "another file of this student for this lesson is as new: neither counts"
            chosen += [_noted(one, text) for one in (best, *ties)]
            rest = [one for one in rest if one not in ties]
        else:
            text = f"the newest of {len(rest) + 1} files" if rest else ""
            chosen.append(replace(_noted(best, text), placed=True))
        chosen += [
            _noted(one, "the same as another file" if one.file.digest == best.file.digest else "an older file")
            for one in rest
        ]
    order = {id(one.file): number for number, one in enumerate(found)}
    return sorted(chosen, key=lambda one: order[id(one.file)])


def place(course: Course, one: Found, dry_run: bool, force: bool) -> Found:
    """Copy one file. What is in the way, and whatever goes wrong, ends in a note."""
    where = f"submitted/{one.student}/{one.lesson}"
    assert isinstance(one.file.content, Path)  # what could not be read is never chosen
    data = one.file.content.read_bytes()
    try:
        there = _there(course, one, data)
        if there == "other" and not force:
            note = f"{where} holds different work: it stays; --force replaces it"
            return replace(_noted(one, note), placed=False)
        if there != "same" and not dry_run:
            _write(course, one, data)
    except OSError as error:
        return replace(_noted(one, f"{where} is a link or cannot be written: {error.strerror}"), placed=False)
    return _noted(one, {"same": "already there", "other": "replaces different work", "none": ""}[there])


def _there(course: Course, one: Found, data: bytes) -> str:
    """What lies at a file's place: "none", the "same" work, or "other" work."""
    try:
        folder = open_folder(str(course.submitted), one.student, one.lesson)
    except FileNotFoundError:
        return "none"
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".ipynb") and not name.startswith(".")]
        if not names:
            return "none"
        return "same" if data in [read_file(folder, name, MAX_BYTES) for name in names] else "other"
    except ValueError:
        return "other"
    finally:
        os.close(folder)


def _write(course: Course, one: Found, data: bytes) -> None:
    """Write the notebook, and when it was handed in. No link on the way is followed."""
    course.submitted.mkdir(parents=True, exist_ok=True)
    folder = open_folder(str(course.submitted))
    try:
        for name in (one.student, one.lesson):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            inner = os.open(name, NO_LINKS | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        save(folder, f"{one.lesson}.ipynb", data)
        if one.time:
            save(folder, "timestamp.txt", one.time.encode())
        else:
            with suppress(FileNotFoundError):
                os.unlink("timestamp.txt", dir_fd=folder)  # it told of the work that was replaced
    finally:
        os.close(folder)


def save(folder: int, name: str, data: bytes) -> None:
    """Write a file in one step: whoever reads at the same time sees the old one or the new one."""
    draft = f".{name}.{secrets.token_hex(4)}"
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(draft, new, 0o666, dir_fd=folder), "wb") as file:
            file.write(data)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def _noted(one: Found, text: str) -> Found:
    return replace(one, note="; ".join(filter(None, [one.note, text])))
