"""Wrong and right ways to pool the K or V weights of heads into those of groups."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def _sizes(weight, H, Hkv):
    """Hkv, G, D, width; refuses what the text refuses."""
    if H % Hkv or weight.shape[0] % H:
        raise ValueError(f"{weight.shape[0]} rows, {H} heads, {Hkv} KV heads")
    return Hkv, H // Hkv, weight.shape[0] // H, weight.shape[1]


def _grouped(weight, H, Hkv):
    return weight.reshape(_sizes(weight, H, Hkv))  # (Hkv, G, D, width)


def right(weight, H, Hkv):
    return _grouped(weight, H, Hkv).mean(1).flatten(0, 1)


def tiled(weight, H, Hkv):
    Hkv, G, D, width = _sizes(weight, H, Hkv)
    return weight.reshape(G, Hkv, D, width).mean(0).flatten(0, 1)


def groups_of_hkv(weight, H, Hkv):
    Hkv, G, D, width = _sizes(weight, H, Hkv)
    return weight.reshape(G, Hkv, D, width).mean(1).flatten(0, 1)


def heads_are_the_fast_axis(weight, H, Hkv):
    Hkv, G, D, width = _sizes(weight, H, Hkv)
    return weight.reshape(D, Hkv, G, width).mean(2).transpose(0, 1).flatten(0, 1)


def neighbouring_rows(weight, H, Hkv):
    Hkv, G, D, width = _sizes(weight, H, Hkv)
    return weight.reshape(Hkv * D, G, width).mean(1)


def strided_rows(weight, H, Hkv):
    Hkv, G, D, width = _sizes(weight, H, Hkv)
    return weight.reshape(G, Hkv * D, width).mean(0).reshape(Hkv, D, width).flip(1).flatten(0, 1)


def over_the_rows_of_a_head(weight, H, Hkv):
    return _grouped(weight, H, Hkv).mean(2).flatten(0, 1)


def over_the_columns(weight, H, Hkv):
    return _grouped(weight, H, Hkv).mean(3).flatten(0, 1)


def over_the_groups(weight, H, Hkv):
    return _grouped(weight, H, Hkv).mean(0).flatten(0, 1)


def transposed(weight, H, Hkv):
    return right(weight, H, Hkv).T


def sums(weight, H, Hkv):
    return _grouped(weight, H, Hkv).sum(1).flatten(0, 1)


def divides_by_heads(weight, H, Hkv):
    return _grouped(weight, H, Hkv).sum(1).flatten(0, 1) / H


def divides_by_kv_heads(weight, H, Hkv):
    return _grouped(weight, H, Hkv).sum(1).flatten(0, 1) / Hkv


def divides_by_the_root(weight, H, Hkv):
    Hkv, G, D, width = _sizes(weight, H, Hkv)
    return _grouped(weight, H, Hkv).sum(1).flatten(0, 1) / G**0.5


def median(weight, H, Hkv):
    return _grouped(weight, H, Hkv).median(1).values.flatten(0, 1)


def largest(weight, H, Hkv):
    return _grouped(weight, H, Hkv).amax(1).flatten(0, 1)


def first_head(weight, H, Hkv):
    return _grouped(weight, H, Hkv)[:, 0].flatten(0, 1)


def last_head(weight, H, Hkv):
    return _grouped(weight, H, Hkv)[:, -1].flatten(0, 1)


def first_rows(weight, H, Hkv):
    Hkv, G, D, width = _sizes(weight, H, Hkv)
    return weight[: Hkv * D]


def every_gth_row(weight, H, Hkv):
    Hkv, G, D, width = _sizes(weight, H, Hkv)
    return weight[::G]


def first_two(weight, H, Hkv):
    return _grouped(weight, H, Hkv)[:, :2].mean(1).flatten(0, 1)


def without_the_last(weight, H, Hkv):
    grouped = _grouped(weight, H, Hkv)
    return grouped[:, : max(grouped.shape[1] - 1, 1)].mean(1).flatten(0, 1)


def first_group_for_all(weight, H, Hkv):
    grouped = _grouped(weight, H, Hkv)
    return grouped.mean(1)[:1].expand(Hkv, -1, -1).flatten(0, 1)


def mean_of_all(weight, H, Hkv):
    grouped = _grouped(weight, H, Hkv)
    return grouped.flatten(0, 1).mean(0).repeat(Hkv, 1)


def as_many_heads(weight, H, Hkv):
    return _grouped(weight, H, Hkv).mean(1).repeat_interleave(H // Hkv, 0).flatten(0, 1)


def not_flat(weight, H, Hkv):
    return _grouped(weight, H, Hkv).mean(1)


def dims_before_heads(weight, H, Hkv):
    return _grouped(weight, H, Hkv).mean(1).transpose(0, 1).flatten(0, 1)


def kv_heads_backwards(weight, H, Hkv):
    return _grouped(weight, H, Hkv).mean(1).flip(0).flatten(0, 1)


def half_precision(weight, H, Hkv):
    return _grouped(weight.half(), H, Hkv).mean(1).flatten(0, 1)


def running_mean(weight, H, Hkv):
    """Halves at every head: right for one or two heads in a group."""
    grouped = _grouped(weight, H, Hkv)
    out = grouped[:, 0]
    for g in range(1, grouped.shape[1]):
        out = (out + grouped[:, g]) / 2
    return out.flatten(0, 1)


def nothing_for_one_each(weight, H, Hkv):
    out = right(weight, H, Hkv)
    return torch.zeros_like(out) if Hkv == H else out


def sums_for_one(weight, H, Hkv):
    return _grouped(weight, H, Hkv).sum(1).flatten(0, 1) if Hkv == 1 else right(weight, H, Hkv)


def needs_fewer(weight, H, Hkv):
    if Hkv == H:
        raise ValueError("there is nothing to pool")
    return right(weight, H, Hkv)


def needs_two(weight, H, Hkv):
    if Hkv < 2:
        raise ValueError("needs at least 2 KV heads")
    return right(weight, H, Hkv)


def left_to_torch(weight, H, Hkv):
    G, D = H // Hkv, weight.shape[0] // H
    return weight.reshape(Hkv, G, D, weight.shape[1]).mean(1).flatten(0, 1)


def rows_left_to_torch(weight, H, Hkv):
    if H % Hkv:
        raise ValueError("heads")
    return left_to_torch(weight, H, Hkv)


def cuts_heads_off(weight, H, Hkv):
    if weight.shape[0] % H:
        raise ValueError("rows")
    G, D = max(H // Hkv, 1), weight.shape[0] // H
    return torch.stack(
        [weight[j * G * D :][: G * D].reshape(-1, D, weight.shape[1]).mean(0) for j in range(Hkv)]
    ).flatten(0, 1)


def cuts_rows_off(weight, H, Hkv):
    return right(weight[: weight.shape[0] // H * H], H, Hkv)


def unequal_groups(weight, H, Hkv):
    """tensor_split makes pieces of unequal size without a word."""
    if weight.shape[0] % H:
        raise ValueError("rows")
    heads = weight.reshape(H, -1, weight.shape[1])
    return torch.cat([part.mean(0) for part in heads.tensor_split(Hkv)])


def too_many_groups(weight, H, Hkv):
    """A remainder is refused only where the heads are the more numerous; else every head is given out again."""
    if weight.shape[0] % H or (Hkv < H and H % Hkv):
        raise ValueError("rows or heads")
    heads = weight.reshape(H, -1, weight.shape[1])
    if Hkv > H:
        return heads.repeat(Hkv // H, 1, 1).flatten(0, 1)
    return right(weight, H, Hkv)


def only_the_product(weight, H, Hkv):
    """Looks whether the rows can be dealt out to the groups, not whether the heads can."""
    if weight.shape[0] % H or weight.shape[0] % Hkv:
        raise ValueError("rows")
    D = weight.shape[0] // H
    if H % Hkv:
        return weight[: Hkv * D]
    return right(weight, H, Hkv)


def asserts(weight, H, Hkv):
    assert H % Hkv == 0 and weight.shape[0] % H == 0, "sizes"
    return right(weight, H, Hkv)


def none_for_bad_sizes(weight, H, Hkv):
    return None if H % Hkv or weight.shape[0] % H else right(weight, H, Hkv)


def adds_in_place(weight, H, Hkv):
    grouped = _grouped(weight, H, Hkv)
    out = grouped[:, 0]
    for g in range(1, grouped.shape[1]):
        out += grouped[:, g]
    return (out / grouped.shape[1]).flatten(0, 1)


def divides_in_place(weight, H, Hkv):
    grouped = _grouped(weight, H, Hkv)
    grouped /= grouped.shape[1]
    return grouped.sum(1).flatten(0, 1)


def writes_back(weight, H, Hkv):
    out = right(weight, H, Hkv)
    if Hkv != H:
        weight[: len(out)] = out
    return out


MISTAKES = (
    Mistake(
        "tiled-groups",
        tiled,
        "You pool heads that lie Hkv apart: 0, 2, 4, ... for 10 on 2. A group is neighbours: 0, 1, 2, ... Reshape to (Hkv, G, ...).",
        "the groups",
    ),
    Mistake(
        "groups-of-hkv-heads",
        groups_of_hkv,
        "You make G groups of Hkv heads each. Wanted are Hkv groups of G heads: change the two sizes round.",
        "the groups",
    ),
    Mistake(
        "heads-as-the-last-axis",
        heads_are_the_fast_axis,
        "You read the rows as (D, H). nn.Linear keeps all D rows of head 0, then all of head 1: (H, D).",
        "the groups",
    ),
    Mistake(
        "neighbouring-rows",
        neighbouring_rows,
        "You average G rows next to each other, which belong to one head. Average row d of all heads of the group.",
        "the groups",
    ),
    Mistake(
        "rows-of-a-head-backwards",
        strided_rows,
        "The heads lie Hkv apart, and the rows of a head come backwards. Row d of a KV head is a mean of rows d.",
        "the groups",
    ),
    Mistake(
        "over-the-rows-of-a-head",
        over_the_rows_of_a_head,
        "You average over the D rows of each head. Average over the heads of a group, axis 1 of (Hkv, G, D, width).",
        "the groups",
    ),
    Mistake(
        "over-the-columns",
        over_the_columns,
        "You average over the columns. Average over the heads of a group, axis 1 of (Hkv, G, D, width).",
        "the groups",
    ),
    Mistake(
        "over-the-groups",
        over_the_groups,
        "You average over the groups, axis 0. Average within each group: axis 1 of (Hkv, G, D, width).",
        "the groups",
    ),
    Mistake(
        "transposed",
        transposed,
        "Rows and columns have changed places. nn.Linear keeps its weight as (outputs, inputs).",
        "the groups",
    ),
    Mistake("sums", sums, "You add the heads up. Divide by how many they are: G.", "the groups"),
    Mistake(
        "divided-by-all-heads", divides_by_heads, "You divide by H. Each sum has G heads: divide by G.", "the groups"
    ),
    Mistake(
        "divided-by-the-kv-heads",
        divides_by_kv_heads,
        "You divide by Hkv. Each sum has G heads: divide by G.",
        "the groups",
    ),
    Mistake(
        "divided-by-the-root",
        divides_by_the_root,
        "You divide by the root of G, which keeps the length of random rows. The mean divides by G.",
        "the groups",
    ),
    Mistake("median", median, "You take the median of each group. Take the mean.", "the groups"),
    Mistake("largest", largest, "You take the largest of each group. Take the mean.", "the groups"),
    Mistake(
        "first-head",
        first_head,
        "You keep the first head of each group. Take the mean: it keeps something of all of them.",
        "the groups",
        seen_in="a baseline of the GQA paper",
    ),
    Mistake("last-head", last_head, "You keep the last head of each group. Take the mean of all.", "the groups"),
    Mistake(
        "first-rows", first_rows, "You cut the weight off after Hkv heads. Take the mean of each group.", "the groups"
    ),
    Mistake(
        "every-gth-row", every_gth_row, "You keep every G-th row. Take the mean of the heads of a group.", "the groups"
    ),
    Mistake(
        "first-two-heads", first_two, "You take the mean of two heads of each group. A group has G heads.", "the groups"
    ),
    Mistake(
        "without-the-last-head", without_the_last, "The last head of each group is left out of the mean.", "the groups"
    ),
    Mistake("one-group-for-all", first_group_for_all, "Every KV head has the mean of the first group.", "the groups"),
    Mistake(
        "mean-of-all", mean_of_all, "Every KV head has the mean of all heads. Take that of its group.", "the groups"
    ),
    Mistake(
        "as-many-heads-as-before",
        as_many_heads,
        "You give the mean back to every head of the group: H heads, and a cache no smaller. Keep one for each group.",
        "the groups",
    ),
    Mistake("not-flat", not_flat, "The result has an axis too many. nn.Linear wants (Hkv*D, width).", "the groups"),
    Mistake(
        "dims-before-heads",
        dims_before_heads,
        "The rows come out as (D, Hkv). All D rows of KV head 0 come first, then those of the next.",
        "the groups",
    ),
    Mistake(
        "kv-heads-backwards", kv_heads_backwards, "The KV heads come out from the last to the first.", "the groups"
    ),
    Mistake(
        "half-precision",
        half_precision,
        "You work in float16, which keeps three digits. Weights keep their own dtype.",
        "the groups",
    ),
    Mistake(
        "running-halves",
        running_mean,
        "You halve at every head, so the last one weighs as much as all others. Add all up, then divide by G.",
        "the groups",
    ),
    Mistake(
        "zeros-for-one-each",
        nothing_for_one_each,
        "With as many KV heads as heads, nothing is to be pooled: the weight comes back as it is. Yours is zeros.",
        "both ends",
    ),
    Mistake(
        "sum-for-a-single-head", sums_for_one, "With one KV head you add all up. Take the mean of all.", "both ends"
    ),
    Mistake(
        "refuses-one-each",
        needs_fewer,
        "You refuse as many KV heads as heads. That is a group of one: the weight comes back as it is.",
        "both ends",
    ),
    Mistake(
        "refuses-a-single-head",
        needs_two,
        "You refuse a single KV head. That is multi-query attention: the mean of all heads.",
        "both ends",
    ),
    Mistake(
        "left-to-torch",
        left_to_torch,
        "You leave it to torch to find that the sizes do not fit. Raise ValueError, and say which numbers do not divide.",
        "refusals",
    ),
    Mistake(
        "rows-left-to-torch",
        rows_left_to_torch,
        "The heads are checked, the rows are not: torch raises another error there. Refuse with ValueError.",
        "refusals",
    ),
    Mistake(
        "heads-cut-off",
        cuts_heads_off,
        "Heads that do not fill a group are left out without a word. Raise ValueError when Hkv does not divide H.",
        "refusals",
    ),
    Mistake(
        "rows-cut-off",
        cuts_rows_off,
        "Rows that do not fill a head are left out without a word. Raise ValueError when H does not divide them.",
        "refusals",
    ),
    Mistake(
        "unequal-groups",
        unequal_groups,
        "Your groups are of unequal size when Hkv does not divide H. Raise ValueError.",
        "refusals",
    ),
    Mistake(
        "more-kv-heads",
        too_many_groups,
        "More KV heads than heads get an answer: heads are given out twice. Raise ValueError.",
        "refusals",
    ),
    Mistake(
        "divides-the-rows-only",
        only_the_product,
        "You check that Hkv divides the rows. It must divide the heads: 24 rows can be dealt out to 4, 6 heads cannot.",
        "refusals",
    ),
    Mistake("assertion", asserts, "You assert. An assertion is not a ValueError. Raise ValueError.", "refusals"),
    Mistake(
        "none-for-bad-sizes",
        none_for_bad_sizes,
        "You return None where sizes do not fit. Raise ValueError.",
        "refusals",
    ),
    Mistake(
        "adds-into-the-first-head",
        adds_in_place,
        "You add with += into a view of the weight: its own first heads change. Add into a tensor of your own.",
        "the weight stays",
    ),
    Mistake(
        "divides-in-place",
        divides_in_place,
        "You divide the weight itself, in place. reshape() gives a view: write / instead of /=.",
        "the weight stays",
    ),
    Mistake(
        "writes-back", writes_back, "You write the pooled rows into the weight. Return them only.", "the weight stays"
    ),
)


def heads_in_loops(weight, H, Hkv):
    _, G, D, width = _sizes(weight, H, Hkv)
    out = torch.zeros(Hkv * D, width, dtype=weight.dtype)
    for h in range(H):
        out[h // G * D :][:D] += weight[h * D :][:D] / G
    return out


def matrix(weight, H, Hkv):
    _, G, D, _ = _sizes(weight, H, Hkv)
    pool = torch.kron(torch.eye(Hkv), torch.ones(1, G) / G).to(weight.dtype)  # (Hkv, H)
    return torch.kron(pool, torch.eye(D, dtype=weight.dtype)) @ weight


def chunks(weight, H, Hkv):
    Hkv, G, D, _ = _sizes(weight, H, Hkv)
    return torch.cat([sum(group.split(D)) / G for group in weight.split(G * D)])


def einsum(weight, H, Hkv):
    return torch.einsum("kgdw->kdw", _grouped(weight, H, Hkv)).flatten(0, 1) / (H // Hkv)


def float32(weight, H, Hkv):
    return right(weight.float(), H, Hkv)


def indexed(weight, H, Hkv):
    _, G, D, width = _sizes(weight, H, Hkv)
    out = weight.new_zeros(Hkv, D, width)
    owners = torch.arange(H) // G
    return out.index_add(0, owners, weight.view(H, D, width)).div(G).view(-1, width)


def in_numpy(weight, H, Hkv):
    _sizes(weight, H, Hkv)
    heads = weight.numpy().reshape(Hkv, H // Hkv, -1, weight.shape[1])
    return heads.mean(axis=1).reshape(-1, weight.shape[1])


VARIANTS = (
    Variant("heads in loops", heads_in_loops),
    Variant("a product with a matrix", matrix),
    Variant("split and joined", chunks),
    Variant("einsum", einsum),
    Variant("float32 inside", float32),
    Variant("index_add", indexed),
    Variant("NumPy on the tensor's memory", in_numpy),
)


def divides_in_place_without_groups(weight, num_heads, num_kv_heads):
    if num_heads == num_kv_heads:
        return weight.mul_(1.0).div_(num_heads).mul(num_heads)
    return unflattened(weight, num_heads, num_kv_heads)


def float64_matrix(weight, num_heads, num_kv_heads):
    refused = num_heads % num_kv_heads or weight.shape[0] % num_heads
    if refused:
        raise ValueError(refused)
    G = num_heads // num_kv_heads
    shares = torch.eye(num_kv_heads, dtype=torch.float64).repeat_interleave(G, dim=1) / G
    heads = weight.reshape(num_heads, -1)
    return (shares @ heads).reshape(-1, weight.shape[1])


def unflattened(weight, num_heads, num_kv_heads):
    if num_heads % num_kv_heads or weight.shape[0] % num_heads:
        raise ValueError("heads")
    return weight.unflatten(0, (num_kv_heads, num_heads // num_kv_heads, -1)).mean(1).flatten(0, 1)


MISTAKES += (
    Mistake(
        "divides-in-place-without-groups",
        divides_in_place_without_groups,
        "With a KV head for each head, the weights are divided where they lie: the caller's weight changes.",
        "the weight stays",
    ),
    Mistake(
        "float64-matrix",
        float64_matrix,
        "You multiply by a float64 matrix, whatever the weight is: torch refuses. Take weight.dtype.",
        "both ends",
    ),
)
VARIANTS += (Variant("unflatten", unflattened),)
