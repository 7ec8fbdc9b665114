"""Who is in the class, and which of them a name on a file means."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from autograde.classroom.course import CourseError
from autograde.classroom.intake import STUDENT_NAME, Reason, one_line

LONGEST_ID = 48  # bytes: with what tells two names apart, it is still an id (STUDENT_NAME)
WHOLE_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "ı": "i"})


@dataclass(frozen=True)
class Person:
    """One line of the roster."""

    id: str
    first: str = ""
    last: str = ""
    email: str = ""
    lms: str = ""  # the number that the platform knows them by


@dataclass(frozen=True)
class Claim:
    """Whom a file says that it is from: a name, and what else the platform wrote."""

    name: str = ""
    id: str = ""
    email: str = ""
    lms: str = ""

    def __str__(self) -> str:
        """The name on one line; characters that cannot be printed are written out, so two names never look alike."""
        text = unicodedata.normalize("NFC", (self.name or self.email or self.id or self.lms).strip())
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True)
class Match:
    """A student, and how they were recognised."""

    student: str
    how: str


def read_roster(path: Path) -> list[Person]:
    """The people in a CSV file with an `id` column and any of first_name, last_name, email and lms_user_id.

    Columns come in any order, separated by commas, semicolons or tabs. Raises `CourseError` for a file that is not one.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        head = text.partition("\n")[0]
        lines = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count))
        columns = {re.sub(r"[\s-]+", "_", (name or "").strip().casefold()): name for name in lines.fieldnames or []}
        if "id" not in columns:
            raise CourseError(
                f"the roster {path} has no column id (found: {one_line(', '.join(columns)) or 'nothing'})"
            )
        keys = [columns.get(key, "") for key in ("id", "first_name", "last_name", "email", "lms_user_id")]
        rows = [[(line.get(key) or "").strip() if key else "" for key in keys] for line in lines]
    except OSError as error:
        raise CourseError(f"the roster {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise CourseError(f"the roster {path} is not CSV in UTF-8: {error}") from None
    people = [Person(*row) for row in rows if any(row)]
    for person in people:
        if not STUDENT_NAME.fullmatch(person.id):
            raise CourseError(f"the roster {path} has an id that cannot be a student's: {one_line(person.id)!r}")
    twice = {person.id for person in people if sum(other.id == person.id for other in people) > 1}
    if twice:
        raise CourseError(f"the roster {path} has an id twice: {one_line(', '.join(sorted(twice)))}")
    return people


def match(people: Iterable[Person], claim: Claim) -> Match | Reason:
    """The one person that a claim means. The first way that finds anybody decides; if it finds several, nobody does."""
    people = list(people)
    text = unicodedata.normalize("NFC", claim.name.strip())
    texts = {value for value in (text, claim.id, claim.email) if value}
    folded = fold(text)
    ways: list[tuple[str, Callable[[Person], bool]]] = [
        ("platform's number", lambda p: bool(p.lms) and p.lms == claim.lms),
        ("id or e-mail", lambda p: p.id in texts or p.email in texts),
        ("e-mail up to case", lambda p: bool(p.email) and p.email.casefold() in {t.casefold() for t in texts}),
        ("exact name", lambda p: bool(text) and text == f"{p.first} {p.last}".strip()),
        ("name or id up to case, accents, punctuation", lambda p: bool(folded) and folded in _folds(p)),
        ("name in another order", lambda p: bool(folded) and _parts(text) == _parts(f"{p.first} {p.last}")),
    ]
    for how, fits in ways:
        found = [person for person in people if fits(person)]
        if len(found) == 1:
            other = match(people, Claim(claim.name)) if claim != Claim(claim.name) else None
            if isinstance(other, Match) and other.student != found[0].id:
                return Reason(f"{claim}: by name this is {other.student}, by {how} it is {found[0].id}")
            return Match(found[0].id, how)
        if found:
            return Reason(f"{claim} could be {one_line(', '.join(p.id for p in found))}")
    return Reason(f"{claim} is not in the roster")


def fold(text: str) -> str:
    """Letters and digits only, without case and accents: "O'Brien, Zoë" is "obrienzoe"."""
    text = unicodedata.normalize("NFKD", text.casefold()).casefold().translate(WHOLE_LETTERS)
    return "".join(c for c in text if c.isalnum())


def _folds(person: Person) -> set[str]:
    """The folded forms that mean a person. Canvas writes "leeann" for Ann Lee."""
    names = (person.first + person.last, person.last + person.first)
    return {fold(person.id), *(fold(name) for name in names if person.first and person.last)}


def _parts(text: str) -> list[str]:
    return sorted(filter(None, (fold(part) for part in re.split(r"[\s,_.-]+", text))))


@dataclass
class Names:
    """Makes a student's id from a name where there is no roster. Two names never get one id."""

    taken: dict[str, str] = field(default_factory=dict)  # id without case: the name that it was made from
    known: dict[str, str] = field(default_factory=dict)  # name: id

    def remember(self, name: str, student: str) -> None:
        """An id that an earlier collection gave to a name."""
        self.known[name] = student
        self.taken[student.casefold()] = name

    def match(self, claim: Claim) -> Match | Reason:
        """An id of letters, digits and . _ - for a name; with a few more characters where another name has that id."""
        name = str(claim)
        if name in self.known:
            return Match(self.known[name], "from the name")
        student = re.sub(r"[^\w.-]+", "_", name).encode()[:LONGEST_ID].decode(errors="ignore").strip("._-")
        if not STUDENT_NAME.fullmatch(student):
            return Reason(f"no id can be made from the name {one_line(name)!r}")
        how, other = "from the name", self.taken.get(student.casefold())
        if other is not None:
            how = f"from the name, apart from {one_line(other)!r}, which gives the same id"
            student = f"{student}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        self.remember(name, student)
        return Match(student, how)
