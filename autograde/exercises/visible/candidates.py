"""Wrong and right ways to write the mask from positions. Each mistake changes one thing in `visible`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def visible(q_positions, k_positions):
    q, k = q_positions[:, None], k_positions[None, :]
    return (k <= q) & (k >= 0)


def top_left(q_positions, k_positions):
    """What is_causal=True does for a rectangle."""
    return torch.ones(len(q_positions), len(k_positions), dtype=torch.bool).tril()


def bottom_right(q_positions, k_positions):
    """The triangle ends in the corner: right only while the last query is at the last key."""
    T, S = len(q_positions), len(k_positions)
    return torch.ones(T, S, dtype=torch.bool).tril(S - T)


def offset_twice(q_positions, k_positions):
    """The positions are absolute already."""
    return visible(q_positions + len(k_positions) - len(q_positions), k_positions)


def without_itself(q_positions, k_positions):
    q, k = q_positions[:, None], k_positions[None, :]
    return (k < q) & (k >= 0)


def one_too_many(q_positions, k_positions):
    return visible(q_positions + 1, k_positions)


def position_zero_dropped(q_positions, k_positions):
    q, k = q_positions[:, None], k_positions[None, :]
    return (k <= q) & (k > 0)


def inverted(q_positions, k_positions):
    return ~visible(q_positions, k_positions)


def transposed(q_positions, k_positions):
    return visible(q_positions, k_positions).T


def the_future(q_positions, k_positions):
    q, k = q_positions[:, None], k_positions[None, :]
    return (k >= q) & (k >= 0)


def no_axes(q_positions, k_positions):
    """Query t is compared with key t alone."""
    T = len(q_positions)
    return (k_positions[:T] <= q_positions) & (k_positions[:T] >= 0)


def everything(q_positions, k_positions):
    return torch.ones(len(q_positions), len(k_positions), dtype=torch.bool)


def additive(q_positions, k_positions):
    mask = torch.zeros(len(q_positions), len(k_positions))
    return mask.masked_fill(~visible(q_positions, k_positions), float("-inf"))


def ones_and_zeros(q_positions, k_positions):
    return visible(q_positions, k_positions).int()


def all_like_the_last(q_positions, k_positions):
    return visible(q_positions.max().expand(len(q_positions)), k_positions)


def all_like_the_first(q_positions, k_positions):
    return visible(q_positions.min().expand(len(q_positions)), k_positions)


def not_each_other(q_positions, k_positions):
    """The held tokens and itself; the chunk's other tokens are left out."""
    q, k = q_positions[:, None], k_positions[None, :]
    return visible(q_positions, k_positions) & ((k < q_positions.min()) | (k == q))


def square(q_positions, k_positions):
    """The triangle of the chunk alone: the held keys have no column."""
    return visible(q_positions, q_positions)


def only_the_chunk(q_positions, k_positions):
    """Keys from before the chunk are hidden."""
    return visible(q_positions, k_positions) & (k_positions >= q_positions.min())


def queries_without_gaps(q_positions, k_positions):
    T = len(q_positions)
    return visible(torch.arange(int(q_positions[0]), int(q_positions[0]) + T), k_positions)


def keys_from_zero(q_positions, k_positions):
    """Column s is taken for position s."""
    S = len(k_positions)
    return visible(q_positions, torch.where(k_positions < 0, -1, torch.arange(S)))


def keys_without_gaps(q_positions, k_positions):
    """Counts on from the first key."""
    counted = k_positions.clamp(min=0).min() + torch.arange(len(k_positions))
    return visible(q_positions, torch.where(k_positions < 0, -1, counted))


def counted_from_the_first_key(q_positions, k_positions):
    """Keys are moved so that the first is at 0, queries are not."""
    moved = k_positions - k_positions.clamp(min=0).min()
    return visible(q_positions, torch.where(k_positions < 0, -1, moved))


def keys_sorted(q_positions, k_positions):
    return visible(q_positions, k_positions.sort().values)


def queries_sorted(q_positions, k_positions):
    return visible(q_positions.sort().values, k_positions)


def padding_seen(q_positions, k_positions):
    return k_positions[None, :] <= q_positions[:, None]


def padding_only_in_front(q_positions, k_positions):
    """Hides the slots before the first token, and no others."""
    front = (k_positions >= 0).int().cumsum(0) > 0
    return (k_positions[None, :] <= q_positions[:, None]) & front


def padding_only_behind(q_positions, k_positions):
    """Hides the slots after the last token, and no others."""
    behind = (k_positions >= 0).int().flip(0).cumsum(0).flip(0) > 0
    return (k_positions[None, :] <= q_positions[:, None]) & behind


def no_row_empty(q_positions, k_positions):
    """A query that may see nothing is shown everything, so that softmax is happy."""
    mask = visible(q_positions, k_positions)
    return mask | ~mask.any(dim=1, keepdim=True)


def table_of_64(q_positions, k_positions):
    """A triangle made once; what is beyond it is taken for its last row."""
    seen = torch.ones(64, 64).tril().bool()[q_positions.clamp(max=63)][:, k_positions.clamp(0, 63)]
    return seen & (k_positions >= 0)


MISTAKES = (
    Mistake("top-left", top_left,
            "The triangle starts at the top left: row t sees keys 0 to t. With tokens held before, the query is at a later position.",
            "a chunk", "PyTorch's is_causal=True, met in the reference code of several inference projects"),
    Mistake("bottom-right-corner", bottom_right,
            "The triangle always ends in the bottom right corner. A key at a later position, such as an empty slot, then counts as seen. Compare positions.",
            "keys of later positions", "caches that compute the offset from capacity - T"),
    Mistake("offset-twice", offset_twice,
            "S - T is added to positions that are absolute already. Compare q_positions and k_positions as they are.", "a chunk"),
    Mistake("without-itself", without_itself, "A query must see its own position too: k <= q, not k < q.", "a prompt"),
    Mistake("one-too-many", one_too_many, "A query sees the token after it: k <= q, not k <= q + 1.", "a prompt"),
    Mistake("position-zero-dropped", position_zero_dropped, "Position 0 is a token: only -1 is none. Write k >= 0, not k > 0.", "a prompt"),
    Mistake("inverted", inverted, "True and False are swapped. True means: may be seen.", "a prompt",
            "nn.MultiheadAttention and scaled_dot_product_attention, whose bool masks mean opposite things"),
    Mistake("transposed", transposed, "Rows and columns are swapped: a row for each query, a column for each key, (T, S).", "a prompt"),
    Mistake("the-future", the_future, "The comparison is turned round: a query sees later keys and not earlier ones.", "a prompt"),
    Mistake("everything", everything, "Every key may be seen by every query. Keys of later positions must be False.", "a prompt"),
    Mistake("no-axes", no_axes,
            "Query t is compared with key t alone. Each query meets every key: q_positions[:, None] against k_positions[None, :].", "a prompt"),
    Mistake("additive", additive, "These are numbers to add to scores, 0 and -inf. Return bools, True = may be seen.", "a prompt"),
    Mistake("ones-and-zeros", ones_and_zeros,
            "These are the numbers 1 and 0. Return bools: a mask of numbers is added to the scores.", "a prompt"),
    Mistake("all-like-the-last", all_like_the_last,
            "Every query sees what the last one may see. Each row has a position of its own.", "a prompt",
            "caches that keep one position for a whole chunk"),
    Mistake("all-like-the-first", all_like_the_first,
            "Every query sees only what the first one may see. Each row has a position of its own.", "a prompt"),
    Mistake("not-each-other", not_each_other,
            "The tokens of a chunk see the held ones and themselves, but not the chunk's earlier ones.", "a prompt"),
    Mistake("square", square, "The mask has a column for each new token only. It needs one for each key, (T, S).", "a chunk"),
    Mistake("only-the-chunk", only_the_chunk, "Keys from before the chunk are hidden: what was held is what the cache is for.", "a chunk"),
    Mistake("queries-without-gaps", queries_without_gaps,
            "The queries' positions are counted on from the first. They are given, and may have gaps.", "positions as given"),
    Mistake("keys-from-zero", keys_from_zero,
            "Column s is taken for position s. Use the keys' positions: a cache may have dropped its oldest tokens.", "positions as given"),
    Mistake("keys-without-gaps", keys_without_gaps,
            "The keys' positions are counted on from the smallest. They are given, and may have gaps.", "positions as given"),
    Mistake("counted-from-the-first-key", counted_from_the_first_key,
            "The keys are counted from the first one held, the queries are not. Compare both as they are given.", "positions as given"),
    Mistake("keys-sorted", keys_sorted, "The keys are sorted first, so columns no longer belong to their keys.", "any order"),
    Mistake("queries-sorted", queries_sorted, "The queries are sorted first, so rows no longer belong to their queries.", "any order"),
    Mistake("padding-seen", padding_seen, "A slot at position -1 holds no token, and -1 <= q: it needs a test of its own, k >= 0.", "no token"),
    Mistake("padding-only-in-front", padding_only_in_front,
            "Empty slots are hidden before the first token only. They may be anywhere.", "no token"),
    Mistake("padding-only-behind", padding_only_behind,
            "Empty slots are hidden after the last token only. They may be anywhere.", "no token"),
    Mistake("no-row-empty", no_row_empty,
            "A query that may see no key is shown all of them. Its row is all False; what then comes out is the caller's to say.", "no token"),
    Mistake("table-ends", table_of_64, "A table of 64 positions is used, and later ones are treated as the last. Positions have no end.", "positions as given"),
)  # fmt: skip


def loops(q_positions, k_positions):
    rows = [[0 <= j <= p for j in k_positions.tolist()] for p in q_positions.tolist()]
    return torch.tensor(rows)


def lists_of_bools(q_positions, k_positions):
    return [[bool(0 <= k <= q) for k in k_positions] for q in q_positions]


def distances(q_positions, k_positions):
    """A token is seen from a distance of 0 or more; no token is infinitely far ahead."""
    k = k_positions.double().masked_fill(k_positions < 0, float("inf"))
    return torch.subtract(q_positions.double().unsqueeze(1), k.unsqueeze(0)) >= 0


def column_by_column(q_positions, k_positions):
    columns = [q_positions >= k if k >= 0 else torch.zeros_like(q_positions).bool() for k in k_positions]
    return torch.stack(columns, dim=-1)


def as_numpy(q_positions, k_positions):
    q, k = q_positions.numpy(), k_positions.numpy()
    return (k <= q.reshape(-1, 1)) & (k != -1)


def looked_up(q_positions, k_positions):
    """Rows of a square triangle over all positions, then the columns of the keys; a last column for no token."""
    size = int(torch.cat((q_positions, k_positions)).max()) + 1
    triangle = torch.nn.functional.pad(torch.ones(size, size).tril(), (0, 1)).bool()
    return triangle[q_positions][:, k_positions]


VARIANTS = (
    Variant("a comparison", visible),
    Variant("loops", loops),
    Variant("lists of bools", lists_of_bools),
    Variant("distances", distances),
    Variant("column by column", column_by_column),
    Variant("NumPy", as_numpy),
    Variant("looked up in a triangle", looked_up),
)
