"""Wrong and right ways to write a softmax of each row."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant


def _weights(scores, axis=-1, exp=np.exp, shift_axis=-1):
    weights = exp(scores - scores.max(axis=shift_axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def over_everything(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def over_columns(scores):
    return _weights(scores, axis=0)


def no_exp(scores):
    return scores / scores.sum(axis=-1, keepdims=True)


def no_division(scores):
    return np.exp(scores)


def overflows(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)


def one_maximum(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum(axis=-1, keepdims=True)


def in_place(scores):
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def logarithm(scores):
    return np.log(_weights(scores))


def powers_of_two(scores):
    return _weights(scores, exp=np.exp2)


def sigmoid(scores):
    return 1 / (1 + np.exp(-scores))


def negated(scores):
    return _weights(-scores)


MISTAKES = (
    Mistake(
        "one-sum-for-all-rows",
        over_everything,
        "You divide by the sum over the whole array, so all rows together sum to 1. Sum each row: axis=-1, keepdims=True.",
        killed_by="each row by itself",
    ),
    Mistake(
        "sum-over-columns",
        over_columns,
        "You divide by the sum over axis 0, down the columns, so the columns sum to 1 and not the rows. Use axis=-1.",
        killed_by="one row",
    ),
    Mistake("no-exp", no_exp, "The scores are divided by their sum without exp(): weights can be negative.", "one row"),
    Mistake("no-division", no_division, "exp() is there, the division by the sum of the row is not.", "one row"),
    Mistake(
        "overflow",
        overflows,
        "exp() of a large score overflows to inf, and inf/inf is NaN. Subtract the row's largest score before exp().",
        killed_by="large scores",
        seen_in="many first versions of attention in float16",
    ),
    Mistake(
        "one-maximum-for-all-rows",
        one_maximum,
        "You subtract the largest score of the whole array. A row far below it becomes 0/0. Take each row's own maximum.",
        killed_by="large scores",
    ),
    Mistake(
        "changes-its-input",
        in_place,
        "The weights are right, but the caller's scores have been overwritten: `-=` and `out=` work in place.",
        killed_by="input untouched",
    ),
    Mistake(
        "log-softmax", logarithm, "This is the logarithm of the softmax. Return the weights themselves.", "one row"
    ),
    Mistake("base-two", powers_of_two, "The powers are of 2, not of e: use np.exp.", "one row"),
    Mistake(
        "sigmoid", sigmoid, "This is a sigmoid of each score by itself. A softmax divides by the row's sum.", "one row"
    ),
    Mistake("sign", negated, "The largest score gets the smallest weight: there is a minus sign too many.", "one row"),
)


def with_loops(scores):
    rows = []
    for row in scores:
        powers = [math.exp(score - max(row)) for score in row]
        rows.append([power / sum(powers) for power in powers])
    return rows


def by_logsumexp(scores):
    top = scores.max(axis=1)
    return np.exp(scores - (top + np.log(np.exp(scores - top[:, None]).sum(axis=1)))[:, None])


def in_float32(scores):
    return _weights(scores.astype(np.float32))


def on_a_copy(scores):
    scores = np.array(scores)
    for row in scores:
        row -= row.max()
        row[:] = np.exp(row)
        row /= row.sum()
    return scores


VARIANTS = (
    Variant("loops and lists", with_loops),
    Variant("log-sum-exp", by_logsumexp),
    Variant("float32 inside", in_float32),
    Variant("in place, on a copy", on_a_copy),
)
