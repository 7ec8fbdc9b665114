"""The map of the course's facts: each figure, the lesson that derives it, and the test that holds it.

`docs/map.md` is written from `tests/data/facts_*.json` (the figures) and `tests/data/places.json` (where each
is derived and tested). Run `python -m autograde lessons map` after a change; a test compares the page with the data.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from autograde.lessons import LESSONS

PAGE = "docs/map.md"
PLACES = "tests/data/places.json"
PARTS = {
    "A": "Why a cache, and what it saves",
    "B": "The toy cache",
    "C": "The NumPy decoder",
    "D": "Memory",
    "E": "Time and the roofline",
    "F": "Grouped heads",
    "G": "Rectangular masks",
    "H": "Paging",
    "I": "Fewer bits",
    "J": "Smaller by design, or by forgetting",
    "K": "Serving",
}
HEAD = """# Map of the facts

Every fact that the course teaches, where a lesson derives it, and the test that holds it. Written by
`python -m autograde lessons map` from `tests/data`; do not edit by hand.

Letters: L layers, H query heads, Hkv KV heads, D head dim, S tokens held, T new tokens, B sequences. GB = 10^9 bytes,
GiB = 2^30 bytes.
"""


def read_facts(root: Path) -> dict[str, dict[str, Any]]:
    """The rows of the fact sheets by their id. Raises ValueError where an id stands twice."""
    facts: dict[str, dict[str, Any]] = {}
    for path in sorted((root / "tests" / "data").glob("facts_*.json")):
        for row in json.loads(path.read_text(encoding="utf-8")):
            if row["id"] in facts:
                raise ValueError(f"{row['id']} stands twice in the fact sheets")
            facts[row["id"]] = row
    return facts


def read_places(root: Path) -> list[dict[str, Any]]:
    """Where each fact is derived ("lesson", "heading") and tested ("tests"), in the order of the page.

    A fact without a figure has its sentence here, as "says".
    """
    return json.loads((root / PLACES).read_text(encoding="utf-8"))


def page(root: Path) -> str:
    """The page as it ought to be. Raises KeyError for a lesson, or a fact without a sentence, that is not there."""
    facts, slugs = read_facts(root), {lesson.slug[:2]: lesson.slug for lesson in LESSONS}
    parts = [HEAD]
    for letter, places in groupby(read_places(root), key=lambda place: place["id"][0]):
        parts.append(
            f"\n## {letter}. {PARTS[letter]}\n\n| | fact | figure | derived in | held by |\n|---|---|---|---|---|\n"
        )
        parts += [_row(place, facts.get(place["id"]), slugs[place["lesson"]]) for place in places]
    return "".join(parts)


def _row(place: dict[str, Any], fact: dict[str, Any] | None, slug: str) -> str:
    says, figure = (fact["setting"], in_words(fact["figure"])) if fact else (place["says"], "")
    where = f"[{slug[:2]}](../lessons/{slug}/{slug}.ipynb) {place['heading']}"
    tests = "<br>".join(f"[{name}](../{path})" for path, _, name in (test.partition("::") for test in place["tests"]))
    cells = (place["id"], says, figure, where, tests)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def in_words(figure: Any) -> str:
    """A figure as text: names without underscores, what is inside another in brackets, large numbers with commas."""
    if isinstance(figure, dict):
        return "; ".join(f"{name.replace('_', ' ')} {_inside(value)}" for name, value in figure.items())
    if isinstance(figure, list):
        return f"[{', '.join(map(_inside, figure))}]"
    return f"{figure:,}" if type(figure) is int else str(figure)


def _inside(figure: Any) -> str:
    return f"({in_words(figure)})" if isinstance(figure, dict) else in_words(figure)
