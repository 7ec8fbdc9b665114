"""Block tables of the learner's, with a pool that the stage keeps: it copies, writes, poisons, and reads back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercises.block_allocator.numbers import too_many
from autograde.expect import equals, half, refuses
from autograde.finding import Finding, held
from autograde.subject import Event, Subject

Seq = str | int
Row = tuple[Seq, int, int]  # whose token, which one, and a number of its own
POISON: Row = ("", -1, -1)  # in all blocks that are in no table


def row_text(row: Row) -> str:
    """What is read at a place, in words."""
    return "nothing: nobody wrote here" if row == POISON else f"what was written for token {row[1]} of {row[0]!r}"


def whole(value: Any, below: int) -> list[int] | None:
    """A list of whole numbers from 0 to below - 1, or None."""
    if too_many(value):
        return None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    right = isinstance(value, list) and all(type(item) is int and 0 <= item < below for item in value)
    return list(value) if right else None


class Run:
    """One object of the learner's, and for each sequence a plain list of the rows that it must read."""

    def __init__(self, subject: Subject, num_blocks: int, block_size: int, count_holders: bool = False) -> None:
        self.subject, self.num_blocks, self.block_size = subject, num_blocks, block_size
        self.count_holders = count_holders
        self.work = subject.new(num_blocks, block_size)
        self.pool: list[list[Row]] = [[POISON] * block_size for _ in range(num_blocks)]
        self.rows: dict[Seq, list[Row]] = {}
        self.tables: dict[Seq, list[int]] = {}  # as the learner told them last
        self.numbers: dict[int, int] = {}  # of each block, in the record
        self.written = self.calls = 0
        self.size = f"{num_blocks} blocks of {block_size}"

    def append(self, seq: Seq, num_tokens: int, count: bool = True) -> Iterable[Finding]:
        """Append, carry out the copies, write the rows, and look at everything."""
        when = self.named(f"append({seq!r}, {num_tokens})")
        others = self.held_by_others(seq)
        held_before = len(self.rows.get(seq, ()))
        old = self.tables.get(seq, [])
        must_copy = held_before % self.block_size > 0 and old[-1] in others
        got = self.subject.call(self.work, "append", seq, num_tokens)
        self.rename_reply()
        slots, copies = self.parts(got)
        right = slots is not None and len(slots) == num_tokens == len(set(slots))
        fact = f"append() returns (slots, copies), {num_tokens} slot{'' if num_tokens == 1 else 's'}"
        yield self.said(right, "slots", fact, when, got, "a pair of lists")
        fact, second = "copies is a list of pairs of blocks, or []", half(got, 1)
        given = "None" if second is None else shown(second)[:80]
        yield self.said(copies is not None, "copies", fact, when, got, "[], or pairs (source, target)", given)
        fact = "a copy is asked for when the last block is partly filled and held by others too, and only then"
        where = f"{self.size}, {when}, {held_before} tokens held"
        assert slots is not None and copies is not None  # a finding that fails ends the stage
        yield equals(self.subject, len(copies), int(must_copy), key="number of copies", fact=fact, what=where)
        for source, target in copies:
            self.pool[target] = list(self.pool[source])
        rows = self.rows.setdefault(seq, [])
        for slot in slots:
            self.written += 1
            rows.append((seq, len(rows), self.written))
            self.pool[slot // self.block_size][slot % self.block_size] = rows[-1]
        yield from self.look(when, count)
        touched = [slot // self.block_size for slot in slots] + [target for _, target in copies]
        shared = [block for block in touched if block in others and block in self.held_by_others(seq)]
        fact = "nothing is written into a block that other sequences hold"
        yield self.said(not shared, "written", fact, when, None, "a block of its own", f"block {(shared or [0])[0]}")

    def fork(self, seq: Seq, new: Seq, count: bool = True) -> Iterable[Finding]:
        """Fork, and look at everything."""
        when = self.named(f"fork({seq!r}, {new!r})")
        self.subject.call(self.work, "fork", seq, new)
        self.rows[new] = list(self.rows[seq])
        yield from self.look(when, count)

    def free(self, seq: Seq, count: bool = True) -> Iterable[Finding]:
        """Free a sequence, and look at those that are left."""
        when = self.named(f"free({seq!r})")
        self.subject.call(self.work, "free", seq)
        del self.rows[seq], self.tables[seq]
        yield from self.look(when, count)

    def refused(self, why: str, method: str, *args: Any) -> Iterable[Finding]:
        """A call that must be refused, and change nothing."""
        call = f"{method}({', '.join(map(repr, args))})"
        when = f"{self.named(call)}, {why}"

        def look() -> None:
            self.rename_reply()
            if method == "fork":
                self.subject.call(self.work, "length", args[-1])

        yield refuses(self.subject, self.work, method, *args, key=when, what=when, after=look)
        yield from self.look(f"after {when}, was refused", True)

    def named(self, call: str) -> str:
        """The call with its number: "call 3, append('A', 1)"."""
        self.calls += 1
        return f"call {self.calls}, {call}"

    def look(self, when: str, count: bool) -> Iterable[Finding]:
        """Whether each sequence has its length, its table and its rows. count: also what is free."""
        subject, size, self.numbers = self.subject, self.block_size, {}
        for seq, rows in self.rows.items():
            where = f"{when}: {seq!r}"
            got, fact = subject.call(self.work, "length", seq), "length(seq) is the number of its tokens"
            yield equals(subject, got, len(rows), key="length", fact=fact, what=where)
            got = subject.call(self.work, "table", seq)
            self.rename_reply()
            table, need = whole(got, self.num_blocks), -(-len(rows) // size)
            right = table is not None and len(table) == need == len(set(table))
            fact = f"table(seq) is a list of ceil(length / {size}) different blocks, 0 to {self.num_blocks - 1}"
            yield self.said(right, "table", fact, where, got, f"{need} block{'' if need == 1 else 's'}")
            assert table is not None  # a finding that fails ends the stage
            self.tables[seq] = table
        held_blocks = list(dict.fromkeys(block for table in self.tables.values() for block in table))
        free_blocks = [block for block in range(self.num_blocks) if block not in held_blocks]
        for block in free_blocks:
            self.pool[block] = [POISON] * size
        for seq, rows in self.rows.items():
            yield self.reads(seq, rows, f"{when}: {seq!r}")
        if count and self.count_holders:
            for block in held_blocks + free_blocks:
                want = sum(block in table for table in self.tables.values())
                got, fact = subject.call(self.work, "ref_count", block), "ref_count(block) is the number of its holders"
                state = "" if want else ", which is free"
                yield equals(subject, got, want, key="ref_count", fact=fact, what=f"{when}: block {block}{state}")
        if count:
            got, fact = subject.get(self.work, "num_free"), "num_free is the number of blocks that are in no table"
            yield equals(subject, got, len(free_blocks), key="num_free", fact=fact, what=when)

    def reads(self, seq: Seq, rows: list[Row], where: str) -> Finding:
        """Whether a sequence finds at each of its places what was written there, for it or before the fork."""
        fact = "each sequence reads its own rows, whatever the others did"
        for p, row in enumerate(rows):
            got = self.pool[self.tables[seq][p // self.block_size]][p % self.block_size]
            if got != row:
                stale = " earlier" if got[:2] == row[:2] else ""
                return self.said(
                    False, "rows", fact, f"{where}, token {p}", None, row_text(row), f"{row_text(got)}{stale}", p
                )
        return held("rows", fact)

    def parts(self, got: Any) -> tuple[list[int] | None, list[list[int]] | None]:
        """Slots and copies of what `append` gave; None for what is not as it must be."""
        if not isinstance(got, list) or len(got) != 2:
            return None, None
        slots = whole(got[0], self.num_blocks * self.block_size)
        copies = got[1].tolist() if isinstance(got[1], np.ndarray) and not too_many(got[1]) else got[1]
        if not isinstance(copies, list) or too_many(copies):
            return slots, None
        numbers = [whole(pair, self.num_blocks) for pair in copies]
        pairs = [pair for pair in numbers if pair is not None and len(pair) == 2]
        return slots, pairs if len(pairs) == len(copies) else None

    def held_by_others(self, seq: Seq) -> set[int]:
        """Blocks in the tables of other sequences."""
        return {block for other, table in self.tables.items() if other != seq for block in table}

    def rename_reply(self) -> None:
        """Which free block is given out is nobody's business: in the record, blocks are numbered as they turn up."""
        event = self.subject.record[-1]
        if event.op == "call table" and (table := whole(event.value, self.num_blocks)) is not None:
            self.replace_reply([self.number(block) for block in table])
        elif event.op == "call append" and isinstance(event.value, list):
            slots, copies = self.parts(event.value)
            if slots is not None and copies is not None:
                self.replace_reply([self.places(slots), [[self.number(block) for block in pair] for pair in copies]])
            else:  # slots alone, or in the wrong place
                self.replace_reply(self.places(event.value) or [self.places(part) or part for part in event.value])

    def places(self, value: Any) -> list[list[int]] | None:
        """Slots as [block, offset], None for what are no slots."""
        slots = whole(value, self.num_blocks * self.block_size)
        if slots is None:
            return None
        return [[self.number(slot // self.block_size), slot % self.block_size] for slot in slots]

    def replace_reply(self, value: Any) -> None:
        """The newest reply, in other words."""
        self.subject.record[-1] = Event(self.subject.record[-1].op, value)

    def number(self, block: int) -> int:
        """A block's number in the record."""
        return self.numbers.setdefault(block, len(self.numbers))

    def said(
        self,
        right: bool,
        key: str,
        fact: str,
        where: str,
        got: Any,
        expected: str = "",
        given: str = "",
        seen: Any = None,
    ) -> Finding:
        """A finding on this fact."""
        if right:
            return held(key, fact)
        where = f"{self.size}, {where}"
        given, events = given or shown(got)[:80], len(self.subject.record)
        return Finding(False, key, f"does not hold: {fact}", where, expected, given, events=events, seen=seen)
