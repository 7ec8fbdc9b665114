"""One decode step against context: kvlib's caches beside two of Transformers', on the same weights and attention.

    python benchmarks/caches.py [--contexts 256,1024,4096,8192] [--rounds 15] [--threads 1]
                                [--batch 1] [--block-size 16]

The model is kvlib's transformer with random weights, small enough for the KV cache to dominate. Only the cache changes:

    kvlib        GQACache: writes the new rows, returns views
    paged        PagedLayers, a pool of just the blocks that are needed; several sequences have grown side by side in it
    paged apart  the same in a pool of twice the size, every other block of it somebody else's, in no order
    quantised    QuantisedCache, one for each layer: FP8 with scales. Makes floats of a layer's rows at every step
    dynamic      DynamicCache: makes a longer tensor at every step, and copies all rows into it
    static fits  StaticCache with room for this context: writes the new rows, attends over all slots under a mask
    static max   StaticCache with room for the longest context

In every round each cache takes the same step once, in an order that changes from round to round, and then forgets it.
With one thread the clock is the thread's own CPU time, which other processes disturb least. Bytes are counted: keys and
values that are written or copied, as codes or as floats. "x kvlib" is the median of the ratios within each round.

Another cache takes a class like `Ours`, and a line in `MAKERS`.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
import transformers  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from transformers import DynamicCache, LlamaConfig, StaticCache  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kvlib.block_allocator import blocks_needed  # noqa: E402
from kvlib.gqa import gqa_attend  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402
from kvlib.paged_layers import PagedLayers  # noqa: E402
from kvlib.quantised_cache import QuantisedCache  # noqa: E402
from kvlib.transformer import Transformer, TransformerConfig  # noqa: E402

CONFIG = TransformerConfig(8, width=128, num_heads=4, num_kv_heads=2, head_dim=128, hidden=256, vocab_size=256)
WARM_UP = 3


@dataclass
class Sizes:
    """What a cache is made for."""

    room: int  # tokens of each sequence, at most
    batch: int = 1  # sequences
    block_size: int = 16


class Ours:
    """kvlib's cache. What a step asks of any cache is what this class has."""

    def __init__(self, sizes: Sizes) -> None:
        self.cache = GQACache(CONFIG.num_layers, sizes.batch, CONFIG.num_kv_heads, sizes.room, CONFIG.head_dim)

    def begin(self, num_tokens: int) -> None:
        """Before the first layer."""

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """k, v: (B, Hkv, T, D)."""
        self.K, self.V = self.cache.append(layer, k, v)

    def attend(self, layer: int, q: torch.Tensor, context: int) -> torch.Tensor:
        """q of one token after `context` others, (B, H, 1, D), over the rows of this layer."""
        return gqa_attend(q, self.K, self.V)  # one new token sees all that is held

    def end(self, num_tokens: int) -> None:
        """After the last layer."""
        self.cache.advance(num_tokens)

    def forget(self) -> None:
        """Take back the newest token."""
        self.cache.truncate(len(self.cache) - 1)

    def held(self) -> list[torch.Tensor]:
        """All memory that the cache takes, each piece once."""
        return [self.cache.buffer]


class Paged:
    """kvlib's paged cache. apart: the blocks of each sequence lie in no order, half of the pool is somebody else's."""

    def __init__(self, sizes: Sizes, apart: bool = False) -> None:
        self.seqs, self.apart = list(range(sizes.batch)), apart
        num_blocks = sizes.batch * blocks_needed(sizes.room, sizes.block_size) * (2 if apart else 1)
        shape = (num_blocks, sizes.block_size, CONFIG.num_kv_heads, CONFIG.head_dim)
        self.cache = PagedLayers(CONFIG.num_layers, *shape)
        if apart:  # others take the pool in single blocks, and give half of them back in an order of no meaning
            others = [("other", i) for i in range(num_blocks)]
            for other in others:
                self.cache.append([other], sizes.block_size)
            for other in random.Random(1).sample(others, num_blocks // 2):
                self.cache.free(other)

    def begin(self, num_tokens: int) -> None:
        if self.apart or num_tokens == 1:
            self.slots = self.cache.append(self.seqs, num_tokens)
        else:  # side by side, token by token
            steps = [self.cache.append(self.seqs, 1) for _ in range(num_tokens)]
            self.slots = torch.stack(steps, dim=1).flatten()  # (B * T,)

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        self.cache.write(layer, self.slots, k, v)

    def attend(self, layer: int, q: torch.Tensor, context: int) -> torch.Tensor:
        return self.cache.attend(layer, q, self.seqs)

    def end(self, num_tokens: int) -> None:
        pass  # `begin` has counted them

    def forget(self) -> None:
        for seq in self.seqs:
            self.cache.truncate(seq, self.cache.length(seq) - 1)

    def held(self) -> list[torch.Tensor]:
        return [self.cache.pools]


class Quantised:
    """kvlib's cache in FP8, with a scale for each token of each head. It rounds, so its logits differ."""

    def __init__(self, sizes: Sizes) -> None:
        shape = (sizes.batch, CONFIG.num_kv_heads, sizes.room, CONFIG.head_dim)
        self.layers = [QuantisedCache(*shape) for _ in range(CONFIG.num_layers)]

    def begin(self, num_tokens: int) -> None:
        pass

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        self.layers[layer].append(k, v)

    def attend(self, layer: int, q: torch.Tensor, context: int) -> torch.Tensor:
        cache = self.layers[layer]
        return gqa_attend(q, *cache.read(0, len(cache)))

    def end(self, num_tokens: int) -> None:
        pass  # each layer counts by itself

    def forget(self) -> None:
        for cache in self.layers:
            cache.truncate(len(cache) - 1)

    def held(self) -> list[torch.Tensor]:
        return [part for cache in self.layers for part in (cache.codes, cache.scales)]


class Theirs:
    """A cache of Transformers, under the names of ours. dynamic: it grows with every step."""

    def __init__(self, sizes: Sizes, dynamic: bool = False) -> None:
        config = LlamaConfig(num_hidden_layers=CONFIG.num_layers)
        self.room, self.dynamic = sizes.room, dynamic
        self.cache = DynamicCache() if dynamic else StaticCache(config=config, max_cache_len=sizes.room)

    def begin(self, num_tokens: int) -> None:
        pass

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        self.K, self.V = self.cache.update(k, v, layer)

    def attend(self, layer: int, q: torch.Tensor, context: int) -> torch.Tensor:
        """A static cache returns all its slots, used or not, so it needs a mask."""
        mask = None if self.dynamic else (torch.arange(self.room) <= context)[None, :]
        return gqa_attend(q, self.K, self.V, mask)

    def end(self, num_tokens: int) -> None:
        pass  # it counts by itself

    def forget(self) -> None:
        self.cache.crop(-1)

    def held(self) -> list[torch.Tensor]:
        return [rows for layer in self.cache.layers if layer.is_initialized for rows in (layer.keys, layer.values)]


Cache = Ours | Paged | Quantised | Theirs

# Each gets the sizes of this context, and those of the longest one.
MAKERS: dict[str, Callable[[Sizes, Sizes], Cache]] = {
    "kvlib": lambda sizes, longest: Ours(sizes),
    "paged": lambda sizes, longest: Paged(sizes),
    "paged apart": lambda sizes, longest: Paged(sizes, apart=True),
    "quantised": lambda sizes, longest: Quantised(sizes),
    "dynamic": lambda sizes, longest: Theirs(sizes, dynamic=True),
    "static fits": lambda sizes, longest: Theirs(sizes),
    "static max": lambda sizes, longest: Theirs(longest),
}


class Copied(TorchDispatchMode):
    """Counts the bytes of keys and values that are written, into tensors newly made and into those held.

    rows: the tensors that hold keys and values. What is made of them is keys and values too; only attention makes
    something else.
    """

    def __init__(self, rows: list[torch.Tensor]) -> None:
        super().__init__()
        self.rows = {memory(each) for each in rows}
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = [leaf for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)]
        if "attention" in func._schema.name or not self.rows & {memory(leaf) for leaf in given}:
            return out
        if func._schema.is_mutable:  # copy_, index_copy_: the last tensor is written into the first
            self.bytes += given[-1].nbytes
            return out
        for made in tree_leaves(out):
            if torch.is_tensor(made) and memory(made) not in {memory(leaf) for leaf in given}:
                self.bytes += made.nbytes
                self.rows.add(memory(made))
        return out


def memory(tensor: torch.Tensor) -> int:
    """Where its storage begins: views of one have the same."""
    return tensor.untyped_storage().data_ptr()


@dataclass
class Row:
    """What one cache took for one step at one context."""

    copied: int  # bytes of keys and values
    allocated: int  # bytes held by the cache, right after the step
    logits: torch.Tensor
    seconds: list[float] = field(default_factory=list)


def step(model: Transformer, cache: Cache, context: int, batch: int, count: bool = False) -> tuple[torch.Tensor, int]:
    """Logits of one token after `context` tokens, as `kvlib.generate.forward` does it, with whatever cache.

    count: also the bytes of keys and values that are written or copied.
    """
    positions, copied = torch.arange(context, context + 1), 0
    x = model.embed(torch.full((batch, 1), 7))
    cache.begin(1)
    for layer, block in enumerate(model.blocks):
        q, k, v = block.qkv(x, positions)
        k = k.clone() if count else k  # q and k are views of one tensor, and q is not what is counted
        with Copied([k, v, *cache.held()]) if count else nullcontext() as counter:
            cache.append(layer, k, v)
            attended = cache.attend(layer, q, context)
        x = block.finish(x, attended)
        copied += counter.bytes if count else 0
    cache.end(1)
    return model.unembed(x), copied


def filled(name: str, sizes: Sizes, longest: Sizes) -> Cache:
    """A cache full but for one token of each sequence: noise, the same whatever its name."""
    cache, context = MAKERS[name](sizes, longest), sizes.room - 1
    noise = torch.Generator().manual_seed(1)
    cache.begin(context)
    for layer in range(CONFIG.num_layers):
        k, v = torch.randn(2, sizes.batch, CONFIG.num_kv_heads, context, CONFIG.head_dim, generator=noise)
        cache.append(layer, k, v)
    cache.end(context)
    return cache


def measure(
    model: Transformer, sizes: Sizes, longest: Sizes, rounds: int, now: Callable[[], float]
) -> tuple[dict[str, Row], list[float]]:
    """The same step with each cache, and a plain copy of as many bytes as it reads of one: `rounds` times or more."""
    context, names = sizes.room - 1, list(MAKERS)
    caches = {name: filled(name, sizes, longest) for name in names}
    rows: dict[str, Row] = {}
    for name, cache in caches.items():
        logits, copied = step(model, cache, context, sizes.batch, count=True)
        rows[name] = Row(copied, sum(rows.nbytes for rows in cache.held()), logits)
        cache.forget()
    source, target = torch.ones(2, kv_bytes(context, sizes.batch) // 4)
    copies = []
    rounds *= max(1, min(8, longest.room // sizes.room))  # short steps: more of them, in the same time
    order = random.Random(0)
    for _ in range(WARM_UP + rounds):
        for name in order.sample(names, len(names)):
            began = now()
            step(model, caches[name], context, sizes.batch)
            rows[name].seconds.append(now() - began)
            caches[name].forget()
        began = now()
        target.copy_(source)
        copies.append(now() - began)
    for row in rows.values():
        del row.seconds[:WARM_UP]
    return rows, copies[WARM_UP:]


def kv_bytes(context: int, batch: int = 1) -> int:
    """Bytes of keys and values that a step reads: those held, and the new ones."""
    return 2 * CONFIG.num_layers * CONFIG.num_kv_heads * CONFIG.head_dim * 4 * batch * (context + 1)


def machine(threads: int) -> str:
    """What it ran on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
    return f"{cpu}, {os.cpu_count()} cores, {threads} used, load {os.getloadavg()[0]:.1f}, {versions}"


def main(argv: list[str] | None = None) -> int:
    """Measure and print. Fails where the caches disagree about the logits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", default="256,1024,4096,8192", help="tokens held, with commas between")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1, help="sequences")
    parser.add_argument("--block-size", type=int, default=16, help="tokens in a block of the paged caches")
    args = parser.parse_args(argv)
    contexts = sorted(int(context) for context in args.contexts.split(","))
    torch.set_num_threads(args.threads)
    now = time.thread_time if args.threads == 1 else time.perf_counter
    model = Transformer.random(CONFIG, torch.Generator().manual_seed(0))
    weights = sum(weight.nbytes for weight in model.weights.values())
    print(machine(args.threads))
    print(f"sequences: {args.batch}; blocks of {args.block_size} tokens; at least {args.rounds} rounds after {WARM_UP}")
    print(f"{weights:,} B of weights, {kv_bytes(0):,} B of KV per token\n")
    print("context cache        min ms  median ms  x kvlib  bytes allocated  bytes copied a step")
    best: dict[int, float] = {}
    ratios: dict[str, dict[int, float]] = {name: {} for name in MAKERS}
    apart = rounded = 0.0
    longest = Sizes(contexts[-1] + 1, args.batch, args.block_size)
    for context in contexts:
        rows, copies = measure(model, replace(longest, room=context + 1), longest, args.rounds, now)
        best[context] = min(rows["kvlib"].seconds)
        for name, row in rows.items():
            low, middle = min(row.seconds), statistics.median(row.seconds)
            pairs = zip(row.seconds, rows["kvlib"].seconds, strict=True)
            ratio = statistics.median(theirs / max(ours, 1e-9) for theirs, ours in pairs)  # of the same round
            ratios[name][context] = ratio
            times = f"{1e3 * low:8.3f}  {1e3 * middle:9.3f}  {ratio:7.2f}"
            print(f"{context:7} {name:11} {times}  {row.allocated:15,}  {row.copied:19,}")
            off = float((row.logits - rows["kvlib"].logits).abs().max())
            if name == "quantised":
                rounded = max(rounded, off)
            else:
                apart = max(apart, off)
    faster = {context: min(ratios["dynamic"][context], ratios["static fits"][context]) for context in contexts}
    print(f"\nthe faster of dynamic and static fits, x kvlib, by context: {shown(faster)}")
    print(f"paged, x kvlib, by context: {shown(ratios['paged'])}")
    print(f"quantised, x kvlib, by context: {shown(ratios['quantised'])}")
    print(f"largest difference between the caches' logits: {apart:.1e}, and of the quantised one's: {rounded:.1e}")
    if len(contexts) > 1:
        first, last = contexts[0], contexts[-1]
        read = {context: kv_bytes(context, args.batch) for context in (first, last)}
        bandwidth = 2 * read[last] / max(min(copies), 1e-9)
        slope = (best[last] - best[first]) / (read[last] - read[first])
        print(f"a copy of {read[last]:,} B in each round: {bandwidth / 1e9:.1f} GB/s, read and written")
        share = f"{slope * bandwidth:.2f} times what that bandwidth takes"
        print(f"a step reads the KV of {first} to {last} tokens in {share}")
    return 0 if apart < 1e-4 else 1


def shown(ratios: dict[int, float]) -> str:
    """Ratios by context."""
    return ", ".join(f"{context}: {ratio:.3f}" for context, ratio in ratios.items())


if __name__ == "__main__":
    sys.exit(main())
