"""What the name of a handed-in file says: which platform it came through, whose it is, and for which lesson."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from autograde.classroom.roster import Claim, fold

MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_file_?(?P<rest>.*)", re.DOTALL)
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<user>\d{3,})_(?P<submission>\d{3,})_(?P<rest>.+)", re.DOTALL)
GRADESCOPE = re.compile(r"submission_(?P<number>\d+)(?:\.zip)?")
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [A-Za-z0-9:_/-]+"  # as nbgrader writes a time
EXCHANGE = re.compile(rf"(?P<name>.+?)\+(?P<lesson>[^+]+)\+(?P<time>{STAMP})(?:\+[\w=-]*)?", re.DOTALL)
COPY_MARKS = re.compile(r"^copy[ _-]of[ _-]*|[ _]*\(\d+\)$|[ _-]*copy[ _-]*\d*$", re.IGNORECASE)
ATTEMPT = re.compile(r"-(\d{1,3})$")
NUMBER = re.compile(r"(?:lesson|notebook)?[\s_-]*0*(\d{1,3})", re.IGNORECASE)
FOLDER = "folder's "  # how a lesson was found, when only a folder around the file names it
NO_NAMES = (
    r"answers?|assignment|completed?|copy|done|final|finished|fixed|homework|latest|new|resubmission|solutions?|"
    r"submission|submitted|untitled|updated|v?\d{0,2}"
)


@dataclass(frozen=True)
class Lessons:
    """The lessons of a course, to be found in names."""

    slugs: tuple[str, ...]

    def named(self, text: str, folder: bool = False) -> tuple[str, str, str] | None:
        """(lesson, how it was found, what else the name holds), or None. A folder "12" may as well be a student."""
        if text in self.slugs:
            return text, "exact name", ""
        text = without_copy_marks(text)
        for slug in sorted(self.slugs, key=len, reverse=True):
            pattern = r"[\s_-]+".join(re.escape(part) for part in slug.split("-"))
            if re.fullmatch(rf"{pattern}[\s_-]*", text, re.IGNORECASE):
                return slug, "name up to case, spaces, copies", ""
            split = rf"(?P<before>.*?)[\s_-]+{pattern}|{pattern}[\s_]+(?P<after>.*)|{pattern}-.*"
            if found := re.fullmatch(split, text, re.IGNORECASE | re.DOTALL):
                return slug, "part of the name", (found["before"] or found["after"] or "").strip(" _-")
        if not folder and (found := NUMBER.fullmatch(text)):
            return self._numbered(found[1], "")
        if found := re.fullmatch(r"(?P<before>.*?)[\s_-]*lesson[\s_-]*0*(?P<number>\d{1,3})", text, re.I | re.DOTALL):
            return self._numbered(found["number"], found["before"].strip(" _-"))
        return None

    def _numbered(self, number: str, rest: str) -> tuple[str, str, str] | None:
        slugs = [slug for slug in self.slugs if re.match(rf"0*{int(number)}(?!\d)", slug)]
        return (slugs[0], "number", rest) if len(slugs) == 1 else None


@dataclass(frozen=True)
class Said:
    """What a platform wrote into a path, and what the student's own part of it is."""

    platform: str
    claim: Claim
    outside: tuple[str, ...]  # the folders around it
    rest: tuple[str, ...]  # the student's own folders and file name
    lesson: str = ""
    time: str = ""
    attempt: int = 0
    submission: str = ""  # Gradescope: the key into its metadata file


def said(parts: tuple[str, ...], lessons: Lessons) -> Said | None:
    """What a platform wrote, or None. The outermost mark counts: what lies further in is the student's to choose."""
    for index, part in enumerate(parts):
        outside, after, is_file = parts[:index], parts[index + 1 :], index == len(parts) - 1
        if found := MOODLE.fullmatch(part):
            rest = (found["rest"],) if is_file else after
            return Said("Moodle", Claim(found["name"]), outside, rest)
        if not is_file and (found := EXCHANGE.fullmatch(part)):
            return Said("exchange", Claim(found["name"]), outside, after, found["lesson"], found["time"])
        if not is_file and (found := GRADESCOPE.fullmatch(part)):
            return Said("Gradescope", Claim(), outside, after, submission=f"submission_{found['number']}")
        if found := CANVAS.fullmatch(part):
            claim = Claim(found["name"], lms=found["user"])
            attempt, name = _without_attempt(found["rest"], lessons)
            return Said("Canvas", claim, outside, (name,) if is_file else (name, *after), attempt=attempt)
    return None


def without_copy_marks(text: str) -> str:
    """Without what browsers, Colab and Jupyter add: "copy of", " (1)", "-Copy1"."""
    before = None
    while before != text:
        before, text = text, COPY_MARKS.sub("", text).strip()
    return text


def stem(name: str) -> str:
    """A file's name without the endings .ipynb and .zip."""
    while name.lower().endswith((".ipynb", ".zip")):
        name = name.rpartition(".")[0]
    return name


def people(parts: tuple[str, ...], lessons: Lessons) -> list[str]:
    """Names that a plain path holds, from the folders and then from the file: "ann/ann_01-toy-cache.ipynb" has two."""
    *folders, file = parts
    names = [stem(folder) for folder in folders if not lessons.named(stem(folder), folder=True)]
    found = lessons.named(stem(file))
    if found and found[2]:
        names.append(found[2])
    return names


def is_name(text: str) -> bool:
    """Whether a text can be a student's name rather than a remark: "final" and "v2" are not."""
    return not re.fullmatch(NO_NAMES, fold(text))


def lesson_of(parts: Iterable[str], lessons: Lessons) -> tuple[str, str] | None:
    """(lesson, how) from a file's own name, else from the innermost folder that names one."""
    *folders, file = parts
    if found := lessons.named(stem(file)):
        return found[0], found[1]
    for folder in reversed(folders):
        if found := lessons.named(stem(folder), folder=True):
            return found[0], FOLDER + found[1]
    return None


def _without_attempt(name: str, lessons: Lessons) -> tuple[int, str]:
    """Canvas adds "-1" to the name of a first resubmission; but "lesson-1" is a name of its own."""
    base, dot, ending = name.rpartition(".")
    if not (found := ATTEMPT.search(base)):
        return 0, name
    bare = base[: found.start()]
    return int(found[1]), f"{bare}{dot}{ending}" if lessons.named(bare) or not lessons.named(base) else name
