"""The results of a class on disk: one file for each submission, whole or not there."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from autograde.classroom.course import Course, CourseError

SECRET = ".secret"


def load_result(course: Course, student: str, lesson: str, key: str) -> dict[str, Any] | None:
    """A kept result, if it is the one of this key: same content, same exercises, same grader."""
    try:
        result = json.loads(result_file(course, student, lesson).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return result if isinstance(result, dict) and result.get("key") == key else None


def keep_result(course: Course, result: dict[str, Any]) -> None:
    """Write a result so that whoever looks finds all of it, whenever the machine stops."""
    write_whole(result_file(course, result["student"], result["lesson"]), json.dumps(result, indent=1) + "\n")


def drop_result(course: Course, student: str, lesson: str) -> None:
    """Forget a result, if there is one."""
    result_file(course, student, lesson).unlink(missing_ok=True)


def result_file(course: Course, student: str, lesson: str) -> Path:
    """Where a submission's result is kept."""
    return course.results / lesson / f"{student}.json"


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".part-", delete=False, encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, mode)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def course_secret(course: Course) -> str:
    """What the seeds of this class derive from. It is made once: with another one, a regrade asks other questions."""
    path = course.classroom / SECRET
    if not path.exists():
        course.classroom.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".part-", delete=False) as file:
            file.write(secrets.token_hex(32) + "\n")
        try:
            os.link(file.name, path)  # fails where somebody else was quicker: theirs counts
        except FileExistsError:
            pass
        finally:
            os.unlink(file.name)
    secret = path.read_text(encoding="utf-8").strip()
    if len(secret) < 16:
        raise CourseError(f"{path} holds no secret; delete it, and a new one is made (a regrade then asks anew)")
    return secret
