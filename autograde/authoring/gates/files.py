"""Every lesson has its three files, and `solutions/` and `lessons/` hold nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.source import read_source
from autograde.authoring.stamps import LEFT_OUT
from autograde.lessons import Lesson


def files(course: Course) -> list[Problem]:
    """Missing and stray files. A stray file in `lessons/` goes out to students, whatever it is."""
    return each_lesson(course, _of_lesson) + list(_strays(course))


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    for path in (course.source(lesson), course.solution(lesson), course.release(lesson)):
        if not path.is_file():
            yield Problem(lesson.slug, "", f"{course.relative(path)} is missing")
    if course.source(lesson).is_file():
        listed = read_source(course, lesson).files
        notebook = course.release(lesson).name
        yield from _unexpected(course, lesson, (notebook, *listed))
        for name in listed:
            if not (course.release(lesson).parent / name).is_file():
                yield Problem(lesson.slug, "", f"files= lists {name}, which is not in lessons/{lesson.slug}/")


def _unexpected(course: Course, lesson: Lesson, expected: Iterable[str]) -> Iterator[Problem]:
    folder = course.release(lesson).parent
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name not in (*expected, *LEFT_OUT):
            text = f"{course.relative(path)} would go out to students: delete it, or list it with files="
            yield Problem(lesson.slug, "", text)


def _strays(course: Course) -> Iterator[Problem]:
    folders = {lesson.slug for lesson in course.lessons}
    texts = {f"{slug}.py" for slug in folders}
    for folder, known in (("solutions", folders | texts), ("lessons", folders)):
        for path in sorted((course.root / folder).glob("*")):
            if path.name not in known and path.name not in LEFT_OUT:
                yield Problem("", "", f"{course.relative(path)} belongs to no lesson")
