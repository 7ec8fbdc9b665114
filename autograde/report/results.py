"""All result files of a class. What is not one is named with the reason, and stops nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from autograde.report.result import Result, ResultError, parse

MAX_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Results:
    """The results that could be read, and a line for each file that could not."""

    results: tuple[Result, ...] = ()
    problems: tuple[str, ...] = ()


def lessons_in(folder: Path) -> list[str]:
    """Names of the lessons that CLASSROOM/results holds a folder for."""
    return sorted(path.name for path in _visible(folder) if path.is_dir() and not path.is_symlink())


def read_results(folder: Path, lesson: str | None = None) -> Results:
    """Read CLASSROOM/results/LESSON/STUDENT.json, of one lesson or of all.

    Files whose names begin with a dot are passed over: systems leave them. Every other file that is not a result is
    among the problems, by its path below `folder`.
    """
    results: list[Result] = []
    problems: list[str] = []
    lessons = lessons_in(folder)
    problems += [f"{path.name}: not a lesson's folder" for path in _visible(folder) if path.name not in lessons]
    for name in [known for known in lessons if lesson in (None, known)]:
        for path in _visible(folder / name):
            try:
                results.append(_read(path))
            except ResultError as error:
                problems.append(f"{name}/{path.name}: {error}")
    return Results(tuple(results), tuple(problems))


def _read(path: Path) -> Result:
    if path.is_symlink() or not path.is_file():
        raise ResultError("not a plain file")
    if path.suffix != ".json":
        raise ResultError("not a result file (its name does not end in .json)")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})") from None
    if len(data) > MAX_BYTES:
        raise ResultError(f"larger than {MAX_BYTES // 2**20} MiB")
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ResultError("not JSON") from None
    result = parse(found)
    for what, wanted, got in (("student", path.stem, result.student), ("lesson", path.parent.name, result.lesson)):
        if wanted != got:
            raise ResultError(f"{what}: wanted {wanted!r}, as the file lies, got {got[:60]!r}")
    return result


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
