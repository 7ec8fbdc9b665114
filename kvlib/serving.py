"""An engine that serves many requests from one pool of blocks: a transformer, a paged cache, and the newest tokens.

Letters: B requests in a step, T tokens of a prompt, H query heads, Hkv KV heads, D head dim.
Who runs and who waits is not decided here: `kvlib.serve.serve(Engine(model, num_blocks, block_size), requests)`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

from kvlib.generate import greedy
from kvlib.gqa_cache import GQACache
from kvlib.paged_layers import PagedLayers
from kvlib.transformer import Transformer


class Engine:
    """Starts, steps and stops requests. Each is known by a number; a refused call raises ValueError, changes nothing.

    A request that runs has its tokens in the pool, all but the newest: this one is stored by the next step, together
    with the newest tokens of the others. So a request of p prompt tokens and n new ones stores p + n - 1.

    >>> from kvlib.transformer import TransformerConfig
    >>> config = TransformerConfig(
    ...     num_layers=1, width=8, num_heads=2, num_kv_heads=1, head_dim=4, hidden=8, vocab_size=16
    ... )
    >>> model = Transformer.random(config, torch.Generator().manual_seed(0))
    >>> engine = Engine(model, num_blocks=4, block_size=2)
    >>> token = engine.start("a", [1, 2, 3])
    >>> engine.running, engine.blocks_in_use
    (['a'], 2)
    >>> [token, *engine.step(["a"])] == alone(model, {"prompt": [1, 2, 3], "new": 2})
    True
    >>> engine.stop("a")
    >>> engine.free_blocks()
    4
    """

    def __init__(self, model: Transformer, num_blocks: int, block_size: int) -> None:
        """The pool is in the weights' dtype and on their device. Raises ValueError for a size below 1."""
        c, weight = model.config, model.weights["embedding"]
        sizes = (c.num_layers, num_blocks, block_size, c.num_kv_heads, c.head_dim)
        self.model, self.cache = model, PagedLayers(*sizes, dtype=weight.dtype, device=weight.device)
        self.num_blocks, self.block_size = num_blocks, block_size
        self._newest: dict[Hashable, int] = {}  # of each that runs: made, and not stored yet
        self._seen: set[Hashable] = set()  # have been started once
        self.computed = 0  # tokens whose keys and values were computed
        self.steps = 0  # without those that were refused
        self.preemptions = 0  # requests that were started again, one time each
        self.most_blocks = 0  # in use at the same time

    @property
    def running(self) -> list[Hashable]:
        """Those that hold blocks, in the order of starting."""
        return list(self._newest)

    @property
    def blocks_in_use(self) -> int:
        """Blocks that somebody holds."""
        return self.num_blocks - self.cache.num_free

    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return self.cache.num_free

    def start(self, i: Hashable, tokens: Sequence[int]) -> int:
        """Compute the keys and values of all these tokens for request i, in ceil(T / block_size) blocks.

        tokens: the prompt, or after a stop the prompt and all that was made. Returns the next token.
        Raises ValueError when i runs already, for no tokens, for what is no token, and without room for all of them.
        """
        if i in self._newest:
            raise ValueError(f"request {i!r} is running already")
        token = self._forward([i], torch.tensor([list(tokens)]))[0]
        self.preemptions += i in self._seen
        self._seen.add(i)
        return token

    def step(self, ids: Sequence[Hashable]) -> list[int]:
        """Store the newest token of each request. Returns the next token of each, in the order of ids.

        A request whose last block is full takes one more. Raises ValueError when not all of them find one, for a
        request that does not run, and for one that is named twice.
        """
        ids = list(ids)
        if strangers := [i for i in ids if i not in self._newest]:
            raise ValueError(f"request {strangers[0]!r} is not running")
        if not ids:
            return []
        made = self._forward(ids, torch.tensor([[self._newest[i] for i in ids]]))
        self.steps += 1
        return made

    def stop(self, i: Hashable) -> None:
        """Give the blocks of request i back, and forget it. Raises ValueError when it does not run."""
        if i not in self._newest:
            raise ValueError(f"request {i!r} is not running")
        self.cache.free(i)
        del self._newest[i]

    def choose(self, ids: Sequence[Hashable], logits: torch.Tensor) -> list[int]:
        """The next token of each of ids, by its logits (B, vocab_size): the best one. A subclass may do otherwise."""
        return logits.argmax(dim=-1).tolist()

    def _forward(self, ids: list[Hashable], tokens: torch.Tensor) -> list[int]:
        """Push tokens (1, N) through the model: all of one request, or one of each request. The next token of each.

        Projections and norms look at one token at a time, so N tokens of a row may be of N requests, each at a
        position of its own. Only attention has to know whose they are.
        """
        x = self.model.embed(tokens.to(self.model.weights["embedding"].device))  # (1, N, width); refuses bad tokens
        num_tokens = tokens.shape[1] // len(ids)  # T, or 1 of each
        starts = [self.cache.length(i) if i in self._newest else 0 for i in ids]
        slots = self.cache.append(ids, num_tokens)  # refuses what does not fit, before anything has changed
        positions = torch.tensor([start + t for start in starts for t in range(num_tokens)], device=x.device)  # (N,)
        for layer, block in enumerate(self.model.blocks):
            q, k, v = block.qkv(x, positions)  # (1, H, N, D), (1, Hkv, N, D) twice
            self.cache.write(layer, slots, k, v)
            rows = q.transpose(0, 2) if num_tokens == 1 else q  # (B, H, 1, D), or (1, H, T, D) as it is
            attended = self.cache.attend(layer, rows, ids)
            x = block.finish(x, attended.transpose(0, 2) if num_tokens == 1 else attended)
        last = x[:, num_tokens - 1 :: num_tokens]  # (1, B, width): the last token of each request
        made = self.choose(ids, self.model.unembed(last)[0])
        self._newest.update(zip(ids, made, strict=True))
        self.computed += tokens.shape[1]
        self.most_blocks = max(self.most_blocks, self.blocks_in_use)
        return made


def alone(model: Transformer, request: dict[str, Any]) -> list[int]:
    """The new tokens of one request that has the machine and a contiguous cache of its own: what serving must equal.

    request: {"prompt": tokens, "new": n} as `kvlib.serve.serve` takes it.
    """
    c, weight = model.config, model.weights["embedding"]
    prompt = torch.tensor([request["prompt"]], device=weight.device)
    sizes = (c.num_layers, 1, c.num_kv_heads, prompt.shape[1] + request["new"], c.head_dim)
    cache = GQACache(*sizes, weight.dtype, weight.device)
    return greedy(model, prompt, request["new"], cache).tokens[0].tolist()
