"""Wrong and right ways to put the rows of q or k into halves. Each mistake changes one thing in `half_split`."""

from __future__ import annotations

import numpy as np

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def _check(weight, head_dim):
    if head_dim % 2 or weight.shape[0] % head_dim:
        raise ValueError(f"{weight.shape[0]} rows do not make heads of {head_dim}, an even number")


def _order(D):
    """Of one head: the old row of each new one."""
    return [*range(0, D, 2), *range(1, D, 2)]


def _by(weight, order, head_dim):
    """Every head's rows in this order."""
    heads = weight.shape[0] // head_dim
    return weight[[h * head_dim + row for h in range(heads) for row in order]]


def half_split(weight, head_dim):
    _check(weight, head_dim)
    return _by(weight, _order(head_dim), head_dim)


def not_at_all(weight, head_dim):
    _check(weight, head_dim)
    return weight.clone()


def other_way(weight, head_dim):
    """From halves to neighbours."""
    _check(weight, head_dim)
    half = head_dim // 2
    return _by(weight, [row // 2 + (row % 2) * half for row in range(head_dim)], head_dim)


def twice(weight, head_dim):
    return half_split(half_split(weight, head_dim), head_dim)


def all_heads_at_once(weight, head_dim):
    """All even rows first, then all odd ones."""
    _check(weight, head_dim)
    return torch.cat((weight[0::2], weight[1::2]))


def odd_first(weight, head_dim):
    _check(weight, head_dim)
    return _by(weight, [*range(1, head_dim, 2), *range(0, head_dim, 2)], head_dim)


def second_half_backwards(weight, head_dim):
    _check(weight, head_dim)
    return _by(weight, [*range(0, head_dim, 2), *range(head_dim - 1, 0, -2)], head_dim)


def backwards(weight, head_dim):
    _check(weight, head_dim)
    return _by(weight, _order(head_dim)[::-1], head_dim)


def evens_only(weight, head_dim):
    """The even rows, twice."""
    _check(weight, head_dim)
    return _by(weight, [*range(0, head_dim, 2)] * 2, head_dim)


def halves_swapped(weight, head_dim):
    """Rows are halves already, and are exchanged."""
    _check(weight, head_dim)
    half = head_dim // 2
    return _by(weight, [*range(half, head_dim), *range(half)], head_dim)


def neighbours_swapped(weight, head_dim):
    _check(weight, head_dim)
    return _by(weight, [row ^ 1 for row in range(head_dim)], head_dim)


def pairs_stay(weight, head_dim):
    """Pairs are sorted as pairs: even pairs first."""
    _check(weight, head_dim)
    pairs = [*range(0, head_dim // 2, 2), *range(1, head_dim // 2, 2)]
    return _by(weight, [2 * pair + side for pair in pairs for side in (0, 1)], head_dim)


def first_head_only(weight, head_dim):
    return torch.cat((half_split(weight, head_dim)[:head_dim], weight[head_dim:]))


def heads_backwards(weight, head_dim):
    rows = half_split(weight, head_dim).reshape(-1, head_dim, weight.shape[1])
    return rows.flip(0).reshape(weight.shape)


def head_dim_for_heads(weight, head_dim):
    """head_dim is taken for the number of heads."""
    _check(weight, head_dim)
    D = weight.shape[0] // head_dim
    return _by(weight, _order(D), D)


def heads_of_four(weight, head_dim):
    """The head dim of an example."""
    _check(weight, head_dim)
    return _by(weight, _order(4), 4) if weight.shape[0] % 4 == 0 else half_split(weight, head_dim)


def one_head(weight, head_dim):
    """The rows of all heads as one long head... of pairs that lie rows/2 apart."""
    _check(weight, head_dim)
    rows = weight.shape[0]
    return weight.reshape(2, rows // 2, -1).transpose(0, 1).reshape(weight.shape)


def along_the_columns(weight, head_dim):
    """As if the weight were (width, heads * D)."""
    _check(weight, head_dim)
    D = head_dim if weight.shape[1] % head_dim == 0 else weight.shape[1]
    return weight.T.contiguous()[[h * D + row for h in range(weight.shape[1] // D) for row in _order(D)]].T


def transposed(weight, head_dim):
    return half_split(weight, head_dim).T


def heads_apart(weight, head_dim):
    """(heads, D, width) comes back."""
    return half_split(weight, head_dim).reshape(-1, head_dim, weight.shape[1])


def rounded(weight, head_dim):
    return half_split(weight.bfloat16(), head_dim)


def minus(weight, head_dim):
    """The second of each pair is negated as well."""
    out = half_split(weight, head_dim).reshape(-1, 2, head_dim // 2, weight.shape[1]).clone()
    out[:, 1] *= -1
    return out.reshape(weight.shape)


def in_place(weight, head_dim):
    weight[...] = half_split(weight, head_dim)
    return weight


def row_by_row_in_place(weight, head_dim):
    """Rows are written over before they are read."""
    _check(weight, head_dim)
    out = weight.clone()
    for h in range(0, len(weight), head_dim):
        for new, old in enumerate(_order(head_dim)):
            out[h + new] = out[h + old]
    return out


def drops_the_rest(weight, head_dim):
    """Rows that do not fill a head are left out."""
    if head_dim % 2:
        raise ValueError("odd head_dim")
    return _by(weight, _order(head_dim), head_dim)


def keeps_the_rest(weight, head_dim):
    """Rows that do not fill a head stay behind the others."""
    if head_dim % 2:
        raise ValueError("odd head_dim")
    full = weight.shape[0] // head_dim * head_dim
    return torch.cat((_by(weight, _order(head_dim), head_dim), weight[full:]))


def odd_accepted(weight, head_dim):
    """The row in the middle has no partner."""
    if weight.shape[0] % head_dim:
        raise ValueError("rows")
    return _by(weight, _order(head_dim), head_dim)


def odd_rows(weight, head_dim):
    """An odd number of rows is refused, an odd head dim is not."""
    if weight.shape[0] % 2 or weight.shape[0] % head_dim:
        raise ValueError("rows")
    return _by(weight, _order(head_dim), head_dim)


def one_is_even(weight, head_dim):
    """A head dim of 1 comes back as it is."""
    return weight.clone() if head_dim == 1 else half_split(weight, head_dim)


def half_divides(weight, head_dim):
    """Rows that half a head dim divides are let through: the last head has the first half only."""
    if head_dim % 2 or weight.shape[0] % (head_dim // 2):
        raise ValueError("rows")
    return _by(weight, _order(head_dim), head_dim)


def runtime_error(weight, head_dim):
    """What reshape says of it."""
    pairs = weight.reshape(-1, head_dim // 2, 2, weight.shape[1])
    return pairs.transpose(1, 2).reshape(weight.shape)


def asserts(weight, head_dim):
    assert head_dim % 2 == 0 and weight.shape[0] % head_dim == 0
    return half_split(weight, head_dim)


def odd_number_of_heads(weight, head_dim):
    """Twice the head dim must divide the rows."""
    if weight.shape[0] % (2 * head_dim):
        raise ValueError("rows")
    return half_split(weight, head_dim)


def powers_of_two(weight, head_dim):
    if head_dim & (head_dim - 1):
        raise ValueError("head_dim is no power of two")
    return half_split(weight, head_dim)


MISTAKES = (
    Mistake("not-at-all", not_at_all, "The rows come back as they were.", "one head", "checkpoints of one habit loaded into code of the other"),
    Mistake("other-way", other_way, "That is the way back, from halves to neighbours. Row 2i goes to row i, row 2i + 1 to row i + D/2.", "one head"),
    Mistake("twice", twice, "The rows are moved twice. Row 2i goes to row i, once.", "one head"),
    Mistake("all-heads-at-once", all_heads_at_once, "All even rows of the weight come first. Each head has its own two halves.", "all heads"),
    Mistake("odd-first", odd_first, "The odd rows come first. The first of each pair, row 2i, goes to the first half.", "one head"),
    Mistake("second-half-backwards", second_half_backwards, "The second half is in reverse order: row 2i + 1 goes to row i + D/2.", "one head"),
    Mistake("backwards", backwards, "Each head's rows come in reverse order.", "one head"),
    Mistake("evens-only", evens_only, "The even rows are there twice, the odd ones not at all.", "one head"),
    Mistake("halves-swapped", halves_swapped, "The rows are taken for halves already, and these are exchanged. They come as neighbours.", "one head"),
    Mistake("neighbours-swapped", neighbours_swapped, "Neighbours change places. They are to come apart: half a head dim lies between them.", "one head"),
    Mistake("pairs-stay", pairs_stay, "Pairs are sorted, but the two of a pair are still neighbours. Half a head dim must lie between them.", "one head"),
    Mistake("first-head-only", first_head_only, "Only the first head's rows are moved.", "all heads"),
    Mistake("heads-backwards", heads_backwards, "The heads come in reverse order. Rows move within their head only.", "all heads"),
    Mistake("head-dim-for-heads", head_dim_for_heads, "head_dim is taken for the number of heads. It is the number of rows of one head.", "one head"),
    Mistake("heads-of-four", heads_of_four, "The head dim is always 4. Use `head_dim`.", "one head"),
    Mistake("one-long-head", one_head, "Rows half the weight apart are made neighbours. It goes the other way, and within each head.", "one head"),
    Mistake("along-the-columns", along_the_columns, "The columns are moved. A row belongs to one number of a query or key; columns belong to the input.", "one head"),
    Mistake("transposed", transposed, "The weight comes back transposed. Keep its shape, (heads * D, width).", "one head"),
    Mistake("heads-apart", heads_apart, "An axis of heads comes back. Keep the weight's shape, (heads * D, width).", "one head"),
    Mistake("rounded", rounded, "The numbers are rounded. Rows change places and nothing else.", "one head"),
    Mistake("negated", minus, "The second half is negated. Rows change places and nothing else: the minus is part of the turn.", "one head"),
    Mistake("in-place", in_place, "The weight that was passed in is changed. Return a new one.", "left alone"),
    Mistake("rows-written-over", row_by_row_in_place, "Rows are written over before they are read. Read from the old weight, write into a new one.", "one head"),
    Mistake("drops-the-rest", drops_the_rest, "Rows that do not fill a head are left out in silence. Refuse them with ValueError.", "refusals"),
    Mistake("keeps-the-rest", keeps_the_rest, "Rows that do not fill a head are let through. Refuse them with ValueError.", "refusals"),
    Mistake("odd-accepted", odd_accepted, "An odd head dim is accepted, though one row has no partner. Refuse it with ValueError.", "refusals"),
    Mistake("odd-rows", odd_rows, "An odd number of rows is refused. It is the head dim that must be even: several heads of 3 are refused too.", "refusals"),
    Mistake("one-is-even", one_is_even, "A head dim of 1 is accepted. It is odd: a row alone has no partner.", "refusals"),
    Mistake("half-divides", half_divides, "You accept rows that half a head dim divides. The whole one must divide them.", "refusals"),
    Mistake("reshape-refuses", runtime_error, "What `reshape` cannot do is a RuntimeError, and some wrong sizes fit. Look first, and raise ValueError.", "refusals"),
    Mistake("asserts", asserts, "Wrong sizes end in an AssertionError. Raise ValueError: `assert` is switched off by python -O.", "refusals"),
    Mistake("odd-number-of-heads", odd_number_of_heads, "An odd number of heads is refused. Only the head dim must be even.", "one head"),
    Mistake("powers-of-two", powers_of_two, "A head dim that is no power of two is refused. Any even one will do.", "one head"),
)  # fmt: skip


# Right ones.


def with_axes(weight, head_dim):
    _check(weight, head_dim)
    heads = weight.view(weight.shape[0] // head_dim, head_dim // 2, 2, -1)
    return heads.permute(0, 2, 1, 3).reshape(*weight.shape)


def with_slices(weight, head_dim):
    if head_dim % 2 == 1 or len(weight) % head_dim != 0:
        raise ValueError("no")
    return torch.cat([part for head in weight.split(head_dim) for part in (head[::2], head[1::2])])


def in_numpy(weight, head_dim):
    rows = weight.numpy()
    if head_dim % 2 or len(rows) % head_dim:
        raise ValueError("no")
    out = np.zeros_like(rows)
    for row in range(len(rows)):
        h, d = divmod(row, head_dim)
        out[h * head_dim + d // 2 + (d % 2) * (head_dim // 2)] = rows[row]
    return out


def as_a_matrix(weight, head_dim):
    """One matrix for all heads, in float32."""
    if head_dim % 2 or weight.shape[0] % head_dim:
        raise ValueError("no")
    heads = weight.float().unflatten(0, (-1, head_dim))
    move = torch.eye(head_dim)[_order(head_dim)]
    return torch.einsum("ij,hjw->hiw", move, heads).flatten(0, 1).to(weight.dtype)


def written_into(weight, head_dim):
    _check(weight, head_dim)
    out = torch.empty_like(weight)
    heads, new = weight.reshape(-1, head_dim, weight.shape[1]), out.view(-1, 2, head_dim // 2, weight.shape[1])
    new[:, 0], new[:, 1] = heads[:, 0::2], heads[:, 1::2]
    return out


VARIANTS = (
    Variant("rows by number", half_split),
    Variant("an axis for each thing", with_axes),
    Variant("slices of each head", with_slices),
    Variant("NumPy, row by row", in_numpy),
    Variant("a matrix, in float32", as_a_matrix),
    Variant("written into a new weight", written_into),
)
