"""The numbers, against small classes counted by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autograde.exercises import load
from autograde.judge import judge_here
from autograde.report.analyse import analyse, correlation, natural
from autograde.report.item import MistakeCount, StageCount, Unmatched
from autograde.report.result import parse


def test_a_class_of_four(small: list[dict]) -> None:
    (lesson,) = analyse(map(parse, small), {})
    assert (lesson.lesson, lesson.students, lesson.refused) == ("07-tiny", 4, ())
    first, second = lesson.items
    assert (first.exercise, first.students, first.max, first.mean, first.median) == ("7.1", 4, 4.0, 2.0, 2.0)
    assert first.distribution == ((0.0, 1), (2.0, 2), (4.0, 1))
    assert first.stages == (StageCount("one", 3, 0, 1), StageCount("two", 1, 2, 1))
    assert dict(first.statuses) == {"ok": 1, "failed": 2, "timeout": 1}
    assert first.mistakes == (MistakeCount("slow", 2, 0.5), MistakeCount("leaky", 1, 0.25))
    assert first.unmatched == (Unmatched("timeout", "", "", ("cy",)),)
    assert (first.full, first.untouched) == (1, 0)
    # 7.1 is 2, 0, -2, 0 from its mean, the rest 1, 1, -1, -1: 4 / sqrt(8 * 4).
    assert first.discrimination == pytest.approx(0.7071067811865475)
    assert second.discrimination == pytest.approx(0.7071067811865475)
    assert (second.mean, second.median, second.distribution) == (1.0, 1.0, ((0.0, 2), (2.0, 2)))
    assert second.unmatched == (Unmatched("failed", "", "", ("cy", "dee")),)


def test_nobody_and_one_student_and_all_full_marks(make: SimpleNamespace) -> None:
    assert analyse([], {}) == []
    both = {"7.1": make.exercise(4, 4), "7.2": make.exercise(2, 2)}
    for names in (["ann"], ["ann", "bob", "cy"]):
        (lesson,) = analyse([parse(make.result(name, both)) for name in names], {})
        assert [(i.mean, i.median, i.full) for i in lesson.items] == [(4, 4, len(names)), (2, 2, len(names))]
        assert [i.discrimination for i in lesson.items] == [None, None]
        assert [i.mistakes + i.unmatched for i in lesson.items] == [(), ()]


def test_the_median_of_an_even_class_lies_between(make: SimpleNamespace) -> None:
    (lesson,) = analyse([parse(make.result(f"s{p}", {"7.1": make.exercise(p, 4)})) for p in (0, 1, 3, 4)], {})
    assert lesson.items[0].median == 2.0
    assert lesson.items[0].discrimination is None  # no rest of the lesson


def test_correlation() -> None:
    assert correlation([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert correlation([0, 1, 0, 1], [0, 0, 1, 1]) == 0
    for xs, ys in (([], []), ([1], [2]), ([1, 1], [1, 2]), ([1, 2], [3, 3])):
        assert correlation(xs, ys) is None


def test_equal_rests_are_equal_whatever_the_order_of_the_sum(make: SimpleNamespace) -> None:
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last digit: that is no difference between students."""
    rows = [(1.0, 0.1, 0.2, 0.3), (0.0, 0.3, 0.2, 0.1)]
    assert sum(rows[0][1:]) != sum(rows[1][1:])
    results = [
        parse(make.result(f"s{n}", {f"7.{i}": make.exercise(p, 1) for i, p in enumerate(row)}))
        for n, row in enumerate(rows)
    ]
    assert analyse(results, {})[0].items[0].discrimination is None


def test_exercises_and_lessons_stand_in_the_order_of_their_numbers(make: SimpleNamespace) -> None:
    names = ["7.10", "7.9", "7.1", "x"]
    results = [
        parse(make.result("ann", {name: make.exercise(1, 1) for name in names}, lesson=lesson))
        for lesson in ("10-z", "9-b", "09-a")
    ]
    lessons = analyse(results, {})
    assert [lesson.lesson for lesson in lessons] == ["09-a", "9-b", "10-z"]
    assert [item.exercise for item in lessons[0].items] == ["7.1", "7.9", "7.10", "x"]
    assert natural("9" * 5000)  # longer than int() takes


def test_refused_work_is_listed_and_in_no_number(make: SimpleNamespace) -> None:
    empty = make.exercise(0, 4, "malformed")
    results = [
        parse(make.result("ann", {"7.1": make.exercise(4, 4)})),
        parse(make.result("bob", {"7.1": empty}, refused="the notebook file is empty")),
    ]
    (lesson,) = analyse(results, {})
    assert lesson.students == 2 and lesson.refused == (("bob", "the notebook file is empty"),)
    assert (lesson.items[0].students, lesson.items[0].mean) == (1, 4.0)


def test_mistakes_come_with_the_catalogues_sentence(make: SimpleNamespace) -> None:
    exercise = load()["1.3"]
    known = next(m for m in exercise.mistakes if m.seen_in)
    names = (known.name, "state-outside-the-object", "nobody-knows")
    work = make.exercise(0, 6, "failed", (*names, known.name))  # one name twice counts once
    (lesson,) = analyse([parse(make.result("ann", {"1.3": work}))], load())
    found = {m.name: m for m in lesson.items[0].mistakes}
    assert set(found) == set(names) and all(m.count == 1 for m in found.values())
    assert (found[known.name].tells, found[known.name].seen_in) == (known.tells, known.seen_in)
    assert found["state-outside-the-object"].tells and not found["nobody-knows"].tells
    assert (lesson.items[0].name, lesson.items[0].title) == (exercise.name, exercise.title)


def test_unmatched_failures_are_grouped_by_how_they_ended(make: SimpleNamespace) -> None:
    def work(fact: str) -> dict:
        return make.exercise(1, 4, "failed", (), (make.stage("one", True), make.stage("two", False, fact)))

    facts = {"ann": "x", "bob": "y", "cy": "y"}
    (lesson,) = analyse([parse(make.result(who, {"7.1": work(fact)})) for who, fact in facts.items()], {})
    (item,) = lesson.items
    assert item.unmatched == (
        Unmatched("failed", "two", "y", ("bob", "cy")),
        Unmatched("failed", "two", "x", ("ann",)),
    )
    assert item.unmatched_students == 3


def test_work_that_nobody_began_is_counted_apart(make: SimpleNamespace) -> None:
    """The judge's own words for it, so that a change of them is seen here."""

    def softmax(scores: object) -> None:
        raise NotImplementedError

    verdict = judge_here(load()["0.1"], softmax)
    stages = tuple(make.stage(o.stage.name, o.held, o.finding.fact if o.finding else "") for o in verdict.outcomes)
    works = {"ann": make.exercise(0, 2, "failed", (), stages), "bob": make.exercise(0, 2, "missing")}
    (lesson,) = analyse([parse(make.result(who, {"0.1": work})) for who, work in works.items()], load())
    assert (lesson.items[0].untouched, lesson.items[0].unmatched) == (2, ())


def test_different_maxima_are_noticed(make: SimpleNamespace) -> None:
    results = [parse(make.result(f"s{m}", {"7.1": make.exercise(1, m)})) for m in (4, 5)]
    item = analyse(results, {})[0].items[0]
    assert item.maxima == (4.0, 5.0) and item.max == 5.0
