"""Exercise 6.7: blocks that an earlier request computed are found again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.prefix_index.candidates import MISTAKES, VARIANTS
from autograde.exercises.prefix_index.keys import identity, prompt, the_whole_past
from autograde.exercises.prefix_index.pool import ME, Pool
from autograde.expect import refuses
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.prefix_index import PrefixIndex


@stage("found again", why="A prompt that starts like an earlier one need not be computed from its start again.")
def found_again(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    p, q = prompt(rng, 21), prompt(rng, 9)
    pool = Pool(subject, 17, 4)
    yield from pool.run("a", p[:10])
    yield from pool.run("b", q)
    yield from pool.release("b")
    yield from pool.admit("c", q, judge_later=True)  # nobody held it
    yield from pool.admit("d", p[:10], judge_later=True)  # a holds it
    yield from pool.admit("e", q)  # c has found it
    pool = Pool(subject, 13, 4)
    yield from pool.run("a", p[:10])
    yield from pool.admit("b", p[:10])
    yield from pool.admit("c", p[:17])  # a has two full blocks of it
    yield from pool.admit("d", p[:4] + q[:5])
    yield from pool.computed("c")
    yield from pool.release("b", "d")
    yield from pool.admit("e", p[:14])
    yield from pool.release("a", "c", "e")
    yield from pool.admit("f", p[:18])  # nobody holds any of it
    yield from pool.admit("g", p[:16])  # all of it is there, but its last token has to be computed
    yield from pool.admit("h", p[:4])
    yield from pool.admit("i", p[:5])
    for num_blocks, size in ((13, 4), (17, 3), (19, 2)):
        pool = Pool(subject, num_blocks, size)  # another index knows nothing of the first
        yield from pool.run("a", p[:10])
        yield from pool.run("b", q)
        yield from pool.admit("c", p[:7])
        yield from pool.release("a", "b", "c")
    yield from _long_prompts(subject, rng)


def _long_prompts(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    """Many blocks of one prompt, of sizes that nothing else has, and many who hold the same."""
    t = prompt(rng, 60)
    for num_blocks, size in ((67, 1), (53, 2), (23, 7)):
        pool = Pool(subject, num_blocks, size)
        yield from pool.run("a", t[: 6 * size])
        yield from pool.run("b", t[: 8 * size])  # 48 of 56 tokens are there, or 12 of 16 ..
        yield from pool.admit("c", t[: 8 * size])
        yield from pool.release("a", "b")
        yield from pool.admit("d", t[: 8 * size + 1])
    pool = Pool(subject, 61, 2)
    yield from pool.run("a", t[:42])
    for name in "bcdefg":
        yield from pool.admit(name, t[:42])
    for names in ("abcd", "ef", "g"):
        yield from pool.release(*names)


@stage("only what is computed", why="A block that is reserved, but not written yet, holds somebody's old rows.")
def only_what_is_computed(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    p, q, r = prompt(rng, 23), prompt(rng, 17), prompt(rng, 15)
    pool = Pool(subject, 23, 4)
    yield from pool.admit("a", p[:13])
    yield from pool.admit("b", p[:13])  # in the same step: a is not computed
    yield from pool.admit("c", r[:10])
    yield from pool.computed("a")
    yield from pool.admit("d", r[:11])  # c is not computed
    yield from pool.admit("e", p[:21])
    yield from pool.release("e")  # what it found stays, what it was to compute was never there
    yield from pool.admit("f", p)
    pool = Pool(subject, 13, 4)
    yield from pool.admit("a", q[:9])
    yield from pool.release("a")
    yield from pool.admit("b", q[:10])
    yield from pool.computed("b")
    yield from pool.admit("c", q[:11])
    for filling in (0, -1, 1):
        pool = Pool(subject, 11, 4)
        yield from pool.run("a", p[:6])  # its second block has room for two more
        yield from pool.admit("b", [*p[:6], filling, filling, 9])
        yield from pool.admit("c", [*p[:6], p[5], p[5], 9])


@stage("held and free", why="A block goes back when its last holder lets go. One that is found is in use again.")
def held_and_free(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    p, q, r = prompt(rng, 20), prompt(rng, 20), prompt(rng, 28)
    pool = Pool(subject, 7, 4)
    yield from pool.run("a", p[:10])
    yield from pool.run("b", p[:9])
    yield from pool.release("a", "b")
    yield from pool.run("c", p[:10])
    yield from pool.run("d", p[:9])
    yield from pool.release("c")
    yield from pool.admit("e", r[:16])  # all the rest
    yield from pool.release("e")
    yield from pool.run("f", p[:10])
    yield from pool.release("d")
    yield from pool.admit("g", r[:16])
    yield from pool.release("f", "g")
    pool = Pool(subject, 5, 4)
    yield from pool.run("a", q[:9])
    yield from pool.release("a")
    yield from pool.admit("b", q)  # two blocks are found, and the whole rest of the pool is taken
    yield from pool.release("b")
    pool = Pool(subject, 5, 4)
    yield from pool.run("a", q[:9])
    yield from pool.release("a")
    yield from pool.admit("b", q[:9])  # found among the free ones
    yield from pool.admit("c", r[:8])  # the rest
    yield from pool.release("b", "c")


@stage("given out again", why="Once a block is somebody else's, what was known about it is no longer true.")
def given_out_again(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    p, q, r = prompt(rng, 20), prompt(rng, 20), prompt(rng, 20)
    pool = Pool(subject, 5, 4)
    for a, b, c, computed in (("a", "b", "c", True), ("d", "e", "f", False)):
        yield from pool.run(a, p[:9])
        yield from pool.release(a)
        yield from pool.admit(b, r)  # takes every block
        if computed:
            yield from pool.computed(b)
        yield from pool.release(b)
        yield from pool.admit(c, p[:9])
        yield from pool.release(c)
    yield from _copies(subject, p, r)
    for taken in (1, 2, 3):
        pool = Pool(subject, 4, 4)
        yield from pool.run("a", q[:13])
        yield from pool.release("a")
        yield from pool.run("b", r[: 4 * taken])
        yield from pool.release("b")
        yield from pool.admit("c", q[:13])  # some of its blocks are gone, perhaps from the middle
    pool = Pool(subject, 7, 4)
    for name in "ab":
        yield from pool.admit(name, q[:5])
    yield from pool.run("c", r[:9])  # the pool is full
    yield from pool.computed("a")
    yield from pool.release("a")
    yield from pool.run("d", r[4:12])  # takes a's blocks, and b's are not computed
    yield from pool.release("d")
    yield from pool.admit("e", q[:6])
    yield from _in_any_order(subject, rng)


def _copies(subject: Subject, p: list[int], r: list[int]) -> Iterable[Finding]:
    """Several requests computed the same in one step. Each time one of them ends, and its block is given out."""
    for names, gone in (("abc", "b"), ("ab", "a"), ("ab", "b")):
        pool = Pool(subject, 2 * len(names) + 1, 4)
        for name in names:
            yield from pool.admit(name, p[:5])
        for name in names:
            yield from pool.computed(name)
        yield from pool.release(gone)
        yield from pool.run("x", r[:12])  # takes the three that are free
        yield from pool.release("x")
        yield from pool.admit("y", p[:7])


def _in_any_order(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    """Requests that come and go, with tokens that are often alike."""
    pool, names, others = Pool(subject, 11, 3), iter(range(1000)), (ME, ("llama", "plain", "zeta"))
    for _ in range(36):
        waiting = [name for name, request in pool.live.items() if not request.is_computed]
        tokens = [int(token) for token in rng.choice([1, 2], size=int(rng.integers(1, 16)), p=[0.8, 0.2])]
        free = pool.num_blocks - len({block for request in pool.live.values() for block in request.table})
        choice = rng.random()
        if waiting and choice < 0.45:
            yield from pool.computed(str(rng.choice(waiting)))
        elif pool.live and (choice < 0.65 or -(-len(tokens) // 3) > free):
            yield from pool.release(str(rng.choice(list(pool.live))))
        elif -(-len(tokens) // 3) <= free:
            yield from pool.admit(f"r{next(names)}", tokens, others[int(rng.random() < 0.2)])


@stage("refusals", why="A request that is refused comes back later. Until then it must not have changed anything.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    p, q, r = prompt(rng, 24), prompt(rng, 20), prompt(rng, 28)
    pool = Pool(subject, 5, 4)
    yield from pool.run("a", p[:9])
    yield from pool.refused("table", "nobody", key="nobody", what="table() of a request that never came")
    for what, tokens in (("12 tokens with 2 of 5 blocks free", q[:12]), ("20 tokens, 8 of them cached", p[:20])):
        yield from pool.refused("admit", "b", tokens, ME, key=what, what=what)
        yield refuses(subject, pool.index, "table", "b", key=f"unknown, {what}", what="table() of the refused request")
    yield from pool.admit("b", p[:13] + q[:3])  # two are cached: the other two fill the pool
    yield from pool.release("a", "b")
    yield from pool.admit("c", r[:8])
    yield from pool.run("d", q[:9])
    yield from pool.release("d")
    what = "16 tokens with 3 of 5 blocks free"
    yield from pool.refused("admit", "e", r[8:24], ME, key="no eviction", what=what)
    what = "16 tokens with 3 of 5 blocks free, 2 of which are its own"
    yield from pool.refused("admit", "e", q[:16], ME, key="its own are free", what=what)
    yield from pool.admit("e", q[:9])  # nothing was given out: it is there
    yield from _names(subject, p, q)


def _names(subject: Subject, p: list[int], q: list[int]) -> Iterable[Finding]:
    pool = Pool(subject, 13, 4)
    yield from pool.run("a", p[:9])
    yield from pool.refused("admit", "a", q[:6], ME, key="known", what="a request that is there")
    yield from pool.refused("admit", "b", [], ME, key="empty", what="a request without tokens")
    yield from pool.run("b", p[:10])
    for method in ("table", "computed", "release"):
        what = f"{method}() of an unknown request"
        yield from pool.refused(method, "c", key=f"unknown {method}", what=what)
    yield from pool.release("a")
    for method in ("release", "table", "computed"):
        what = f"{method}() of a request that was released"
        yield from pool.refused(method, "a", key=f"released {method}", what=what)
    yield from pool.admit("a", p[:10])  # the name may come back
    yield from pool.release("a", "b")
    what = "release() of an unknown request"
    yield from pool.refused("release", "c", key="unknown, all free", what=what)
    yield from pool.admit("b", p[:10])  # and what it was known for is still there
    pool = Pool(subject, 13, 4)
    yield from pool.admit("a", p[:9])
    what = "other tokens for a request that is there"
    yield from pool.refused("admit", "a", q[:9], ME, key="known, others", what=what)
    yield from pool.computed("a")
    yield from pool.admit("b", q[:9])  # nobody has computed these
    yield from pool.release("b")
    yield from pool.refused("computed", "b", key="too late", what="computed() of a request that was released")
    yield from pool.admit("c", q[:10])
    yield from pool.release("a", "c")
    yield from pool.admit("a", p[:9], ("llama", "plain", "zeta"))  # an old name, and another tenant


EXERCISE = Exercise(
    id="6.7",
    name="PrefixIndex",
    title="Found again",
    goal="Find the blocks that an earlier request computed, and only those that are right for this one.",
    points=7,
    minutes=35,
    difficulty=5,
    hints=(
        "A block's content follows from the identity and *all* tokens up to its end. Make that the key: a tuple that "
        "holds the key of the block before, and the block's own tokens. The identity stands before the first.",
        "Keep four things: holders of each block, the free blocks in the order of release, `key -> blocks` and "
        "`block -> key`. A released block stays in both maps and on the free list. It leaves the maps when it is given "
        "out as a new block, and the free list when it is found or given out. Two requests may compute the same key: a "
        "key has a *set* of blocks.",
        "`admit`: keys of the full blocks; hits = the first blocks from the start while the key is there, at most "
        "`(len(tokens) - 1) // block_size`; needed = all blocks - hits; room = free blocks - hits that are free. "
        "Refuse if needed > room. Then hold the hits, *then* take new ones. `computed` enters the keys of the full "
        "blocks. `release` takes one holder off each block, and puts those without a holder on the free list.",
    ),
    stages=(
        found_again,
        the_whole_past,
        identity,
        only_what_is_computed,
        held_and_free,
        given_out_again,
        refusals,
    ),
    reference=PrefixIndex,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
