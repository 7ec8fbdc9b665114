"""What a worker may import, lesson by lesson."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autograde.lessons import LESSONS, Lesson
from autograde.sandbox.view import PACKAGE, PICTURES, make_view

TRY = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
found = {}
for name in sys.argv[2:]:
    try:
        found[name] = importlib.import_module(name).__file__
    except ImportError as error:
        found[name] = f"refused: {error}"
print(json.dumps(found))
"""


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_all_that_was_introduced_can_be_imported_but_the_answers(lesson: Lesson, tmp_path: Path) -> None:
    """A module that imports an answer would take the lesson's first cell down with it."""
    make_view(tmp_path, lesson)
    introduced = [name for other in LESSONS if other.number <= lesson.number for name in other.introduces]
    asked = sorted({*introduced, *lesson.answers})
    command = [sys.executable, "-c", TRY, str(tmp_path), *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    refused = sorted(name for name, where in found.items() if where.startswith("refused: "))
    assert refused == sorted(lesson.answers), found
    assert all("answers an exercise of this lesson" in found[name] for name in refused)
    assert all(where.startswith(str(tmp_path)) for name, where in found.items() if name not in refused)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_no_check_reference_or_catalogue_is_in_it(lesson: Lesson, tmp_path: Path) -> None:
    make_view(tmp_path, lesson)
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.py")}
    ours = {name for name in names if name.startswith("autograde/")}
    allowed = {"__init__", "deadline", "host", "poison", "quiet", "tensors", "value"}
    allowed |= {
        f"sandbox/{name}" for name in ("__init__", "enter", "landlock", "seccomp", "template", "wire", "worker")
    }
    assert ours == {f"autograde/{name}.py" for name in allowed}
    for answer in lesson.answers:
        text = tmp_path.joinpath(*answer.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        assert "def " not in text and "class " not in text


def test_pictures_can_be_asked_for_and_draw_nothing(tmp_path: Path) -> None:
    make_view(tmp_path, LESSONS[1])
    source = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom kvlib import plots, widgets\n"
        "picture = plots.draw_rows(4, upto=2)\nprint(picture, picture.alt, widgets.explore_rows(8))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.count("(pictures are not drawn while grading)") == 3
    assert all(PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py").exists() for name in PICTURES)


def test_the_real_model_is_left_out_and_says_so(tmp_path: Path) -> None:
    """A submission whose experiment loaded it was stopped after half a minute, and that was all its row said."""
    make_view(tmp_path, LESSONS[9])
    source = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from kvlib.smollm2 import NoModel, load_model, long_sample_text\n"
        "for call in (load_model, long_sample_text):\n"
        "    try: call()\n"
        "    except NoModel as reason: print(reason)\n"
    )
    done = subprocess.run([sys.executable, "-c", source, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["the real model is left out while a notebook is graded"] * 2
