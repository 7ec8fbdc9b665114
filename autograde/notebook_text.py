"""A notebook file as text: one cell's source can be replaced, and the other cells keep their bytes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()
Span = tuple[int, int]


class NotebookError(Exception):
    """A file that is no notebook, or has not the cell that is wanted; the message is one line."""


@dataclass(frozen=True)
class NotebookText:
    """The text of a notebook, and its cells."""

    path: Path
    text: str
    cells: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, path: Path) -> NotebookText:
        """Read a file. Raises `NotebookError` for one that is missing, unreadable or no notebook of format 4."""
        try:
            text = path.read_bytes().decode("utf-8")
            content = json.loads(text.removeprefix("\ufeff"))
        except OSError as error:
            raise NotebookError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise NotebookError(f"{path} is not a notebook: {error}") from error
        cells = content.get("cells") if isinstance(content, dict) else None
        if not isinstance(cells, list) or not all(isinstance(cell, dict) and "source" in cell for cell in cells):
            raise NotebookError(f"{path} is not a notebook of format 4: it has no list of cells, each with a source")
        return cls(path, text, tuple(cells))

    def source(self, number: int) -> str:
        """What a cell holds, whether the file has it as one text or as lines."""
        source = self.cells[number]["source"]
        return source if isinstance(source, str) else "".join(map(str, source))

    def ids(self, number: int) -> set[str]:
        """A cell's own id; Colab keeps it in the metadata."""
        cell = self.cells[number]
        return {str(each) for each in (cell.get("id"), self._metadata(cell).get("id")) if each}

    def grade_id(self, number: int) -> str:
        """The name that nbgrader knows a cell by, or nothing."""
        tag = self._metadata(self.cells[number]).get("nbgrader")
        return str(tag.get("grade_id") or "") if isinstance(tag, dict) else ""

    def code(self) -> list[int]:
        """The numbers of the code cells."""
        return [number for number, cell in enumerate(self.cells) if cell.get("cell_type") == "code"]

    def with_source(self, number: int, source: str) -> bytes:
        """The file's bytes with another source in one code cell, which loses its outputs."""
        values = self._members(self._cell_spans[number][0])
        as_text = isinstance(self.cells[number]["source"], str)
        new: dict[str, Any] = {"source": source if as_text else source.splitlines(keepends=True)}
        new |= {"outputs": [], "execution_count": None}
        text = self.text
        for key, (start, end) in sorted(values.items(), key=lambda item: item[1], reverse=True):
            if key in new:
                text = text[:start] + self._written(new[key], start) + text[end:]
        return text.encode("utf-8")

    @staticmethod
    def _metadata(cell: dict[str, Any]) -> dict[str, Any]:
        metadata = cell.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    def _written(self, value: Any, start: int) -> str:
        """A value as the file would write it: on lines of its own, indented, where the key stands so."""
        line = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        lead = line[: len(line) - len(line.lstrip(" \t"))]
        unit = lead[: len(lead) // 3]  # the keys of a cell lie three deep
        if not unit or not isinstance(value, list):
            return json.dumps(value, ensure_ascii=False)
        end = "\r\n" if "\r\n" in self.text else "\n"
        return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", end + lead)

    @cached_property
    def _cell_spans(self) -> list[Span]:
        top = self._members(self.text.index("{"))
        return self._elements(top["cells"][0])

    def _members(self, start: int) -> dict[str, Span]:
        """Where the values of the object at `start` lie."""
        spans: dict[str, Span] = {}
        at = self._skip(start + 1)
        while self.text[at] != "}":
            key, at = DECODER.raw_decode(self.text, at)
            value = self._skip(self._skip(at) + 1)  # past the colon
            _, end = DECODER.raw_decode(self.text, value)
            spans[key] = (value, end)
            at = self._after_comma(end)
        return spans

    def _elements(self, start: int) -> list[Span]:
        """Where the elements of the array at `start` lie."""
        spans: list[Span] = []
        at = self._skip(start + 1)
        while self.text[at] != "]":
            _, end = DECODER.raw_decode(self.text, at)
            spans.append((at, end))
            at = self._after_comma(end)
        return spans

    def _after_comma(self, at: int) -> int:
        at = self._skip(at)
        return self._skip(at + 1) if self.text[at] == "," else at

    def _skip(self, at: int) -> int:
        return SPACE.match(self.text, at).end()  # type: ignore[union-attr]  # it matches the empty text as well
