"""The command: what it writes, what it says, and its exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

Report = Callable[..., int]


@pytest.fixture
def out(capsys: pytest.CaptureFixture) -> Callable[[], str]:
    return lambda: capsys.readouterr().out


def test_results_are_enough(
    classroom: Path, put: Callable[..., Path], report: Report, small: list[dict], out: Callable[[], str]
) -> None:
    for data in small:
        put(data)
    (classroom / "results" / "07-tiny" / "x.json").write_text("{")
    assert report() == 0
    said = out()
    assert "left out  07-tiny/x.json: not JSON" in said and "4 results, 1 files left out" in said
    assert sorted(path.name for path in (classroom / "report").iterdir()) == ["index.html", "items.csv"]
    assert "dee" not in (classroom / "report" / "items.csv").read_text()


def test_an_empty_class_has_a_page(classroom: Path, report: Report) -> None:
    assert report() == 0
    assert "There are no results yet." in (classroom / "report" / "index.html").read_text()


def test_one_lesson_only(
    classroom: Path, put: Callable[..., Path], report: Report, make: SimpleNamespace, capsys: pytest.CaptureFixture
) -> None:
    for lesson in ("07-tiny", "08-more"):
        put(make.result("ann", {"7.1": make.exercise(1, 2)}, lesson=lesson))
    assert report("--lesson", "08-more") == 0
    text = (classroom / "report" / "index.html").read_text()
    assert "08-more" in text and "07-tiny" not in text
    assert report("--lesson", "09-none") == 2
    assert "no results of 09-none; there are: 07-tiny, 08-more" in capsys.readouterr().err


def test_without_results_there_is_nothing_to_do(classroom: Path, report: Report, capsys: pytest.CaptureFixture) -> None:
    (classroom / "results").rmdir()
    assert report() == 2
    assert "there is no folder" in capsys.readouterr().err
    assert not (classroom / "report").exists()
