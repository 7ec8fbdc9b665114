"""A cache under test, beside the rows that each owner must have."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercises.axes import named
from autograde.expect import agrees, equals, half, is_pair, refuses
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject

AXES = ("sequence", "KV head", "token", "feature")
COUNTERS = 256  # bytes of tensors that count or index: they are not the cache's rows


@dataclass(frozen=True)
class Sizes:
    """Sizes of a cache, pairwise distinct where they can be."""

    num_layers: int = 5
    share: int = 2
    batch_size: int = 2
    num_kv_heads: int = 3
    max_len: int = 11
    head_dim: int = 4


def owner_of(layer: int, share: int) -> int:
    """The first layer of the group, found by walking from group to group."""
    first = 0
    while first + share <= layer:
        first += share
    return first


class Run:
    """One cache, the rows that its owners hold, and what each of them has appended in this pass."""

    def __init__(self, subject: Subject, rng: np.random.Generator, sizes: Sizes) -> None:
        self.subject, self.rng, self.sizes = subject, rng, sizes
        s = sizes
        self.cache = subject.new(s.num_layers, s.share, s.batch_size, s.num_kv_heads, s.max_len, s.head_dim)
        self.owners = sorted({owner_of(layer, s.share) for layer in range(s.num_layers)})
        self.rows = {owner: self.draw(0) for owner in self.owners}  # of each (2, B, Hkv, S, D)
        self.fresh: dict[int, np.ndarray] = {}
        self.now: dict[int, np.ndarray] | None = None  # all rows of each owner, once they are asked for
        self.waiting: list[Iterable[Finding]] = []  # what came back in this pass, not judged yet

    @property
    def held(self) -> int:
        """Tokens that the cache must hold."""
        return self.rows[0].shape[3]

    def draw(self, num_tokens: int) -> np.ndarray:
        """New keys and values of one layer, (2, B, Hkv, T, D)."""
        s = self.sizes
        return self.rng.normal(size=(2, s.batch_size, s.num_kv_heads, num_tokens, s.head_dim))

    def one_pass(self, num_tokens: int, when: str = "") -> Iterable[Finding]:
        """Every layer in turn, then a look at all of them; all judged together; then advance."""
        try:
            for layer in range(self.sizes.num_layers):
                self.layer(layer, num_tokens, when)
            self.read_each(f"{when}before advance({num_tokens}), ")
        except LearnerRaised:  # what came before it is judged first
            yield from self.judged()
            raise
        yield from self.judged()
        yield from self.advance(num_tokens, when)

    def judged(self) -> Iterable[Finding]:
        """What came back since the last time. One answer alone does not tell two mistakes apart."""
        waiting, self.waiting = self.waiting, []
        for findings in waiting:
            yield from findings

    def layer(self, layer: int, num_tokens: int, when: str = "") -> None:
        """What one layer does in a pass: its owner appends, the others read."""
        if layer in self.owners:
            self.append(layer, self.draw(num_tokens), when)
        else:
            self.read(layer, when)
        self.waiting.append([self.length(f"{when}before advance()")])

    def append(self, owner: int, rows: np.ndarray, when: str = "", given: Any = None) -> None:
        """Append to an owner; `given` are tensors kept on the other side that hold these rows."""
        k, v = rows if given is None else given
        got = self.subject.call(self.cache, "append", owner, k, v)
        self.fresh[owner], self.now = rows, None
        self.came(got, owner, f"{when}append() to layer {owner}, {self.held} held + {rows.shape[3]} new")

    def read(self, layer: int, when: str = "") -> None:
        """Read a layer."""
        got = self.subject.call(self.cache, "read", layer)
        owner = owner_of(layer, self.sizes.share)
        new = self.fresh[owner].shape[3] if owner in self.fresh else 0
        self.came(got, owner, f"{when}read({layer}), {self.held} held + {new} new")

    def read_each(self, when: str) -> None:
        """Read all layers, owners too."""
        for layer in range(self.sizes.num_layers):
            self.read(layer, when)

    def read_all(self, when: str) -> Iterable[Finding]:
        """Read all layers, and judge what came."""
        self.read_each(f"{when}, ")
        yield from self.judged()

    def came(self, got: Any, owner: int, where: str) -> None:
        """Note what came back, and what was right at that moment."""
        if self.now is None:
            self.now = {i: self.of(i) for i in self.owners}
        wanted = self.now
        self.waiting.append(self.judge(got, owner, where, wanted, self.rows[owner], self.fresh.get(owner)))

    def judge(
        self,
        got: Any,
        owner: int,
        where: str,
        wanted: dict[int, np.ndarray],
        before: np.ndarray,
        new: np.ndarray | None,
    ) -> Iterable[Finding]:
        """Whether this is all that the owner has."""
        yield is_pair(self.subject, got, key="pair", what="the pair (K, V) must come back", where=where)
        for part, name in enumerate("KV"):
            others = {f"layer {i}": rows[part] for i, rows in wanted.items() if i != owner}
            others |= {"the other half of the pair": wanted[owner][1 - part]}
            others |= {"the tokens held before this pass": before[part]}
            others |= {} if new is None else {"the new tokens alone": new[part]}
            fact = f"{name} is that of layer {owner}, the tokens of this pass included"
            got_half, want = half(got, part), wanted[owner][part]
            finding = agrees(self.subject, got_half, want, key=name, fact=fact, others=others, exact=True)
            yield named(finding, AXES, f"{where}: {name}")

    def of(self, owner: int) -> np.ndarray:
        """All rows of an owner at this moment."""
        new = [self.fresh[owner]] if owner in self.fresh else []
        return np.concatenate([self.rows[owner], *new], axis=3)

    def advance(self, num_tokens: int, when: str = "") -> Iterable[Finding]:
        """Hold the first tokens of what was appended."""
        end = self.held + num_tokens
        self.subject.call(self.cache, "advance", num_tokens)
        self.rows = {owner: self.of(owner)[:, :, :, :end] for owner in self.owners}
        self.fresh, self.now = {}, None
        yield self.length(f"{when}after advance({num_tokens})")

    def length(self, when: str) -> Finding:
        """Whether len(cache) is right."""
        fact = "len(cache) is the number of tokens held, and only advance() changes it"
        return equals(self.subject, self.subject.length(self.cache), self.held, key="length", fact=fact, what=when)

    def out_of_turn(self, num_tokens: int) -> Iterable[Finding]:
        """A pass in which the last owner comes first, and everybody reads after each append."""
        yield from self.read_all("before the pass")
        for owner in reversed(self.owners):
            self.append(owner, self.draw(num_tokens), "last owner first: ")
            yield from self.read_all(f"when layer {owner} has appended")
        yield from self.advance(num_tokens)

    def broken_off(self, num_tokens: int) -> Iterable[Finding]:
        """A pass that ends before its last owner."""
        for layer in range(self.owners[-1]):
            self.layer(layer, num_tokens, "first try: ")
        yield from self.judged()

    def cut_short(self, num_tokens: int, kept: int) -> Iterable[Finding]:
        """A pass of which only the first tokens are held in the end."""
        for layer in range(self.sizes.num_layers):
            self.layer(layer, num_tokens)
        yield from self.judged()
        yield from self.advance(kept, f"{num_tokens} tokens appended: ")
        yield from self.read_all(f"after advance({kept}) with {num_tokens} tokens appended")

    def refuses_in_a_pass(self, num_tokens: int) -> Iterable[Finding]:
        """Calls that are refused when all owners have appended: what they have stays."""
        for layer in range(self.sizes.num_layers):
            self.layer(layer, num_tokens)
        yield from self.judged()
        yield from self.refuses_append(0, self.sizes.max_len, "append() without room in the middle of a pass")
        yield from self.refuses_append(1, num_tokens, "append() to layer 1 in the middle of a pass")
        for number in (-1, self.sizes.max_len):
            yield from self.refuses("advance", number)
            yield from self.read_all(f"after refusing advance({number}) in the middle of a pass")
        yield from self.advance(num_tokens)
        yield from self.read_all("after the pass")

    def reusing_tensors(self, num_tokens: int) -> Iterable[Finding]:
        """One pass in which the caller has two tensors for all layers."""
        subject, shape = self.subject, self.draw(num_tokens).shape[1:]
        kept = [subject.put(np.zeros(shape)) for _ in range(2)]
        for owner in self.owners:
            rows = self.draw(num_tokens)
            for tensor, part in zip(kept, rows, strict=True):
                subject.fill(tensor, part)
            self.append(owner, rows, "with the caller's own tensors: ", given=kept)
            yield from self.judged()
        for tensor in kept:
            subject.fill(tensor, np.nan)
        yield from self.read_all("after the caller reused its tensors")
        yield from self.advance(num_tokens)

    def memory(self, when: str) -> Iterable[Finding]:
        """Whether it takes the memory that it should, and says so."""
        s = self.sizes
        want = 2 * len(self.owners) * s.batch_size * s.num_kv_heads * s.max_len * s.head_dim * 8
        where = f"{s.num_layers} layers, share {s.share}, {when}"
        fact = f"nbytes is 2 * owners * B * Hkv * max_len * D * 8, of {len(self.owners)} owners"
        said, size = self.subject.get(self.cache, "nbytes"), self.subject.storage(self.cache)
        yield equals(self.subject, said, want, key="nbytes", fact=fact, what=where)
        fact = "the cache's tensors take as many bytes as nbytes says"
        if type(size) is int and want <= size <= want + COUNTERS:
            yield held("storage", fact)
            return
        given = f"{size} bytes" if type(size) is int else shown(size)
        fact, events = f"does not hold: {fact}", len(self.subject.record)
        yield Finding(False, "storage", fact, where=where, expected=f"{want} bytes", got=given, events=events)

    def refuses_append(self, layer: int, num_tokens: int, what: str) -> Iterable[Finding]:
        """Whether an append is refused, and changes nothing."""
        k, v = self.draw(num_tokens)
        key = f"append {layer} {num_tokens}"
        yield refuses(self.subject, self.cache, "append", layer, k, v, key=key, what=what, after=self.look)
        when = f"after refusing {what.rstrip(',')}"
        yield self.length(when)
        for layer in (0, self.sizes.num_layers - 2, self.sizes.num_layers - 1):
            self.read(layer, f"{when}, ")
        yield from self.judged()

    def refuses(self, method: str, number: int) -> Iterable[Finding]:
        """Whether another call is refused, and changes nothing."""
        what = f"{method}({number}) with {self.held} of {self.sizes.max_len} tokens in {self.sizes.num_layers} layers"
        yield refuses(self.subject, self.cache, method, number, key=f"{method} {number}", what=what, after=self.look)
        yield self.length(f"after refusing {method}({number})")

    def look(self) -> None:
        """What a wrongly accepted call did tells one wrong way from another."""
        with suppress(LearnerRaised):
            self.subject.length(self.cache)
        with suppress(LearnerRaised):
            self.subject.call(self.cache, "append", 0, *self.draw(2))
        for method in ("read", "owner"):
            for layer in range(-2, self.sizes.num_layers + 4):
                with suppress(LearnerRaised):
                    self.subject.call(self.cache, method, layer)
