"""Wrong and right ways to attend through a block table. Each mistake is `attend` with one part changed."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def blocks_of(table, S, block_size):
    return table[: -(-S // block_size)]


def gather(pool, blocks, S):
    """(Hkv, S, D), the rows of one sequence in order."""
    return pool[blocks].flatten(0, 1)[:S].transpose(0, 1)


def right_mask(S, T, block_size):
    return torch.arange(S) <= torch.arange(S - T, S)[:, None]


def shares(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def group(rows, H):
    return rows.repeat_interleave(H // rows.shape[0], dim=0)


def scale(D):
    return 1 / math.sqrt(D)


def own_length(seq_lens, b, T):
    return int(seq_lens[b])


def own_table(block_tables, b):
    return block_tables[b]


def attend(
    q,
    K,
    V,
    block_tables,
    seq_lens,
    blocks_of=blocks_of,
    gather_k=gather,
    gather_v=gather,
    mask=right_mask,
    shares=shares,
    group=group,
    scale=scale,
    length=own_length,
    table=own_table,
    after=lambda out: out,
):
    B, H, T, D = q.shape
    outputs = []
    for b in range(B):
        S = length(seq_lens, b, T)
        blocks = blocks_of(table(block_tables, b), S, K.shape[1])
        k, v = group(gather_k(K, blocks, S), H), group(gather_v(V, blocks, S), H)  # (H, S, D)
        weights = shares(q[b] @ k.mT * scale(D), mask(k.shape[1], T, K.shape[1]))  # (H, T, S)
        outputs.append(after(weights @ v))
    return torch.stack(outputs)


def changed(**parts):
    def paged_attend(q, K, V, block_tables, seq_lens):
        return attend(q, K, V, block_tables, seq_lens, **parts)

    return paged_attend


def both(gather):
    return changed(gather_k=gather, gather_v=gather)


# Which rows.


def from_slot_0(pool, blocks, S):
    return pool.flatten(0, 1)[:S].transpose(0, 1)


def from_the_first_block(pool, blocks, S):
    """The rows behind each other from the start of the first block."""
    slots = (int(blocks[0]) * pool.shape[1] + torch.arange(S)) % (pool.shape[0] * pool.shape[1])
    return pool.flatten(0, 1)[slots].transpose(0, 1)


def as_slots(pool, blocks, S):
    """Block numbers are taken for slots: one row for each block."""
    return pool.flatten(0, 1)[blocks].transpose(0, 1)


def first_rows(pool, blocks, S):
    """Only the first row of each block."""
    return pool[blocks, 0].transpose(0, 1)


def heads_mixed(pool, blocks, S):
    """Reshaped to heads first, without a transpose."""
    rows = pool[blocks].flatten(0, 1)[:S]
    return rows.reshape(rows.shape[1], -1, rows.shape[2])


def sorted_blocks(pool, blocks, S):
    return gather(pool, blocks.sort().values, S)


def reversed_blocks(pool, blocks, S):
    return gather(pool, blocks.flip(0), S)


def last_block_only(pool, blocks, S):
    used = S - (len(blocks) - 1) * pool.shape[1]
    return gather(pool, blocks[-1:], used)


def by_num_blocks(pool, blocks, S):
    """Token p is looked for in block p // num_blocks of the table."""
    p = torch.arange(S)
    n = pool.shape[0]
    return pool[blocks[(p // n).clamp(max=len(blocks) - 1)], p % n % pool.shape[1]].transpose(0, 1)


def to_capacity(pool, blocks, S):
    """All rows of all blocks, also those of the last one that nobody wrote."""
    return pool[blocks].flatten(0, 1).transpose(0, 1)


def one_fewer(pool, blocks, S):
    return gather(pool, blocks, max(S - 1, 1))


def threes(pool, blocks, S):
    """A block size of 4, whatever the pool has."""
    p = torch.arange(S)
    return pool[blocks[(p // 4).clamp(max=len(blocks) - 1)], p % 4 % pool.shape[1]].transpose(0, 1)


def four_blocks(table, S, block_size):
    return blocks_of(table, S, block_size)[:4]


def floor_blocks(table, S, block_size):
    return table[: max(1, S // block_size)]


def all_columns(table, S, block_size):
    """-1 is kept, and is the last block of the pool."""
    return table


def blocks_of_four(table, S, block_size):
    return table[: max(-(-S // 4), 1)]


def in_bytes(block_tables, b):
    return block_tables[b].to(torch.uint8).long()


def one_owner(q, K, V, block_tables, seq_lens):
    """A list tells whose each block is: of one that stands in two tables, the last one's."""
    owner = torch.full((K.shape[0],), -1)
    for b, table in enumerate(block_tables):
        owner[table[table >= 0]] = b
    outputs = []
    for b in range(len(q)):

        def mask(S, T, block_size, b=b):
            own = owner[blocks_of(block_tables[b], S, block_size)].repeat_interleave(block_size)[:S] == b
            return right_mask(S, T, block_size) & own

        def some(scores, mask):
            return shares(scores, mask).nan_to_num(0.0)

        row = attend(q[b : b + 1], K, V, block_tables[b : b + 1], seq_lens[b : b + 1], mask=mask, shares=some)
        outputs.append(row)
    return torch.cat(outputs)


def table_of_row_0(block_tables, b):
    return block_tables[0]


def length_of_row_0(seq_lens, b, T):
    return int(seq_lens[0])


def longest(seq_lens, b, T):
    return int(seq_lens.max())


def without_new(seq_lens, b, T):
    return max(int(seq_lens[b]) - T, 1)


def new_on_top(seq_lens, b, T):
    return int(seq_lens[b]) + T


def mask_of_old_and_new(S, T, block_size):
    return torch.ones(T, S, dtype=torch.bool)


def triangle(S, T, block_size):
    return torch.ones(T, S, dtype=torch.bool).tril() if T > 1 else torch.ones(1, S, dtype=torch.bool)


def triangle_always(S, T, block_size):
    return torch.ones(T, S, dtype=torch.bool).tril()


def not_itself(S, T, block_size):
    q = torch.arange(S - T, S)[:, None]
    return (torch.arange(S) < q) | (q == 0)


def one_ahead(S, T, block_size):
    return torch.arange(S) <= torch.arange(S - T, S)[:, None] + 1


def prompts_only(S, T, block_size):
    return right_mask(S, T, block_size) if T == S else mask_of_old_and_new(S, T, block_size)


def first_query_for_all(S, T, block_size):
    return (torch.arange(S) <= S - T).expand(T, S)


def old_only(S, T, block_size):
    """In a chunk, what was held before; a single token also sees itself."""
    mask = torch.arange(S) < S - T
    own = torch.arange(S) == torch.arange(S - T, S)[:, None]
    return mask | own


def from_the_last_block(S, T, block_size):
    """The chunk is thought to start where the last block does."""
    start = (S - 1) // block_size * block_size
    return torch.arange(S) <= (start + torch.arange(T))[:, None] if T > 1 else right_mask(S, T, block_size)


def positions_of_row_0(q, K, V, block_tables, seq_lens):
    """The mask of row 0, cut or filled for the other rows."""

    def mask(S, T, block_size):
        return torch.arange(S) <= (int(seq_lens[0]) - T + torch.arange(T))[:, None] if T > 1 else right_mask(S, T, 0)

    return attend(q, K, V, block_tables, seq_lens, mask=mask)


def padded_to_the_longest(q, K, V, block_tables, seq_lens):
    """Queries stand at the end of the longest row."""

    def mask(S, T, block_size):
        return torch.arange(S) <= (int(seq_lens.max()) - T + torch.arange(T))[:, None]

    return attend(q, K, V, block_tables, seq_lens, mask=mask)


# Softmax, heads, scale.


def over_queries(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-2).nan_to_num(0.0)


def zero_scores(scores, mask):
    return (scores * mask).softmax(-1)


def masked_afterwards(scores, mask):
    return scores.softmax(-1) * mask


def minus_100(scores, mask):
    """As many columns as the table has room for are there; the others get -100."""
    return scores.masked_fill(~mask, -100.0).softmax(-1)


def per_block(scores, mask):
    """A softmax in each block by itself; the blocks then count alike."""
    parts = [part.masked_fill(~seen, -torch.inf) for part, seen in zip(scores.split(4, -1), mask.split(4, -1))]
    alive = sum((part > -torch.inf).any(-1, keepdim=True) for part in parts)
    return torch.cat([part.softmax(-1).nan_to_num(0.0) for part in parts], -1) / alive


def tiled(rows, H):
    return rows.repeat(H // rows.shape[0], 1, 1)


def head_0(rows, H):
    return rows[:1].expand(H, -1, -1)


def by_threes(rows, H):
    return rows.repeat_interleave(3, dim=0)[:H] if rows.shape[0] * 3 <= H else tiled(rows, H)


# Rubbish.


def by_whole_blocks(
    q, K, V, block_tables, seq_lens, clean_k=lambda k, used: k, clean_v=lambda v, used: v, hide=None, after=None
):
    """All columns of the table are gathered, and a mask hides what is not a token. Parts say what else is done."""
    B, H, T, D = q.shape
    tables = block_tables.clamp(min=0)
    k, v = (pool[tables].flatten(1, 2).transpose(1, 2) for pool in (K, V))  # (B, Hkv, M * block_size, D)
    columns = torch.arange(k.shape[2])
    used = columns < seq_lens[:, None]  # (B, M * block_size)
    k, v = clean_k(k, used[:, None, :, None]), clean_v(v, used[:, None, :, None])
    k, v = (rows.repeat_interleave(H // rows.shape[1], 1) for rows in (k, v))
    positions = seq_lens[:, None] - T + torch.arange(T)  # (B, T)
    mask = (columns <= positions[..., None])[:, None]  # (B, 1, T, M * block_size)
    scores = q @ k.mT / math.sqrt(D)
    scores = hide(scores, mask) if hide else scores.masked_fill(~mask, -torch.inf)
    out = scores.softmax(-1) @ v
    return after(out) if after else out


def zeros(rows, used):
    return rows.masked_fill(~used, 0.0)


def no_nan(rows, used):
    """NaN is replaced, infinities stay."""
    return rows.where(~rows.isnan(), 0.0)


def add_minus_infinity(scores, mask):
    return scores + torch.zeros_like(scores).masked_fill(~mask, -torch.inf)


def blocks(**parts):
    def paged_attend(q, K, V, block_tables, seq_lens):
        return by_whole_blocks(q, K, V, block_tables, seq_lens, **parts)

    return paged_attend


def minus_100_in_blocks(scores, mask):
    return scores.masked_fill(~mask, -100.0)


# The caller's tensors.


def clears_the_pool(q, K, V, block_tables, seq_lens):
    """What is left of last blocks is set to 0 in the pools."""
    for table, S in zip(block_tables, seq_lens.tolist()):
        used = S - (-(-S // K.shape[1]) - 1) * K.shape[1]
        last = table[-(-S // K.shape[1]) - 1]
        K[last, used:], V[last, used:] = 0.0, 0.0
    return attend(q, K, V, block_tables, seq_lens)


def cleans_the_pools(q, K, V, block_tables, seq_lens):
    """Every NaN of the pools is set to 0, in place."""
    out = attend(q, K, V, block_tables, seq_lens)
    K[K.isnan()], V[V.isnan()] = 0.0, 0.0
    return out


def one_axis_more(q, K, V, block_tables, seq_lens):
    """(B, 1, H, T, D): each row of the batch keeps an axis of its own."""
    return attend(q, K, V, block_tables, seq_lens)[:, None]


def axes_of_one_dropped(q, K, V, block_tables, seq_lens):
    return attend(q, K, V, block_tables, seq_lens).squeeze()


def clamps_the_tables(q, K, V, block_tables, seq_lens):
    block_tables.clamp_(min=0)
    return attend(q, K, V, block_tables, seq_lens)


def scales_the_queries(q, K, V, block_tables, seq_lens):
    q /= math.sqrt(q.shape[-1])
    return attend(q, K, V, block_tables, seq_lens, scale=lambda D: 1.0)


def counts_down(q, K, V, block_tables, seq_lens):
    out = attend(q, K, V, block_tables, seq_lens)
    seq_lens -= q.shape[2]
    return out


def scales_the_keys(q, K, V, block_tables, seq_lens):
    K /= math.sqrt(q.shape[-1])
    return attend(q, K, V, block_tables, seq_lens, scale=lambda D: 1.0)


def adds_new_tokens(q, K, V, block_tables, seq_lens):
    """The lengths are moved on in place, as if the new tokens were still to be counted."""
    out = attend(q, K, V, block_tables, seq_lens)
    seq_lens += q.shape[2]
    return out


MISTAKES = (
    Mistake("no-scale", changed(scale=lambda D: 1.0), "The scores are not divided by sqrt(D).", "one new token"),
    Mistake(
        "stacked",
        one_axis_more,
        "There is an axis too many: each row of the batch comes as (1, H, T, D). Join them with `torch.cat`.",
        killed_by="one new token",
    ),
    Mistake(
        "squeezed",
        axes_of_one_dropped,
        "Axes of length 1 are dropped. The shape is (B, H, T, D), also for one sequence or one token.",
        killed_by="one new token",
    ),
    Mistake(
        "scale-without-root",
        changed(scale=lambda D: 1 / D),
        "Scores are divided by D, not by its root.",
        "one new token",
    ),
    Mistake(
        "scale-of-one-layer",
        changed(scale=lambda D: 1 / math.sqrt(5)),
        "The scores are divided by sqrt(5), whatever D is. Take D from the rows.",
        killed_by="one new token",
    ),
    Mistake(
        "tiled-heads",
        changed(group=tiled),
        "Query head h reads KV head h % Hkv. Neighbours share: h // (H // Hkv).",
        killed_by="one new token",
    ),
    Mistake("kv-head-0-for-all", changed(group=head_0), "All query heads read KV head 0.", "one new token"),
    Mistake(
        "group-of-three", changed(group=by_threes), "The group is always 3 heads. It is H // Hkv.", "one new token"
    ),
    Mistake(
        "softmax-over-queries",
        changed(shares=over_queries),
        "The softmax runs over the queries. It must run over the keys, the last axis.",
        killed_by="one new token",
    ),
    Mistake(
        "softmax-in-each-block",
        changed(shares=per_block),
        "Each block has a softmax of its own, and blocks count alike. One softmax runs over all tokens.",
        killed_by="one new token",
        seen_in="attention block by block without the running maximum and sum",
    ),
    Mistake(
        "values-from-k",
        lambda q, K, V, block_tables, seq_lens: attend(q, K, K, block_tables, seq_lens),
        "The values come from the pool of the keys. V has a pool of its own.",
        killed_by="one new token",
    ),
    Mistake(
        "blocks-as-slots",
        both(as_slots),
        "Block numbers are taken for slots: one row each. Block n has block_size rows.",
        killed_by="one new token",
    ),
    Mistake(
        "first-row-of-each-block",
        both(first_rows),
        "Only the first row of each block is read. A block has block_size rows.",
        killed_by="one new token",
    ),
    Mistake(
        "heads-mixed",
        both(heads_mixed),
        "`reshape` to heads first mixes tokens and heads. Join block and offset, then transpose.",
        killed_by="one new token",
    ),
    Mistake(
        "newest-not-seen",
        changed(length=without_new),
        "The new token does not see itself: T is taken from seq_lens, which counts it. It is written already.",
        killed_by="one new token",
    ),
    Mistake(
        "only-the-last-block",
        both(last_block_only),
        "Only the last block is read. A query sees all blocks of its table.",
        killed_by="one new token",
    ),
    Mistake("last-row-missing", both(one_fewer), "One row too few is read: the newest is missing.", "one new token"),
    Mistake(
        "triangle-for-one-token",
        changed(mask=triangle_always),
        "A triangle from the top left lets the only query see token 0 alone, as `is_causal=True` does. Compare positions.",
        killed_by="one new token",
        seen_in="decode steps with is_causal=True",
    ),
    Mistake(
        "blocks-of-4",
        both(threes),
        "The block size is 4, whatever the pool has. Take it from K.shape[1].",
        killed_by="one new token",
    ),
    Mistake(
        "divided-by-num-blocks",
        both(by_num_blocks),
        "Positions are divided by the number of blocks. Divide by block_size, the second axis of the pool.",
        killed_by="one new token",
    ),
    Mistake(
        "table-not-used",
        both(from_slot_0),
        "The first S slots of the pool are read, whoever they belong to. The table says which blocks.",
        killed_by="blocks anywhere",
    ),
    Mistake(
        "one-behind-the-other",
        both(from_the_first_block),
        "The rows behind the first block are read. Only the table knows where the next block is.",
        killed_by="blocks anywhere",
        seen_in="paged caches that were tried with one sequence",
    ),
    Mistake(
        "values-by-sorted-table",
        changed(gather_v=sorted_blocks),
        "Keys follow the table, values its sorted blocks. A key and its value share block and offset.",
        killed_by="blocks anywhere",
    ),
    Mistake(
        "table-of-row-0",
        changed(table=table_of_row_0),
        "All sequences read the blocks of row 0. Each has a table of its own.",
        killed_by="blocks anywhere",
    ),
    Mistake(
        "four-blocks-at-most",
        changed(blocks_of=four_blocks),
        "Only the first four blocks are read. A table has as many as the tokens need.",
        killed_by="blocks anywhere",
    ),
    Mistake(
        "four-slots-a-block",
        changed(blocks_of=blocks_of_four),
        "Tokens are divided by 4 to count the blocks. Divide by block_size, and round up.",
        killed_by="blocks anywhere",
    ),
    Mistake(
        "in-bytes",
        changed(table=in_bytes),
        "Block numbers are kept in 8 bits, and block 256 is 0 again. Pools are larger: leave them int64.",
        killed_by="blocks anywhere",
    ),
    Mistake(
        "one-owner",
        one_owner,
        "You note whose each block is, and one that stands in two tables is the last one's. Read each table by itself.",
        killed_by="different lengths",
        seen_in="paged caches before prefixes were shared",
    ),
    Mistake(
        "to-the-end-of-the-block",
        both(to_capacity),
        "The rest of the last block is read too. Only seq_lens says how many rows are tokens.",
        killed_by="different lengths",
        seen_in="tables whose capacity is taken for the length",
    ),
    Mistake(
        "last-block-missing",
        changed(blocks_of=floor_blocks),
        "S // block_size leaves the partly filled block out. Round up.",
        killed_by="different lengths",
    ),
    Mistake(
        "length-of-row-0",
        changed(length=length_of_row_0),
        "The length of row 0 is used for all. Each sequence has its own.",
        killed_by="different lengths",
    ),
    Mistake(
        "longest-for-all",
        changed(length=longest),
        "All sequences are read to the length of the longest. Each has its own.",
        killed_by="different lengths",
    ),
    Mistake(
        "minus-1-is-a-block",
        changed(blocks_of=all_columns, gather_k=to_capacity, gather_v=to_capacity),
        "All columns of the table count, and -1 is the last block of the pool. Stop at seq_lens.",
        killed_by="different lengths",
    ),
    Mistake(
        "new-tokens-counted-twice",
        changed(length=new_on_top),
        "T is added to seq_lens, which counts the new tokens already.",
        killed_by="different lengths",
    ),
    Mistake(
        "blocks-sorted",
        both(sorted_blocks),
        "The blocks are sorted, so the partly filled one is no longer last. Keep the table's order.",
        killed_by="different lengths",
    ),
    Mistake(
        "blocks-reversed",
        both(reversed_blocks),
        "The blocks are read from the last to the first. The partly filled one is last.",
        killed_by="different lengths",
    ),
    Mistake(
        "minus-100-for-minus-infinity",
        blocks(clean_k=zeros, clean_v=zeros, hide=minus_100_in_blocks),
        "Hidden scores are -100, and real ones may be lower still. Set them to minus infinity.",
        killed_by="different lengths",
    ),
    Mistake(
        "no-causal-mask",
        changed(mask=mask_of_old_and_new),
        "The queries of a chunk see later ones. Query t sees positions up to S - T + t.",
        killed_by="several new tokens",
    ),
    Mistake(
        "top-left-triangle",
        changed(mask=triangle),
        "The chunk's mask is a triangle from the top left. The queries are the last T positions, not the first.",
        killed_by="several new tokens",
    ),
    Mistake(
        "masked-for-prompts-only",
        changed(mask=prompts_only),
        "A chunk after other tokens has no mask; only a whole prompt has. Both need it.",
        killed_by="several new tokens",
    ),
    Mistake(
        "one-ahead",
        changed(mask=one_ahead),
        "A query sees one position too many, the token after it.",
        "several new tokens",
    ),
    Mistake(
        "first-query-for-all",
        changed(mask=first_query_for_all),
        "All queries see what the first of the chunk sees. Each has its own position.",
        killed_by="several new tokens",
    ),
    Mistake(
        "chunk-does-not-see-itself",
        changed(mask=old_only),
        "A new token sees the old ones and itself, but not those before it in its chunk.",
        killed_by="several new tokens",
    ),
    Mistake(
        "chunk-from-the-last-block",
        changed(mask=from_the_last_block),
        "The chunk is taken to start where the last block does. It starts at position S - T, wherever that is.",
        killed_by="several new tokens",
    ),
    Mistake(
        "positions-of-row-0",
        positions_of_row_0,
        "The positions of row 0's queries are used for all rows. They start at each row's own S - T.",
        killed_by="several new tokens",
    ),
    Mistake(
        "positions-of-the-longest",
        padded_to_the_longest,
        "Queries are placed at the end of the longest sequence, so those of shorter ones see later tokens.",
        killed_by="several new tokens",
    ),
    Mistake(
        "masked-scores-are-0",
        changed(shares=zero_scores),
        "Masked scores are set to 0, and a score of 0 still gets weight. Set them to minus infinity.",
        killed_by="several new tokens",
    ),
    Mistake(
        "masked-after-the-softmax",
        changed(shares=masked_afterwards),
        "The mask is laid over the weights after the softmax, so they no longer add up to 1. Mask the scores.",
        killed_by="several new tokens",
    ),
    Mistake(
        "nan-in-values",
        blocks(clean_k=zeros),
        "Unused values get weight 0, and 0 * NaN is NaN (a mask multiplied onto them, too). Leave those rows out.",
        killed_by="rubbish elsewhere",
        seen_in="attention over whole blocks with a mask",
    ),
    Mistake(
        "nan-in-keys",
        blocks(clean_v=zeros, hide=add_minus_infinity),
        "A mask of -inf is added to scores that are NaN, and NaN stays. Leave those rows out, or replace the scores.",
        killed_by="rubbish elsewhere",
    ),
    Mistake(
        "infinity-in-values",
        blocks(clean_k=zeros, clean_v=no_nan),
        "NaN is replaced, infinity is not, and 0 * inf is NaN. Leave out what is no token, whatever it is.",
        killed_by="rubbish elsewhere",
    ),
    Mistake(
        "nan-cleaned-too-late",
        blocks(clean_k=zeros, after=lambda out: out.nan_to_num(0.0, 0.0, 0.0)),
        "NaN is replaced in the output, where it has already spoilt the sums. Leave those rows out before.",
        killed_by="rubbish elsewhere",
    ),
    Mistake(
        "pool-cleared",
        clears_the_pool,
        "The rest of the last block is cleared in the pool. The pool is the caller's: change a copy.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "pools-cleaned",
        cleans_the_pools,
        "NaN is set to 0 in the pools themselves. They are the caller's: leave the rows out, or change a copy.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "tables-clamped-in-place",
        clamps_the_tables,
        "-1 is replaced in the caller's tables: the next layer takes it for block 0. `clamp`, without the _.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "queries-scaled-in-place",
        scales_the_queries,
        "`q /= ...` changes the caller's queries. Divide into a new tensor.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "keys-scaled-in-place",
        scales_the_keys,
        "`K /= ...` changes the pool, and every later step finds smaller keys.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "lengths-counted-down",
        counts_down,
        "`seq_lens -= T` changes the caller's lengths. Subtract into a new tensor.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "lengths-moved-on",
        adds_new_tokens,
        "seq_lens is moved on by T in place. It counts the new tokens already, and is the caller's.",
        killed_by="the caller's tensors",
    ),
)


def by_sdpa(q, K, V, block_tables, seq_lens):
    """Slot by slot gathered, with the library's kernel."""
    outputs = []
    for b, S in enumerate(seq_lens.tolist()):
        p = torch.arange(S)
        slots = block_tables[b, p // K.shape[1]] * K.shape[1] + p % K.shape[1]
        k, v = (pool.reshape(-1, *pool.shape[2:])[slots].permute(1, 0, 2)[None] for pool in (K, V))
        mask = torch.ones(q.shape[2], S, dtype=torch.bool).tril(S - q.shape[2])
        out = torch.nn.functional.scaled_dot_product_attention(q[b][None], k, v, attn_mask=mask, enable_gqa=True)
        outputs.append(out)
    return torch.cat(outputs)


def block_by_block(q, K, V, block_tables, seq_lens):
    """A running maximum and a running sum: nothing larger than a block is made."""
    B, H, T, D = q.shape
    G, size = H // K.shape[2], K.shape[1]
    out = torch.zeros_like(q)
    for b in range(B):
        S = int(seq_lens[b])
        top = torch.full((H, T, 1), -torch.inf, dtype=q.dtype)
        total, sums = torch.zeros(H, T, D, dtype=q.dtype), torch.zeros(H, T, 1, dtype=q.dtype)
        for n in range(-(-S // size)):
            used = min(size, S - n * size)
            k, v = (pool[block_tables[b, n], :used].repeat_interleave(G, 1).transpose(0, 1) for pool in (K, V))
            seen = n * size + torch.arange(used) <= S - T + torch.arange(T)[:, None]
            scores = (q[b] @ k.mT / D**0.5).masked_fill(~seen, -torch.inf)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            weights, old = (scores - new).exp(), (top - new).exp()
            total, sums, top = total * old + weights @ v, sums * old + weights.sum(-1, keepdim=True), new
        out[b] = total / sums
    return out


def all_at_once(q, K, V, block_tables, seq_lens):
    """The whole batch padded to the longest table, hidden keys and values cleared in the copy."""
    return by_whole_blocks(q, K, V, block_tables, seq_lens, clean_k=zeros, clean_v=zeros)


def over_the_pool(q, K, V, block_tables, seq_lens):
    """No gathering: every query asks every slot, and a map says at which position of the sequence that is."""
    B, H, T, D = q.shape
    size = K.shape[1]
    k, v = (pool.flatten(0, 1).transpose(0, 1).repeat_interleave(H // pool.shape[2], 0) for pool in (K, V))  # (H, N, D)
    outputs = []
    for b in range(B):
        position = torch.full((k.shape[1],), -1)
        for n, block in enumerate(block_tables[b].tolist()):
            if block >= 0:
                slots = torch.arange(block * size, (block + 1) * size)
                position[slots] = n * size + torch.arange(size)
        position[position >= seq_lens[b]] = -1
        seen = (position >= 0) & (position <= (seq_lens[b] - T + torch.arange(T))[:, None])  # (T, N)
        scores = torch.where(seen, q[b] @ k.mT / D**0.5, -torch.inf)
        outputs.append(scores.softmax(-1) @ v.where((position >= 0)[:, None], 0.0))
    return torch.stack(outputs)


def in_numpy(q, K, V, block_tables, seq_lens):
    """einsum in NumPy, with the query heads in groups."""
    import numpy as np

    q, K, V = q.numpy(), K.numpy(), V.numpy()
    out = np.empty(q.shape)
    B, H, T, D = q.shape
    for b in range(B):
        S = int(seq_lens[b])
        rows = [(int(block_tables[b, p // K.shape[1]]), p % K.shape[1]) for p in range(S)]
        k, v = (np.stack([pool[row] for row in rows]) for pool in (K, V))  # (S, Hkv, D)
        scores = np.einsum("ngtd,snd->ngts", q[b].reshape(k.shape[1], -1, T, D), k) / np.sqrt(D)
        scores[:, :, np.arange(S) > np.arange(S - T, S)[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        out[b] = np.einsum("ngts,snd->ngtd", weights, v).reshape(H, T, D)
    return torch.from_numpy(out)


def in_float32(q, K, V, block_tables, seq_lens):
    """float32 inside, and a list of rows as the answer."""
    return list(attend(q.float(), K.float(), V.float(), block_tables, seq_lens))


def query_by_query(q, K, V, block_tables, seq_lens):
    """Each query is a decode step of its own, over the tokens up to itself."""
    T = q.shape[2]
    steps = [attend(q[:, :, t : t + 1], K, V, block_tables, seq_lens - T + t + 1) for t in range(T)]
    return torch.cat(steps, 2)


VARIANTS = (
    Variant("one sequence at a time", attend),
    Variant("slots, and the library's kernel", by_sdpa),
    Variant("block by block with a running sum", block_by_block),
    Variant("the whole batch, padded", all_at_once),
    Variant("every slot of the pool under a map", over_the_pool),
    Variant("einsum in NumPy", in_numpy),
    Variant("float32 inside, a list of rows", in_float32),
    Variant("each query alone", query_by_query),
)
