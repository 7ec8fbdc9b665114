"""The verdict in words and as a card, from the same findings."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from autograde.exercise import stage
from autograde.exercises import load
from autograde.finding import Finding
from autograde.judge import judge_here
from autograde.outcome import Outcome
from autograde.report_html import verdict_html
from autograde.report_text import points_text, printable, verdict_text


class Card(HTMLParser):
    """What a browser would make of a card: its tags, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, "tags are closed in order"

    def handle_data(self, data):
        self.text += data


def failing(exercise, **finding):
    """The exercise with one stage that ends in one finding."""
    values = {"ok": False, "key": "k", "fact": "does not hold: it is right"} | finding

    @stage("only", why="It is asked.")
    def run(subject, rng):
        yield Finding(**values)

    return judge_here(replace(exercise, stages=(run,), mistakes=()), lambda: None)


@pytest.mark.parametrize(
    ("points", "text"), [(0.0, "0.0"), (2.0, "2.0"), (2.5, "2.5"), (2.25, "2.25"), (10.0, "10.0"), (12.75, "12.75")]
)
def test_points_have_the_decimals_they_need(points, text) -> None:
    """2.50 looks like money, and 10.0 must not become 1."""
    assert points_text(points) == text


def test_points_follow_the_weights(double) -> None:
    """A stage of weight 2 is worth two thirds of an exercise that has one more."""
    heavy = replace(double, points=7, stages=(double.stages[0], replace(double.stages[1], weight=2)))
    assert judge_here(heavy, lambda x: 2 * x if x < 4 else 0).points == 2.33
    assert judge_here(heavy, lambda x: 2 * x if x > 4 else 0).points == 4.67
    assert judge_here(heavy, lambda x: 2 * x).points == 7.0


def test_a_verdict_says_what_held_and_what_did_not(double) -> None:
    """Heading, stages, place, numbers, diagnosis: in this order, in text and card alike."""
    verdict = judge_here(double, lambda x: 2 * x if x < 4 else 0)
    assert verdict_text(verdict).splitlines() == [
        "7.1 double: not passed, 2.0 of 4 points",
        "  [held] small  [FAILED] large",
        "  large: does not hold: double(5) is right",
        "  expected 10, got 0",
        "  looks like: Large numbers give 0.",
    ]
    text = Card(verdict_html(verdict)).text
    parts = [
        "7.1 double: not passed, 2.0 of 4 points",
        "held",
        "failed",
        "large",
        "expected 10, got 0",
        "Large numbers give 0.",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_names_in_a_diagnosis_look_like_code(double) -> None:
    """A card is HTML: backticks would stand there as they are. Text keeps them."""
    tells = "Write `<=`, not `<`, for `x`."
    named = replace(double, mistakes=tuple(replace(mistake, tells=tells) for mistake in double.mistakes))
    verdict = judge_here(named, lambda x: 2 * x if x < 4 else 0)
    assert "Write <code>&lt;=</code>, not <code>&lt;</code>, for <code>x</code>." in verdict_html(verdict)
    assert tells in verdict_text(verdict)


def test_positions_are_drawn(double) -> None:
    """Which steps were right is a picture, with words for those who hear it read."""
    verdict = failing(double, marks=(True, False, True), axis="step", first=1, expected="1", got="2")
    assert "expected 1, got 2   steps 1-3: ok X ok" in verdict_text(verdict)
    html = verdict_html(verdict)
    assert re.findall(r'title="(step \d: \w+)"', html) == ["step 1: right", "step 2: wrong", "step 3: right"]
    assert 'role="img" aria-label="step 1: right; step 2: wrong; step 3: right"' in html


def test_a_long_story_is_cut_to_eight_lines(double) -> None:
    """Longer messages are not read. The heading and the first wrong fact are never what is cut."""
    verdict = failing(
        double,
        fact="far too much to say " * 100,
        where="step 3",
        expected="1 " * 200,
        got="2 " * 200,
        marks=(True,) * 200,
        axis="step",
    )
    noted = Outcome(replace(double.stages[0], name="another question " * 20), notes=("a remark",), held=True)
    text = verdict_text(replace(verdict, outcomes=(noted, *verdict.outcomes), printed=10**9))
    assert len(text.splitlines()) == 8
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "only, step 3: far too much" in text
    assert "expected 1 1 1" in text


@pytest.mark.parametrize("lines", [0, 1, 2])
def test_output_of_the_work_is_mentioned(double, lines) -> None:
    """A learner who prints for debugging wonders where it went."""
    text = verdict_text(replace(judge_here(double, lambda x: 0), printed=lines))
    assert ("Your code printed 1 line during the check; not shown." in text) == (lines == 1)
    assert ("Your code printed 2 lines during the check; not shown." in text) == (lines == 2)


def test_rounding_is_noted_without_a_loss(double) -> None:
    """float32 is right, and still worth a word."""

    def single(q, K, V):
        q, K, V = (array.astype(np.float32) for array in (q, K, V))
        weights = np.exp(K @ q / np.float32(np.sqrt(len(q))))
        return weights @ V / weights.sum()

    verdict = judge_here(load()["1.1"], single)
    assert verdict.passed
    assert "note: right to " in verdict_text(verdict)
    assert "<b>Note:</b> right to " in verdict_html(verdict)


EVIL = "<script>alert(1)</script>&\"'"


def learners_words():
    """Places where the learner's own words get into a verdict."""

    def raises(*args):
        raise ValueError(EVIL)

    class Named:
        pass

    Named.__name__ = Named.__qualname__ = EVIL
    Error = type(EVIL, (Exception,), {})

    def raises_named(*args):
        raise Error()

    yield "message", raises
    yield "class of a result", lambda *args: Named()
    yield "class of an exception", raises_named
    yield "class without the method", Named
    yield "text", lambda *args: EVIL
    yield "dtype", lambda *args: np.zeros(1, dtype=[(EVIL, float)])
    exec(f"def named(*args):\n    raise ValueError('{EVIL[:-1]}')\nnamed.__name__ = {EVIL!r}", scope := {})
    yield "function", scope["named"]


@pytest.mark.parametrize("exercise", ["1.1", "1.2", "1.3"])
@pytest.mark.parametrize(("where", "work"), [pytest.param(*pair, id=pair[0]) for pair in learners_words()])
def test_the_learners_words_are_escaped(exercise, where, work) -> None:
    """A notebook runs what is in a card: a class named <script> ran in the browser of whoever looked at it."""
    html = verdict_html(judge_here(load()[exercise], work))
    card = Card(html)
    assert set(card.tags) <= {"div", "b", "span", "code"}
    assert card.open == []
    assert "<script" not in html
    assert "&amp;lt;" not in html, "escaped twice"
    if where == "message":
        assert EVIL in card.text


def test_control_characters_are_not_sent_to_a_terminal(double) -> None:
    """An escape sequence in an exception's message cleared the screen; a lone surrogate stopped the print."""

    def raises(x):
        raise ValueError("a\x1b[2Jb\x00c\u202ed\ud800e\tf")

    verdict = judge_here(double, raises)
    for shown in (verdict_text(verdict), verdict_html(verdict)):
        assert "a?[2Jb?c?d?e f" in shown
    assert printable("λ → 音\u00a0x") == "λ → 音 x"
