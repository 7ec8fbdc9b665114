"""The caller of a prefix index: it keeps the pool, and knows what lies in each block and what must lie there.

What must lie in a block is a function of the identity and of all tokens up to the block's end. Blocks are only numbers
to it: which free block is given out is the learner's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercises.block_allocator.numbers import too_many
from autograde.expect import equals, refuses
from autograde.finding import Finding, held
from autograde.subject import Event, LearnerRaised, Subject

ME = ("llama", "plain", "acme")
FACTS = {
    "reusable": "cached tokens lie in blocks computed for exactly these tokens and this identity",
    "kept": "the blocks of a live request keep the rows of its tokens",
}
Content = tuple[tuple[str, ...], tuple[int, ...]]  # the identity, and all tokens up to the block's end


@dataclass
class Live:
    """A request between admit and release."""

    tokens: list[int]
    identity: tuple[str, ...]
    cached: int  # blocks
    table: list[int]
    is_computed: bool = False


class Pool:
    """One index of the learner's, its requests, and the content of each block."""

    def __init__(self, subject: Subject, num_blocks: int, block_size: int) -> None:
        self.subject, self.num_blocks, self.block_size = subject, num_blocks, block_size
        self.index = subject.new(num_blocks, block_size)
        self.live: dict[str, Live] = {}
        self.rows: list[Content | None] = [None] * num_blocks  # None: nothing that anybody may use
        self.sure: set[int] = set()  # computed blocks that must be found: held, or nothing was given out since
        self.labels: dict[int, int] = {}  # how often any block had been given out when this one was
        self.given_out = 0
        self.late: list[tuple[int, int, str]] = []  # what was found, what had to be, and where: not judged yet

    # What may be asked.

    def admit(
        self, name: str, tokens: Sequence[int], identity: tuple[str, ...] = ME, judge_later: bool = False
    ) -> Iterable[Finding]:
        """A request that fits: whether what is cached is right, as much as must be, and the rest is nobody else's.

        With `judge_later`, how much was found is judged together with the next one: both answers tell more than one.
        """
        tokens, size = [int(token) for token in tokens], self.block_size
        least = self.must_find(tokens, identity) * size
        where = f"request {name!r} of {len(tokens)} tokens in blocks of {size}"
        free, needed = self.num_blocks - len(self._in_use()), -(-len(tokens) // size)
        try:
            got = self.subject.call(self.index, "admit", name, tokens, identity)
        except LearnerRaised:
            known = f", {least // size} of them known" if least else ""
            self.subject.asked = f"{where}: {needed} blocks{known}, {free} of {self.num_blocks} free"  # not the tokens
            raise
        found = self._count(got, len(tokens), where)
        yield found
        request = Live(tokens, identity, int(got) // size, [])
        yield from self._read(name, request, is_new=True)
        for i, block in enumerate(request.table[: request.cached]):
            yield self._lies_in(block, self._content(request, i), f"{where}, block {i} of its table", "reusable")
        self.late.append((int(got), least, where))
        while self.late and not judge_later:
            yield self._at_least(*self.late.pop(0))
        for block in request.table[request.cached :]:
            self.rows[block] = None
        self.live[name] = request
        self.sure = self.sure & self._in_use() - set(request.table[request.cached :])
        yield from self.look(f"after admit({name!r})", just_read=name)

    def computed(self, name: str) -> Iterable[Finding]:
        """The rows of the request are written into its blocks, and the index is told."""
        self._write(name)
        self.subject.call(self.index, "computed", name)
        yield from self.look(f"after computed({name!r})")

    def release(self, *names: str) -> Iterable[Finding]:
        """Requests that end, one after the other; then everything is looked at."""
        for name in names:
            self.subject.call(self.index, "release", name)
            del self.live[name]
        yield from self.look("after " + ", ".join(f"release({name!r})" for name in names))

    def refused(self, method: str, *args: Any, key: str, what: str) -> Iterable[Finding]:
        """A call that must be refused and change nothing."""

        def after() -> None:
            self._relabel(self.subject.record[-1].value)
            self.subject.get(self.index, "num_free")
            self._relabel(self.subject.call(self.index, "table", args[0]))

        yield refuses(self.subject, self.index, method, *args, key=key, what=what, after=after)
        yield from self.look(f"after refusing {what}")

    def run(self, name: str, tokens: Sequence[int], identity: tuple[str, ...] = ME) -> Iterable[Finding]:
        """A request that is admitted and computed, and lives on."""
        yield from self.admit(name, tokens, identity)
        yield from self.computed(name)

    def look(self, when: str, just_read: str = "") -> Iterable[Finding]:
        """Whether every live request still has its blocks to itself or rightly shared, with its rows in them."""
        for name, request in self.live.items():
            if name != just_read:
                yield from self._read(name, request, is_new=False)
            done = len(request.table) if request.is_computed else request.cached
            for i, block in enumerate(request.table[:done]):
                yield self._lies_in(block, self._content(request, i), f"{when}, block {i} of {name!r}", "kept")
        free = self.num_blocks - len(self._in_use())
        got = self.subject.get(self.index, "num_free")
        fact = "num_free is the number of blocks that no request holds"
        yield equals(self.subject, got, free, key="num_free", fact=fact, what=when)

    def must_find(self, tokens: Sequence[int], identity: tuple[str, ...]) -> int:
        """Blocks at the start of these tokens that must be found, at least."""
        there = {self.rows[block] for block in self.sure}
        most = (len(tokens) - 1) // self.block_size
        found = 0
        while found < most and (identity, tuple(tokens[: (found + 1) * self.block_size])) in there:
            found += 1
        return found

    # The books.

    def _content(self, request: Live, i: int) -> Content:
        return request.identity, tuple(request.tokens[: (i + 1) * self.block_size])

    def _in_use(self) -> set[int]:
        return {block for request in self.live.values() for block in request.table}

    def _write(self, name: str) -> None:
        request = self.live[name]
        for i in range(request.cached, len(request.table)):
            self.rows[request.table[i]] = self._content(request, i)
        self.sure.update(request.table[: len(request.tokens) // self.block_size])
        request.is_computed = True

    # What is wrong with an answer.

    def _wrong(self, key: str, fact: str, where: str, expected: str, got: str) -> Finding:
        return Finding(False, key, fact, where=where, expected=expected, got=got, events=len(self.subject.record))

    def _count(self, got: Any, num_tokens: int, where: str) -> Finding:
        fact = "admit() returns num_cached, a multiple of block_size"
        wrong = type(got) is not int or got < 0
        if wrong or got % self.block_size:
            clue = "; this is the number of blocks" if not wrong and 0 < got <= num_tokens // self.block_size else ""
            given = shown(got) if got is not None else "None: is a `return` missing?"
            wanted = f"0, {self.block_size}, {2 * self.block_size} or so"
            return self._wrong("a multiple", f"does not hold: {fact}{clue}", where, wanted, given)
        if got >= num_tokens:
            fact = "does not hold: at least one token is left to be computed, else there are no logits"
            return self._wrong("one is left", fact, where, f"at most {num_tokens - 1}", str(got))
        return held("count", fact)

    def _at_least(self, got: int, least: int, where: str) -> Finding:
        fact = "num_cached is as large as can be: computed blocks are found until they may have been given out"
        if got >= least:
            return held("as large as can be", fact)
        return self._wrong("as large as can be", f"does not hold: {fact}", where, str(least), str(got))

    def _read(self, name: str, request: Live, is_new: bool) -> Iterable[Finding]:
        """Read a table, and tell whether it can be one. Blocks that nobody else may hold are those not cached."""
        table = self.subject.call(self.index, "table", name)
        table = table.tolist() if isinstance(table, np.ndarray) and not too_many(table) else table
        wanted = -(-len(request.tokens) // self.block_size)
        where = f"table({name!r}) of {len(request.tokens)} tokens in blocks of {self.block_size}"
        fact = f"table() is a list of different blocks, 0 to {self.num_blocks - 1}"
        others = {block: other for other, it in self.live.items() if other != name for block in it.table}
        numbers = isinstance(table, list) and not too_many(table) and all(type(block) is int for block in table)
        if numbers and is_new:
            self._label([block for block in table[request.cached :] if block not in others])
        self._relabel(table, request)
        if not numbers or len(set(table)) < len(table) or not all(0 <= block < self.num_blocks for block in table):
            given = str(table) if numbers else shown(table)
            yield self._wrong("a table", f"does not hold: {fact}", where, f"{wanted} blocks", given[:60])
        if len(table) != wanted:
            fact = "does not hold: a table has ceil(tokens / block_size) blocks"
            yield self._wrong("length of table", fact, where, f"{wanted} blocks", f"{len(table)} blocks")
        yield held("a table", fact)
        request.table = table
        if request.is_computed:
            return
        for i, block in enumerate(table[request.cached :], start=request.cached):
            if block in others:
                fact = "does not hold: a block that is yet to be written is held by no other request"
                free, given = "a block that nobody holds", f"block {block}, which {others[block]!r} holds too"
                yield self._wrong("given out twice", fact, f"{where}, block {i} of it", free, given)

    def _relabel(self, table: Any, request: Live | None = None) -> None:
        """Which free block is given out is free, and so is which of two right ones is found.

        So a diagnosis compares not a block's number, but when it was given out; one that holds the right rows is 0.
        """
        if not isinstance(table, list) or too_many(table) or not all(type(block) is int for block in table):
            return
        labels = [self.labels.get(block, -1) for block in table]
        done = 0 if request is None else len(table) if request.is_computed else request.cached
        for i, block in enumerate(table[:done]):
            assert request is not None  # nothing is done without one
            right = 0 <= block < self.num_blocks and self.rows[block] == self._content(request, i)
            labels[i] = 0 if right else -1
        self.subject.record[-1] = Event(self.subject.record[-1].op, labels)

    def _label(self, blocks: list[int]) -> None:
        for block in blocks:
            self.given_out += 1
            self.labels[block] = self.given_out

    def _lies_in(self, block: int, want: Content, where: str, key: str) -> Finding:
        fact, got = FACTS[key], self.rows[block]
        if got == want:
            return held(key, fact)
        there = _difference(got, want, self.block_size)
        return self._wrong(key, f"does not hold: {fact}", where, "their rows", there)


def _difference(got: Content | None, want: Content, size: int) -> str:
    """What lies there instead, in a few words."""
    if got is None:
        return "a block that was not computed, or given out since"
    (identity, tokens), (my_identity, my_tokens) = got, want
    if tokens == my_tokens:
        return f"rows of the identity {', '.join(map(repr, identity))}"
    if len(tokens) == len(my_tokens) and identity == my_identity:
        first = next(i for i, (a, b) in enumerate(zip(tokens, my_tokens, strict=True)) if a != b)
        return f"rows of a prompt with token {tokens[first]} at {first}, not {my_tokens[first]}"
    return f"rows of tokens {(len(tokens) - 1) // size * size} to {len(tokens) - 1} of another prompt"
