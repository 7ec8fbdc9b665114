"""A latent cache of the learner's, driven beside a layer that can work everything out anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from autograde.compare import as_array, first_difference
from autograde.exercises.latent_cache.layer import WIDTH, LentLayer
from autograde.exercises.mla_cases import Dims
from autograde.expect import agrees, counts, equals, half, refuses
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject

COUNTERS = 256  # bytes of counters and positions that may be tensors


class Run:
    """One cache, its layer, and the tokens that it must hold: x (B, S, width)."""

    def __init__(
        self,
        subject: Subject,
        rng: np.random.Generator,
        max_len: int,
        B: int = 2,
        dims: Dims | None = None,
        layer: LentLayer | None = None,
        name: str = "",
    ) -> None:
        self.subject, self.rng, self.max_len, self.name = subject, rng, max_len, name
        self.layer = layer or LentLayer(rng, dims)
        self.x = np.zeros((B, 0, WIDTH))
        self.cache = subject.new(self.layer.lent(), max_len)

    @property
    def held(self) -> int:
        """Tokens that it must hold."""
        return self.x.shape[1]

    def draw(self, T: int, B: int | None = None, width: int = WIDTH) -> np.ndarray:
        """T tokens of noise."""
        return self.rng.normal(size=(B or len(self.x), T, width))

    def feed(self, T: int) -> object:
        """The next T tokens, and what came back."""
        x = self.draw(T)
        try:
            got = self.subject.call(self.cache, "forward", x)
        except LearnerRaised as error:
            with_name = f"with {self.name}" if self.name else ""
            error.args = (f"{with_name}at tokens {self.held} to {self.held + T - 1} of {self.max_len}: {error}",)
            raise
        self.x = np.concatenate((self.x, x), axis=1)
        return got

    def forward(self, T: int, when: str = "") -> Iterable[Finding]:
        """The next T tokens: their outputs, and the length."""
        yield self.judge(self.feed(T), T, when)
        yield self.length(when)

    def judge(self, got: object, T: int, when: str = "") -> Finding:
        """Whether the outputs of the newest T tokens are those of the whole text worked out anew."""
        want, first = self.layer.outputs(self.x, T), self.held - T
        tokens = f"token {first}" if T == 1 else f"tokens {first} to {self.held - 1}"
        where, fact = f"{self.name}{when}{tokens}", "the outputs are those of the whole text, worked out anew"
        key = f"output {where}"
        if isinstance(got, np.ndarray) and got.size and got.shape != want.shape:
            complaint = f"returned shape {got.shape}, wanted {want.shape}"
            return Finding(False, key, complaint, where=where, events=len(self.subject.record))
        finding = agrees(self.subject, got, want, key=key, fact=fact)
        if finding.ok:
            return finding
        array, _ = as_array(got, want.shape)
        difference = None if array is None or not finding.where else first_difference(array, want)
        if difference is not None:
            b, h, t, _ = difference.index
            where += f": sequence {b}, head {h}" + (f", token {first + t}" if T > 1 else "")
        return replace(finding, where=where)

    def length(self, when: str = "") -> Finding:
        """Whether `len` counts the tokens held."""
        what = f"{self.name}{when}with {self.held} tokens"
        fact, got = "len(cache) is the number of tokens held", self.subject.length(self.cache)
        return equals(self.subject, got, self.held, key=f"length {what}", fact=fact, what=what)

    def truncate(self, length: int) -> Iterable[Finding]:
        """Cut it."""
        self.subject.call(self.cache, "truncate", length)
        self.x = self.x[:, :length]
        yield self.length(f"after truncate({length}), ")

    def refused(self, what: str, x: np.ndarray) -> Iterable[Finding]:
        """Whether these tokens are refused, and nothing has changed then. What they did otherwise is noted."""
        more = self.draw(1, B=len(x))

        def look() -> None:
            self.subject.length(self.cache)
            self.subject.call(self.cache, "forward", more)

        key = f"{what}, {self.held} held"
        yield refuses(self.subject, self.cache, "forward", x, key=key, what=f"{self.name}{what}", after=look)
        yield self.length(f"after refusing {what}, ")

    def work(self, T: int) -> Iterable[Finding]:
        """Whether T tokens go through the layer once, and each query and key is turned once."""
        layer, B = self.layer, len(self.x)
        layer.asked = layer.made = layer.turned = 0
        got = self.feed(T)
        where = f"{T} new, {self.held - T} held, {B} sequences"
        seen = (layer.asked, layer.made, layer.turned)
        fact = "each token goes through latent() once"
        yield counts(self.subject, layer.made, B * T, key=f"latents {where}", fact=fact, where=where, seen=seen)
        fact = "each token goes through queries() once"
        yield counts(self.subject, layer.asked, B * T, key=f"queries {where}", fact=fact, where=where, seen=seen)
        rows = B * (layer.dims.H + 1) * T
        fact = "rotate() turns each query and each key once: B * (H + 1) * T rows"
        yield counts(self.subject, layer.turned, rows, key=f"turned {where}", fact=fact, where=where, seen=seen)
        yield self.judge(got, T)

    def measured(self) -> Iterable[Finding]:
        """One token: its output, and the largest tensor that was made for it."""
        d, B = self.layer.dims, len(self.x)
        x = self.draw(1)
        reply = self.subject.largest_of(self.cache, "forward", x)
        self.x = np.concatenate((self.x, x), axis=1)
        yield self.judge(half(reply, 0), 1)
        limit = 4 * B * d.H * self.held * min(d.Dn, d.Dv)  # in float32
        fact = "for one new token, no tensor on the way holds a row for each token and each head"
        yield self.below(half(reply, 1), limit, f"largest {self.held}", fact)

    def memory(self) -> Iterable[Finding]:
        """Whether no more is held than latents and rotary keys; a copy of the two matrices is not counted."""
        d, B, weights = self.layer.dims, len(self.x), self.layer.w_uk.nbytes + self.layer.w_uv.nbytes
        limit = 8 * B * self.max_len * (d.R + d.Dr)
        fact = "it holds B * max_len * (R + Dr) numbers, and the layer's matrices"
        size = self.subject.storage(self.cache)
        yield self.below(size, limit + 2 * weights + COUNTERS, f"memory {self.held}", fact)

    def below(self, size: object, limit: int, key: str, fact: str) -> Finding:
        """Whether so many bytes are below a limit."""
        if type(size) is int and 0 < size <= limit:
            return held(key, fact)
        told = f"{size} bytes" if type(size) is int else "no number of bytes"
        where, expected = f"{self.name}{self.held} of {self.max_len} tokens held", f"{limit} bytes at most"
        return Finding(False, key, f"does not hold: {fact}", where, expected, told, events=len(self.subject.record))
