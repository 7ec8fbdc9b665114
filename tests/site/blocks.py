"""The fenced blocks of a page: examples are run from the page itself."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of every fenced block of docs/PAGE, in order."""
    return FENCE.findall((DOCS / page).read_text(encoding="utf-8"))


def examples(page: str) -> list[tuple[str, str]]:
    """Each block of Python with the block of text that follows it: code, and what it prints."""
    found = blocks(page)
    return [
        (text, found[i + 1][1])
        for i, (language, text) in enumerate(found)
        if language == "python" and i + 1 < len(found) and found[i + 1][0] == "text"
    ]
