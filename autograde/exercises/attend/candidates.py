"""Wrong and right ways to write attention for one query."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant


def _softmax(scores):
    weights = np.exp(scores - scores.max(axis=0))
    return weights / weights.sum(axis=0)


def no_scale(q, K, V):
    return _softmax(K @ q) @ V


def divides_by_width(q, K, V):
    return _softmax(K @ q / len(q)) @ V


def divides_by_keys(q, K, V):
    return _softmax(K @ q / math.sqrt(len(K))) @ V


def root_of_two(q, K, V):
    return _softmax(K @ q / math.sqrt(2)) @ V


def multiplies(q, K, V):
    return _softmax(K @ q * math.sqrt(len(q))) @ V


def scale_after_softmax(q, K, V):
    return _softmax(K @ q) / math.sqrt(len(q)) @ V


def no_softmax(q, K, V):
    return K @ q / math.sqrt(len(q)) @ V


def no_division(q, K, V):
    return np.exp(K @ q / math.sqrt(len(q))) @ V


def keys_and_values_swapped(q, K, V):
    return _softmax(V @ q / math.sqrt(len(q))) @ K


def returns_keys(q, K, V):
    return _softmax(K @ q / math.sqrt(len(q))) @ K


def scores_from_values(q, K, V):
    return _softmax(V @ q / math.sqrt(len(q))) @ V


def only_the_best(q, K, V):
    return V[np.argmax(K @ q)]


def plain_mean(q, K, V):
    return V.mean(axis=0)


def feature_by_feature(q, K, V):
    return (_softmax(K * q / math.sqrt(len(q))) * V).sum(axis=0)


def returns_weights(q, K, V):
    return _softmax(K @ q / math.sqrt(len(q)))


def negative(q, K, V):
    return _softmax(-(K @ q) / math.sqrt(len(q))) @ V


def scales_keys_in_place(q, K, V):
    K /= math.sqrt(len(q))
    return _softmax(K @ q) @ V


def weights_values_in_place(q, K, V):
    V *= _softmax(K @ q / math.sqrt(len(q)))[:, None]
    return V.sum(axis=0)


def equal_keys_once(q, K, V):
    _, rows = np.unique(K, axis=0, return_index=True)
    return _softmax(K[rows] @ q / math.sqrt(len(q))) @ V[rows]


MISTAKES = (
    Mistake(
        "no-scale", no_scale, "The scores are not divided by sqrt(D).", "seven keys", "several public course solutions"
    ),
    Mistake("divides-by-width", divides_by_width, "The scores are divided by D, not by its square root.", "seven keys"),
    Mistake(
        "divides-by-root-of-keys",
        divides_by_keys,
        "The scores are divided by the square root of the number of keys. D is the width of one key: K.shape[1].",
        killed_by="seven keys",
    ),
    Mistake(
        "root-of-two-always",
        root_of_two,
        "The scale is right for width 2 only: sqrt(2) is written in the code. Take it from len(q).",
        killed_by="another width",
    ),
    Mistake("multiplies-by-root", multiplies, "The scores are multiplied by sqrt(D); divide them.", "seven keys"),
    Mistake(
        "scale-after-softmax",
        scale_after_softmax,
        "The weights are divided by sqrt(D) after the softmax, so they no longer sum to 1. Divide the scores before it.",
        killed_by="one key",
    ),
    Mistake("no-softmax", no_softmax, "The raw scores are used as weights: there is no softmax.", "one key"),
    Mistake("no-division", no_division, "exp() is there, but the weights are not divided by their sum.", "one key"),
    Mistake(
        "keys-and-values-swapped",
        keys_and_values_swapped,
        "K and V have changed places: scores come from the keys, the output from the values.",
        killed_by="one key",
    ),
    Mistake(
        "returns-keys", returns_keys, "The weights are right, but they weigh the keys. Weigh the values.", "one key"
    ),
    Mistake(
        "scores-from-values",
        scores_from_values,
        "The scores are q times the values; they are q times the keys.",
        "seven keys",
    ),
    Mistake(
        "only-the-best-key",
        only_the_best,
        "Only the best key's value comes back: argmax in place of softmax.",
        "seven keys",
    ),
    Mistake("plain-mean", plain_mean, "Every value has the same weight: the query is not used.", "seven keys"),
    Mistake(
        "feature-by-feature",
        feature_by_feature,
        "There is a softmax for each feature. A score is one number for each key: the sum over features, `K @ q`.",
        killed_by="seven keys",
    ),
    Mistake(
        "keys-changed",
        scales_keys_in_place,
        "The output is right, but K has been changed: `/=` works in place, and the caller needs K again.",
        killed_by="inputs untouched",
    ),
    Mistake(
        "values-changed",
        weights_values_in_place,
        "The output is right, but V has been changed: `*=` works in place, and the caller needs V again.",
        killed_by="inputs untouched",
    ),
    Mistake("equal-keys-once", equal_keys_once, "Equal keys are counted once. Every token counts.", "another width"),
    Mistake(
        "returns-weights", returns_weights, "These are the weights, one for each key. Multiply: weights @ V.", "one key"
    ),
    Mistake("sign", negative, "The best key gets the smallest weight: there is a minus sign too many.", "seven keys"),
)


def with_loops(q, K, V):
    scores = [sum(a * b for a, b in zip(q, key)) / len(q) ** 0.5 for key in K]
    powers = [math.exp(score) for score in scores]
    return [sum(p * value[d] for p, value in zip(powers, V)) / sum(powers) for d in range(V.shape[1])]


def with_einsum(q, K, V):
    scores = np.einsum("d,sd->s", q, K) / np.sqrt(K.shape[1])
    return np.einsum("s,sd->d", _softmax(scores), V)


def one_row_matrix(q, K, V):
    scores = q[None, :] @ K.T / np.sqrt(q.size)  # (1, S)
    return np.exp(scores) / np.exp(scores).sum() @ V  # (1, D)


def in_float32(q, K, V):
    q, K, V = (array.astype(np.float32) for array in (q, K, V))
    return _softmax(K @ q / np.float32(math.sqrt(len(q)))) @ V


def scaled_query(q, K, V):
    return _softmax(K @ (q / math.sqrt(len(q)))) @ V


VARIANTS = (
    Variant("loops and lists", with_loops),
    Variant("einsum", with_einsum),
    Variant("a matrix of one row", one_row_matrix),
    Variant("float32 inside", in_float32),
    Variant("the query scaled first", scaled_query),
)
