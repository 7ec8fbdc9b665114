"""The points that notebooks, lessons and exercises promise are the same."""

from __future__ import annotations

from collections.abc import Iterator

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.notebook import grade_id, read_notebook
from autograde.lessons import Lesson


def points(course: Course) -> list[Problem]:
    """Check cells that are not worth what their exercise is worth, and lessons that do not add up."""
    return each_lesson(course, _of_lesson)


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    due = {grade_id("check", name): exercise.points for name, exercise in course.exercises.items()}
    for path in (course.solution(lesson), course.release(lesson)):
        name, total = course.relative(path), 0
        for cell in read_notebook(course, lesson, path).cells:
            graded = cell.metadata.get("nbgrader", {})
            if not graded.get("grade") or graded.get("solution"):  # a written question has points of its own
                continue
            total += graded["points"]
            if graded["points"] != due.get(graded["grade_id"]):
                text = f"{name}: {graded['points']} points, the exercise has {due.get(graded['grade_id'])}"
                yield Problem(lesson.slug, f"cell {graded['grade_id']}", text)
        if total != lesson.points:
            yield Problem(lesson.slug, "", f"{name}: {total} points in all, the lesson declares {lesson.points}")
