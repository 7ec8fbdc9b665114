"""One decode step against context: kvlib's cache beside two of Transformers', on the same weights and attention.

    python benchmarks/caches.py [--contexts 256,1024,4096,8192] [--rounds 15] [--threads 1]

The model is kvlib's transformer with random weights, small enough for the KV cache to dominate. Only the cache changes:

    kvlib        GQACache: writes the new rows, returns views
    dynamic      DynamicCache: makes a longer tensor at every step, and copies all rows into it
    static fits  StaticCache with room for this context: writes the new rows, attends over all slots under a mask
    static max   StaticCache with room for the longest context

In every round each cache takes the same step once, in an order that changes from round to round, and then forgets it.
With one thread the clock is the thread's own CPU time, which other processes disturb least. Bytes are counted.
"x kvlib" is the median of the ratios within each round.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
import transformers  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from transformers import DynamicCache, LlamaConfig, StaticCache  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kvlib.gqa import gqa_attend  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402
from kvlib.transformer import Transformer, TransformerConfig  # noqa: E402

CONFIG = TransformerConfig(8, width=128, num_heads=4, num_kv_heads=2, head_dim=128, hidden=256, vocab_size=256)
NAMES = ("kvlib", "dynamic", "static fits", "static max")
WARM_UP = 3


class Ours:
    """kvlib's cache."""

    def __init__(self, max_len: int) -> None:
        self.cache = GQACache(CONFIG.num_layers, 1, CONFIG.num_kv_heads, max_len, CONFIG.head_dim)
        self.append, self.advance = self.cache.append, self.cache.advance

    def forget(self) -> None:
        self.cache.truncate(len(self.cache) - 1)

    def mask(self, context: int) -> None:
        return None  # one new token sees all that is held

    def nbytes(self) -> int:
        return self.cache.nbytes


class Theirs:
    """A cache of Transformers, under the names of ours. max_len: of a static one; None = dynamic."""

    def __init__(self, max_len: int | None) -> None:
        config = LlamaConfig(num_hidden_layers=CONFIG.num_layers)
        self.max_len = max_len
        self.cache = DynamicCache() if max_len is None else StaticCache(config=config, max_cache_len=max_len)

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.cache.update(k, v, layer)

    def advance(self, num_tokens: int) -> None:
        pass  # it counts by itself

    def forget(self) -> None:
        self.cache.crop(-1)

    def mask(self, context: int) -> torch.Tensor | None:
        """(1, slots): a static cache returns all its slots, used or not."""
        return None if self.max_len is None else (torch.arange(self.max_len) <= context)[None, :]

    def nbytes(self) -> int:
        return sum(rows.nbytes for layer in self.cache.layers for rows in (layer.keys, layer.values))


Cache = Ours | Theirs


class Copied(TorchDispatchMode):
    """Counts the bytes of keys and values that are written, into tensors newly made and into those held."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = [leaf for leaf in tree_leaves(args) if torch.is_tensor(leaf) and leaf.is_floating_point()]
        if func._schema.is_mutable:  # copy_, index_copy_: the last tensor is written into the first
            self.bytes += given[-1].nbytes if given else 0
            return out
        held = {rows.untyped_storage().data_ptr() for rows in given}
        made = [leaf for leaf in tree_leaves(out) if torch.is_tensor(leaf) and leaf.is_floating_point()]
        self.bytes += sum(rows.nbytes for rows in made if rows.untyped_storage().data_ptr() not in held)
        return out


@dataclass
class Row:
    """What one cache took for one step at one context."""

    copied: int  # bytes of keys and values
    allocated: int  # bytes held by the cache, right after the step
    logits: torch.Tensor
    seconds: list[float] = field(default_factory=list)


def step(model: Transformer, cache: Cache, context: int, copied: Copied | None = None) -> torch.Tensor:
    """Logits of one token after `context` tokens: `kvlib.generate.forward`, with whatever cache."""
    positions, mask = torch.arange(context, context + 1), cache.mask(context)
    x = model.embed(torch.tensor([[7]]))
    for layer, block in enumerate(model.blocks):
        q, k, v = block.qkv(x, positions)
        with copied or nullcontext():
            K, V = cache.append(layer, k, v)
        x = block.finish(x, gqa_attend(q, K, V, mask))
    cache.advance(1)
    return model.unembed(x)


def filled(name: str, context: int, longest: int) -> Cache:
    """A cache that holds `context` tokens of noise, the same noise whatever its name, and has room for one more."""
    room = longest + 1 if name == "static max" else context + 1
    cache = Ours(room) if name == "kvlib" else Theirs(None if name == "dynamic" else room)
    noise = torch.Generator().manual_seed(1)
    for layer in range(CONFIG.num_layers):
        k, v = torch.randn(2, 1, CONFIG.num_kv_heads, context, CONFIG.head_dim, generator=noise)
        cache.append(layer, k, v)
    cache.advance(context)
    return cache


def measure(
    model: Transformer, context: int, longest: int, rounds: int, now: Callable[[], float]
) -> tuple[dict[str, Row], list[float]]:
    """The same step with each cache, and a plain copy of as many bytes as it reads of one: `rounds` times or more."""
    caches = {name: filled(name, context, longest) for name in NAMES}
    rows: dict[str, Row] = {}
    for name, cache in caches.items():
        copied = Copied()
        logits = step(model, cache, context, copied)
        rows[name] = Row(copied.bytes, cache.nbytes(), logits)
        cache.forget()
    source, target = torch.ones(2, kv_bytes(context) // 4)
    copies = []
    rounds *= max(1, min(8, longest // context))  # short steps: more of them, in the same time
    order = random.Random(0)
    for _ in range(WARM_UP + rounds):
        for name in order.sample(NAMES, len(NAMES)):
            began = now()
            step(model, caches[name], context)
            rows[name].seconds.append(now() - began)
            caches[name].forget()
        began = now()
        target.copy_(source)
        copies.append(now() - began)
    for row in rows.values():
        del row.seconds[:WARM_UP]
    return rows, copies[WARM_UP:]


def kv_bytes(context: int) -> int:
    """Bytes of keys and values that a step reads: those held, and the new ones."""
    return 2 * CONFIG.num_layers * CONFIG.num_kv_heads * CONFIG.head_dim * 4 * (context + 1)


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
    args = parser.parse_args(argv)
    contexts = sorted(int(context) for context in args.contexts.split(","))
    torch.set_num_threads(args.threads)
    now = time.thread_time if args.threads == 1 else time.perf_counter
    model = Transformer.random(CONFIG, torch.Generator().manual_seed(0))
    weights = sum(weight.nbytes for weight in model.weights.values())
    print(machine(args.threads))
    print(
        f"{weights:,} B of weights, {kv_bytes(0):,} B of KV per token, at least {args.rounds} rounds after {WARM_UP}\n"
    )
    print("context cache        min ms  median ms  x kvlib  bytes allocated  bytes copied a step")
    best: dict[int, float] = {}
    faster: dict[int, float] = {}
    apart = 0.0
    for context in contexts:
        rows, copies = measure(model, context, contexts[-1], args.rounds, now)
        best[context] = min(rows["kvlib"].seconds)
        for name, row in rows.items():
            low, middle = min(row.seconds), statistics.median(row.seconds)
            pairs = zip(row.seconds, rows["kvlib"].seconds, strict=True)
            ratio = statistics.median(theirs / max(ours, 1e-9) for theirs, ours in pairs)  # of the same round
            if name in ("dynamic", "static fits"):
                faster[context] = min(ratio, faster.get(context, ratio))
            times = f"{1e3 * low:8.3f}  {1e3 * middle:9.3f}  {ratio:7.2f}"
            print(f"{context:7} {name:11} {times}  {row.allocated:15,}  {row.copied:19,}")
            apart = max(apart, float((row.logits - rows["kvlib"].logits).abs().max()))
    shown = ", ".join(f"{context}: {ratio:.3f}" for context, ratio in faster.items())
    print(f"\nthe faster of dynamic and static fits, x kvlib, by context: {shown}")
    print(f"largest difference between the caches' logits: {apart:.1e}")
    if len(contexts) > 1:
        first, last = contexts[0], contexts[-1]
        bandwidth = 2 * kv_bytes(last) / max(min(copies), 1e-9)
        slope = (best[last] - best[first]) / (kv_bytes(last) - kv_bytes(first))
        print(f"a copy of {kv_bytes(last):,} B in each round: {bandwidth / 1e9:.1f} GB/s, read and written")
        share = f"{slope * bandwidth:.2f} times what that bandwidth takes"
        print(f"a step reads the KV of {first} to {last} tokens in {share}")
    return 0 if apart < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
