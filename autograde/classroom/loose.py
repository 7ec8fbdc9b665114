"""Finds out whose each loose notebook is, and for which lesson. What is not clear is said, never guessed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from pathlib import Path

from autograde.classroom.course import Course
from autograde.classroom.intake import Reason, one_line, read_cells
from autograde.classroom.naming import FOLDER, Lessons, Said, is_name, lesson_of, people, said, stem
from autograde.classroom.roster import Claim, Match, Names, Person, fold, match
from autograde.classroom.sources import File, Source


@dataclass(frozen=True)
class Found:
    """One file that was found. `lesson` and `student` are empty where they are not known; then `note` says why."""

    source: str
    file: File
    student: str = ""
    lesson: str = ""
    name: str = ""  # as it was written where it came from
    student_by: str = ""
    lesson_by: str = ""
    time: str = ""  # when it was handed in, as nbgrader writes it; empty when nobody said
    attempt: int = 0
    note: str = ""
    placed: bool = False  # it is the work that counts, and it is in submitted/ (or would be, but for a dry run)

    @property
    def clear(self) -> bool:
        """Whether the student and the lesson are known."""
        return bool(self.student and self.lesson)

    @property
    def rank(self) -> tuple:
        """The higher of two files of one student for one lesson counts: what names or holds it, then the newest."""
        stray = self.lesson_by.startswith(FOLDER) and "exercises" not in self.lesson_by
        return (not stray, _seconds(self.time), self.attempt, self.file.modified)


class Clues:
    """What a course and a roster know: tells lessons and students apart by name, number and content."""

    def __init__(self, course: Course, roster: list[Person] | None, names: Names) -> None:
        slugs = sorted(path.name for path in (course.root / "lessons").glob("*") if course.release(path.name).exists())
        self.lessons = Lessons(tuple(slugs))
        self.roster = roster
        self.match: Callable[[Claim], Match | Reason] = partial(match, roster) if roster is not None else names.match
        ids = {slug: _grade_ids(course.release(slug)) for slug in slugs}
        uses = Counter(name for one in ids.values() for name in one)
        self.grade_ids = {slug: {name for name in one if uses[name] == 1} for slug, one in ids.items()}

    def by_content(self, file: File) -> list[str]:
        """Lessons whose exercises are in a notebook."""
        return [slug for slug, ids in self.grade_ids.items() if ids & file.grade_ids]


def attribute(source: Source, clues: Clues) -> list[Found]:
    """Every file of a source, with its student and lesson where these are clear. A group's file comes once for each."""
    notebooks = [file for file in source.files if isinstance(file.content, Path)]
    top = _common([file.parts[:-1] for file in notebooks])
    wrapper = len(top) if clues.roster is None and _several_people(notebooks, len(top), clues) else 0
    known_wrapper = 0 if clues.roster is not None else len(top)
    trusting = clues.roster is None and all(said(file.parts, clues.lessons) for file in notebooks)
    found = []
    for file in source.files:
        mark = said(file.parts, clues.lessons)
        if isinstance(file.content, Reason):
            found.append(Found(file.source, file, note=file.content.text))
        elif mark:
            found += _from_platform(source, file, mark, clues, () if trusting else mark.outside[known_wrapper:])
        else:
            found.append(_from_path(file, file.parts[wrapper:], clues))
    return found


def _from_platform(source: Source, file: File, mark: Said, clues: Clues, around: tuple[str, ...]) -> list[Found]:
    """A platform wrote whose it is. `around`: folders that may be a student's, who could have forged the mark."""
    claims, time = [mark.claim], mark.time
    if mark.submission:
        upload = source.uploads.get(mark.outside, {}).get(mark.submission)
        if not upload or not upload.people:
            note = f"no submission_metadata.yml beside it says whose {mark.submission} is"
            return [Found(file.source, file, note=note)]
        claims, time = upload.people, upload.time
    notes = ["handed in by a group"] if len(claims) > 1 else []
    if mark.platform == "exchange" and file.owner not in ("", mark.claim.name):
        notes.append(f"its folder belongs to the login {file.owner}")
    found = []
    for claim in claims:
        if note := _contradiction(claim, around, clues):
            found.append(Found(file.source, file, name=str(claim), note=note))
        else:
            one = _complete(file, [claim], mark.rest, clues, mark.platform, mark.lesson)
            note = "; ".join(filter(None, [one.note, *notes]))
            found.append(replace(one, time=time, attempt=mark.attempt, note=note))
    return found


def _contradiction(claim: Claim, around: tuple[str, ...], clues: Clues) -> str:
    """Why a platform's mark is not believed; empty when it is."""
    if around and clues.roster is None:
        return f"the mark of a platform inside {one_line(around[-1])!r}: whose it is, is not clear"
    for folder in around:
        other, meant = clues.match(Claim(stem(folder))), clues.match(claim)
        if isinstance(other, Match) and isinstance(meant, Match) and other.student != meant.student:
            return f"it lies in {other.student}'s folder and says that it is {meant.student}'s"
    return ""


def _from_path(file: File, parts: tuple[str, ...], clues: Clues) -> Found:
    names = people(parts, clues.lessons)
    if clues.roster is None:
        names = [name for name in names if is_name(name)]
    elif not names and not clues.lessons.named(stem(parts[-1])):
        names = [stem(parts[-1])]  # "ann.ipynb" says who, if the roster knows an ann
    return _complete(file, [Claim(name) for name in names], parts, clues, "path", "")


def _complete(file: File, claims: list[Claim], rest: tuple[str, ...], clues: Clues, where: str, lesson: str) -> Found:
    """Match the claims to one student and the file to one lesson."""
    who, what = _one_student(claims, clues), _one_lesson(file, rest, lesson, clues)
    names = {fold(str(claim)): str(claim) for claim in reversed(claims)}
    found = Found(file.source, file, name=" / ".join(names[key] for key in reversed(names)))
    notes = [part.text for part in (who, what) if isinstance(part, Reason)]
    if isinstance(who, Match):
        found = replace(found, student=who.student, student_by=f"{where}: {who.how}")
    if isinstance(what, tuple):
        found = replace(found, lesson=what[0], lesson_by=what[1])
        notes.append(what[2])
    return replace(found, note="; ".join(filter(None, [*notes, file.problem])))


def _one_student(claims: list[Claim], clues: Clues) -> Match | Reason:
    if not claims:
        return Reason("nothing in its path says whose it is")
    if clues.roster is None and len({fold(claim.name) for claim in claims}) > 1:
        names = ", ".join(str(claim) for claim in claims)
        return Reason(f"several names in its path could be the student's ({names}): a roster would tell")
    tried = [clues.match(claim) for claim in claims[: None if clues.roster is not None else 1]]
    matches = {found.student: found for found in tried if isinstance(found, Match)}
    if len(matches) > 1:
        return Reason(f"its path names more than one student: {', '.join(sorted(matches))}")
    if matches:
        return next(iter(matches.values()))
    return Reason("; ".join(found.text for found in tried if isinstance(found, Reason)))


def _one_lesson(file: File, rest: tuple[str, ...], lesson: str, clues: Clues) -> tuple[str, str, str] | Reason:
    """(lesson, how, note). The file's own name comes first, then its folder's, then what is in it."""
    inside = clues.by_content(file)
    own = clues.lessons.named(stem(rest[-1]))
    if lesson and lesson not in clues.lessons.slugs:
        return Reason(f"the course has no lesson {one_line(lesson)}")
    if lesson and own and own[0] != lesson:
        return Reason(f"its folder is for {lesson}, its name says {own[0]}")
    named = (lesson, FOLDER + "name") if lesson and not own else lesson_of(rest, clues.lessons)
    if not named and len(inside) == 1:
        return inside[0], "its exercises", ""
    if not named:
        found = f"it holds exercises of {', '.join(inside)}" if inside else "nothing says which lesson it is for"
        return Reason(found)
    if not inside or named[0] in inside:
        return named[0], named[1] + (" and its exercises" if inside else ""), ""
    note = f"its exercises are those of {', '.join(inside)}"
    if named[1].endswith("number"):
        return Reason(f"its name says {named[0]} by number, but {note}")
    return named[0], named[1], note


def _several_people(files: list[File], top: int, clues: Clues) -> bool:
    """Whether what all the files share is a folder around a class: below it there is more than one student."""
    below = [[n for n in people(file.parts[top:], clues.lessons) if is_name(n)] for file in files]
    return len({names[0] for names in below if names}) > 1


def _common(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(os.path.commonprefix(paths)) if paths else ()


def _grade_ids(path: Path) -> set[str]:
    """The ids of a release's exercises and checks."""
    try:
        return {cell.grade_id for cell in read_cells(path.read_bytes())} - {""}
    except (OSError, ValueError):
        return set()


def _seconds(time: str) -> float:
    from nbgrader.utils import parse_utc

    try:
        return parse_utc(time).replace(tzinfo=UTC).timestamp() if time else 0.0
    except Exception:  # dateutil raises many kinds
        return 0.0
