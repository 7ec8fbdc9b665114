"""One call of the learner's scheduler, judged by what came back and by what the engine counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercises.serve.engine import LentEngine, Request
from autograde.exercises.speculative import as_tokens
from autograde.expect import counts
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject


class Run:
    """One call of the learner's scheduler, and what came of it."""

    def __init__(
        self,
        subject: Subject,
        rng: np.random.Generator,
        num_blocks: int,
        block_size: int,
        sizes: Sequence[tuple],
        requests: Sequence[Request] = (),
    ) -> None:
        self.subject, self.engine = subject, LentEngine(rng, num_blocks, block_size, sizes, requests)
        self.pool = f"{num_blocks} blocks of {block_size}"
        self.key = f"{len(self.engine.requests)} in {num_blocks}x{block_size}"
        self.served = [request for request in self.engine.requests if self.engine.fits(request)]

    def judged(self) -> Iterable[Finding]:
        """Runs it. Every request gets what it gets alone, and the pool is as empty as before."""
        requests = self.engine.requests
        try:
            got = self.subject.run(self.engine.lent(), [request.plain() for request in requests])
        except LearnerRaised:
            sizes = ", ".join(f"({len(request.prompt)}, {request.new})" for request in requests)
            self.subject.asked = f"pool of {self.pool}, requests (prompt, new): {sizes}"  # not the tokens themselves
            raise
        yield self.is_list(got)
        for i, request in enumerate(requests):
            yield self.right(i, request, got[i])
        yield self.given_back()

    def is_list(self, got: Any) -> Finding:
        """Whether there is one result for each request."""
        fact, number = "a list with one result for each request is returned", len(self.engine.requests)
        if isinstance(got, np.ndarray) and got.ndim > 0:
            got = list(got)
        if isinstance(got, list) and len(got) == number:
            return held("list", fact)
        given = f"a list of {len(got)}" if isinstance(got, list) else shown(got)
        return self.wrong("list", fact, f"{number} request{'s' if number != 1 else ''}", f"a list of {number}", given)

    def right(self, i: int, request: Request, got: Any) -> Finding:
        """Whether the result of one request is right."""
        p, n, most = len(request.prompt), request.new, request.most
        where = f"request {i} (prompt of {p}, {n} new), pool of {self.pool}"
        if not self.engine.fits(request):
            fact = f"a request that would store {most} tokens, {self.engine.blocks(most)} blocks, can never fit: None"
            given = "its tokens" if as_tokens(got) else shown(got)
            return held(f"{i}", fact) if got is None else self.wrong(f"{i} never", fact, where, "None", given)
        want, tokens = self.engine.alone(request), [] if isinstance(got, list) and not got else as_tokens(got)
        told = f"{n} new token{'s' if n > 1 else ''}"
        fact = "a request gets the tokens that it gets alone"
        if tokens == want:
            return held(f"{i}", fact)
        if got is None:
            fact = f"a request that stores {most} tokens, {self.engine.blocks(most)} blocks, is served"
            return self.wrong(f"{i} served", fact, where, told, "None")
        if tokens is None:
            return self.wrong(f"{i} list", fact, where, f"a list of {told}", shown(got))
        if len(tokens) != n:
            clue = self.clue(i, tokens, want)
            given = f"{len(tokens)}" + (f": {clue}" if clue else "")
            return self.wrong(f"{i} count", "as many new tokens come back as were asked for", where, told, given)
        j = next(j for j in range(n) if tokens[j] != want[j])
        clue = self.clue(i, tokens, want)
        fact = f"does not hold: {fact}" + (f"; {clue}" if clue else "")
        return self.wrong(f"{i} tokens", fact, f"{where}, new token {j}", f"{want[j]}", f"{tokens[j]}")

    def clue(self, i: int, tokens: list[int], want: list[int]) -> str:
        """What the wrong tokens are instead, where that can be said."""
        prompt, odd = list(self.engine.requests[i].prompt), self.engine.odd.get(i)
        if odd:
            unlike = f"{odd[0]} tokens, and had {odd[1]}" if odd[0] != odd[1] else "other tokens than it had"
            return f"it was started again with {unlike}"
        if tokens and tokens[: len(prompt)] == prompt:
            return "the prompt comes first"
        for other, asked in enumerate(self.engine.requests):
            if tokens and other != i and tokens == self.engine.alone(asked):
                return f"these are the tokens of request {other}"
        right = next((j for j, (a, b) in enumerate(zip(tokens, want, strict=False)) if a != b), len(want))
        if 0 < len(tokens) < len(want) and tokens == want[-len(tokens) :]:
            return "the first ones are missing"
        return f"the first {right} {'is' if right == 1 else 'are'} right" if 0 < right < len(tokens) else ""

    def given_back(self) -> Finding:
        """Whether nobody holds blocks at the end."""
        left = sorted(self.engine.running)
        fact = "all blocks are given back at the end"
        if not left:
            return held("back", fact)
        who = ", ".join(f"request {i}" for i in left[:4])
        number = sum(self.engine.blocks(run.stored) for run in self.engine.running.values())
        where, given = f"pool of {self.pool}", f"{number}, by {who}"
        return self.wrong("back", f"does not hold: {fact}", where, "0 blocks held", given)

    def wrong(self, key: str, fact: str, where: str, expected: str, got: str) -> Finding:
        """A finding that does not hold."""
        key = f"{self.key} {key}"
        return Finding(False, key, fact, where, expected, got[:90], events=len(self.subject.record))

    # The work that it took.

    def at_most(self, key: str, got: int, most: int, fact: str, *seen: int) -> Finding:
        """Whether a count is within a bound."""
        where, key = f"{len(self.engine.requests)} requests, pool of {self.pool}", f"{self.key} {key}"
        finding = counts(self.subject, max(got, most), most, key=key, fact=fact, where=where, seen=seen)
        return (
            finding if finding.ok else Finding(**{**finding.__dict__, "expected": f"{most} at most" if most else "0"})
        )

    def made(self) -> Finding:
        """Whether no token was made twice. Whoever starts again may make its newest one again."""
        engine, wanted = self.engine, sum(request.new for request in self.served)
        if engine.beyond:
            fact = "a request that has its tokens is not started or stepped any more"
            return self.at_most("beyond", engine.beyond, 0, fact, engine.made, engine.beyond)
        fact = "what a request has made before it was stopped is kept, and not made once more"
        return self.at_most("made", engine.made, wanted + engine.restarts, fact, engine.made, engine.restarts)

    def computed(self, times: int) -> Finding:
        """Whether the tokens whose KV was computed are within a bound."""
        least, computed = sum(request.most for request in self.served), self.engine.computed
        fact = "where all fit, the KV of each token is computed once"
        if times > 1:
            fact = f"the KV of no more than {times} times as many tokens is computed as without any stop ({least})"
        return self.at_most("computed", computed, times * least, fact, computed, self.engine.steps)

    def together(self) -> Finding:
        """Whether requests that fit together were stepped together."""
        engine = self.engine
        most = max(request.new for request in self.served) + len(engine.requests)
        fact = "requests that fit together are stepped together: the longest one's steps are nearly enough for all"
        return self.at_most("steps", engine.steps, most, fact, engine.steps, engine.most_at_once)

    def busy(self) -> Finding:
        """Whether nobody waited in front of free blocks."""
        engine = self.engine
        fact = "nobody waits through step after step although all who wait would fit to their very end"
        return self.at_most("idle", engine.idle, len(engine.requests) + 3, fact, engine.idle)
