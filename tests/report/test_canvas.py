"""A Canvas gradebook comes back as it was, with our grades in its columns."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from autograde.report.canvas import fill_canvas
from autograde.report.grades import ExportError, Grade

TEMPLATE = """\
Student,ID,SIS User ID,SIS Login ID,Section,Essay (11),07-tiny (12),08-more (13),Assignments Final Score
,,,,,Manual Posting,,,
    Points Possible,,,,,10,6,12,(read only)
"Ames, Ann",101,u1,ann,A,-3,,,90
"Bo, Bob",102,u2,bob@x.edu,A,9,1,EX,80
"Cy, Cy",103,cy,c.cy,B,,,,
"Student, Test",199,,,A,,,,
"""


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "export.csv"
    path.write_text(TEMPLATE, encoding="utf-8")
    return path


def read(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def test_grades_land_in_their_column_and_the_rest_stays(tmp_path: Path, template: Path) -> None:
    grades = [Grade("ann", "07-tiny", 4.5, 6), Grade("bob@x.edu", "07-tiny", 0, 6), Grade("cy", "07-tiny", 6, 6)]
    assert fill_canvas(grades, template, tmp_path / "out.csv", {}) == []
    want = read(TEMPLATE)
    want[3][6], want[4][6], want[5][6] = "4.5", "0", "6"  # by login, by login, by SIS id
    assert read((tmp_path / "out.csv").read_text(encoding="utf-8")) == want


def test_a_column_can_have_another_name(tmp_path: Path, template: Path) -> None:
    grades = [Grade("ann", "01-a", 10, 10)]
    assert fill_canvas(grades, template, tmp_path / "out.csv", {"01-a": "Essay"}) == []
    assert read((tmp_path / "out.csv").read_text())[3][5] == "10"


def test_nobody_is_dropped_silently(tmp_path: Path, template: Path) -> None:
    grades = [
        Grade("eve", "07-tiny", 1, 6),
        Grade("u1", "07-tiny", 2, 6),
        Grade("ann", "07-tiny", 3, 6),  # the row that u1 has already
        Grade("bob@x.edu", "08-more", 3, 12),
        Grade("c.cy", "08-more", 3, 12, waits=True),
    ]
    notes = fill_canvas(grades, template, tmp_path / "out.csv", {})
    assert notes == [
        "eve: no row has this login or id",
        "ann: the row of 'Ames, Ann' is taken by u1 already",
        "bob@x.edu: 08-more is excused in Canvas; left as it was",
        "c.cy: 08-more waits for marking by hand; left as it was",
    ]
    rows = read((tmp_path / "out.csv").read_text())
    assert [row[6:8] for row in rows[3:]] == [["2", ""], ["1", "EX"], ["", ""], ["", ""]]


def test_a_login_that_two_rows_have_is_not_guessed(tmp_path: Path, template: Path) -> None:
    template.write_text(TEMPLATE + '"Twin, Ann",104,u9,ann,A,,,,\n')
    notes = fill_canvas([Grade("ann", "07-tiny", 1, 6)], template, tmp_path / "out.csv", {})
    assert notes == ["ann: 2 rows have this SIS Login ID"]


def test_other_points_and_missing_columns_are_said(tmp_path: Path, template: Path) -> None:
    grades = [Grade("ann", "07-tiny", 1, 12), Grade("ann", "09-none", 1, 5)]
    notes = fill_canvas(grades, template, tmp_path / "out.csv", {})
    assert notes == [
        "07-tiny: Canvas counts 6 points, the lesson 12; points are as graded",
        "09-none: no column named '09-none' in export.csv",
    ]
    with pytest.raises(ExportError, match="--column LESSON=NAME"):
        fill_canvas(grades[1:], template, tmp_path / "out.csv", {})
    with pytest.raises(ExportError, match="read only"):
        fill_canvas(grades[:1], template, tmp_path / "out.csv", {"07-tiny": "Assignments Final Score"})


def test_semicolons_and_a_byte_order_mark(tmp_path: Path, template: Path) -> None:
    rows = read(TEMPLATE)
    text = io.StringIO()
    csv.writer(text, delimiter=";").writerows(rows)
    template.write_bytes(b"\xef\xbb\xbf" + text.getvalue().encode())
    assert fill_canvas([Grade("ann", "07-tiny", 4.5, 6)], template, tmp_path / "out.csv", {}) == []
    rows[3][6] = "4.5"
    assert read((tmp_path / "out.csv").read_text(encoding="utf-8"), ";") == rows


def test_names_that_are_formulas_are_guarded_and_odd_ones_stay_whole(tmp_path: Path, template: Path) -> None:
    template.write_text(
        TEMPLATE
        + '"=cmd|x",105,u5,eve,A,,,,\n"a ""b"", \nc",106,u6,fay,A,,,,\na\u2028b,107,,gus,A,,,,\n=x,,,hal,A,,,,\n',
        encoding="utf-8",
    )
    grades = [Grade(who, "07-tiny", 1, 6) for who in ("eve", "fay", "gus", "hal")]
    assert fill_canvas(grades, template, tmp_path / "out.csv", {}) == []
    rows = read((tmp_path / "out.csv").read_bytes().decode())
    # Without an ID the name is what Canvas goes by.
    assert [row[0] for row in rows[-4:]] == ["'=cmd|x", 'a "b", \nc', "a\u2028b", "=x"]
    assert rows[3][5] == "-3"  # a number is no formula


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "wanted a gradebook exported from Canvas"),
        (b"Name,Mail\nann,x\n", "wanted a gradebook exported from Canvas"),
        (b"Student,ID,Section\nann,1,A,2\n", "wanted 3 cells in a line, got 4 for 'ann'"),
        (b"\xff\xfe\x00", "wanted a CSV in UTF-8"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: bytes, says: str) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(text)
    with pytest.raises(ExportError, match=says):
        fill_canvas([Grade("ann", "07-tiny", 1, 6)], path, tmp_path / "out.csv", {})
