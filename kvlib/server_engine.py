"""The engine of a server: prompts in chunks and single new tokens of many requests, in one forward pass.

Letters: N tokens of a step, T tokens of one request in it, H query heads, Hkv KV heads, D head dim.

Who is admitted, what is pushed and who gives way is decided by the server that drives this. The rows lie in the paged
cache of lesson 06 (`kvlib.paged_layers`), whose tables let requests share blocks. Shared beginnings are found here by
comparing tokens, and not by the keys of `kvlib.prefix_index`: that one gives out all blocks of a prompt at once, and
these requests grow. There is one model, no adapter and one tenant: nothing else tells blocks apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

from kvlib.generate import forward
from kvlib.gqa_cache import GQACache
from kvlib.paged_layers import PagedLayers
from kvlib.transformer import Transformer

Work = Sequence[tuple[Hashable, Sequence[int]]]  # (request, its next tokens)


@dataclass
class Row:
    """One stay in the pool: a request's, or what is left of it once the request has been released."""

    seq: int  # its name in the cache
    tokens: list[int]  # whose keys and values are there


@dataclass
class Asked:
    """What must outlive a preemption, so that a request goes on with the numbers that it would have drawn alone."""

    prompt: int  # tokens when it was first admitted
    sampler: Any  # draw(logits) -> token; None = the best one
    drawn: list[int] = field(default_factory=list)


class ServerEngine:
    """Requests over one pool of blocks. A refused call raises ValueError, and changes nothing.

    A released request's full blocks are free, and can still be found by others until they are given out anew.

    >>> from kvlib.transformer import TransformerConfig
    >>> config = TransformerConfig(
    ...     num_layers=1, width=8, num_heads=2, num_kv_heads=1, head_dim=4, hidden=8, vocab_size=16
    ... )
    >>> model = Transformer.random(config, torch.Generator().manual_seed(0))
    >>> engine = ServerEngine(model, num_blocks=4, block_size=2, max_tokens=8)
    >>> engine.admit("a", [1, 2, 3])  # so many tokens need not be computed
    0
    >>> token = engine.step([("a", [1, 2, 3])])[0]
    >>> token = engine.step([("a", [token])])[0]
    >>> engine.admit("b", [1, 2, 9]), engine.blocks_in_use  # b holds the first block of a
    (2, 2)
    >>> engine.release("a")
    >>> engine.release("b")
    """

    def __init__(
        self,
        model: Transformer,
        num_blocks: int,
        block_size: int,
        max_tokens: int,
        sampler: Callable[[Hashable], Any] | None = None,
        reuse: bool = True,
    ) -> None:
        """max_tokens: of one step. reuse: whether blocks of other requests are found.

        sampler(i): asked once for each request, gives its `kvlib.stream.Stream`, or what else has draw(logits); None =
        the best token. Raises ValueError for a size below 1.
        """
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {max_tokens}")
        c, weight = model.config, model.weights["embedding"]
        sizes = (c.num_layers, num_blocks, block_size, c.num_kv_heads, c.head_dim)
        self.model, self.cache = model, PagedLayers(*sizes, dtype=weight.dtype, device=weight.device)
        self.num_blocks, self.block_size, self.max_tokens = num_blocks, block_size, max_tokens
        self._sampler, self._reuse, self._names = sampler, reuse, count()
        self._held: dict[Hashable, Row] = {}  # of each request that is admitted
        self._kept: dict[int, Row] = {}  # of released ones, full blocks only, the next to be given out first
        self._asked: dict[Hashable, Asked] = {}  # of each request that was ever admitted: it may come back
        self.computed = self.reused = 0  # tokens that went through the model, and tokens that were found
        self.steps = self.preemptions = 0  # without refused ones; requests that were admitted again, one time each
        self.most_blocks = 0  # in use at the same time

    @property
    def blocks_in_use(self) -> int:
        """Blocks that a request holds."""
        tables = self.cache.tables
        return len({block for row in self._held.values() if row.tokens for block in tables.table(row.seq)})

    def free_blocks(self) -> int:
        """Blocks that no request holds, those that can still be found included."""
        return self.num_blocks - self.blocks_in_use

    def admit(self, i: Hashable, tokens: Sequence[int]) -> int:
        """Let request i in: it holds from now on all blocks that others have computed for its first tokens.

        tokens: the prompt, or after a preemption the prompt and all that was made. Returns how many tokens were found:
        whole blocks, and fewer than all tokens, since the last one is computed for its logits.
        Raises ValueError for a request that is in already, and for no tokens.
        """
        tokens = list(tokens)
        if i in self._held or not tokens:
            raise ValueError(f"request {i!r} " + ("is admitted already" if i in self._held else "has no tokens"))
        row, found = Row(next(self._names), []), 0
        for other in [*self._held.values(), *self._kept.values()] if self._reuse else []:
            if (same := _found(other.tokens, tokens, self.block_size)) > found:
                found, source = same, other
        if found:
            self.cache.fork(source.seq, row.seq)
            self.cache.truncate(row.seq, found)  # full blocks only, so nobody writes where others read
            row.tokens = tokens[:found]
            if source.seq in self._kept:  # found once, likely to be found again: given out last
                self._kept[source.seq] = self._kept.pop(source.seq)
        self.preemptions += i in self._asked
        if i not in self._asked:
            self._asked[i] = Asked(len(tokens), self._sampler(i) if self._sampler else None)
        self._held[i] = row
        self.reused += found
        self.most_blocks = max(self.most_blocks, self.blocks_in_use)
        return found

    def step(self, work: Work) -> list[int]:
        """Push the next tokens of each request through the model, at most max_tokens in all. All of them or none.

        work: (i, tokens) each: a piece of a prompt, or one new token. Returns the token that follows the last one
        given, for each, in the order of work. Before the end of a prompt that is a guess which nobody needs: no token
        is drawn for it. What was drawn once for a place is not drawn again.
        Raises ValueError for a request that is not admitted or named twice, without tokens, for too many tokens, for
        what is no token, and where not all of them find blocks.
        """
        work = [(i, list(tokens)) for i, tokens in work]
        self._insist_on(work)
        if not work:
            return []
        ordered = sorted(work, key=lambda each: len(each[1]) > 1)  # single tokens first: they attend in one call
        pushed = torch.tensor([[token for _, tokens in ordered for token in tokens]], device=self.cache.pools.device)
        x = self.model.embed(pushed)  # (1, N, width); refuses what is no token
        needed = sum(self.cache.tables.blocks_to_append(self._held[i].seq, len(tokens)) for i, tokens in work)
        if needed > self.free_blocks():
            raise ValueError(f"{pushed.numel()} tokens take {needed} blocks more, {self.free_blocks()} are free")
        self._make_room(needed)
        logits = dict(zip((i for i, _ in ordered), self._forward(x, ordered), strict=True))
        for i, tokens in work:
            self._held[i].tokens += tokens
        self.steps, self.computed = self.steps + 1, self.computed + pushed.numel()
        self.most_blocks = max(self.most_blocks, self.blocks_in_use)
        return [self._next(i, logits[i]) for i, _ in work]

    def release(self, i: Hashable) -> None:
        """Take request i out: it holds nothing any more. Raises ValueError when it is not admitted."""
        if i not in self._held:
            raise ValueError(f"request {i!r} is not admitted")
        row = self._held.pop(i)
        full = len(row.tokens) // self.block_size * self.block_size if self._reuse else 0
        if full:
            self.cache.truncate(row.seq, full)
            del row.tokens[full:]
        if full and self.cache.tables.ref_count(self.cache.tables.table(row.seq)[-1]) == 1:
            self._kept[row.seq] = row
        elif row.tokens:  # whoever shares the last full block has all blocks before it, too
            self.cache.free(row.seq)

    def _forward(self, x: torch.Tensor, work: Work) -> torch.Tensor:
        """Logits (requests, vocab_size) after the last token of each; x (1, N, width) has them side by side.

        Projections and norms look at one token at a time, so the tokens of a row may be of many requests, each at a
        position of its own. Only attention has to know whose they are.
        """
        rows, lengths = [self._held[i] for i, _ in work], [len(tokens) for _, tokens in work]
        singles = [row.seq for row, T in zip(rows, lengths, strict=True) if T == 1]
        groups = [([row.seq], T) for row, T in zip(rows, lengths, strict=True) if T > 1]  # who attends together, and T
        groups = [(singles, 1), *groups] if singles else groups
        widths = [len(seqs) * T for seqs, T in groups]  # tokens of each group
        starts = [len(row.tokens) for row in rows]
        places = [start + t for start, T in zip(starts, lengths, strict=True) for t in range(T)]
        positions = torch.tensor(places, device=x.device)  # (N,)
        slots = torch.cat([self.cache.append(seqs, T) for seqs, T in groups])  # (N,)
        for layer, block in enumerate(self.model.blocks):
            q, k, v = block.qkv(x, positions)  # (1, H, N, D), (1, Hkv, N, D) twice
            self.cache.write(layer, slots, k, v)
            attended = []
            for (seqs, T), part in zip(groups, q.split(widths, dim=2), strict=True):
                queries = part.transpose(0, 2) if T == 1 else part  # (B, H, 1, D), or a chunk (1, H, T, D)
                rows_of = self.cache.attend(layer, queries, seqs)
                attended.append(rows_of.transpose(0, 2) if T == 1 else rows_of)  # (1, H, B * T, D)
            x = block.finish(x, torch.cat(attended, dim=2))  # (1, H, N, D)
        last = torch.tensor(lengths, device=x.device).cumsum(0) - 1
        return self.model.unembed(x[:, last])[0]

    def _next(self, i: Hashable, logits: torch.Tensor) -> int:
        """The token that follows those of request i, by its logits (vocab_size,)."""
        asked = self._asked[i]
        place = len(self._held[i].tokens) - asked.prompt  # 0 for the first new token, below 0 within the prompt
        if asked.sampler is None or place < 0:
            return int(logits.argmax())
        if place < len(asked.drawn):  # drawn before it was preempted
            return asked.drawn[place]
        asked.drawn.append(asked.sampler.draw(logits.tolist()))
        return asked.drawn[-1]

    def _insist_on(self, work: Work) -> None:
        """Refuse work that cannot be done, whatever the pool."""
        ids, total = [i for i, _ in work], sum(len(tokens) for _, tokens in work)
        if strangers := [i for i in ids if i not in self._held]:
            raise ValueError(f"request {strangers[0]!r} is not admitted")
        if len(set(ids)) < len(ids) or not all(tokens for _, tokens in work):
            raise ValueError(f"each request once in a step, with at least 1 token, got {list(work)}")
        if total > self.max_tokens:
            raise ValueError(f"a step takes {self.max_tokens} tokens at most, got {total}")

    def _make_room(self, num_blocks: int) -> None:
        """Give up what is kept, oldest first, the end of it before its beginning, until so many blocks are free."""
        while self.cache.num_free < num_blocks:
            row = next(iter(self._kept.values()))
            del row.tokens[-self.block_size :]
            self.cache.truncate(row.seq, len(row.tokens))
            if not row.tokens:
                self.cache.free(row.seq)
                del self._kept[row.seq]


def alone(model: Transformer, prompt: Sequence[int], new: int, sampler: Any = None) -> list[int]:
    """The new tokens of a request that has a contiguous cache and the machine for itself: what serving must equal.

    prompt: tokens, at least one. new: how many are made. sampler: draw(logits) -> token; None = the best one.
    """
    c, weight = model.config, model.weights["embedding"]
    sizes = (c.num_layers, 1, c.num_kv_heads, len(prompt) + new, c.head_dim)
    cache = GQACache(*sizes, weight.dtype, weight.device)
    made: list[int] = []
    pushed = list(prompt)
    for _ in range(new):
        logits = forward(model, cache, torch.tensor([pushed], device=weight.device))[0, -1]
        made.append(int(logits.argmax()) if sampler is None else sampler.draw(logits.tolist()))
        pushed = made[-1:]
    return made


def _found(held: list[int], wanted: list[int], block_size: int) -> int:
    """How many tokens of `wanted` are held: whole blocks from the first on, and never all of them."""
    n = 0
    while n + block_size <= min(len(held), len(wanted) - 1) and held[n : n + block_size] == wanted[n : n + block_size]:
        n += block_size
    return n
