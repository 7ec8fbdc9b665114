"""Reads whose submission is whose from Gradescope's submission_metadata.yml."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from autograde.classroom.roster import Claim

LINE = re.compile(r"(?P<indent> *(?:- )?):?(?P<key>\w+): *(?P<value>.*)")
TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,9})? ?(Z|UTC|[+-]\d\d:?\d\d)")


@dataclass
class Uploaded:
    """One submission: who made it (a group has several) and when, as nbgrader writes a time."""

    people: list[Claim]
    time: str = ""


def read_metadata(data: bytes) -> dict[str, Uploaded]:
    """Submissions by their folder's name.

    Only lines at the places that Gradescope uses are looked at, so what a student's program printed, further in,
    cannot pass for a submitter.
    """
    found: dict[str, Uploaded] = {}
    current, section = None, ""
    person: dict[str, str] = {}
    for line in data.decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n"):
        match = LINE.fullmatch(line)
        if not match:
            continue
        indent, key, value = match["indent"], match["key"], _plain(match["value"])
        if not indent:
            current, section = Uploaded([]), ""
            found.setdefault(key, current)
        elif indent == "  " and current:
            section = key
            if key == "created_at" and not current.time:
                current.time = nbgrader_time(value)
        elif section == "submitters" and current and key in ("name", "email", "sid"):
            if "-" in indent:
                person = {}
                current.people.append(Claim())
            if current.people and len(indent) in (4, 6):
                person.setdefault("id" if key == "sid" else key, value)
                current.people[-1] = Claim(**person)
    return found


def nbgrader_time(text: str) -> str:
    """A time with a zone as nbgrader writes it, in UTC; empty when it is none."""
    found = TIME.fullmatch(text.strip())
    if not found:
        return ""
    zone = "+00:00" if found[4] in ("Z", "UTC") else found[4]
    try:
        time = datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return time.replace(microsecond=int((found[3] or ".0")[1:7].ljust(6, "0"))).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def _plain(value: str) -> str:
    """A YAML value on one line without its quotes."""
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value[1:-1]
    return "" if value in ("null", "~") else value
