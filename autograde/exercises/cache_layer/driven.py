"""A layer under test, beside the rows that it must hold."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercises.axes import named
from autograde.exercises.positions import unchanged
from autograde.exercises.scalars import comes_as, exactly, parts
from autograde.expect import agrees, equals, half, is_pair, refuses
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject

NAMES = ("sequence", "KV head", "token", "feature")  # the axes of K and V
COUNTERS = 256  # bytes of tensors that count or index: they are not the layer's rows
OTHER = {"float64": "float32", "float32": "float64", "float16": "float32"}


@dataclass(frozen=True)
class Sizes:
    """Sizes of a layer, pairwise distinct where they can be. Values are wider than keys."""

    max_len: int = 11
    batch_size: int = 2
    num_kv_heads: int = 3
    head_dim: int = 5
    value_dim: int = 7
    dtype: str = "float64"


class Driven:
    """Makes calls on one layer and says of each whether it was right. Rows: K (B, Hkv, S, D) and V (B, Hkv, S, Dv)."""

    def __init__(self, subject: Subject, rng: np.random.Generator, sizes: Sizes | None = None) -> None:
        self.subject, self.rng, self.sizes = subject, rng, sizes or Sizes()
        self.layer = subject.new(self.sizes.max_len)
        self.forget()

    def forget(self, **changed: Any) -> None:
        """Expect a layer as new from now on, and rows of other sizes."""
        self.sizes = Sizes(**{**self.sizes.__dict__, **changed})
        self.rows = self.draw(0)

    @property
    def held(self) -> int:
        """Tokens that the layer must hold."""
        return self.rows[0].shape[2]

    def draw(self, num_tokens: int) -> list[np.ndarray]:
        """New keys and values."""
        s = self.sizes
        shapes = [(s.batch_size, s.num_kv_heads, num_tokens, width) for width in (s.head_dim, s.value_dim)]
        return [self.rng.normal(size=shape).astype(s.dtype) for shape in shapes]

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the layer."""
        return self.subject.call(self.layer, method, *args)

    def update(self, num_tokens: int, when: str = "", given: Any = None, most: bool = False) -> Iterable[Finding]:
        """Add new tokens. given: tensors kept on the other side, and their rows. most: only the new rows may move."""
        rows = self.draw(num_tokens) if given is None else given[1]
        args = (*(rows if given is None else given[0]), {"position": self.held})
        where = f"{when}{self.held} held + {num_tokens} new"
        if most:
            got, size = two(self.subject.largest_of(self.layer, "update", *args))
            yield self.moved(size, sum(part.nbytes for part in rows), where)
        else:
            got = self.call("update", *args)
        yield from self.judge(got, rows, where)

    def judge(self, got: Any, rows: list[np.ndarray], where: str) -> Iterable[Finding]:
        """Whether update() gave back all rows, and the layer counts them."""
        subject, before = self.subject, self.rows
        yield is_pair(subject, got, key="pair", what="update() must return the pair (K, V)", where=where)
        self.rows = [np.concatenate(both, axis=2) for both in zip(before, rows, strict=True)]
        for part, name in enumerate("KV"):
            fact = f"update() returns {name} of all tokens held, the new ones included, oldest first"
            others = {"the other half of the pair": self.rows[1 - part], "the new tokens alone": rows[part]}
            others["the tokens before them"] = before[part]
            finding = agrees(subject, half(got, part), self.rows[part], key=name, fact=fact, others=others, exact=True)
            yield named(finding, NAMES, f"{where}: {name}")
        yield self.length(f"after update(): {where}")

    def length(self, when: str) -> Finding:
        """Whether get_seq_length() is right."""
        fact = "get_seq_length() is the number of tokens held"
        return equals(self.subject, self.call("get_seq_length"), self.held, key="length", fact=fact, what=when)

    def mask_sizes(self, query_length: int) -> Iterable[Finding]:
        """Whether get_mask_sizes() is right."""
        got = self.call("get_mask_sizes", query_length)
        what = f"get_mask_sizes({query_length}) with {self.held} of {self.sizes.max_len} tokens held"
        yield comes_as(self.subject, got, ("keys", "offset"), key="mask pair", what=what)
        pair, fact = parts(got, 2), "get_mask_sizes(n) is (tokens held + n, 0)"
        for value, want, key in zip(pair, (self.held + query_length, 0), ("keys", "offset"), strict=True):
            yield equals(self.subject, value, want, key=f"mask {key}", fact=fact, what=f"{what}: {key}")

    def room(self, when: str) -> Finding:
        """Whether get_max_length() is right."""
        fact, want = "get_max_length() is max_len, always", self.sizes.max_len
        return equals(self.subject, self.call("get_max_length"), want, key="max length", fact=fact, what=when)

    def storage(self, when: str) -> Finding:
        """Whether the memory is that of max_len tokens."""
        s = self.sizes
        want = s.batch_size * s.num_kv_heads * s.max_len * (s.head_dim + s.value_dim) * np.dtype(s.dtype).itemsize
        got = self.subject.storage(self.layer)
        got = want if type(got) is int and want <= got <= want + COUNTERS else got
        fact = "the layer's memory is B * Hkv * max_len * (D + Dv) * s bytes, from the first update() on"
        return equals(self.subject, got, want, key="storage", fact=fact, what=when)

    def moved(self, size: Any, new: int, where: str) -> Finding:
        """Whether an update made no tensor larger than the new rows."""
        fact = "after the first, an update() copies the new rows and no others"
        if type(size) is int and 0 <= size <= new + COUNTERS:
            return held("moved", fact)
        given = f"{size} bytes" if type(size) is int else shown(size)
        text, events = f"does not hold: {fact}; look at the largest tensor it makes", len(self.subject.record)
        return Finding(False, "moved", text, where=where, expected=f"{new} bytes at most", got=given, events=events)

    def dtype(self) -> Iterable[Finding]:
        """Whether rows come back in the dtype in which they were given."""
        rows = self.draw(1)
        got = self.call("update", *rows)
        for part, name in enumerate("KV"):
            array = half(got, part)
            seen = str(array.dtype) if isinstance(array, np.ndarray) else type(array).__name__
            fact = f"{name} comes back as {self.sizes.dtype}"
            yield exactly(self.subject, seen, self.sizes.dtype, key=f"dtype of {name}", fact=fact)
        yield from self.judge(got, rows, f"{self.held} held + 1 new")

    def reused(self, num_tokens: int, times: int) -> Iterable[Finding]:
        """Updates with the same two tensors of the caller's, which overwrites them in between."""
        subject = self.subject
        kept = [subject.put(part) for part in self.draw(num_tokens)]
        for _ in range(times):
            rows = self.draw(num_tokens)
            for handle, part in zip(kept, rows, strict=True):
                subject.fill(handle, part)
            yield from self.update(num_tokens, "the caller's tensors used again: ", given=(kept, rows))
            for handle, part, name in zip(kept, rows, "kv", strict=True):
                yield unchanged(subject, handle, part, name)
            for handle in kept:
                subject.fill(handle, float("nan"))

    def refuses(self, what: str, k: np.ndarray, v: np.ndarray) -> Iterable[Finding]:
        """Whether update() refuses these rows, and holds what it held."""

        def look() -> None:
            self._try("get_seq_length")
            for T in (1, 2):
                self._try("update", *self.draw(T))

        key = f"{self.held} held: {what}"
        what = f"update() of {what}, with {self.held} of {self.sizes.max_len} tokens held,"
        yield refuses(self.subject, self.layer, "update", k, v, key=key, what=what, after=look)
        yield self.length(f"after refusing {what}")

    def refuses_other_sizes(self, when: str) -> Iterable[Finding]:
        """Whether update() refuses rows of other sizes or of another dtype, K and V alike."""
        for what, k, v in self.wrong_rows():
            if what.startswith("k and v"):
                yield from self.refuses(f"{what}, {when}", k, v)

    def refuses_crop(self, n: int) -> Finding:
        """Whether crop() with a number above 0 is refused."""

        def look() -> None:
            self._try("get_seq_length")
            self._try("update", *self.draw(1))

        what = f"crop({n}) with {self.held} tokens held"
        return refuses(self.subject, self.layer, "crop", n, key=what, what=what, after=look)

    def crop(self, n: int) -> None:
        """Forget the newest -n tokens."""
        self.call("crop", n)
        self.rows = [part[:, :, : max(0, self.held + n)] for part in self.rows]

    def rearranged(self, method: str, arg: Any, rows: list[int]) -> Iterable[Finding]:
        """One of the methods that move sequences; afterwards sequence b must be what sequence rows[b] was."""
        self.call(method, arg)
        self.rows = [part[rows] for part in self.rows]
        self.sizes = Sizes(**{**self.sizes.__dict__, "batch_size": len(rows)})
        yield self.length(f"after {method}({np.asarray(arg).tolist()})")

    def wrong_rows(self, num_tokens: int = 2) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """(what, k, v) that a layer with rows of these sizes must refuse."""
        k, v = self.draw(num_tokens)
        more_k, more_v = self.draw(num_tokens + 1)
        other = OTHER[self.sizes.dtype]
        changes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "one sequence and one KV head for all": lambda x: x[:1, :1],
            "one sequence for all": lambda x: x[:1],
            "a sequence too many": lambda x: np.concatenate([x, x[:1]]),
            "one KV head for all": lambda x: x[:, :1],
            "a KV head too many": lambda x: np.concatenate([x, x[:, :1]], axis=1),
            "a head dim of 1": lambda x: x[..., :1],
            "a head dim too large": lambda x: np.concatenate([x, x[..., :1]], axis=3),
            "tokens and heads exchanged": lambda x: x.transpose(0, 2, 1, 3),
            f"{other} for {self.sizes.dtype}": lambda x: x.astype(other),
        }
        cases = []
        for what, change in changes.items():
            cases += [(f"k and v with {what}", change(k), change(v))]
            cases += [(f"k with {what}", change(k), v), (f"v with {what}", k, change(v))]
        cases += [("one value for both tokens", k, v[:, :, :1]), ("one key for both tokens", k[:, :, :1], v)]
        return [*cases, ("a value too many", k, more_v), ("a key too many", more_k, v)]

    def _try(self, method: str, *args: Any) -> None:
        with contextlib.suppress(LearnerRaised):
            self.call(method, *args)


def two(measured: Any) -> tuple[Any, Any]:
    """The result and the bytes; a worker that lies gives anything."""
    return tuple(measured) if isinstance(measured, list) and len(measured) == 2 else (None, None)
