"""Each gate holds on a course that is right, and says so when something particular is broken."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from autograde.authoring.gates import GATES


@pytest.mark.parametrize("gate", GATES)
def test_a_course_that_is_right_passes(pristine, gate):
    assert GATES[gate](pristine) == []


def cell_of(notebook, cell_id):
    (cell,) = (cell for cell in notebook["cells"] if cell["id"] == cell_id)
    return cell


class Break:
    """Ways to break the copy of the course that a test was given. Each returns the course to look at."""

    def __init__(self, course):
        self.course = course

    def text(self, number, old, new):
        """Replace a piece of a lesson's text."""
        path = self.course.source(self.course.lessons[number - 1])
        before = path.read_text()
        assert old in before
        path.write_text(before.replace(old, new, 1))
        return self.course

    def notebook(self, which, number, change):
        """Change the JSON of a "solution" or a "release"."""
        path = getattr(self.course, which)(self.course.lessons[number - 1])
        notebook = json.loads(path.read_text())
        change(notebook)
        path.write_text(json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        return self.course

    def source(self, which, number, cell_id, new):
        """Replace the source of one cell."""
        return self.notebook(which, number, lambda notebook: cell_of(notebook, cell_id).update(source=new))

    def graded(self, which, number, cell_id, **changes):
        """Change the nbgrader metadata of one cell."""
        return self.notebook(
            which, number, lambda notebook: cell_of(notebook, cell_id)["metadata"]["nbgrader"].update(changes)
        )

    def lesson(self, number, **changes):
        """Declare a lesson differently."""
        lessons = list(self.course.lessons)
        lessons[number - 1] = replace(lessons[number - 1], **changes)
        return replace(self.course, lessons=tuple(lessons))

    def exercise(self, exercise_id, **changes):
        """Change an exercise in the registry."""
        known = self.course.registry()
        return replace(self.course, registry=lambda: known | {exercise_id: replace(known[exercise_id], **changes)})

    def remove(self, path):
        """Delete a file."""
        (self.course.root / path).unlink()
        return self.course

    def write(self, path, text):
        """Write a file."""
        target = self.course.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return self.course


HEADER = "# ---\n# jupyter:\n#   kernelspec:\n#     display_name: Python 3\n#     name: python3\n# ---"
PLAIN_ADD_UP = "def add_up(numbers):\n    raise NotImplementedError()"
SOLVED_ADD_UP = "def add_up(numbers):\n    return sum(numbers)"
NOISE = "import sys\n\nprint('a warning', file=sys.stderr)"
HINTS = '\n# %% [markdown] hints="1.1"\n#\n'

# gate, how to break the course, and what must be said: the lesson, then texts
SABOTAGE = {
    # files
    "no text": (
        "files",
        lambda b: b.remove("solutions/01-double.py"),
        "01-double",
        "solutions/01-double.py is missing",
    ),
    "no solution": ("files", lambda b: b.remove("solutions/01-double/01-double.ipynb"), "01-double", "is missing"),
    "no release": ("files", lambda b: b.remove("lessons/02-add-up/02-add-up.ipynb"), "02-add-up", "is missing"),
    "no listed file": (
        "files",
        lambda b: b.remove("lessons/01-double/table.csv"),
        "01-double",
        "files= lists table.csv",
    ),
    "a stray file": (
        "files",
        lambda b: b.write("lessons/01-double/key.py", ""),
        "01-double",
        "would go out to students",
    ),
    "a stray text": (
        "files",
        lambda b: b.write("solutions/03-new.py", ""),
        "",
        "solutions/03-new.py belongs to no lesson",
    ),
    "a stray lesson": ("files", lambda b: b.write("lessons/03-new/x", ""), "", "lessons/03-new belongs to no lesson"),
    # structure
    "no title": (
        "structure",
        lambda b: b.notebook("release", 1, lambda n: n["cells"].pop(0)),
        "01-double",
        "the first cell is the title",
    ),
    "two titles": (
        "structure",
        lambda b: b.notebook("release", 1, lambda n: n["cells"][1].update(source="# Again")),
        "01-double",
        "the lesson has one title, as its first heading: 'Again'",
    ),
    "a skipped level": (
        "structure",
        lambda b: b.notebook("release", 1, lambda n: n["cells"][1].update(source="### Deep")),
        "01-double",
        "'Deep' skips from level 1 to 3",
    ),
    "an image for the eye only": (
        "structure",
        lambda b: b.notebook("release", 2, lambda n: n["cells"][1].update(source="![](https://a.example/b.png)")),
        "02-add-up",
        "an image without a description",
    ),
    "a dead link": (
        "structure",
        lambda b: b.notebook("release", 2, lambda n: n["cells"][1].update(source="[there](../03-none/x.ipynb#part)")),
        "02-add-up",
        "a link to ../03-none/x.ipynb",
    ),
    # exercises
    "an unknown exercise": (
        "exercises",
        lambda b: b.text(2, 'hints="2.1"', 'hints="2.9"'),
        "02-add-up",
        "exercise 2.9 is not in the registry",
        "(line 36)",
    ),
    "an undeclared exercise": (
        "exercises",
        lambda b: b.lesson(1, exercises=("1.1",)),
        "01-double",
        "exercise 1.2 is not declared by this lesson",
    ),
    "a declared exercise without cells": (
        "exercises",
        lambda b: b.lesson(2, exercises=("2.1", "2.2")),
        "02-add-up",
        "exercise 2.2 has 0 check cells, not one",
    ),
    "no hints": ("exercises", lambda b: b.text(1, HINTS, ""), "01-double", "exercise 1.1 has 0 hints cells, not one"),
    "two checks": (
        "exercises",
        lambda b: b.text(2, '# %% check="2.1"', '# %% check="2.1"\n\n# %% check="2.1"'),
        "02-add-up",
        "exercise 2.1 has 2 check cells, not one",
    ),
    "hints before the check": (
        "exercises",
        lambda b: [b.text(1, HINTS, ""), b.text(1, '# %% check="1.1"\n', HINTS.lstrip() + '\n# %% check="1.1"\n')][0],
        "01-double",
        "exercise 1.1: cells in the order card, exercise, hints, check",
    ),
    "a homeless exercise": ("exercises", lambda b: b.lesson(2, exercises=()), "", "2.1 is declared by no lesson"),
    "a shared exercise": (
        "exercises",
        lambda b: b.lesson(2, exercises=("2.1", "1.1")),
        "",
        "exercise 1.1 is declared by 01-double, 02-add-up",
    ),
    # size
    "too few words": (
        "size",
        lambda b: replace(b.course, words=(18, 30)),
        "02-add-up",
        "17 words of prose, not 18 to 30",
    ),
    "too many words": (
        "size",
        lambda b: replace(b.course, words=(1, 12)),
        "02-add-up",
        "17 words of prose, not 1 to 12",
    ),
    "too much code": ("size", lambda b: replace(b.course, code_lines=10), "02-add-up", "lines of code, more than 10"),
    # imports
    "a module too early": (
        "imports",
        lambda b: b.text(1, "from kvlib import numbers", "from kvlib import later as numbers"),
        "01-double",
        "imports kvlib.later, which no lesson up to this one introduces",
        "cell 2 (line 6)",
    ),
    "a module too early, in full": (
        "imports",
        lambda b: b.text(1, "2**10", "import kvlib.later"),
        "01-double",
        "kvlib.later",
    ),
    "a module too early, in an answer": (
        "imports",
        lambda b: b.text(1, "    return 3 * x", "    from kvlib.later import TWO\n    return (TWO + 1) * x"),
        "01-double",
        "imports kvlib.later",
    ),
    "all of kvlib": ("imports", lambda b: b.text(1, "2**10", "import kvlib"), "01-double", "imports kvlib, which"),
    "torch too early": (
        "imports",
        lambda b: b.text(1, "2**10", "import torch"),
        "01-double",
        "torch, which lessons do not use before lesson 4",
    ),
    "an unknown package": (
        "imports",
        lambda b: b.text(1, "2**10", "import pandas as pd"),
        "01-double",
        "imports pandas",
    ),
    "the answers": (
        "imports",
        lambda b: b.text(1, "2**10", "from autograde import exercises"),
        "01-double",
        "imports autograde.exercises, which holds the answers",
    ),
    "code that does not parse": ("imports", lambda b: b.text(1, "2**10", "2 +"), "01-double", "does not parse"),
    # pairing
    "an unusual form": ("pairing", lambda b: b.text(1, HINTS, HINTS.replace("\n#\n", "\n")), "01-double", "line 33"),
    "a header": ("pairing", lambda b: b.text(1, "# %%", f"{HEADER}\n\n# %%"), "01-double", "line 1"),
    # sync
    "an edited text": (
        "sync",
        lambda b: b.text(1, "A small lesson", "A tiny lesson"),
        "01-double",
        "build the lessons",
    ),
    "an edited answer": (
        "sync",
        lambda b: b.source("solution", 1, "exercise-1-1", "def double(x):\n    return 2 * x"),
        "01-double",
        "the solution is not what the text builds",
        "cell exercise-1-1",
    ),
    "an edited release": (
        "sync",
        lambda b: b.source("release", 1, "exercise-1-1", "def double(x):\n    ..."),
        "01-double",
        "the release is not what the text builds",
        "cell exercise-1-1",
    ),
    "a lost cell": ("sync", lambda b: b.notebook("release", 2, lambda n: n["cells"].pop()), "02-add-up", "cells, not"),
    "a space more": (
        "sync",
        lambda b: b.write(
            "lessons/02-add-up/02-add-up.ipynb", b.course.release(b.course.lessons[1]).read_text() + "\n"
        ),
        "02-add-up",
        "the release is not what the text builds",
    ),
    "another listed file": (
        "sync",
        lambda b: b.write("lessons/01-double/table.csv", "c"),
        "01-double",
        "lessons/01-double/table.csv is not the file in solutions/",
    ),
    "an edited hint": ("sync", lambda b: b.exercise("2.1", hints=("a", "b", "c")), "02-add-up", "the release is not"),
    "other points": ("sync", lambda b: b.exercise("2.1", points=7), "02-add-up", "the solution is not"),
    "no notebook": (
        "sync",
        lambda b: b.write("solutions/01-double/01-double.ipynb", "<html>"),
        "01-double",
        "is not a notebook",
    ),
    # points
    "a lesson that does not add up": (
        "points",
        lambda b: b.lesson(1, points=6),
        "01-double",
        "5 points in all, the lesson declares 6",
    ),
    "an exercise worth more": (
        "points",
        lambda b: b.exercise("1.2", points=4),
        "01-double",
        "3 points, the exercise has 4",
        "cell check-1-2",
    ),
    "a release worth less": (
        "points",
        lambda b: b.graded("release", 1, "check-1-1", points=1),
        "01-double",
        "lessons/01-double/01-double.ipynb: 1 points",
        "cell check-1-1",
    ),
    # ids
    "a renamed grade id": (
        "ids",
        lambda b: b.graded("release", 1, "check-1-1", grade_id="check-one"),
        "01-double",
        "grade id found 1 times, not 0",
        "cell check-one",
    ),
    "a repeated grade id": (
        "ids",
        lambda b: b.graded("solution", 1, "check-1-1", grade_id="check-1-2"),
        "01-double",
        "grade id found 2 times, not 1",
        "cell check-1-2",
    ),
    "a repeated cell id": (
        "ids",
        lambda b: b.notebook("release", 1, lambda n: n["cells"][0].update(id="check-1-1")),
        "01-double",
        "2 cells have this id",
    ),
    "a bad cell id": (
        "ids",
        lambda b: b.notebook("release", 1, lambda n: n["cells"][0].update(id="no spaces")),
        "01-double",
        "not a valid cell id",
    ),
    "an unknown nbgrader key": (
        "ids",
        lambda b: b.graded("release", 1, "check-1-1", tier="core"),
        "01-double",
        "not valid: Additional properties are not allowed ('tier' was unexpected)",
    ),
    "an old nbgrader schema": (
        "ids",
        lambda b: b.graded("solution", 1, "check-1-1", schema_version=2),
        "01-double",
        "Outdated schema version",
    ),
    "a cell that is no cell": (
        "ids",
        lambda b: b.notebook("solution", 1, lambda n: n["cells"][0].update(outputs=[])),
        "01-double",
        "not valid",
    ),
    "a Python version": (
        "ids",
        lambda b: b.notebook("solution", 2, lambda n: n["metadata"]["language_info"].update(version="3.11")),
        "02-add-up",
        "is not what a build writes",
    ),
    # leaks
    "an answer": (
        "leaks",
        lambda b: b.source("release", 1, "exercise-1-1", "def double(x):\n        result = x + x"),
        "01-double",
        "holds a line of an answer: result = x + x",
        "cell exercise-1-1",
    ),
    "an answer beside the notebook": (
        "leaks",
        lambda b: b.write("lessons/01-double/table.csv", "a\n    return 3 * x\n"),
        "01-double",
        "lessons/01-double/table.csv holds a line of an answer",
    ),
    "a marker": (
        "leaks",
        lambda b: b.source("release", 1, "check-1-1", "### BEGIN HIDDEN TESTS"),
        "01-double",
        "holds a marker",
    ),
    "an output": (
        "leaks",
        lambda b: b.notebook(
            "release",
            2,
            lambda n: n["cells"][3].update(outputs=[{"name": "stdout", "output_type": "stream", "text": []}]),
        ),
        "02-add-up",
        "holds output",
    ),
    "an execution count": (
        "leaks",
        lambda b: b.notebook("release", 2, lambda n: n["cells"][3].update(execution_count=1)),
        "02-add-up",
        "holds output",
    ),
    # unsolved
    "a stub that stops the notebook": (
        "unsolved",
        lambda b: b.source("release", 2, "exercise-2-1", "raise NotImplementedError()"),
        "02-add-up",
        "raises NotImplementedError",
        "raises KeyError",
        "cell check-2-1",
    ),
    "a check that does not say why": (
        "unsolved",
        lambda b: b.source("release", 2, "check-2-1", "0.0"),
        "02-add-up",
        "does not say 'not implemented yet'",
    ),
    "a release that is solved": (
        "unsolved",
        lambda b: b.source("release", 2, "exercise-2-1", SOLVED_ADD_UP),
        "02-add-up",
        "returns 1.0, not 0.0",
    ),
    "a release that warns": (
        "unsolved",
        lambda b: b.source("release", 2, "exercise-2-1", f"{PLAIN_ADD_UP}\n\n{NOISE}"),
        "02-add-up",
        "writes to stderr: a warning",
    ),
    # solved
    "a wrong answer": (
        "solved",
        lambda b: b.source("solution", 2, "exercise-2-1", "def add_up(numbers):\n    return 0"),
        "02-add-up",
        "returns 0.0, not 1.0",
        "cell check-2-1",
    ),
    "points that are not a plain float": (  # nbgrader reads these as full marks, whatever they say
        "solved",
        lambda b: b.source("solution", 2, "check-2-1", 'np.float64(check("2.1"))'),
        "02-add-up",
        "returns np.float64(1.0), not 1.0",
    ),
    "a check that returns nothing": (
        "solved",
        lambda b: b.source("solution", 2, "check-2-1", '_ = check("2.1")'),
        "02-add-up",
        "returns nothing, not 1.0",
    ),
    "a solution that fails": (
        "solved",
        lambda b: b.source("solution", 2, "exercise-2-1", f"{SOLVED_ADD_UP}\n\n{NOISE}\n1 / 0"),
        "02-add-up",
        "raises ZeroDivisionError: division by zero",
        "writes to stderr: a warning",
    ),
    "a solution that ends the kernel": (
        "solved",
        lambda b: b.source("solution", 2, "exercise-2-1", "import os\n\nos._exit(1)"),
        "02-add-up",
        "the kernel died",
        "exercise-2-1",
    ),
    "a lesson that needs its neighbours": (
        "solved",
        lambda b: b.source("solution", 2, "exercise-2-1", f"open('../01-double.py')\n\n{SOLVED_ADD_UP}"),
        "02-add-up",
        "raises FileNotFoundError",
    ),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_a_gate_says_what_is_broken(course, name):
    gate, sabotage, lesson, *texts = SABOTAGE[name]
    broken = sabotage(Break(course))
    if gate in ("solved", "unsolved"):
        broken = replace(broken, lessons=broken.lessons[1:])  # a kernel for the other lesson would only take time
    problems = [problem for problem in GATES[gate](broken) if problem.lesson == lesson]
    said = "\n".join(map(str, problems))
    for text in texts:
        assert text in said, said or "the gate found nothing"


def test_every_gate_was_made_to_fail():
    assert {gate for gate, *_ in SABOTAGE.values()} == set(GATES)
