"""The questions that stages ask, each answered by one `Finding`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autograde.compare import as_array, first_difference, number_pair, observation, rounding_note
from autograde.compare import shown as shown_value
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle, Opaque

Rows = Sequence[np.ndarray] | np.ndarray  # one array for each position


class Trace:
    """Calls one method (or the learner's function itself) once for each position, and keeps what comes back.

    After the first exception nothing more is called: what came before it is judged first, then the exception.
    """

    def __init__(
        self, subject: Subject, handle: Handle | None = None, method: str = "", *, axis: str = "step", first: int = 1
    ) -> None:
        self.subject, self.handle, self.method = subject, handle, method
        self.axis, self.first = axis, first
        self.values: list[Any] = []
        self.ends: list[int] = []  # length of the record after each call
        self.error: LearnerRaised | None = None

    def call(self, *args: Any) -> None:
        """Make the next call, unless one has raised."""
        if self.error is not None:
            return
        try:
            if self.handle is None:
                self.values.append(self.subject.run(*args))
            else:
                self.values.append(self.subject.call(self.handle, self.method, *args))
        except LearnerRaised as error:
            self.error = error
        self.ends.append(len(self.subject.record))

    def agree(self, want: Rows, *, key: str, fact: str, columns: str = "feature", part: int | None = None) -> Finding:
        """Whether the values are the entries of `want`, every position compared as numbers.

        With `part`, each value is a pair and only that half of it is compared. Raises the `LearnerRaised` of a call
        when all that came before it was right.
        """
        values = self.values if part is None else [half(value, part) for value in self.values]
        marks, note = [], ""
        for value, row in zip(values, want, strict=False):
            array, _ = as_array(value, row.shape)
            marks.append(array is not None and first_difference(array, row) is None)
            if array is not None and marks[-1]:
                note = note or rounding_note(array, row)
        if all(marks):
            if self.error is not None:
                position = self.first + len(self.values)
                self.error.args = (f"at {self.axis} {position}: {self.error}",)
                raise self.error
            return held(key, fact, note)
        i = marks.index(False)
        finding = _agree(values[i], want[i], key, fact, columns, _others(want, i, self.axis, self.first))
        where = f"{self.axis} {self.first + i}" + (f", {finding.where}" if finding.where else "")
        return Finding(
            False,
            key,
            finding.fact,
            where=where,
            expected=finding.expected,
            got=finding.got,
            events=self.ends[i],
            marks=tuple(marks),
            axis=self.axis,
            first=self.first,
        )


def half(value: Any, part: int) -> Any:
    """One half of a pair such as (K, V); what is no pair is passed on, to be complained about."""
    splits = isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return value[part] if splits and len(value) == 2 else value


def _others(want: Rows, i: int, axis: str, first: int) -> dict[str, np.ndarray]:
    return {f"{axis} {first + j}": row for j, row in enumerate(want) if j != i}


def agrees(
    subject: Subject,
    got: Any,
    want: Any,
    *,
    key: str,
    fact: str,
    columns: str = "feature",
    others: Mapping[str, np.ndarray] | None = None,
    exact: bool = False,
) -> Finding:
    """Whether one array that came back equals the right one; `exact`: extra axes of length one count."""
    if exact and isinstance(got, np.ndarray) and got.ndim != np.ndim(want) and got.size > 0:
        complaint = f"returned shape {got.shape}, wanted {np.shape(want)}"
        return Finding(False, key, complaint, events=len(subject.record))
    finding = _agree(got, np.asarray(want, dtype=np.float64), key, fact, columns, dict(others or {}))
    return finding if finding.ok else _at(finding, subject)


def _agree(got: Any, want: np.ndarray, key: str, fact: str, columns: str, others: dict[str, np.ndarray]) -> Finding:
    array, complaint = as_array(got, want.shape)
    if array is None:
        return Finding(False, key, complaint)
    difference = first_difference(array, want)
    if difference is None:
        return held(key, fact, rounding_note(array, want))
    clue = observation(array, want, others)
    expected, given = number_pair(difference.want, difference.got)
    return Finding(
        False,
        key,
        f"does not hold: {fact}" + (f"; {clue}" if clue else ""),
        where=_place(difference.index, columns),
        expected=expected,
        got=given,
    )


def _place(index: tuple[int, ...], columns: str) -> str:
    names = ("row ", f"{columns} ")[2 - len(index) :] if len(index) <= 2 else tuple("" for _ in index)
    return ", ".join(f"{name}{i}" for name, i in zip(names, index, strict=True))


def _at(finding: Finding, subject: Subject) -> Finding:
    return Finding(**{**finding.__dict__, "events": len(subject.record)})


def equals(subject: Subject, got: Any, want: Any, *, key: str, fact: str, what: str = "") -> Finding:
    """Whether a plain value, such as a count or a bool, is exactly the right one."""
    value = got.reshape(()).item() if isinstance(got, np.ndarray) and got.size == 1 else got
    same_kind = isinstance(value, bool) == isinstance(want, bool)
    same_kind = same_kind and not isinstance(value, Opaque | str | None.__class__)
    if same_kind and not isinstance(value, np.ndarray | list | dict) and value == want:
        return held(key, fact)
    return Finding(
        False,
        key,
        f"does not hold: {fact}",
        where=what,
        expected=str(want),
        got=shown_value(got) if got is not None or _is_all_of_it(subject, got) else "None",
        events=len(subject.record),
    )


def _is_all_of_it(subject: Subject, value: Any) -> bool:
    """Whether the newest reply is this value, not something that holds it."""
    return bool(subject.record) and subject.record[-1].value is value


def is_pair(subject: Subject, got: Any, *, key: str, what: str, where: str = "") -> Finding:
    """Whether two things came back: a tuple, a list, or an array whose first axis has length two."""
    if half(got, 0) is not got:
        return held(key, what)
    shown = f"an array of shape {got.shape}" if isinstance(got, np.ndarray) else shown_value(got)
    return Finding(False, key, what, where=where, expected="a pair", got=shown, events=len(subject.record))


def counts(
    subject: Subject,
    got: int,
    want: int,
    *,
    key: str,
    fact: str,
    where: str = "",
    clue: str = "",
    seen: tuple[int, ...] = (),
) -> Finding:
    """Whether a count that the trusted side took itself is the right one. `seen` are other counts of the same run."""
    if got == want:
        return held(key, fact)
    text = f"does not hold: {fact}" + (f"; {clue}" if clue else "")
    events, seen = len(subject.record), (int(got), *seen)
    return Finding(False, key, text, where=where, expected=str(want), got=str(got), events=events, seen=seen)


def refuses(
    subject: Subject,
    handle: Handle | None,
    method: str,
    *args: Any,
    key: str,
    what: str,
    kind: str | None = "ValueError",
    after: Callable[[], object] | None = None,
) -> Finding:
    """Whether a call is refused with an exception: `kind` where the text names one, else any that means a refusal.

    When the call is accepted, `after` looks at what it did, so that the record tells one wrong way from another.
    """
    wanted = kind or "ValueError"
    kinds = (kind,) if kind else ("ValueError", "IndexError", "RuntimeError", "OverflowError", "MemoryError")
    try:
        value = subject.new(*args) if handle is None else subject.call(handle, method, *args)
    except LearnerRaised as error:
        if error.is_a("NotImplementedError"):
            raise
        if error.is_a(*kinds):
            return held(key, f"{what} is refused")
        return Finding(
            False,
            key,
            f"{what} must be refused with {wanted}; your code raised something else",
            expected=wanted,
            got=str(error)[:80],
            events=len(subject.record),
        )
    if after is not None:
        with contextlib.suppress(LearnerRaised):
            after()
    result = "None" if value is None else "a result"
    return Finding(
        False,
        key,
        f"{what} must be refused; your code accepted it",
        expected=f"{wanted} is raised",
        got=f"{result} is returned",
        events=len(subject.record),
    )
