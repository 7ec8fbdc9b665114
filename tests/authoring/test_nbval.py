"""Stored outputs are compared with a fresh run, and what came out differently is found."""

from __future__ import annotations


def test_stored_outputs_match_a_fresh_run_and_tagged_ones_need_not(course, nbval, edit):
    path = course.solution(course.lessons[0])
    edit(path, "print(id(plt))", "print(id(plt) + 1)")  # the cell is tagged nbval-ignore-output
    result = nbval(course, course.lessons[0])
    assert result.returncode == 0, result.stdout
    assert "10 passed" in result.stdout


def test_a_changed_number_and_a_changed_verdict_fail(course, nbval, edit):
    path = course.solution(course.lessons[0])
    edit(path, '"1024"', '"1023"')
    edit(path, "1.2: right", "1.2: wrong")
    result = nbval(course, course.lessons[0])
    assert result.returncode == 1
    assert "2 failed, 8 passed" in result.stdout
    assert "1023" in result.stdout
    assert "1.2: wrong" in result.stdout
