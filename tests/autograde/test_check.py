"""What learners do to a check cell, and what it says then. What holds of every check: see the fixture `checked`."""

from __future__ import annotations

import logging
import signal
import sys
import warnings

import numpy as np
import pytest

from autograde import check, mine_or, passed
from autograde.exercises import load
from kvlib.attention import attend
from kvlib.toy import ToyCache as Right

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("9.9", 'There is no exercise "9.9". There are: 0.1, 1.1'),
        (1.3, 'by its number in quotes, such as "1.3"'),
        (5, "by its number in quotes"),
        (None, "by its number in quotes"),
        ([], "by its number in quotes"),
        (Right, "by its number in quotes"),
        ("\x1b[2J\n", 'There is no exercise "?[2J "'),
    ],
)
def test_an_unknown_exercise(checked, asked, said) -> None:
    """check(1.3) was answered with "There is no exercise 1.3. There are: ..., 1.3", and nobody saw the quotes."""
    assert said in checked(asked).text


def test_a_name_that_is_not_defined_yet(checked) -> None:
    """ "Run all" reaches the check before anything is written, or the cell above was never run."""
    assert "`attend_` is not defined. Run the cell that defines `attend_`" in checked("1.1", "attend_").text


def test_the_name_is_looked_up_where_check_is_called(capsys) -> None:
    """Without a second argument the name that the exercise asks for is taken, here from the function's own names."""

    def ToyCache(*projections):
        return Right(*projections)

    assert check("1.3") == load()["1.3"].points
    assert ToyCache is not None


@pytest.mark.parametrize("work", [None, 3, "", [1], Right.__doc__, np.zeros(3)])
def test_work_that_cannot_be_called(checked, work) -> None:
    """A learner passes a result, or a variable that the cell above has overwritten."""
    result = checked("1.3", work)
    assert result.points == 0.0
    assert "Run the cell that defines" in result.text


def test_an_object_in_place_of_its_class(checked) -> None:
    result = checked("1.3", Right(*[attend] * 3))
    assert (result.points, result.text.split(". ")[0]) == (
        0.0,
        "1.3: wanted the class `ToyCache` itself, got an object of it",
    )


def test_an_error_is_told_with_the_line_of_the_learners(checked) -> None:
    """NumPy's own words are long, and the line that raised is what helps."""

    def turned(q, K, V):
        return (K.T @ q) @ V

    text = " ".join(checked("1.1", turned).text.split())
    assert "ValueError: matmul: size 2 is different from 1 (line" in text and "`return (K.T @ q) @ V`)" in text


def test_a_length_that_is_not_returned(checked) -> None:
    class Lengthless(Right):
        def __len__(self):
            len(self.keys)

    assert "Lengthless.__len__ returned None: is a `return` missing?" in checked("1.3", Lengthless).text


class Mute:
    """Takes anything, says nothing."""

    def __init__(self, *args):
        pass

    def __len__(self):
        return 0

    def step(self, x):
        return None


class FewArguments(Mute):
    def __init__(self, project_q):
        pass


class StepWithoutToken(Mute):
    def step(self):
        return None


class StepWithPosition(Mute):
    def step(self, x, position):
        return None


class NoStep:
    def __init__(self, *args):
        pass


class StepIsData(Mute):
    step = 3


class FailsInside(Mute):
    def step(self, x):
        return self.forgotten


@pytest.mark.parametrize(
    ("exercise", "work", "said"),
    [
        ("1.1", lambda q, K: q, "<lambda>(q, K) is called with 3 arguments: too many positional arguments"),
        ("1.1", lambda q, K, V, mask: q, "(q, K, V, mask) is called with 3 arguments: missing a required"),
        ("1.3", FewArguments, "FewArguments(project_q) is called with 3 arguments"),
        ("1.3", StepWithoutToken, "StepWithoutToken.step() is called with 1 argument: too many"),
        ("1.3", StepWithPosition, "StepWithPosition.step(x, position) is called with 1 argument: missing"),
        ("1.3", NoStep, "NoStep has no step"),
        ("1.3", StepIsData, "StepIsData.step is a int, not something that can be called"),
        ("1.3", FailsInside, "AttributeError: 'FailsInside' object has no attribute 'forgotten'"),
        ("2.1", Mute, "Mute has no "),
        ("2.1", lambda *args: 3, "int has no "),
    ],
)
def test_work_of_the_wrong_form(checked, exercise, work, said) -> None:
    """The message shows the learner's own signature beside the call, not a TypeError from inside the grader."""
    result = checked(exercise, work)
    assert result.points == 0.0
    assert said in " ".join(result.text.split()), result.text


def endless() -> list:
    """Holds itself, a thousand times."""
    items: list = []
    items.extend([items] * 1000)
    return items


class Odd:
    """A class whose name means something to a browser."""


Odd.__name__ = "<script>"


async def later() -> None:
    """Never awaited, which Python says on stderr."""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (lambda: None, "returned None: is a `return` missing?"),
        (lambda: "0.5 0.5", "returned the text '0.5 0.5', wanted an array of shape (2,)"),
        (lambda: b"0.5", "returned a bytes"),
        (lambda: (x for x in (1, 2)), "returned a generator"),
        (lambda: later(), "returned a coroutine"),
        (lambda: object(), "returned an object"),
        (lambda: Odd(), "returned a <script>"),
        (lambda: {"output": 1}, "returned a dict"),
        (lambda: {1, 2}, "returned a set"),
        (lambda: Odd, "returned a type"),
        (lambda: attend, "returned a function"),
        (lambda: [[1.0], [1.0, 2.0]], "returned a list or tuple of"),
        (lambda: [1.0, "2"], "returned a list or tuple of"),
        (lambda: endless(), "returned a list or tuple of"),
        (lambda: [0.0] * 1_000_000, "returned a list of too many items"),
        (lambda: True, "returned True"),
        (lambda: 1 + 2j, "returned a complex"),
        (lambda: np.complex128(1 + 2j), "returned an array of dtype complex128"),
        (lambda: np.array([1, 2j]), "returned an array of dtype complex128"),
        (lambda: np.array(["a", "b"]), "returned an array of dtype <U1"),
        (lambda: np.array(1.0), "returned shape (), wanted (2,)"),
        (lambda: np.float64(1.0), "returned shape (), wanted (2,)"),
        (lambda: np.longdouble(1.0), "returned shape (), wanted (2,)"),
        (lambda: 10**100_000, "returned an int of 332193 bits"),
        (lambda: np.zeros(0), "returned shape (0,)"),
        (lambda: np.full(2, np.nan), "there is a NaN"),
        (lambda: np.full(2, np.inf), "there is an infinity"),
        (lambda: np.broadcast_to(0.0, (10**7, 10**7)), "too large to compare"),
        (lambda: np.full(2, 1e308), "expected"),
        (lambda: np.ma.masked_array([1.0, 2.0], [True, True]), "expected"),
    ],
)
def test_values_that_are_no_answer(checked, value, said) -> None:
    """The learner reads what came back and what was wanted; nothing of it may break the grader or fill the memory."""
    result = checked("1.1", lambda q, K, V: value())
    assert result.points == 0.0
    assert said in " ".join(result.text.split()), result.text


COUNTS = {
    "large": 10**100_000,
    "small": -(10**100_000),
    "text": "x" * 10**6,
    "complex": 1 + 2j,
    "complex64": np.complex64(1),
    "object": object(),
    "array": np.zeros(9),
}


@pytest.mark.parametrize("value", COUNTS.values(), ids=COUNTS.keys())
def test_counts_that_are_no_counts(checked, value) -> None:
    """Python does not print an int of 100,000 digits: the check itself failed on it, and asked for a report."""
    result = checked("1.2", lambda prompt, new: (value, value))
    assert result.points == 0.0
    assert "does not hold: the count with a cache is right" in result.text


@pytest.mark.parametrize("exercise", load().values(), ids=lambda exercise: exercise.id)
def test_every_exercise_keeps_the_promises(checked, exercise) -> None:
    """No exercise breaks, prints None or grows past 8 lines for the usual nothings, nor for its own mistakes."""

    def constant(value):
        return lambda *args, **kwargs: value

    for value in (None, "x", object(), [[1], [1, 2]], 1j, np.nan, np.zeros((2, 3)), 10**5000, endless()):
        assert checked(exercise.id, constant(value)).points == 0.0
    for mistake in exercise.mistakes:
        result = checked(exercise.id, mistake.fresh())
        assert result.points < exercise.points
        assert "looks like: " in result.text, mistake.name
    assert checked(exercise.id, exercise.reference).points == exercise.points


class NoWords(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even this")


def deep(*args):
    return deep(*args)


def raising(error):
    def work(q, K, V):
        raise error

    return work


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (raising(KeyError("k")), "KeyError: 'k'"),
        (raising(SystemExit(3)), "SystemExit: 3"),
        (raising(GeneratorExit()), "GeneratorExit"),
        (raising(StopIteration(1)), "StopIteration: 1"),
        (raising(NoWords()), "NoWords: (its message cannot be shown)"),
        (raising(ValueError("two\nlines\x1b[31m")), "ValueError: two lines?[31m"),
        (raising(ValueError("\ud800")), "ValueError: ?"),
        (raising(ExceptionGroup("many", [ValueError("one")])), "ExceptionGroup: many (1 sub-exception)"),
        (raising(AssertionError()), "AssertionError"),
        (deep, "RecursionError: maximum recursion depth exceeded"),
        (lambda q, K, V: V[99], "IndexError: index 99 is out of bounds"),
    ],
)
def test_work_that_raises(checked, work, said) -> None:
    """Whatever is raised, "Run all" goes on, and the learner reads kind, message and line."""
    result = checked("1.1", work)
    assert result.points == 0.0
    text = " ".join(result.text.split())
    assert f"your code raised {said}" in text
    assert "line " in text


def test_work_that_is_not_written_yet(checked) -> None:
    """The stub as it is handed out: not a failure in red, but what to do next."""
    result = checked("1.1", raising(NotImplementedError()))
    assert result.points == 0.0
    assert "1.1 attend: not implemented yet, 0.0 of " in result.text
    assert "Write attend in the cell above" in result.text


def test_nothing_reaches_stderr(checked, monkeypatch) -> None:
    """One warning, one log record or one print to stderr inside the work was worth all marks in nbgrader."""
    handler = logging.StreamHandler(sys.stderr)  # as logging.basicConfig() in an earlier cell makes it
    monkeypatch.setattr(logging.root, "handlers", [handler])

    def loud(q, K, V):
        warnings.warn("mind the step", stacklevel=1)
        logging.getLogger("mine").error("logged")
        print("printed", file=sys.stderr)
        return attend(q, K, V)

    assert checked("1.1", loud).points == load()["1.1"].points
    assert logging.root.isEnabledFor(logging.WARNING)


def test_what_the_notebook_made_an_error_is_none_here(checked) -> None:
    """A cell far above with np.seterr(all="raise") or simplefilter("error") took marks, and broke the oracle."""

    def careless(q, K, V):
        warnings.warn("mind the step", stacklevel=1)
        assert np.exp(-1e5) == 0.0  # an underflow
        assert np.isinf(np.float64(1) / 0)
        return attend(q, K, V)

    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert checked("1.1", careless).points == load()["1.1"].points
        assert np.geterr()["over"] == "raise", "the notebook's own settings are back"


def test_objects_are_let_go_in_silence(checked) -> None:
    """A cycle between grader and learner kept every cache alive until some later cell, where its __del__ then wrote."""
    alive = []

    class Counted(Right):
        def __init__(self, *projections):
            super().__init__(*projections)
            alive.append(1)

        def __del__(self):
            alive.pop()
            print("gone", file=sys.stderr)

    assert checked("1.3", Counted).points == load()["1.3"].points
    assert alive == []


def test_output_of_the_work_is_counted_not_shown(checked) -> None:
    """Prints for debugging would bury the verdict; that they are missing must be said."""

    def prints(q, K, V):
        print("debugging")
        print("debugging", file=sys.stderr)

    text = checked("1.1", prints).text
    assert "debugging" not in text
    lines = 2 * (len(load()["1.1"].stages) + 1)  # the first wrong answer is asked for twice
    assert f"Your code printed {lines} lines during the check; not shown." in text


def test_an_interrupt_passes_through(capsys) -> None:
    """The interrupt button belongs to the learner: neither the work nor the check may keep it."""
    handler, out = signal.getsignal(signal.SIGALRM), sys.stdout
    with pytest.raises(KeyboardInterrupt):
        check("1.1", lambda q, K, V: signal.raise_signal(signal.SIGINT))
    assert sys.stdout is out
    assert signal.getsignal(signal.SIGALRM) == handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_defect_of_the_grader_is_not_the_learners(checked, monkeypatch) -> None:
    """A stage that breaks gives no marks, and says whose fault it is; the cell does not raise."""
    import autograde.judge

    def broken(*args):
        raise ZeroDivisionError("oracle")

    monkeypatch.setattr(autograde.judge, "rng_for", broken)
    assert "which is not your fault. Please report: stage '" in checked("1.1", attend).text


def test_a_terminal_without_the_letters(monkeypatch) -> None:
    """A name in Greek on a terminal in ASCII raised UnicodeEncodeError, and the marks were gone."""
    import io

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    points = check("1.1", raising(ValueError("λάθος")))
    sys.stdout.flush()
    assert points == 0.0
    assert b"ValueError: ?????" in raw.getvalue()


def test_mine_or_runs_the_learners_work_once_it_passes(capsys) -> None:
    """An experiment runs on the learner's own code as soon as its newest check has passed, and says whose it is."""

    def attend_(q, K, V):
        return attend(q, K, V)

    check("1.1", raising(ValueError()))
    assert mine_or("1.1", attend) is attend
    assert "Running on kvlib's attend (check 1.1 has not passed in this session)" in capsys.readouterr().out
    check("1.1", attend_)
    assert passed("1.1")
    assert mine_or("1.1", attend) is attend_
    assert "Running on your attend_." in capsys.readouterr().out
    assert not passed("9.9")


def test_without_torch_the_work_is_not_blamed(monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["autograde.check"], "_has_torch", lambda: False)
    assert check("4.2", lambda *args: None) == 0.0
    assert capsys.readouterr().out.startswith("4.2: not checked, since PyTorch is not installed here")
    assert check("1.2", lambda prompt, new: (0, 0)) == 0.0
    assert "1.2 count_positions: not passed" in capsys.readouterr().out
