"""Marking by hand: a cell that a person marks waits, is marked, and its mark is in pages, table and zip."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

import nbformat
import pytest

from autograde.classroom import record, return_zip, schedule
from autograde.classroom.collected import COLUMNS
from autograde.classroom.course import Course, prepare_process
from autograde.cli import main
from tests.classroom.conftest import NoWorker

LESSON, WRITTEN = "07-tiny", "written-7-1"


@pytest.fixture(scope="module")
def with_written(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The tiny course with one more answer, which a person marks, and a class. Nobody may change it."""
    folder = tmp_path_factory.mktemp("written")
    course = Course(Path(shutil.copytree(tiny_root, folder / "course")), folder / "class")
    tag = {"schema_version": 3, "grade_id": WRITTEN, "grade": True, "locked": False, "solution": True, "task": False}
    for path in (course.source(LESSON), course.release(LESSON)):
        notebook = nbformat.read(path, as_version=4)
        cell = nbformat.v4.new_markdown_cell("Why?", id=WRITTEN, metadata={"nbgrader": {**tag, "points": 3}})
        notebook.cells.append(cell)
        nbformat.write(notebook, path)
    return course


@pytest.fixture(scope="module")
def once_graded(with_written: Course) -> Course:
    """Two students' work, graded with the stand-in: 1 of 6 points in each check, and an answer that waits."""
    prepare_process()
    for student in ("ann", "bob"):
        notebook = nbformat.read(with_written.release(LESSON), as_version=4)
        notebook.cells[-1].source = f"Because, says {student}."
        folder = with_written.submitted / student / LESSON
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{LESSON}.ipynb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "grade_job", NoWorker())
        assert run("grade", with_written, "--jobs", "1", "--i-trust-these-submissions") == 0
    return with_written


@pytest.fixture
def written(with_written: Course, tmp_path: Path) -> Course:
    """A copy of the course, and no class."""
    return Course(Path(shutil.copytree(with_written.root, tmp_path / "course")), tmp_path / "class")


@pytest.fixture
def graded(written: Course, once_graded: Course, no_worker: NoWorker) -> Course:
    """The same with a copy of the graded class, which may be graded again."""
    shutil.copytree(once_graded.classroom, written.classroom)
    return written


def run(command: str, course: Course, *more: str) -> int:
    return main([command, str(course.classroom), *more, "--course", str(course.root)])


def mark(course: Course, student: str, points: float) -> None:
    """What formgrader does when a mark and a comment are typed."""
    with record.open_gradebook(course) as gradebook:
        grade = gradebook.find_grade(WRITTEN, LESSON, LESSON, student)
        grade.manual_score, grade.needs_manual_grade = points, False
        gradebook.find_comment(WRITTEN, LESSON, LESSON, student).manual_comment = "Well argued, Ann."
        gradebook.db.commit()


def digest(folder: Path) -> dict[str, str]:
    """Every file below a folder, with what is in it."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in folder.rglob("*")
    }


def page_of(course: Course, student: str) -> str:
    return (course.feedback / student / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")


def test_a_mark_by_hand_reaches_everything_and_stays(graded: Course) -> None:
    text = graded.grades.read_text()
    assert text.count(f"{WRITTEN} waits for marking by hand") == 2 and ",?," in text
    mark(graded, "ann", 2.5)
    assert "Well argued" not in page_of(graded, "ann")
    assert run("feedback", graded) == 0
    assert "Well argued, Ann." in page_of(graded, "ann") and "2.5" in page_of(graded, "ann")
    assert run("export", graded) == 0
    rows = graded.grades.read_text().splitlines()
    assert rows[1] == "ann,07-tiny,1,1,2.5,0,4.5,9," and f"{WRITTEN} waits for marking by hand" in rows[2]
    assert run("grade", graded, "--jobs", "1", "--i-trust-these-submissions", "--fresh") == 0
    assert graded.grades.read_text().splitlines()[1] == rows[1]


def test_dry_runs_write_nothing(graded: Course, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    mark(graded, "ann", 2.5)
    collected(graded, {"ann": "moodle.zip/Ann Lee_17_assignsubmission_file/07-tiny.ipynb"})
    before = digest(tmp_path)
    assert run("feedback", graded, "--lesson", LESSON, "--zip", str(tmp_path / "new.zip"), "--dry-run") == 0
    assert run("export", graded, "--lms", "moodle", "--moodle-id", "username", "--dry-run") == 0
    assert run("grade", graded, "--i-trust-these-submissions", "--dry-run") == 0
    assert digest(tmp_path) == before
    said = capsys.readouterr().out
    assert "2 pages would be written" in said and "nothing was written" in said and "kept from an earlier run" in said


def test_a_dry_run_of_the_first_grading(written: Course, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for student, text in (("ann", written.release(LESSON).read_text()), ("bob", "{")):
        folder = written.submitted / student / LESSON
        folder.mkdir(parents=True)
        (folder / f"{LESSON}.ipynb").write_text(text)
    (written.submitted / "a*b").mkdir()
    written.roster.write_text("id\ncy\n")
    before = digest(tmp_path)
    assert run("grade", written, "--i-trust-these-submissions", "--dry-run") == 0
    lines = capsys.readouterr().out
    for wanted in (
        "ann  would be graded\n",
        "bob  would be graded; 0 points: ",
        "cy   nothing handed in",
        "a*b  not graded",
    ):
        assert wanted in lines
    assert digest(tmp_path) == before


def collected(course: Course, sources: dict[str, str]) -> None:
    """A record of a collection."""
    rows = [f"{source},,{student},{LESSON},,,,yes," for student, source in sources.items()]
    (course.classroom / "collected.csv").write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")


def test_the_zip_has_the_platforms_names(graded: Course, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    collected(graded, {"ann": "w.zip/Ann Lee_17_assignsubmission_file/my work.ipynb", "bob": "mail/bob.ipynb"})
    with (graded.classroom / "collected.csv").open("a") as record:  # a copy that was not taken, and another lesson's
        record.write(f"w.zip/Ann Lee_98_assignsubmission_file/a.ipynb,,ann,{LESSON},,,,no,\n")
        record.write("v.zip/Ann Lee_99_assignsubmission_file/a.ipynb,,ann,08-more,,,,yes,\n")
    assert run("feedback", graded, "--lesson", LESSON, "--zip", str(tmp_path / "back.zip")) == 0
    with zipfile.ZipFile(tmp_path / "back.zip") as archive:
        assert archive.namelist() == [f"Ann Lee_17_assignsubmission_file/{LESSON}.html"]
        assert archive.read(archive.namelist()[0]).decode() == page_of(graded, "ann")
    assert "not done  bob: not in the zip" in capsys.readouterr().out
    assert run("feedback", graded, "--lesson", LESSON, "--zip", str(tmp_path / "back.zip")) == 2
    assert "is there already; --force replaces it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("m.zip/Ann Lee_17_assignsubmission_file_/x.ipynb", "Ann Lee_17_assignsubmission_file_/07-tiny.html"),
        ("m.zip/Ann Lee_17_assignsubmission_file_x.ipynb", "Ann Lee_17_assignsubmission_file_07-tiny.html"),
        ("c.zip/leeann_4711_90210_x.ipynb", "leeann_4711_90210_07-tiny.html"),
        ("c.zip/leeann_LATE_4711_90210_x-1.ipynb", "leeann_LATE_4711_90210_07-tiny.html"),
        ("mail/ann/x.ipynb", ""),
    ],
)
def test_names_for_platforms(source: str, name: str) -> None:
    assert return_zip.platform_name(source, LESSON) == name


def test_back_through_the_exchange(graded: Course, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from nbgrader.utils import notebook_hash

    inbound = tmp_path / "exchange" / "kvcache" / "inbound"
    for time, secret in (("2026-01-01 10:00:00.0 UTC", "old"), ("2026-01-02 10:00:00.0 UTC", "new")):
        folder = inbound / f"ann+{LESSON}+{time}+Xy1"
        folder.mkdir(parents=True)
        (folder / "submission_secret.txt").write_text(secret)
    assert run("feedback", graded, "--exchange", str(tmp_path / "exchange")) == 0
    [page] = (inbound.with_name("feedback")).iterdir()
    assert page.stem == notebook_hash(secret="new", notebook_id=LESSON)
    assert page.read_text(encoding="utf-8") == page_of(graded, "ann")
    assert "not done  bob: not in the exchange" in capsys.readouterr().out


def test_what_is_refused(written: Course, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    def refused(*more: str) -> str:
        assert run("feedback", written, *more) == 2
        return capsys.readouterr().err

    assert "wanted a class's folder, got nothing at" in refused()
    written.classroom.write_text("")
    assert "wanted a class's folder, got the file" in refused()
    written.classroom.unlink()
    written.classroom.mkdir()
    assert "grade the class first" in refused()
    assert list(written.classroom.iterdir()) == []


def test_what_is_refused_of_a_graded_class(graded: Course, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("feedback", graded, "--lesson", "99-none") == 2
    assert capsys.readouterr().err == f"feedback: nobody's work for 99-none was graded; graded: {LESSON}\n"
    assert run("feedback", graded, "--zip", str(tmp_path / "new.zip")) == 2
    assert "collected from a zip of Moodle's or Canvas's" in capsys.readouterr().err
    assert run("feedback", graded, "--exchange", str(tmp_path)) == 2
    assert "nobody handed in through this exchange" in capsys.readouterr().err
