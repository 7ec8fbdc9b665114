"""grades.csv, read back as the grader writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde.classroom.record import Row
from autograde.classroom.report import write_csv
from autograde.report.grades import ExportError, Grade, read_grades


def test_what_the_grader_writes_is_read(tmp_path: Path) -> None:
    rows = [
        Row("ann", "01-a", {"1.1": 3.0, "1.2": 2.5}, 5.5, 6.0, notes=('said "hi", twice', "line\nbreak")),
        Row("bob", "01-a", {"1.1": 0.0, "1.2": None}, 0.0, 6.0),
        Row("=1+1", "02-b", {"2.1": 1.0}, 0.5, 1.0, penalty=0.5, notes=("?",)),
        Row("'x", "02-b", {"2.1": 1.0}, 1.0, 1.0, notes=("no\u2028line",)),
    ]
    write_csv(rows, tmp_path / "grades.csv")
    assert read_grades(tmp_path / "grades.csv") == [
        Grade("ann", "01-a", 5.5, 6),
        Grade("bob", "01-a", 0, 6, waits=True),
        Grade("=1+1", "02-b", 0.5, 1),
        Grade("'x", "02-b", 1, 1),
    ]
    assert [grade.student for grade in read_grades(tmp_path / "grades.csv", "01-a")] == ["ann", "bob"]
    with pytest.raises(ExportError, match="wanted grades of 03-c, found 01-a, 02-b"):
        read_grades(tmp_path / "grades.csv", "03-c")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("student,lesson,total\nann,a,1\n", "wanted a column 'max'"),
        ("student,lesson,total,max\nann,a,lots,2\n", "line 2: total: wanted a number from 0 up, got 'lots'"),
        ("student,lesson,total,max\nann,a,-1,2\n", "line 2: total: wanted a number"),
        ("student,lesson,total,max\nann,a,1,inf\n", "line 2: max: wanted a number"),
        ("student,lesson,total,max\nann,a,nan,2\n", "line 2: total: wanted a number"),
        ("student,lesson,total,max\nann,a\n", "line 2: total: wanted a number"),
        ("student,lesson,total,max\nann,a,1,2\nann,a,2,2\n", "line 3: 'ann' has a second line for a"),
        ("student,lesson,total,max\n", "wanted grades of a lesson, found no lesson"),
    ],
)
def test_an_unfit_file_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "grades.csv").write_text(text)
    with pytest.raises(ExportError, match=says):
        read_grades(tmp_path / "grades.csv")
