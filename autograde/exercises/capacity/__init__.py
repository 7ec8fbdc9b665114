"""Exercise 3.6: how many sequences fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.capacity.candidates import MISTAKES, VARIANTS
from autograde.exercises.scalars import refused
from autograde.expect import equals
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.sizing.capacity import sequences_that_fit

GB, GiB = 10**9, 2**30


class Case(NamedTuple):
    """The arguments, in their order. Sizes are pairwise distinct, and mostly prime."""

    gpu_bytes: int
    weight_bytes: int
    reserve_bytes: int
    num_layers: int = 3
    num_kv_heads: int = 5
    head_dim: int = 7
    bytes_per_element: int = 4
    tokens: int = 26
    block_size: int = 13
    tp: int = 1


def _heads(case: Case) -> int:
    """KV heads on GPU 0 when heads are dealt out in order, each GPU getting at least one."""
    if case.tp >= case.num_kv_heads:
        return 1
    return sum(head * case.tp // case.num_kv_heads == 0 for head in range(case.num_kv_heads))


def _one(case: Case) -> int:
    """Bytes of one sequence on one GPU, layer by layer and block by block."""
    block = size = room = 0
    for _ in range(case.num_layers):
        for _ in range(_heads(case)):
            key = value = case.head_dim * case.bytes_per_element * case.block_size
            block += key + value
    while room < case.tokens:
        room += case.block_size
        size += block
    return size


def _by_filling(case: Case) -> int:
    """Put sequences on one GPU until the next one does not fit."""
    share, rest = divmod(case.weight_bytes, case.tp)
    used = share + (1 if rest else 0) + case.reserve_bytes
    one, fit = _one(case), 0
    while used + one <= case.gpu_bytes:
        used += one
        fit += 1
    return fit


def _with_room(case: Case, sequences: float) -> Case:
    """The same case on GPUs with room for so many sequences, besides weights and reserve."""
    weights = -(-case.weight_bytes // case.tp)
    return case._replace(gpu_bytes=weights + case.reserve_bytes + int(sequences * _one(case)))


def _ask(subject: Subject, case: Case, key: str, fact: str) -> Finding:
    call = f"sequences_that_fit{tuple(case)}"
    return equals(subject, subject.run(*case), _by_filling(case), key=key, fact=fact, what=call)


@stage("one GPU", why="What is left after weights and reserve, over the bytes of one sequence, rounded down.", weight=2)
def one_gpu(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    weights, reserve = int(rng.integers(700_000, 900_000)), int(rng.integers(150_000, 190_000))
    for sequences in (97.73, 41.61):
        case = _with_room(Case(0, weights, reserve), sequences)
        yield _ask(subject, case, f"{sequences:.0f}", "the sequences that fit on one GPU are counted")


@stage("just so, or not at all", why="A sequence fits when it fills the last byte. Less than no room is no room.")
def edges(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    case = _with_room(Case(0, int(rng.integers(300_000, 500_000)), int(rng.integers(60_000, 90_000))), 6)
    yield _ask(subject, case, "full", "six sequences fill the GPU to the last byte")
    one_less = case._replace(gpu_bytes=case.gpu_bytes - 1)
    yield _ask(subject, one_less, "one byte less", "with one byte less there is room for five")
    for key, sequences in (("less than one", 0.9), ("far below nothing", -3.3)):
        tight = case._replace(gpu_bytes=case.gpu_bytes - int((6 - sequences) * _one(case)))
        yield _ask(subject, tight, key, "no sequence fits, so the answer is 0")
    for key, size in (("not even the reserve", case.reserve_bytes // 2), ("not even the weights", case.weight_bytes)):
        yield _ask(subject, case._replace(gpu_bytes=size), key, "no sequence fits, so the answer is 0")


@stage("whole blocks", why="Cache comes in blocks: 17 tokens take two blocks of 16, and no one shares the rest.")
def whole_blocks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    base = Case(0, int(rng.integers(100_000, 200_000)), int(rng.integers(30_000, 40_000)))
    for tokens, block, sequences in ((5, 11, 61.8), (37, 13, 59.7), (17, 16, 23.4), (29, 1, 37.2)):
        case = _with_room(base._replace(tokens=tokens, block_size=block), sequences)
        fact = f"{tokens} tokens take whole blocks of {block}"
        yield _ask(subject, case, f"{tokens} in {block}", fact)


@stage("several GPUs", why="Weights and KV heads are shared out; every GPU keeps its own reserve.", weight=2)
def several_gpus(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    weights, reserve = int(rng.integers(700_000, 900_000)) | 1, int(rng.integers(250_000, 290_000))
    for heads, tp, sequences in ((6, 2, 83.4), (15, 5, 19.7), (7, 7, 71.5)):
        case = _with_room(Case(0, weights, reserve, num_kv_heads=heads, tp=tp), sequences)
        yield _ask(subject, case, f"{heads} on {tp}", f"{heads} KV heads and the weights are shared by {tp} GPUs")
    odd = Case(0, 10 * (weights // 10) + 3, reserve, num_kv_heads=15, tp=5)  # 3 bytes that 5 GPUs cannot share
    for key, byte in (("a byte short", -1), ("to the byte", 0)):
        case = _with_room(odd, 9)
        case = case._replace(gpu_bytes=case.gpu_bytes + byte)
        yield _ask(subject, case, key, "a GPU's share of the weights is rounded up to a whole byte")
    tight = _with_room(odd, 1)
    for key, size in (("less than one on 5", tight.gpu_bytes - 1), ("far too small", reserve + weights // 9)):
        yield _ask(subject, odd._replace(gpu_bytes=size), key, "no sequence fits, so the answer is 0")


@stage("more GPUs than KV heads", why="A KV head cannot be cut: past one for each GPU, heads are held more than once.")
def replicated(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    weights, reserve = int(rng.integers(700_000, 900_000)), int(rng.integers(50_000, 90_000))
    for heads, tp, sequences in ((8, 16, 23.3), (1, 3, 47.6), (1, 2, 31.4), (2, 6, 12.5)):
        case = _with_room(Case(0, weights, reserve, num_kv_heads=heads, tp=tp), sequences)
        yield _ask(subject, case, f"{heads} on {tp}", f"with {heads} KV heads on {tp} GPUs, each GPU holds one")
    for tp in (3, 6):
        case = _with_room(Case(0, 6 * (weights // 6) + 1, reserve, num_kv_heads=1, tp=tp), 9)
        for key, byte in (("a byte short", -1), ("to the byte", 0)):
            short, fact = case._replace(gpu_bytes=case.gpu_bytes + byte), "the share of the weights is rounded up"
            yield _ask(subject, short, f"{key}, {tp} GPUs", f"{fact}, and the last byte is used")


@stage("heads that do not share out", why="8 KV heads on 3 GPUs: nobody can say what one of them holds, so say no.")
def does_not_divide(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    base = Case(0, int(rng.integers(700_000, 900_000)), int(rng.integers(50_000, 90_000)), num_kv_heads=8)
    for tp, sequences in ((4, 14.6), (8, 9.3)):
        yield _ask(subject, _with_room(base._replace(tp=tp), sequences), f"8 on {tp}", f"{tp} GPUs share 8 KV heads")
    large = base._replace(gpu_bytes=10**7)
    answers = [  # both are asked before either is judged: the second tells one wrong rule from another
        refused(subject, *large._replace(tp=tp), key=f"no {tp}", what=f"a model with 8 KV heads on {tp} GPUs")
        for tp in (3, 12)
    ]
    yield from answers
    for heads, tp in ((6, 4), (4, 6), (5, 2)):
        what = f"a model with {heads} KV heads on {tp} GPUs"
        yield refused(subject, *large._replace(num_kv_heads=heads, tp=tp), key=f"no {heads} on {tp}", what=what)
    full = base._replace(gpu_bytes=base.reserve_bytes, tp=3)
    yield refused(subject, *full, key="no room either", what="a model with 8 KV heads on 3 GPUs without room")


@stage("real cards", why="Three published budgets. They assume different things, so the numbers are yours to give.")
def real_cards(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    llama_3_8b = Case(80 * GB, 16_060_522_496, 0, 32, 8, 128, 2, 32_768, 16)
    cases = [
        (llama_3_8b._replace(gpu_bytes=60 * GB, weight_bytes=0), "60 GB of cache, Llama 3 8B, 32,768 tokens"),
        (llama_3_8b._replace(gpu_bytes=72 * GB, reserve_bytes=4 * GB), "90% of 80 GB, Llama 3 8B, 32,768 tokens"),
        (Case(72 * GB, 13_476_831_232, 4 * GB, 32, 32, 128, 2, 131_072, 16), "Llama 2 7B, 131,072 tokens"),
        (Case(72 * GB, 141_107_412_992, 4 * GB, 80, 8, 128, 2, 8_192, 16, 4), "Llama 3 70B on 4 GPUs"),
        (Case(60 * GB, 0, 0, 32, 8, 128, 1, 32_768, 16), "60 GB of 8-bit cache, Llama 3 8B, 32,768 tokens"),
        (Case(24 * GiB, 14 * GB, 2 * GiB, 32, 32, 128, 2, 4_096, 16), "a pool of 24 GiB, 7e9 weights of two bytes"),
    ]
    for case, what in cases:
        yield _ask(subject, case, what, f"right for {what}")


EXERCISE = Exercise(
    id="3.6",
    name="sequences_that_fit",
    title="What fits?",
    goal="Count the sequences that a group of GPUs can hold at once, to the byte.",
    points=5,
    minutes=20,
    difficulty=3,
    hints=(
        "Think of one GPU only. What is on it already, before any cache? What does one sequence add to it?",
        "Three roundings, and not all go the same way: a share of the weights and the number of blocks are rounded up, "
        "the number of sequences down. `-(-a // b)` is `a / b` rounded up.",
        "`heads = max(1, num_kv_heads // tp)` after refusing what does not divide, `slots = -(-tokens // block_size) * "
        "block_size`, `one = 2 * num_layers * heads * head_dim * slots * bytes_per_element`, then `left // one`, "
        "but never below 0. The reserve is taken off each GPU whole.",
    ),
    stages=(one_gpu, edges, whole_blocks, several_gpus, replicated, does_not_divide, real_cards),
    reference=sequences_that_fit,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
