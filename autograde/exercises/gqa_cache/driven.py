"""A cache under test, beside the rows that it must hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograde.exercises.axes import named
from autograde.exercises.scalars import exactly
from autograde.expect import agrees, equals, half, is_pair, refuses
from autograde.finding import Finding
from autograde.subject import LearnerRaised, Subject

NAMES = ("sequence", "KV head", "token", "feature")  # the axes of K and V
COUNTERS = 256  # bytes of tensors that count or index: they are not the cache's rows


@dataclass(frozen=True)
class Sizes:
    """Sizes of a cache, pairwise distinct where they can be."""

    num_layers: int = 2
    batch_size: int = 2
    num_kv_heads: int = 3
    max_len: int = 12
    head_dim: int = 5
    dtype: str = "float64"

    @property
    def nbytes(self) -> int:
        """2 * L * B * Hkv * max_len * D * s."""
        elements = 2 * self.num_layers * self.batch_size * self.num_kv_heads * self.max_len * self.head_dim
        return elements * np.dtype(self.dtype).itemsize


class Driven:
    """Makes calls on one cache and says of each whether it was right. Rows are (L, 2, B, Hkv, T, D)."""

    def __init__(self, subject: Subject, rng: np.random.Generator, sizes: Sizes) -> None:
        self.subject, self.rng, self.sizes = subject, rng, sizes
        s = sizes
        args = (s.num_layers, s.batch_size, s.num_kv_heads, s.max_len, s.head_dim, f"torch.{s.dtype}")
        self.cache = subject.new(*args)
        self.answers: list[tuple[str, Any, bool]] = []
        self.forget()

    def forget(self) -> None:
        """Expect an empty cache from now on."""
        self.rows = self.draw(0)

    @property
    def held(self) -> int:
        """Tokens that the cache must hold."""
        return self.rows.shape[4]

    def draw(self, num_tokens: int) -> np.ndarray:
        """New keys and values for all layers."""
        s = self.sizes
        shape = (s.num_layers, 2, s.batch_size, s.num_kv_heads, num_tokens, s.head_dim)
        return self.rng.normal(size=shape).astype(s.dtype)

    def chunk(self, num_tokens: int, when: str = "") -> Iterable[Finding]:
        """One pass of new tokens: every layer, then advance."""
        rows = self.draw(num_tokens)
        yield from self.append_all(rows, when)
        yield from self.advance(rows, when)

    def append_all(self, rows: np.ndarray, when: str = "", backwards: bool = False) -> Iterable[Finding]:
        """Append to every layer in turn."""
        layers = range(self.sizes.num_layers)
        for layer in reversed(layers) if backwards else layers:
            yield from self.append(layer, rows, when)

    def append(self, layer: int, rows: np.ndarray, when: str = "", given: Any = None) -> Iterable[Finding]:
        """Append to one layer; `given` are tensors kept on the other side that hold these rows."""
        k, v = rows[layer] if given is None else given
        got = self.subject.call(self.cache, "append", layer, k, v)
        new = rows.shape[4]
        where = f"{when}layer {layer}, {self.held} held + {new} new"
        yield is_pair(self.subject, got, key="pair", what="append() must return the pair (K, V)", where=where)
        want = np.concatenate([self.rows, rows], axis=4)
        for part, name in enumerate("KV"):
            others = {"the other half of the pair": want[layer, 1 - part], "the new tokens alone": rows[layer, part]}
            others["the tokens before them"] = self.rows[layer, part]
            others |= {f"layer {i}": want[i, part] for i in range(len(want)) if i != layer}
            fact = f"append() returns the layer's {name} of all tokens, the new ones included"
            got_half, want_half = half(got, part), want[layer, part]
            finding = agrees(self.subject, got_half, want_half, key=name, fact=fact, others=others, exact=True)
            yield named(finding, NAMES, f"{where}: {name}")
        yield self.length(f"{when}after append() to layer {layer}, before advance()")

    def advance(self, rows: np.ndarray, when: str = "") -> Iterable[Finding]:
        """Advance by the tokens of these rows, which every layer has."""
        self.subject.call(self.cache, "advance", rows.shape[4])
        self.rows = np.concatenate([self.rows, rows], axis=4)
        yield self.length(f"{when}after advance({rows.shape[4]})")

    def reusing_tensors(self, num_tokens: int) -> Iterable[Finding]:
        """One pass in which the caller has two tensors for all layers, as a decoder with a scratch buffer does."""
        rows, subject = self.draw(num_tokens), self.subject
        k, v = (subject.put(np.zeros(rows.shape[2:])) for _ in range(2))
        for layer in range(self.sizes.num_layers):
            subject.fill(k, rows[layer, 0])
            subject.fill(v, rows[layer, 1])
            yield from self.append(layer, rows, given=(k, v))
            for name, kept, part in (("k", k, 0), ("v", v, 1)):
                fact, right = f"append() leaves {name} as it was", rows[layer, part]
                yield agrees(subject, subject.read(kept), right, key=f"caller's {name}", fact=fact, exact=True)
        subject.fill(k, float("nan"))
        subject.fill(v, float("nan"))
        yield from self.advance(rows)

    def given_away(self) -> Iterable[Finding]:
        """The first rows of a cache: what came back is not the tensors that the caller goes on to use."""
        rows, subject = self.draw(2), self.subject
        k, v = (subject.put(rows[0, part]) for part in range(2))
        pair = subject.call(self.cache, "append", 0, k, v, keep=True)
        for kept in (k, v):
            subject.fill(kept, 77.0)
        got = subject.read(pair)
        for part, name in enumerate("KV"):
            fact = f"{name} stays as it is when the caller reuses its tensors"
            yield agrees(subject, half(got, part), rows[0, part], key=f"{name} given away", fact=fact, exact=True)

    def transposed(self, num_tokens: int) -> Iterable[Finding]:
        """One pass with tensors as a projection gives them: heads split off, then two axes exchanged."""
        rows, subject = self.draw(num_tokens), self.subject
        for layer in range(self.sizes.num_layers):
            kept = [subject.put(rows[layer, part].transpose(0, 2, 1, 3)) for part in range(2)]
            given = [subject.call(handle, "transpose", 1, 2, keep=True) for handle in kept]
            yield from self.append(layer, rows, "k and v with axes exchanged: ", given=given)
        yield from self.advance(rows)

    def half_pass(self, num_tokens: int, *asked: int) -> Iterable[Finding]:
        """One pass, with can_append() asked before advance()."""
        rows = self.draw(num_tokens)
        yield from self.append_all(rows)
        self.ask_for_room(*asked)
        yield from self.advance(rows)

    def length(self, when: str) -> Finding:
        """Whether len(cache) is right."""
        fact = "len(cache) is the number of tokens held, and only advance() and reset() change it"
        return equals(self.subject, self.subject.length(self.cache), self.held, key="length", fact=fact, what=when)

    def ask_for_room(self, *asked: int) -> None:
        """Ask can_append() at this moment; `room_was_known` judges all answers together."""
        for num_tokens in asked:
            got = self.subject.call(self.cache, "can_append", num_tokens)
            got = bool(got) if isinstance(got, np.ndarray | int) and np.size(got) == 1 else got
            what = f"can_append({num_tokens}) with {self.held} of {self.sizes.max_len} tokens"
            self.answers.append((what, got, self.held + num_tokens <= self.sizes.max_len))

    def room_was_known(self) -> Iterable[Finding]:
        """Whether the cache knew what it had room for. One answer alone does not tell two mistakes apart."""
        fact = "can_append(n) says whether n more tokens fit"
        for what, got, answer in self.answers:
            yield equals(self.subject, got, answer, key=what, fact=fact, what=what)
        self.answers.clear()

    def storage(self) -> Any:
        """Bytes of all that the cache holds, a few counters apart."""
        got, want = self.subject.storage(self.cache), self.sizes.nbytes
        return want if isinstance(got, int) and want <= got <= want + COUNTERS else got

    def memory(self, when: str) -> Iterable[Finding]:
        """Whether it takes the memory that it should, and says so."""
        fact = "the cache's tensors take 2 * L * B * Hkv * max_len * D * s bytes, whatever it holds"
        yield equals(self.subject, self.storage(), self.sizes.nbytes, key="storage", fact=fact, what=when)
        fact = "nbytes is the number of bytes taken"
        nbytes = self.subject.get(self.cache, "nbytes")
        yield equals(self.subject, nbytes, self.sizes.nbytes, key="nbytes", fact=fact, what=when)

    def dtype(self) -> Iterable[Finding]:
        """Whether rows come back in the dtype that was asked for."""
        k, v = self.draw(1)[0]
        got = self.subject.call(self.cache, "append", 0, k, v)
        for part, name in enumerate("KV"):
            rows = half(got, part)
            seen = str(rows.dtype) if isinstance(rows, np.ndarray) else type(rows).__name__
            fact = f"{name} comes back as {self.sizes.dtype}"
            yield exactly(self.subject, seen, self.sizes.dtype, key=f"dtype of {name}", fact=fact)

    def refuses_tokens(self, layer: int, num_tokens: int) -> Finding:
        """Whether tokens that do not fit are refused."""
        k, v = self.draw(num_tokens)[layer]
        what = f"append() of {num_tokens} to layer {layer}, with {self.held} of {self.sizes.max_len} tokens held,"

        def look() -> None:
            for more in (2, 1, 4):
                k, v = self.draw(more)[1]
                self._try("append", 1, k, v)
            self._try("advance", 1)
            self.subject.length(self.cache)
            for method, args in (("reset", ()), ("append", (0, *self.draw(3)[0])), ("advance", (3,))):
                self._try(method, *args)
            self._try("append", 0, *self.draw(self.sizes.max_len - 2)[0])

        key = f"{num_tokens} to layer {layer}"
        return refuses(self.subject, self.cache, "append", layer, k, v, key=key, what=what, after=look)

    def refuses_advance(self, num_tokens: int) -> Finding:
        """Whether the length can only become what is possible."""
        what = f"advance({num_tokens}) with {self.held} of {self.sizes.max_len} tokens held"

        def look() -> None:
            self.subject.length(self.cache)
            for asked in (-1, self.sizes.max_len + 2, 1):
                self._try("advance", asked)
                self.subject.length(self.cache)

        key = f"advance {num_tokens}"
        return refuses(self.subject, self.cache, "advance", num_tokens, key=key, what=what, after=look)

    def wrong_inputs(self, num_tokens: int) -> list[tuple[str, int, np.ndarray, np.ndarray]]:
        """(what, layer, k, v) that a cache of these sizes must refuse."""
        k, v = self.draw(num_tokens)[0]
        layers = self.sizes.num_layers
        other = "float32" if self.sizes.dtype == "float64" else "float64"
        cases = [(f"layer {layer} of {layers}", layer, k, v) for layer in (layers, -1, layers + 5)]
        wrong = {
            "one sequence for all rows": lambda x: x[:1],
            "one KV head for all": lambda x: x[:, :1],
            "a head dim of 1": lambda x: x[..., :1],
            "no axis for the rows": lambda x: x[0],
            "an axis too many": lambda x: x[None],
            "tokens and heads in each other's place": lambda x: x.transpose(0, 2, 1, 3),
            "a head dim too large": lambda x: np.concatenate([x, x[..., :1]], axis=3),
            f"{other} rows for a {self.sizes.dtype} cache": lambda x: x.astype(other),
        }
        more = {
            "whole numbers": lambda x: x.astype(np.int64),
            "a sequence too many": lambda x: np.concatenate([x, x[:1]]),
            "a KV head too many": lambda x: np.concatenate([x, x[:, :1]], axis=1),
            "sequences and heads in each other's place": lambda x: x.transpose(1, 0, 2, 3),
            "tokens and features in each other's place": lambda x: x.transpose(0, 1, 3, 2),
        }
        for what, change in wrong.items():
            cases += [(f"k and v with {what}", 1, change(k), change(v))]
            cases += [(f"k with {what}", 0, change(k), v), (f"v with {what}", 1, k, change(v))]
        cases += [("one value for both tokens", 0, k, v[:, :, :1]), ("one key for both tokens", 1, k[:, :, :1], v)]
        for what, change in more.items():
            cases += [(f"k and v with {what}", 1, change(k), change(v))]
            cases += [(f"k with {what}", 0, change(k), v), (f"v with {what}", 1, k, change(v))]
        cases += [(f"layer {-layers} of {layers}", -layers, k, v)]
        longer = self.draw(num_tokens + 1)[0]
        cases += [("a value too many", 0, k, longer[1]), ("a key too many", 1, longer[0], v)]
        return cases

    def _try(self, method: str, *args: Any) -> None:
        with contextlib.suppress(LearnerRaised):
            self.subject.call(self.cache, method, *args)
