"""Wrong and right ways to write rows to slots. Each mistake is `write` with one part changed."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def not_padding(slot_mapping):
    return slot_mapping != -1


def inside(slots, num_slots):
    return (slots >= 0) & (slots < num_slots)


def places(slots, num_blocks, block_size):
    return slots // block_size, slots % block_size


def put(pool, blocks, offsets, rows):
    pool[blocks, offsets] = rows


def split(slot_mapping, rows, real):
    return slot_mapping[real], rows[real]


def write(pool, rows, slot_mapping, real=not_padding, inside=inside, places=places, put=put, split=split):
    num_blocks, block_size = pool.shape[:2]
    slots, rows = split(slot_mapping, rows, real(slot_mapping))
    if not inside(slots, num_blocks * block_size).all():
        raise ValueError("there is no such slot")
    put(pool, *places(slots, num_blocks, block_size), rows)


def changed(**parts):
    def write_slots(pool, rows, slot_mapping):
        return write(pool, rows, slot_mapping, **parts)

    return write_slots


# Where a row goes.


def by_num_blocks(slots, num_blocks, block_size):
    """Right in block 0, wherever blocks are smaller than the pool has of them."""
    return (slots // num_blocks).clamp(max=num_blocks - 1), (slots % num_blocks) % block_size


def swapped(slots, num_blocks, block_size):
    return slots % block_size % num_blocks, (slots // block_size) % block_size


def from_the_first(slots, num_blocks, block_size):
    """The rows are laid down one behind the other from the first slot."""
    run = (slots[:1] + torch.arange(len(slots))) % (num_blocks * block_size)
    return run // block_size, run % block_size


def block_of_the_first(slots, num_blocks, block_size):
    return (slots[:1] // block_size).expand(len(slots)), slots % block_size


def in_order(slots, num_blocks, block_size):
    slots = slots.sort().values
    return slots // block_size, slots % block_size


def from_offset_0(slots, num_blocks, block_size):
    """The offset is counted in this call, not taken from the slot."""
    return slots // block_size, torch.arange(len(slots)) % block_size


def threes(slots, num_blocks, block_size):
    return (slots // 3).clamp(max=num_blocks - 1), slots % 3


def one_further(slots, num_blocks, block_size):
    slots = (slots + 1) % (num_blocks * block_size)
    return slots // block_size, slots % block_size


def in_bytes(slots, num_blocks, block_size):
    slots = slots.to(torch.uint8).long()
    return slots // block_size, slots % block_size


# How it is put there.


def by_difference(pool, blocks, offsets, rows):
    """What it should change by is added: right for numbers."""
    pool[blocks, offsets] += rows - pool[blocks, offsets]


def pool_cleaned(pool, blocks, offsets, rows):
    pool[blocks, offsets] = rows
    pool.nan_to_num_()


def as_a_block(pool, blocks, offsets, rows):
    """As many rows as a block has slots are taken for a whole block."""
    if len(rows) == pool.shape[1]:
        pool[blocks[0]] = rows
    else:
        pool[blocks, offsets] = rows


def in_fp8_range(pool, blocks, offsets, rows):
    pool[blocks, offsets] = rows.clamp(-448, 448)


def into_a_copy(pool, blocks, offsets, rows):
    copy = pool.clone()
    copy[blocks, offsets] = rows
    return copy


def whole_block(pool, blocks, offsets, rows):
    for block, row in zip(blocks, rows):
        pool[block] = row


def added(pool, blocks, offsets, rows):
    pool[blocks, offsets] += rows


def head_0(pool, blocks, offsets, rows):
    pool[blocks, offsets, 0] = rows[:, 0]


def head_0_for_all(pool, blocks, offsets, rows):
    pool[blocks, offsets] = rows[:, :1].expand_as(rows)


def last_row_for_all(pool, blocks, offsets, rows):
    pool[blocks, offsets] = rows[-1:].expand_as(rows)


def cleared_blocks(pool, blocks, offsets, rows):
    """The rest of each block that is touched is set to 0."""
    pool[blocks.unique()] = 0.0
    pool[blocks, offsets] = rows


def cleared_pool(pool, blocks, offsets, rows):
    pool.zero_()
    pool[blocks, offsets] = rows


def other_memory(pool, rows, slot_mapping):
    """The tensor gets new memory, in which the rows are."""
    new = pool.clone()
    write(new, rows, slot_mapping)
    pool.set_(new)


# Padding.


def cleaned_rows(pool, rows, slot_mapping):
    """NaN is taken out of all rows, before they are multiplied by ones and zeros."""
    by_a_product(pool, rows.nan_to_num(posinf=0.0, neginf=0.0), slot_mapping)


def zeros_are_padding(pool, rows, slot_mapping):
    real = rows.flatten(1).any(1)
    write(pool, rows[real], slot_mapping[real])


def as_many_as_slots(pool, rows, slot_mapping):
    """No more rows than the pool has slots."""
    num_slots = pool.shape[0] * pool.shape[1]
    write(pool, rows[:num_slots], slot_mapping[:num_slots])


def first_rows(slot_mapping, rows, real):
    """The padding is dropped from the mapping only."""
    return slot_mapping[real], rows[: int(real.sum())]


def last_slot_too(slot_mapping, rows, real):
    """-1 stays in the mapping, and is taken for the last slot."""
    return slot_mapping, rows


def minus_1_is_inside(slots, num_slots):
    return (slots >= -1) & (slots < num_slots)


def to_the_last(slots, num_blocks, block_size):
    slots = torch.where(slots == -1, num_blocks * block_size - 1, slots)
    return slots // block_size, slots % block_size


def to_slot_0(slots, num_blocks, block_size):
    slots = slots.clamp(min=0)
    return slots // block_size, slots % block_size


def up_to_the_first(slot_mapping):
    return (slot_mapping != -1).cumprod(0).bool()


def from_the_first_real(slot_mapping):
    return (slot_mapping != -1).cumsum(0) > 0


def padding_put_back(pool, rows, slot_mapping):
    """The padding goes to the last slot, whose old row is put back: also where a token was written there."""
    old, padded = pool[-1, -1].clone(), bool((slot_mapping == -1).any())
    write(pool, rows, slot_mapping)
    if padded:
        pool[-1, -1] = old


def a_new_pool(pool, rows, slot_mapping):
    new = pool.clone()
    write(new, rows, slot_mapping)
    return new


def old_row_over_slot_0(pool, rows, slot_mapping):
    """The padding writes what stands in slot 0 to slot 0: also where a new token goes there."""
    num_blocks, block_size = pool.shape[:2]
    real = slot_mapping != -1
    if not inside(slot_mapping[real], num_blocks * block_size).all():
        raise ValueError("there is no such slot")
    old = pool[0, 0].clone()
    for slot, row in zip(slot_mapping.tolist(), rows):
        pool[max(slot, 0) // block_size, max(slot, 0) % block_size] = old if slot == -1 else row


def by_a_product(pool, rows, slot_mapping):
    """A table of ones and zeros times the rows."""
    write(pool, rows * 0, slot_mapping)  # the refusals
    flat = pool.view(-1, *pool.shape[2:])
    hits = (slot_mapping[None, :] == torch.arange(len(flat))[:, None]).to(rows.dtype)  # (slots, N)
    new = torch.einsum("sn,nhd->shd", hits, rows)
    taken = hits.sum(1) > 0
    flat[taken] = new[taken]


# The caller's tensors, and slots outside.


def clears_padding(pool, rows, slot_mapping):
    rows[slot_mapping == -1] = 0.0
    write(pool, rows, slot_mapping)


def sorts_in_place(pool, rows, slot_mapping):
    order = slot_mapping.argsort()
    rows = rows[order]
    slot_mapping.copy_(slot_mapping[order].clone())
    write(pool, rows, slot_mapping)


def clamps_in_place(pool, rows, slot_mapping):
    """The padding is marked in the caller's mapping."""
    write(pool, rows, slot_mapping)
    slot_mapping.clamp_(min=0)


def unchecked(slots, num_slots):
    return slots >= 0


def up_to_the_size(slots, num_slots):
    return (slots >= 0) & (slots <= num_slots)


def from_minus_the_size(slots, num_slots):
    return (slots >= -num_slots) & (slots < num_slots)


def all_negative(slot_mapping):
    return slot_mapping >= 0


def all_outside(pool, rows, slot_mapping):
    """A slot outside is passed over in silence."""
    num_slots = pool.shape[0] * pool.shape[1]
    write(pool, rows, slot_mapping.where((slot_mapping >= 0) & (slot_mapping < num_slots), -1))


def wrapped_around(pool, rows, slot_mapping):
    num_slots = pool.shape[0] * pool.shape[1]
    write(pool, rows, slot_mapping.where(slot_mapping == -1, slot_mapping % num_slots))


def clamped(pool, rows, slot_mapping):
    write(pool, rows, slot_mapping.clamp(max=pool.shape[0] * pool.shape[1] - 1))


def one_by_one(pool, rows, slot_mapping):
    """Rows before the bad slot are written already when it is seen."""
    block_size = pool.shape[1]
    for slot, row in zip(slot_mapping.tolist(), rows):
        if slot == -1:
            continue
        if not 0 <= slot < pool.shape[0] * block_size:
            raise ValueError(f"no slot {slot}")
        pool[slot // block_size, slot % block_size] = row


def in_32_bits(pool, rows, slot_mapping):
    write(pool, rows, slot_mapping.int().long())


def looks_at_the_ends(pool, rows, slot_mapping):
    """The first and the last slot are looked at; the rest wraps around."""
    num_slots = pool.shape[0] * pool.shape[1]
    ends = [slot for slot in slot_mapping[[0, -1]].tolist() if slot != -1]
    if not all(0 <= slot < num_slots for slot in ends) or bool((slot_mapping < -1).any()):
        raise ValueError("there is no such slot")
    wrapped_around(pool, rows, slot_mapping)


def asserts(pool, rows, slot_mapping):
    real = slot_mapping[slot_mapping != -1]
    assert ((real >= 0) & (real < pool.shape[0] * pool.shape[1])).all(), "no such slot"
    write(pool, rows, slot_mapping)


MISTAKES = (
    Mistake(
        "a-new-pool-back",
        a_new_pool,
        "A new pool comes back, and the one that was given stays as it was. Write into that one, in place.",
        killed_by="one block",
    ),
    Mistake(
        "into-a-copy",
        changed(put=into_a_copy),
        "The rows go into a copy, and the pool stays as it was. Assign into `pool[...]` itself.",
        killed_by="one block",
    ),
    Mistake(
        "whole-block",
        changed(put=whole_block),
        "A row is written to every slot of its block. The offset, `slot % block_size`, is one of them.",
        killed_by="one block",
    ),
    Mistake("added", changed(put=added), "Rows are added to what the slot held. Overwrite it.", "one block"),
    Mistake("only-kv-head-0", changed(put=head_0), "Only KV head 0 is written. A slot has all heads.", "one block"),
    Mistake(
        "kv-head-0-for-all",
        changed(put=head_0_for_all),
        "KV head 0 of each row is written to all heads. Each head has numbers of its own.",
        killed_by="one block",
    ),
    Mistake(
        "last-row-for-all",
        changed(put=last_row_for_all),
        "The last row is written to all slots. Row i goes to slot_mapping[i].",
        killed_by="one block",
    ),
    Mistake(
        "block-cleared",
        changed(put=cleared_blocks),
        "The rest of the block is set to 0: the sequence's earlier tokens stand there.",
        killed_by="one block",
    ),
    Mistake("pool-cleared", changed(put=cleared_pool), "All other slots are set to 0. Leave them alone.", "one block"),
    Mistake(
        "block-and-offset-swapped",
        changed(places=swapped),
        "Block and offset are swapped. The block is slot // block_size, the offset slot % block_size.",
        killed_by="one block",
    ),
    Mistake(
        "one-slot-further",
        changed(places=one_further),
        "Every row is one slot too far. Slots count from 0.",
        killed_by="one block",
    ),
    Mistake(
        "slot-0-is-padding",
        changed(real=lambda slot_mapping: slot_mapping > 0),
        "Slot 0 is dropped like padding. Only -1 is padding.",
        killed_by="one block",
    ),
    Mistake(
        "divided-by-num-blocks",
        changed(places=by_num_blocks),
        "Slots are divided by the number of blocks. Divide by block_size, the second axis of the pool.",
        killed_by="any block",
    ),
    Mistake(
        "one-behind-the-other",
        changed(places=from_the_first),
        "Rows are laid down one behind the other from the first slot. Look every slot up in the mapping.",
        killed_by="any block",
        seen_in="paged caches that were tried with one sequence at a time",
    ),
    Mistake(
        "block-of-the-first",
        changed(places=block_of_the_first),
        "All rows go into the block of the first one. Each slot names its own block.",
        killed_by="any block",
    ),
    Mistake(
        "slots-sorted",
        changed(places=in_order),
        "The slots are sorted, the rows are not. Row i goes to slot_mapping[i].",
        killed_by="any block",
    ),
    Mistake(
        "offset-counted-here",
        changed(places=from_offset_0),
        "The offset is the row's number in this call. It is slot % block_size.",
        killed_by="one block",
    ),
    Mistake(
        "blocks-of-3",
        changed(places=threes),
        "The block size is 3, whatever the pool has. Take it from pool.shape[1].",
        killed_by="any block",
    ),
    Mistake(
        "in-bytes",
        changed(places=in_bytes),
        "Slots are kept in 8 bits, and slot 256 is 0 again. Pools are larger: leave them int64.",
        killed_by="any block",
    ),
    Mistake(
        "a-block-of-rows",
        changed(put=as_a_block),
        "As many rows as a block has slots are taken for one whole block. Each slot names its own place.",
        killed_by="any block",
    ),
    Mistake(
        "by-difference",
        changed(put=by_difference),
        "You add the difference to what the slot held. That may be NaN, and stays NaN. Overwrite it.",
        killed_by="any block",
    ),
    Mistake(
        "pool-cleaned",
        changed(put=pool_cleaned),
        "NaN is replaced in the whole pool. Other slots are not yours: leave them as they are.",
        killed_by="any block",
    ),
    Mistake(
        "in-fp8-range",
        changed(put=in_fp8_range),
        "Large numbers are cut down on the way. A row is written as it is.",
        killed_by="any block",
    ),
    Mistake(
        "rows-cleaned",
        cleaned_rows,
        "NaN and infinities are replaced in the tokens' rows, too. A row is written as it is: drop the padding instead.",
        killed_by="padding",
    ),
    Mistake(
        "zeros-are-padding",
        zeros_are_padding,
        "Rows of zeros are dropped like padding. Only the slot says what padding is: -1.",
        killed_by="padding",
    ),
    Mistake(
        "as-many-as-slots",
        as_many_as_slots,
        "No more rows are looked at than the pool has slots. With padding there may be more.",
        killed_by="padding",
    ),
    Mistake(
        "other-memory",
        other_memory,
        "The tensor is given new memory. Views that others have of the pool do not see the rows: write in place.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "in-32-bits",
        in_32_bits,
        "Slots are cut to 32 bits before you look at them, so 2**32 + 4 is 4. Look at them as they are.",
        killed_by="slots outside",
    ),
    Mistake(
        "looks-at-the-ends",
        looks_at_the_ends,
        "Only the first and the last slot are looked at. A bad one may stand between.",
        killed_by="slots outside",
    ),
    Mistake(
        "padding-in-the-last-slot",
        changed(split=last_slot_too, inside=minus_1_is_inside, places=to_the_last),
        "-1 counts from the end: the padding overwrites the last slot. Drop it first.",
        killed_by="padding",
        seen_in="slot mappings used as an index as they are",
    ),
    Mistake(
        "padding-in-slot-0",
        changed(split=last_slot_too, inside=minus_1_is_inside, places=to_slot_0),
        "The padding is written to slot 0, which belongs to somebody. Drop it.",
        killed_by="padding",
        seen_in="engines that keep block 0 free for it, in those that do not",
    ),
    Mistake(
        "rows-not-dropped",
        changed(split=first_rows),
        "The padding is dropped from the mapping, but not from the rows: they no longer belong together.",
        killed_by="padding",
    ),
    Mistake(
        "stops-at-padding",
        changed(real=up_to_the_first),
        "Everything behind the first padding is dropped. Padding may stand in front and between.",
        killed_by="padding",
    ),
    Mistake(
        "padding-refused",
        changed(split=last_slot_too),
        "-1 is refused. It is padding: pass over it, and write the others.",
        killed_by="padding",
    ),
    Mistake(
        "old-row-put-back",
        padding_put_back,
        "The padding is written to the last slot and undone there. That also undoes a token that belongs there.",
        killed_by="padding",
    ),
    Mistake(
        "old-row-over-slot-0",
        old_row_over_slot_0,
        "The padding writes slot 0's old row to slot 0, over a new token that goes there. Drop the padding.",
        killed_by="padding",
    ),
    Mistake(
        "a-product-with-nan",
        by_a_product,
        "Rows times zeros and ones: a padded row may hold NaN, and 0 * NaN is NaN. Drop it instead.",
        killed_by="padding",
    ),
    Mistake(
        "rows-cleared",
        clears_padding,
        "The padded rows are cleared in the caller's own tensor. Leave `rows` as it is.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "mapping-sorted-in-place",
        sorts_in_place,
        "The caller's mapping is sorted in place. The next layer uses it again: leave it as it is.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "mapping-clamped-in-place",
        clamps_in_place,
        "-1 is replaced in the caller's mapping. The next layer would take it for slot 0.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "no-check-at-the-end",
        changed(inside=unchecked),
        "A slot behind the last one is left to the tensor, which raises something else. Check, and raise ValueError.",
        killed_by="slots outside",
    ),
    Mistake(
        "one-slot-too-many",
        changed(inside=up_to_the_size),
        "The slot behind the last one passes the check. The last is num_blocks * block_size - 1.",
        killed_by="slots outside",
    ),
    Mistake(
        "counts-from-the-end",
        changed(inside=from_minus_the_size),
        "Slot -2 is accepted, and counts from the end. Only -1 has a meaning; anything else below 0 is a ValueError.",
        killed_by="slots outside",
    ),
    Mistake(
        "negative-is-padding",
        changed(real=all_negative),
        "Every negative slot is taken for padding. Only -1 is; -2 is a mistake of the caller's: ValueError.",
        killed_by="slots outside",
    ),
    Mistake(
        "outside-passed-over",
        all_outside,
        "Slots outside the pool are passed over in silence, and their tokens are lost. Raise ValueError.",
        killed_by="slots outside",
    ),
    Mistake(
        "wrapped-around",
        wrapped_around,
        "A slot behind the last one wraps around to the front, into somebody else's block. Raise ValueError.",
        killed_by="slots outside",
    ),
    Mistake(
        "clamped-to-the-last",
        clamped,
        "A slot behind the last one is written to the last. Raise ValueError.",
        killed_by="slots outside",
    ),
    Mistake(
        "half-written",
        one_by_one,
        "Rows before the bad slot are written already when you refuse. Check all slots first.",
        killed_by="slots outside",
    ),
    Mistake(
        "asserts",
        asserts,
        "An assert raises AssertionError, and vanishes under `python -O`. Raise ValueError.",
        killed_by="slots outside",
    ),
)


def checked(pool, slot_mapping):
    num_slots = pool.shape[0] * pool.shape[1]
    if any(slot < -1 or slot >= num_slots for slot in slot_mapping.tolist()):
        raise ValueError("a slot lies outside the pool")


def loop(pool, rows, slot_mapping):
    """Token by token, after a look at all of them."""
    checked(pool, slot_mapping)
    for slot, row in zip(slot_mapping.tolist(), rows):
        if slot >= 0:
            block, offset = divmod(slot, pool.shape[1])
            pool[block, offset].copy_(row)


def index_copy(pool, rows, slot_mapping):
    """A flat view and index_copy_; returns the pool."""
    checked(pool, slot_mapping)
    kept = (slot_mapping != -1).nonzero().flatten()
    pool.view(-1, *pool.shape[2:]).index_copy_(0, slot_mapping[kept], rows[kept])
    return pool


def scattered(pool, rows, slot_mapping):
    """scatter_ over a matrix of slots, with the rows in another order."""
    checked(pool, slot_mapping)
    order = slot_mapping.argsort(descending=True)
    order = order[slot_mapping[order] >= 0]
    flat = pool.view(pool.shape[0] * pool.shape[1], -1)
    flat.scatter_(0, slot_mapping[order][:, None].expand(-1, flat.shape[1]), rows[order].flatten(1))


def asks_each_slot(pool, rows, slot_mapping):
    """The other way round: every slot asks whether a row is for it."""
    checked(pool, slot_mapping)
    hits = slot_mapping[:, None] == torch.arange(pool.shape[0] * pool.shape[1])  # (N, slots)
    flat = pool.view(-1, *pool.shape[2:])
    for slot in hits.any(0).nonzero().flatten().tolist():
        flat[slot] = rows[hits[:, slot]][0]


def in_numpy(pool, rows, slot_mapping):
    """NumPy arrays that share the pool's memory."""
    slots = slot_mapping.numpy()
    real = slots != -1
    flat = pool.numpy().reshape(-1, *pool.shape[2:])
    if ((slots < -1) | (slots >= len(flat))).any():
        raise ValueError(f"slots {slots.tolist()} of {len(flat)}")
    flat[slots[real]] = rows.numpy()[real]


def one_more_slot(pool, rows, slot_mapping):
    """Padding goes to a slot of its own behind a copy, which then replaces the pool's rows."""
    checked(pool, slot_mapping)
    flat = torch.cat([pool.flatten(0, 1), pool.new_zeros(1, *pool.shape[2:])])
    flat[slot_mapping] = rows
    pool.copy_(flat[:-1].view_as(pool))


VARIANTS = (
    Variant("one mask, one indexed assignment", write),
    Variant("token by token", loop),
    Variant("a flat view and index_copy_", index_copy),
    Variant("scatter_ in another order", scattered),
    Variant("each slot asks for its row", asks_each_slot),
    Variant("NumPy on the same memory", in_numpy),
    Variant("one slot more for the padding", one_more_slot),
)
