"""The table, the CSV and the index of pages."""

from __future__ import annotations

import csv
from pathlib import Path

from autograde.classroom.record import Row
from autograde.classroom.report import table, write_csv, write_index

ROWS = [
    Row("ann", "01-a", {"1.1": 3.0, "1.2": 2.5}, 5.5, 6.0, notes=("late.", 'said "hi", twice')),
    Row("bob", "01-a", {"1.1": 0.0, "1.2": None}, 0.0, 6.0),
    Row("=1+1", "02-b", {"2.1": 1.0}, 0.5, 1.0, penalty=0.5, notes=("<b>",)),
]


def test_csv_has_a_line_for_each_row_and_survives_commas(tmp_path: Path) -> None:
    write_csv(ROWS, tmp_path / "grades.csv")
    with open(tmp_path / "grades.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    assert lines == [
        ["student", "lesson", "1.1", "1.2", "2.1", "late_penalty", "total", "max", "note"],
        ["ann", "01-a", "3", "2.5", "", "0", "5.5", "6", 'late; said "hi", twice'],
        ["bob", "01-a", "0", "?", "", "0", "0", "6", ""],
        ["'=1+1", "02-b", "", "", "1", "0.5", "0.5", "1", "<b>"],
    ]


def test_table_has_columns_under_their_headings() -> None:
    lines = table(ROWS).splitlines()
    assert lines[0] == "01-a"
    assert lines[1].split() == ["student", "1.1", "1.2", "total", "note"]
    assert lines[3].split()[:4] == ["ann", "3", "2.5", "5.5/6"]
    assert lines[4].split() == ["bob", "0", "?", "0/6"]
    assert lines[1].index("1.1") + 3 == lines[3].index(" 3 ") + 2
    assert lines[6] == "02-b"


def test_index_links_the_pages_that_exist(tmp_path: Path) -> None:
    page = tmp_path / "ann" / "01-a" / "01-a.html"
    page.parent.mkdir(parents=True)
    page.touch()
    write_index(ROWS, tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert text.count("<a ") == 1 and 'href="ann/01-a/01-a.html"' in text
    assert "&lt;b&gt;" in text and "<b>" not in text
