"""The learner's tables over a lent allocator, and what they should hold."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from typing import Any

from autograde.exercises.block_allocator.numbers import listed, shortened, whole_numbers
from autograde.exercises.block_tables.lender import Lender
from autograde.exercises.positions import named_when
from autograde.expect import counts, equals, refuses
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle

Name = str | int
LOOKS = ("table", "length")


class Run:
    """One object of the learner's. `tables` and `lengths` are those that it has shown, found right."""

    def __init__(self, subject: Subject, lender: Lender, block_size: int, note: str = "") -> None:
        self.subject, self.lender, self.block_size = subject, lender, block_size
        self.note = note or f"blocks of {block_size}"
        self.tables: dict[Name, list[int]] = {}
        self.lengths: dict[Name, int] = {}
        self.object = subject.new(lender.lent(), block_size)

    def blocks_for(self, tokens: int) -> int:
        """Counted, not divided."""
        blocks = 0
        while blocks * self.block_size < tokens:
            blocks += 1
        return blocks

    def more_for(self, seq: Name, n: int) -> int:
        """Blocks that n more tokens need."""
        return self.blocks_for(self.lengths.get(seq, 0) + n) - len(self.tables.get(seq, []))

    # Appending.

    def append(self, seq: Name, n: int, look: bool = True) -> Iterable[Finding]:
        """n more tokens, for which there is room. Then all sequences are looked at."""
        yield from self.append_kept(seq, n)
        if look:
            yield from self.all_as_they_were(f"{self.note}, append({seq!r}, {n})")

    def append_kept(self, seq: Name, n: int) -> Generator[Finding, None, tuple[Handle, list[int]]]:
        """The same without a look at the others. The list of slots stays on the learner's side; what is in it."""
        where = f"{self.note}, append({seq!r}, {n}) to {self.lengths.get(seq, 0)} tokens"
        free, more = self.lender.num_free, self.more_for(seq, n)
        tokens = f"{n} more token" + ("" if n == 1 else "s")
        with named_when(f"with {_blocks(free)} free, {more} needed for {tokens} of {seq!r}"):
            kept = self.subject.call(self.object, "append", anew(seq), n, keep=True)
            slots = self.subject.read(kept)
            table = self.subject.call(self.object, "table", anew(seq))
        start = self.lengths.get(seq, 0)
        self.lengths[seq] = start + n
        yield self.judged(self._is_list(slots, n, where))
        yield self.judged(self._table(table, seq, where))
        yield self.judged(self._slots(slots, seq, start, where))
        fact = f"the allocator gives out {_blocks(more)} for it"
        taken = free - self.lender.num_free
        yield self.judged(counts(self.subject, taken, more, key="taken", fact=fact, where=where))
        return kept, whole_numbers(slots) or []

    def still(self, kept: tuple[Handle, list[int]], when: str) -> Finding:
        """Whether slots that were given are still the same."""
        got, fact = self.subject.read(kept[0]), "the list that append() gave stays as it is: it is the caller's"
        if whole_numbers(got) == kept[1]:
            return held("given slots", fact)
        events, fact = len(self.subject.record), f"does not hold: {fact}"
        return self.judged(Finding(False, "given slots", fact, when, str(kept[1]), listed(got), events=events))

    def _is_list(self, slots: Any, n: int, where: str) -> Finding:
        numbers, fact = whole_numbers(slots), f"append() returns the slots of its {n} token{'' if n == 1 else 's'}"
        if numbers is not None and len(numbers) == n:
            return held("how many slots", fact)
        events, wanted = len(self.subject.record), f"{n} whole number{'' if n == 1 else 's, one for each'}"
        given = f"the number {slots}" if type(slots) in (int, float) else listed(slots)
        return Finding(False, "how many slots", f"does not hold: {fact}", where, wanted, given, events=events, seen=n)

    def _table(self, got: Any, seq: Name, where: str) -> Finding:
        """Whether a table is what it was and then new blocks, as many as are needed, that nobody else has."""
        table, old, wanted = whole_numbers(got), self.tables.get(seq, []), self.blocks_for(self.lengths[seq])
        others = {block: other for other, blocks in self.tables.items() if other != seq for block in blocks}
        got_blocks = table or []
        twice = next((block for block in got_blocks if block in others or got_blocks.count(block) > 1), None)
        if table is None:
            fact = "table() returns the blocks of a sequence"
        elif len(table) != wanted:
            fact = f"{_many(self.lengths[seq], 'token')} in blocks of {self.block_size} lie in {_blocks(wanted)}"
        elif table[: len(old)] != old:
            fact = f"the blocks that the sequence had stay in front, {shortened(old)}: tokens do not move"
        elif twice is not None:
            there = f"in table({others[twice]!r}) too" if twice in others else "here twice"
            fact = f"no block is in two places; {twice} is {there}"
        elif not self.lender.held.issuperset(table):
            fact = "all blocks come from the allocator"
        else:
            self.tables[seq] = table
            return held("table", "the table is right")
        asked = _blocks(wanted) + (f", {shortened(old)} in front" if old else "")
        given, events = f"table({seq!r}) gives {listed(got)}"[:90], len(self.subject.record)
        return Finding(False, "table", f"does not hold: {fact}", where, asked, given, events=events)

    def _slots(self, got: Any, seq: Name, start: int, where: str) -> Finding:
        """Whether each token's slot is in the block of the table that its position falls into."""
        table, fact = self.tables[seq], "a token's slot is its block's number * block_size + its place in the block"
        walk = [(block, offset) for block in table for offset in range(self.block_size)]
        for i, slot in enumerate(whole_numbers(got) or []):
            block, offset = walk[start + i]
            if slot != block * self.block_size + offset:
                where = f"{where}, token {start + i}: table {shortened(table)}"
                wanted = f"slot {block * self.block_size + offset}: block {block}, place {offset}"
                events = len(self.subject.record)
                return Finding(False, "slots", f"does not hold: {fact}", where, wanted, f"slot {slot}", events=events)
        return held("slots", fact)

    # Looking.

    def all_as_they_were(self, where: str) -> Iterable[Finding]:
        """Whether every sequence has the table and the length that it should have."""
        for seq, tokens in self.lengths.items():
            with named_when(f"asked for {seq!r} after {where}"):
                got = self.subject.call(self.object, "length", anew(seq))
                table = self.subject.call(self.object, "table", anew(seq))
            fact = f"length({seq!r}) is the number of its tokens"
            yield self.judged(equals(self.subject, got, tokens, key="length", fact=fact, what=where))
            if whole_numbers(table) != self.tables[seq]:
                fact, events = f"does not hold: table({seq!r}) stays as it was", len(self.subject.record)
                wanted, given = shortened(self.tables[seq]), listed(table)
                yield self.judged(Finding(False, "other tables", fact, where, wanted, given, events=events))

    def unknown(self, seq: Name, when: str) -> Iterable[Finding]:
        """Whether nothing is known of a sequence."""
        for method in ("length", "table"):
            what = f"{method}({seq!r}) of an unknown sequence, {when},"
            yield self.judged(refuses(self.subject, self.object, method, seq, key=f"unknown, {method}", what=what))

    # Refusals.

    def refused(self, seq: Name, n: int) -> Iterable[Finding]:
        """n more tokens, which cannot be had: nothing may change."""
        free, more = self.lender.num_free, self.more_for(seq, n)
        room = f" with {free} free, {more} needed," if n > 0 else ""
        what = f"{self.note}: append({seq!r}, {n}) to {self.lengths.get(seq, 0)} tokens{room}"
        key = "no room" if n > 0 else f"{n} tokens"
        yield self.judged(refuses(self.subject, self.object, "append", anew(seq), n, key=key, what=what))
        where, taken = f"after refusing append({seq!r}, {n})", free - self.lender.num_free
        fact = "a refused call takes no blocks, and gives none back"
        yield self.judged(counts(self.subject, taken, 0, key="taken", fact=fact, where=where))
        yield from self.all_as_they_were(where)

    def judged(self, finding: Finding) -> Finding:
        """The finding. Where it does not hold, a few more calls tell one wrong way from another, in the record."""
        if finding.ok:
            return finding
        first, size = next(iter(self.lengths), "A"), self.block_size
        tokens = ((first, 1), ("another", size), ("another", size), (first, 2), (first, 0), (first, -1), ("nobody", 0))
        asked: list[tuple[str, tuple[Name, ...]]] = [
            ("append", seq_and_n) for seq_and_n in (*tokens, (first, 3 * size))
        ]
        asked += [(look, (seq,)) for seq in ("nobody", "another", first) for look in LOOKS]
        for method, args in asked:
            with contextlib.suppress(LearnerRaised):
                self.subject.call(self.object, method, *args)
        return finding


def _blocks(n: int) -> str:
    return _many(n, "block")


def _many(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def anew(seq: Name) -> Name:
    """The same name, and another object, as far as Python allows: names come from far away."""
    return int(str(seq)) if isinstance(seq, int) else "".join(list(seq))
