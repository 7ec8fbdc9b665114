"""Exercise 8.5: what one method gains over another, where both were measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.compare import number_pair, shown
from autograde.exercise import Exercise, stage
from autograde.exercises.compare_results.candidates import MISTAKES, VARIANTS
from autograde.finding import Finding, held
from autograde.subject import Subject
from kvlib.compare_results import compare

Row = dict[str, Any]
CLOSE = 1e-6  # of the difference; rounding to fewer digits than the values have is another answer


def row(setting: str, metric: str, better: str, method: str, value: float, unit: str = "") -> Row:
    """One row of a table, with a field that nobody asks for."""
    unit = unit or ("s" if better == "lower" else "points")
    return {
        "setting": setting,
        "metric": metric,
        "unit": unit,
        "better": better,
        "method": method,
        "value": value,
        "source": f"{method} in {setting}",
    }


def gains(rows: Sequence[Row], metric: str, method: str, baseline: str) -> list[tuple[str, float]]:
    """The right answer, setting by setting, with a walk through all rows for each."""
    found = []
    for i in range(len(rows)):
        setting = rows[i]["setting"]
        if any(rows[j]["setting"] == setting for j in range(i)):
            continue
        mine = theirs = better = None
        for candidate in rows:
            if candidate["setting"] == setting and candidate["metric"] == metric:
                better = candidate["better"]
                mine = candidate["value"] if candidate["method"] == method else mine
                theirs = candidate["value"] if candidate["method"] == baseline else theirs
        if mine is not None and theirs is not None:
            found.append((setting, mine - theirs if better == "higher" else theirs - mine))
    return found


def ask(subject: Subject, rows: Sequence[Row], metric: str, method: str, baseline: str) -> Iterable[Finding]:
    """One question, and whether the answer is right."""
    want, got = gains(rows, metric, method, baseline), subject.run(list(rows), metric, method, baseline)
    yield from judge(subject, got, want, f"compare(rows, {metric!r}, {method!r}, {baseline!r})")


def ask_all(subject: Subject, *questions: tuple[Sequence[Row], str, str, str]) -> Iterable[Finding]:
    """Several questions, judged together: one answer alone does not tell two mistakes apart."""
    answers = [subject.run(list(rows), *asked) for rows, *asked in questions]
    for got, (rows, metric, method, baseline) in zip(answers, questions, strict=True):
        call = f"compare(rows, {metric!r}, {method!r}, {baseline!r})"
        yield from judge(subject, got, gains(rows, metric, method, baseline), call)


def judge(subject: Subject, got: Any, want: Sequence[tuple[str, float]], call: str) -> Iterable[Finding]:
    """Whether all settings came back in order, and the gain of each is right."""
    events = len(subject.record)
    pairs = got if isinstance(got, list) and all(isinstance(p, list) and len(p) == 2 for p in got) else None
    if pairs is None:
        fact = "a list of pairs (setting, gain) must come back"
        yield Finding(False, "pairs", fact, where=call, expected="a list of pairs", got=shown(got), events=events)
        return
    settings, wanted = [p[0] for p in pairs], [setting for setting, _ in want]
    if not all(type(setting) is str for setting in settings) or settings != wanted:
        fact = "does not hold: the settings are those with both methods, in order of first appearance"
        given = str([setting if type(setting) is str else shown(setting) for setting in settings[:9]])[:90]
        yield Finding(False, "settings", fact, where=call, expected=str(wanted), got=given, events=events)
        return
    yield held("settings", "the settings are those with both methods, in order of first appearance")
    for (_, value), (setting, gain) in zip(pairs, want, strict=True):
        yield right_gain(value, gain, f"{call}, {setting}", events)


def right_gain(value: Any, gain: float, where: str, events: int) -> Finding:
    """Whether one gain is the difference, to rounding."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(()).item()
    fact = "the gain is the difference, positive where the method is better"
    if type(value) in (int, float) and abs(value - gain) <= CLOSE:  # never so for a NaN
        return held("gain", fact)
    number = type(value) in (int, float) and abs(value) < 1e300
    expected, given = number_pair(gain, float(value)) if number else (str(gain), shown(value))
    return Finding(False, "gain", f"does not hold: {fact}", where=where, expected=expected, got=given, events=events)


def values(rng: np.random.Generator, number: int, low: float = 20.0, high: float = 60.0) -> list[float]:
    """Numbers of two decimals, well apart."""
    steps = (high - low) / number
    found = [round(low + steps * (i + float(rng.uniform(0.2, 0.6))), 2) for i in range(number)]
    return [found[int(i)] for i in rng.permutation(number)]


@stage("one setting", why="A gain is a difference. Whether up or down is better is said by the metric.")
def one_setting(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    a, b, c, d, e, f = values(rng, 6)
    points = [row("7B", "MMLU", "higher", "MHA", a), row("7B", "MMLU", "higher", "MQA", b)]
    times = [row("7B", "time", "lower", "MHA", c), row("7B", "time", "lower", "MQA", d)]
    yield from ask_all(
        subject,
        (points, "MMLU", "MQA", "MHA"),
        (points, "MMLU", "MHA", "MQA"),
        (times, "time", "MQA", "MHA"),
        (times, "time", "MHA", "MQA"),
    )
    rows = [*points, *times]
    rows += [row("7B", "MMLU", "higher", "GQA", e), row("7B", "time", "lower", "GQA", f)]
    for metric in ("MMLU", "time"):
        yield from ask(subject, rows, metric, "GQA", "MQA")
        yield from ask(subject, rows, metric, "MHA", "GQA")
    rows = [row("7B", "perplexity", "lower", method, value, "points") for method, value in (("MHA", a), ("MQA", b))]
    rows += [row("7B", "speed", "higher", method, value, "tokens/s") for method, value in (("MHA", c), ("MQA", d))]
    yield from ask_all(subject, (rows, "perplexity", "MQA", "MHA"), (rows, "speed", "MQA", "MHA"))


@stage("settings apart", weight=2, why="Two papers trained two models: their difference is not the methods'.")
def settings_apart(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    a, b, c, d, e, f, g, h = values(rng, 8)
    rows = [
        row("small", "BLEU", "higher", "MHA", a),
        row("large", "BLEU", "higher", "MQA", b),
        row("large", "BLEU", "higher", "MHA", c),
        row("small", "BLEU", "higher", "MQA", d),
        row("large", "BBH", "higher", "MQA", e),
        row("large", "BBH", "higher", "MHA", f),
    ]
    yield from ask(subject, rows, "BLEU", "MQA", "MHA")
    yield from ask(subject, rows, "BBH", "MQA", "MHA")
    rows = [row("alone", "BLEU", "higher", "MHA", g), *rows, row("other", "BLEU", "higher", "MQA", h)]
    yield from ask(subject, rows, "BLEU", "MQA", "MHA")
    yield from ask(subject, rows, "BLEU", "MHA", "MQA")
    names = ("7B", "7B base", "B", "base")  # none of them is another one
    rows = [row(name, "time", "lower", "MHA", value) for name, value in zip(names, (a, b, c, d), strict=True)]
    rows += [row(name, "time", "lower", "MQA", value) for name, value in zip(names, (e, f, g, h), strict=True)]
    yield from ask(subject, rows, "time", "MQA", "MHA")


@stage("in order", why="Settings come as they first appear in the table, so that two answers can be laid side by side.")
def in_order(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    a, b, c, d, e, f = values(rng, 6)
    rows = [
        row("zeta", "BBH", "higher", "MHA", 31.5),
        row("beta", "BLEU", "higher", "MQA", a),
        row("alpha", "BLEU", "higher", "MHA", b),
        row("zeta", "BLEU", "higher", "MHA", c),
        row("alpha", "BLEU", "higher", "MQA", d),
        row("zeta", "BLEU", "higher", "MQA", e),
        row("beta", "BLEU", "higher", "MHA", f),
    ]
    yield from ask(subject, rows, "BLEU", "MQA", "MHA")
    yield from ask(subject, rows, "BLEU", "MHA", "MQA")
    rows = [row("omega", "BBH", "higher", "GQA", 31.5), *rows]  # none of the two methods, and another metric
    rows += [row("omega", "BLEU", "higher", "MHA", a), row("omega", "BLEU", "higher", "MQA", b)]
    yield from ask(subject, rows, "BLEU", "MQA", "MHA")


@stage("names", why="GQA and GQA-8 are two methods, MMLU and MMLU-Pro two metrics. And 0 is a measured number.")
def names(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    a, b, c, d, e, f = values(rng, 6)
    rows = [
        row("T5", "MMLU-Pro", "higher", "MHA", a),
        row("T5", "MMLU", "higher", "GQA-8", b),
        row("T5", "MMLU", "higher", "GQA", c),
        row("T5", "MMLU", "higher", "MHA", d),
        row("T5", "MMLU", "higher", "MHA-2", e),
        row("T5", "MMLU-Pro", "higher", "GQA", f),
        row("7B", "MMLU", "higher", "gqa", a),
        row("7B", "MMLU", "higher", "MHA", b),
        row("9B", "mmlu", "higher", "GQA", a),
        row("9B", "MMLU", "higher", "MHA", b),
    ]
    yield from ask(subject, rows, "MMLU", "GQA", "MHA")
    yield from ask(subject, rows, "MMLU", "GQA-8", "MHA")
    yield from ask(subject, rows, "MMLU-Pro", "GQA", "MHA")
    rows = [
        row("even", "score", "higher", "MHA", c),
        row("even", "score", "higher", "MLA", c),
        row("from 0", "score", "higher", "MHA", 0.0),
        row("from 0", "score", "higher", "MLA", d),
        row("to 0", "score", "higher", "MLA", 0.0),
        row("to 0", "score", "higher", "MHA", e),
        row("below 0", "score", "higher", "MHA", -a),
        row("below 0", "score", "higher", "MLA", -b),
    ]
    yield from ask(subject, rows, "score", "MLA", "MHA")


@stage("nothing to compare", why="No setting has both: that is an answer too, and an honest one.")
def nothing(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    a, b, c, d = values(rng, 4)
    rows = [row("7B", "BLEU", "higher", "MHA", a), row("T5", "BLEU", "higher", "MQA", b)]
    both = [*rows, row("T5", "BLEU", "higher", "MHA", c), row("7B", "BBH", "higher", "MQA", d)]
    yield from ask(subject, both, "BLEU", "MQA", "MHA")
    yield from ask(subject, rows, "BLEU", "MQA", "MHA")
    yield from ask(subject, both, "BBH", "MQA", "MHA")
    yield from ask(subject, both, "MMLU", "MQA", "MHA")
    yield from ask(subject, both, "BLEU", "MLA", "MHA")
    yield from ask(subject, both, "BLEU", "MHA", "MLA")
    yield from ask(subject, [], "BLEU", "MHA", "MQA")


EXERCISE = Exercise(
    id="8.5",
    name="compare",
    title="Gains, setting by setting",
    goal="Say what one method gains over another in each setting in which both were measured.",
    points=3,
    minutes=12,
    difficulty=2,
    hints=(
        "Put the values into a dict by setting first, then by method. What belongs to another metric stays out. Then "
        "look which settings have both methods.",
        "Python's dicts keep the order in which keys came, so enter every row's setting, whatever its metric. Ask "
        "`method in values`, not `if values.get(method)`: a measured 0 counts.",
        '`table = {}`; for each row `values = table.setdefault(row["setting"], {})`, and if the metric is right, '
        '`values[row["method"]] = row["value"] if row["better"] == "higher" else -row["value"]`. Then for each '
        "setting whose values have both: `(setting, values[method] - values[baseline])`.",
    ),
    stages=(one_setting, settings_apart, in_order, names, nothing),
    reference=compare,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
