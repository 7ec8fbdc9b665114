"""Wrong and right ways to push one token through one block."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant
from kvlib.attention import attend


def reference(block, cache, x):
    h = block.norm(x)
    cache.append(block.project_k(h), block.project_v(h))
    K, V = cache.rows()
    return block.finish(x, attend(block.project_q(h), K, V))


def _attend(q, K, V, scale=True):
    scores = K @ q / (math.sqrt(len(q)) if scale else 1.0)
    weights = np.exp(scores - scores.max())
    return weights @ V / weights.sum()


def _step(block, cache, x, *, to_q="h", to_k="h", to_v="h", residual="x", scale=True):
    """The right step, with single inputs changed."""
    inputs = {"x": x, "h": block.norm(x)}
    cache.append(block.project_k(inputs[to_k]), block.project_v(inputs[to_v]))
    attended = _attend(block.project_q(inputs[to_q]), *cache.rows(), scale=scale)
    return block.finish(inputs[residual], attended)


def value_from_residual(block, cache, x):
    return _step(block, cache, x, to_v="x")


def key_from_residual(block, cache, x):
    return _step(block, cache, x, to_k="x")


def query_from_residual(block, cache, x):
    return _step(block, cache, x, to_q="x")


def no_norm(block, cache, x):
    return _step(block, cache, x, to_q="x", to_k="x", to_v="x")


def residual_from_norm(block, cache, x):
    return _step(block, cache, x, residual="h")


def no_scale(block, cache, x):
    return _step(block, cache, x, scale=False)


def returns_attended(block, cache, x):
    h = block.norm(x)
    cache.append(block.project_k(h), block.project_v(h))
    return _attend(block.project_q(h), *cache.rows())


def finish_swapped(block, cache, x):
    h = block.norm(x)
    cache.append(block.project_k(h), block.project_v(h))
    return block.finish(_attend(block.project_q(h), *cache.rows()), x)


def residual_twice(block, cache, x):
    h = block.norm(x)
    cache.append(block.project_k(h), block.project_v(h))
    return x + block.finish(x, _attend(block.project_q(h), *cache.rows()))


def newest_only(block, cache, x):
    h = block.norm(x)
    k, v = block.project_k(h), block.project_v(h)
    cache.append(k, v)
    return block.finish(x, _attend(block.project_q(h), k[None], v[None]))


def never_appends(block, cache, x):
    h = block.norm(x)
    return block.finish(x, _attend(block.project_q(h), block.project_k(h)[None], block.project_v(h)[None]))


def attends_first(block, cache, x):
    h = block.norm(x)
    K, V = cache.rows()
    attended = _attend(block.project_q(h), K, V) if len(cache) else np.zeros(len(x))
    cache.append(block.project_k(h), block.project_v(h))
    return block.finish(x, attended)


def swapped_append(block, cache, x):
    h = block.norm(x)
    cache.append(block.project_v(h), block.project_k(h))
    return block.finish(x, _attend(block.project_q(h), *cache.rows()))


def query_as_key(block, cache, x):
    h = block.norm(x)
    q = block.project_q(h)
    cache.append(q, block.project_v(h))
    return block.finish(x, _attend(q, *cache.rows()))


def projects_twice(block, cache, x):
    h = block.norm(x)
    K, V = cache.rows()
    K, V = np.vstack([K, block.project_k(h)]), np.vstack([V, block.project_v(h)])
    cache.append(block.project_k(h), block.project_v(h))
    return block.finish(x, _attend(block.project_q(h), K, V))


def appends_twice(block, cache, x):
    h = block.norm(x)
    k, v = block.project_k(h), block.project_v(h)
    if len(cache) == 0:
        cache.append(k, v)
    cache.append(k, v)
    return block.finish(x, _attend(block.project_q(h), *cache.rows()))


def root_of_five(block, cache, x):
    h = block.norm(x)
    cache.append(block.project_k(h), block.project_v(h))
    K, V = cache.rows()
    return block.finish(x, _attend(block.project_q(h) / math.sqrt(5), K, V, scale=False))


def residual_in_place(block, cache, x):
    out = _step(block, cache, x)
    x += out - x  # the same array now holds the block's output
    return x


MISTAKES = (
    Mistake(
        "value-from-the-residual",
        value_from_residual,
        "V is projected from x. All three projections take the normalised token, block.norm(x).",
        killed_by="first token",
    ),
    Mistake(
        "key-from-the-residual",
        key_from_residual,
        "K is projected from x. All three projections take the normalised token, block.norm(x).",
        killed_by="every token",
    ),
    Mistake(
        "query-from-the-residual",
        query_from_residual,
        "Q is projected from x. All three projections take the normalised token, block.norm(x).",
        killed_by="every token",
    ),
    Mistake("no-norm", no_norm, "The token is never normalised: h = block.norm(x) comes first.", "first token"),
    Mistake(
        "residual-from-the-norm",
        residual_from_norm,
        "finish() got the normalised token. The residual connection adds to x itself: block.finish(x, a).",
        killed_by="first token",
    ),
    Mistake("no-scale", no_scale, "The scores are not divided by sqrt(D).", "every token"),
    Mistake(
        "returns-the-attention",
        returns_attended,
        "What attention gave is returned as it is: block.finish(x, a) is missing.",
        killed_by="first token",
    ),
    Mistake("finish-swapped", finish_swapped, "finish() got its arguments the wrong way round: (x, a).", "first token"),
    Mistake("residual-twice", residual_twice, "x is added once more: finish() already adds it.", "first token"),
    Mistake(
        "newest-only",
        newest_only,
        "Attention uses the newest key and value only: attend over all rows of the cache, cache.rows().",
        killed_by="every token",
    ),
    Mistake(
        "never-appends",
        never_appends,
        "Nothing goes into the cache: cache.append(k, v) is missing.",
        killed_by="first token",
    ),
    Mistake(
        "attends-before-appending",
        attends_first,
        "The newest token does not see itself: append before you attend.",
        killed_by="first token",
        seen_in="a course framework whose cached step left the new token out of its own attention",
    ),
    Mistake(
        "keys-and-values-swapped",
        swapped_append,
        "Keys and values have changed places on the way: it is append(k, v), and rows() gives (K, V).",
        killed_by="first token",
    ),
    Mistake("query-as-key", query_as_key, "The query was cached where the key should be.", "every token"),
    Mistake(
        "root-of-five-always",
        root_of_five,
        "The scale is right for width 5 only: the number is written in the code. Take it from len(q).",
        killed_by="inputs untouched",
    ),
    Mistake(
        "x-changed",
        residual_in_place,
        "The output is right, but x itself has been changed: `+=` works in place on the caller's array.",
        killed_by="inputs untouched",
    ),
    Mistake(
        "projects-twice",
        projects_twice,
        "Each token's key and value are projected twice: once to attend, once to cache.",
        killed_by="one row each",
    ),
    Mistake(
        "appends-twice",
        appends_twice,
        "The first token is in the cache twice, so it has twice its weight from then on.",
        killed_by="every token",
    ),
)


def with_loops(block, cache, x):
    h = block.norm(x)
    cache.append(block.project_k(h), block.project_v(h))
    K, V = cache.rows()
    q = block.project_q(h)
    scores = [sum(a * b for a, b in zip(q, key)) / len(q) ** 0.5 for key in K]
    powers = [math.exp(s) for s in scores]
    mixed = sum(p * v for p, v in zip(powers, V)) / sum(powers)
    return block.finish(x, mixed)


def own_copy(block, cache, x):
    """Reads the old rows first and joins the new one by hand."""
    h = block.norm(x)
    K, V = cache.rows()
    k, v = block.project_k(h), block.project_v(h)
    cache.append(k, v)
    return block.finish(x, _attend(block.project_q(h), np.vstack([K, k]), np.vstack([V, v])))


def one_row_matrices(block, cache, x):
    h = block.norm(x)[None, :]
    q, k, v = block.project_q(h), block.project_k(h), block.project_v(h)  # (1, width) each
    cache.append(k[0], v[0])
    K, V = cache.rows()
    return block.finish(x, attend(q, K, V)[0])


VARIANTS = (
    Variant("loops", with_loops),
    Variant("joins the new row by hand", own_copy),
    Variant("matrices of one row", one_row_matrices),
)
