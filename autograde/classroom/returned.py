"""Gives pages back through nbgrader's exchange.

A page lies there under a name that only its student can work out, from a secret that `nbgrader submit` left beside the
work. So the work has to lie in the exchange still.
"""

from __future__ import annotations

import os
from pathlib import Path

from autograde.classroom.course import Course, CourseError
from autograde.classroom.intake import open_folder, read_file
from autograde.classroom.naming import EXCHANGE
from autograde.classroom.outlets import exchange_settings, insist_on_exchange, outbound

SECRET, TIME = "submission_secret.txt", "timestamp.txt"
LONGEST = 1000  # bytes of a secret


class Returned:
    """An exchange that pages go back to. Raises `CourseError` where it is none, or nobody handed in there."""

    def __init__(self, course: Course, where: Path) -> None:
        self.course, self.where = course, where
        self.folder = outbound(course, where).with_name("feedback")
        self.inbound = self.folder.with_name("inbound")
        insist_on_exchange(self.folder.parents[1])
        if not self.inbound.is_dir():
            raise CourseError(f"--exchange: there is no folder {self.inbound}: nobody handed in through this exchange")

    def put(self, lesson: str, students: list[str], dry_run: bool) -> list[str]:
        """Release the pages of one lesson; return a line for each student whose page cannot be."""
        secrets = {student: secret for student in students if (secret := self._secret(student, lesson))}
        if not dry_run and secrets:
            self._release(lesson, secrets)
        reason = f"not in the exchange: no work of theirs for {lesson}, with its secret, lies in {self.inbound}"
        return [f"{student}: {reason}" for student in students if student not in secrets]

    def _release(self, lesson: str, secrets: dict[str, tuple[str, bytes]]) -> None:
        from nbgrader.apps import NbGraderAPI

        from autograde.classroom.record import failure

        for student, (time, secret) in secrets.items():
            folder = self.course.feedback / student / lesson
            if not (folder / f"{lesson}.html").exists():
                continue
            (folder / SECRET).write_bytes(secret)
            (folder / TIME).write_text(time)
            result = NbGraderAPI(config=exchange_settings(self.course, self.where)).release_feedback(lesson, student)
            if not result["success"]:
                raise CourseError(f"--exchange: nbgrader did not release {student}'s page: {failure(result)}")

    def _secret(self, student: str, lesson: str) -> tuple[str, bytes] | None:
        """When the newest work was handed in, and its secret."""
        found = [EXCHANGE.fullmatch(name) for name in os.listdir(self.inbound)]
        mine = [one for one in found if one and (one["name"], one["lesson"]) == (student, lesson)]
        for one in sorted(mine, key=lambda one: one["time"], reverse=True):
            try:
                folder = open_folder(str(self.inbound), one.string)
            except OSError:
                continue
            try:
                secret = read_file(folder, SECRET, LONGEST)
            except (OSError, ValueError):
                continue
            finally:
                os.close(folder)
            if secret.isascii() and secret.strip():
                return one["time"], secret
        return None
