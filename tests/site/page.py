"""A built page as the tests see it: its links, anchors, headings, pictures and text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

HEADINGS = {f"h{level}": level for level in range(1, 7)}
LOADING = {"script", "img", "iframe", "source", "video", "audio", "embed", "object", "input"}


class Page(HTMLParser):
    """One page, read once."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []  # of every <a>
        self.loads: list[tuple[str, str]] = []  # tag and address of what a browser fetches by itself
        self.headings: list[int] = []  # in the article
        self.pictures: list[tuple[str, str | None]] = []  # source and description
        self.words: list[str] = []
        self._article = 0
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        found = dict(attrs)
        self.ids.update(value for name in ("id", "name") if (value := found.get(name)))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"] or "")
        if tag == "link" and found.get("rel") not in ("canonical", "index", "search", "next", "prev", "author"):
            self.loads.append((tag, found.get("href") or ""))
        if tag in LOADING and (found.get("src") or found.get("data")):
            self.loads.append((tag, found.get("src") or found.get("data") or ""))
        for one in (found.get("srcset") or "").split(","):
            if one.strip():
                self.loads.append((tag, one.split()[0]))
        if tag == "img":
            self.pictures.append((found.get("src") or "", found.get("alt")))
        self._article += tag == "article"
        if self._article and tag in HEADINGS:
            self.headings.append(HEADINGS[tag])

    def handle_endtag(self, tag: str) -> None:
        """Leave the article."""
        self._article -= tag == "article"

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.words.append(data)

    @property
    def shown(self) -> str:
        """All text, with the lines that code has."""
        return "".join(self.words)
