"""The gates on the lessons of this course, as they are on disk."""

from __future__ import annotations

import pytest

from autograde.authoring.course import Course
from autograde.authoring.gates import GATES


@pytest.mark.parametrize("gate", GATES)
def test_gate(gate):
    if gate in ("unsolved", "solved"):  # these run all lessons
        pytest.importorskip("torch", reason="torch is missing: see `make torch`")
    problems = GATES[gate](Course())
    assert not problems, "\n" + "\n".join(map(str, problems))


@pytest.mark.parametrize("lesson", Course().lessons, ids=lambda lesson: lesson.slug)
def test_stored_outputs_are_what_a_fresh_run_shows(lesson, nbval):
    result = nbval(Course(), lesson)
    assert result.returncode == 0, result.stdout
