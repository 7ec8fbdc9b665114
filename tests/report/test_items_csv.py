"""items.csv: read back, the numbers of a class counted by hand, and nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograde.report.analyse import analyse
from autograde.report.cell import is_formula, number, safe
from autograde.report.items_csv import write_items
from autograde.report.result import parse


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_line_for_each_stage_and_each_mistake(tmp_path: Path, small: list[dict]) -> None:
    write_items(analyse(map(parse, small), {}), tmp_path / "items.csv")
    lines = read(tmp_path / "items.csv")
    assert [(line["exercise"], line["kind"], line["name"]) for line in lines] == [
        ("7.1", "stage", "one"),
        ("7.1", "stage", "two"),
        ("7.1", "mistake", "slow"),
        ("7.1", "mistake", "leaky"),
    ]
    assert lines[1] == {
        **{"lesson": "07-tiny", "exercise": "7.1", "students": "4", "max": "4", "mean": "2", "median": "2"},
        **{"discrimination": "0.7071", "kind": "stage", "name": "two", "held": "1", "failed": "2", "not_reached": "1"},
        **{"held_share": "0.25", "found": "", "found_share": "", "text": ""},
    }
    assert (lines[2]["found"], lines[2]["found_share"], lines[2]["held"]) == ("2", "0.5", "")
    assert not any(who in (tmp_path / "items.csv").read_text() for who in ("ann", "bob", "cy", "dee"))


EVIL = ("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1")


@pytest.mark.parametrize("evil", EVIL)
def test_no_cell_is_a_formula(tmp_path: Path, make: SimpleNamespace, evil: str) -> None:
    work = make.exercise(1, 2, "failed", (evil,), (make.stage(evil, False),))
    write_items(analyse([parse(make.result("ann", {evil: work}, lesson=evil))], {}), tmp_path / "items.csv")
    lines = read(tmp_path / "items.csv")
    assert len(lines) == 2
    for line in lines:
        for name in ("lesson", "exercise", "name"):
            assert line[name].startswith("'") and not is_formula(line[name])


def test_commas_quotes_and_lines_survive(tmp_path: Path, make: SimpleNamespace) -> None:
    work = make.exercise(1, 2, "failed", ('a,"b"', "c\nd"), ())
    write_items(analyse([parse(make.result("ann", {"7.1": work}))], {}), tmp_path / "items.csv")
    assert [line["name"] for line in read(tmp_path / "items.csv")] == ['a,"b"', "c d"]


def test_cells() -> None:
    assert [safe(text) for text in ("ann", "", "a=b", "'x")] == ["ann", "", "a=b", "'x"]
    assert safe("\tann") == "' ann"
    assert [number(x) for x in (None, 0.5, 2.0, 1 / 3, -0.00001, -0.25)] == ["", "0.5", "2", "0.3333", "0", "-0.25"]
