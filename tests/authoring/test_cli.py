"""`python -m autograde lessons ...`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from autograde import cli
from autograde.authoring.course import REPOSITORY, Problem


@pytest.fixture
def made_up_course(course, monkeypatch):
    """Make the commands work on the made-up lessons, wherever they are told to look."""
    monkeypatch.setattr("autograde.authoring.cli.Course", lambda root: replace(course, root=root))
    return course


def test_build_says_what_it_does_and_that_nothing_is_left_to_do(made_up_course, capsys):
    command = ["lessons", "build", "--root", str(made_up_course.root)]
    assert cli.main([*command, "--force", "2"]) == 0
    assert cli.main(command) == 0
    assert capsys.readouterr().out == "02-add-up: building\nNothing to build: 2 lessons are up to date.\n"


def test_a_lesson_that_cannot_be_built_is_one_line_and_status_1(made_up_course, capsys, edit):
    edit(made_up_course.source(made_up_course.lessons[1]), "hints=", "hint=")
    assert cli.main(["lessons", "build", "--root", str(made_up_course.root)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("02-add-up, cell 8 (line 36): solutions/02-add-up.py: unknown key 'hint'")


def test_check_prints_every_gate_and_what_it_found(made_up_course, capsys, monkeypatch):
    problems = [Problem("01-double", "cell check-1-1", "is wrong"), Problem("", "", "so is this")]
    monkeypatch.setattr("autograde.authoring.gates.GATES", {"one": lambda course: [], "two": lambda course: problems})
    assert cli.main(["lessons", "check", "--root", str(made_up_course.root)]) == 1
    assert capsys.readouterr().out == "one: ok\ntwo: 2 found\n  01-double, cell check-1-1: is wrong\n  so is this\n"
    problems.clear()
    assert cli.main(["lessons", "check"]) == 0


def test_starting_up_imports_nothing_slow():
    """nbgrader and its kin take seconds to import; `--help` and every other command must not pay for them."""
    code = (
        "import sys\nfrom autograde.cli import main\n"
        "try:\n    main(['lessons', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('nbgrader', 'nbclient', 'nbformat', 'jupytext', 'torch') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert result.stdout.endswith("\n[]\n")
    assert "build" in result.stdout


def test_a_course_that_quickstart_made_is_built_where_it_lies(tmp_path, monkeypatch, capsys):
    assert cli.main(["quickstart", str(tmp_path / "mine"), "--lesson", "00-start-here"]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    text = tmp_path / "mine/solutions/00-start-here.py"
    text.write_text(text.read_text(encoding="utf-8").replace("It takes about ten minutes", "Take ten minutes"))
    capsys.readouterr()
    assert cli.main(["lessons", "build"]) == 0
    assert cli.main(["lessons", "build"]) == 0
    assert capsys.readouterr().out == "00-start-here: building\nNothing to build: 1 lessons are up to date.\n"
    for folder in ("lessons", "solutions"):
        book = tmp_path / "mine" / folder / "00-start-here/00-start-here.ipynb"
        assert "Take ten minutes" in book.read_text(encoding="utf-8")
    assert cli.main(["lessons", "check"]) == 0, capsys.readouterr().out
