"""Wrong and right ways to write the loop. Each mistake changes one place in the text of `RIGHT`.

They are texts, so that the same words can be given to Triton: a kernel is made of a function's source.
"""

from __future__ import annotations

import linecache

from autograde.exercise import Mistake, Variant

HEAD = """
def attend_tiles(
    q, k, v, table, first, last, kv_head, scale,
    HKV: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):
"""
RIGHT = (
    HEAD
    + """
    tokens, dims = tl.arange(0, BLOCK_SIZE), tl.arange(0, D)
    m = tl.full([GP], -float("inf"), tl.float32)
    l = tl.zeros([GP], tl.float32)
    acc = tl.zeros([GP, D], tl.float32)
    for start in range(first, last, BLOCK_SIZE):
        positions = start + tokens
        held = positions < last
        block = tl.load(table + positions // BLOCK_SIZE, mask=held, other=0).to(tl.int64)
        slots = (block * BLOCK_SIZE + positions % BLOCK_SIZE) * HKV + kv_head
        places = slots[:, None] * D + dims[None, :]
        keys = tl.load(k + places, mask=held[:, None], other=0.0)
        values = tl.load(v + places, mask=held[:, None], other=0.0)
        scores = tl.sum(q[:, None, :] * keys[None, :, :], 2) * scale
        scores = tl.where(held[None, :], scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, 1))
        shrink = tl.exp(m - new_m)
        powers = tl.exp(scores - new_m[:, None])
        l = l * shrink + tl.sum(powers, 1)
        acc = acc * shrink[:, None] + tl.sum(powers[:, :, None] * values[None, :, :], 1)
        m = new_m
    return m, l, acc
""".lstrip("\n")
)


def made(name: str, text: str):
    """The function that a text defines. Python finds its lines, as it does those of a notebook's cell."""
    from kvlib.tiles import tl

    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"tl": tl}
    exec(compile(text, file, "exec"), names)
    return names["attend_tiles"]


def changed(name: str, *changes: tuple[str, str]):
    """`RIGHT` with one place changed; a change may need two lines."""
    text = RIGHT
    for old, new in changes:
        if old not in text:
            raise ValueError(f"{name}: {old!r} is not in the text")
        text = text.replace(old, new)
    return made(name, text)


def _mistake(name, old, new, tells, killed_by, *more):
    return Mistake(name, changed(name, (old, new), *more), tells, killed_by)


BLOCK, BLOCKS, HEADS, PART = "one block", "block after block", "the table and the heads", "first to last"
LARGE, NOTHING, POOL = "large scores", "nothing there", "the whole pool"

MISTAKES = (
    _mistake("no-scale", ", 2) * scale", ", 2)", "Your scores are plain products of q and the keys: multiply them by `scale`.", BLOCK),
    _mistake("own-scale", ", 2) * scale", ", 2) / D**0.5", "You divide the scores by the root of D. The scale is an argument: multiply by that.", BLOCK),
    _mistake("scale-divides", ", 2) * scale", ", 2) / scale", "You divide by `scale`. It is what the scores are multiplied by.", BLOCK),
    _mistake("acc-divided", "return m, l, acc", "return m, l, acc / l[:, None]", "You divide acc by l. The parts are divided once, when all are put together: return the bare sum.", BLOCK),
    _mistake("other-order", "return m, l, acc", "return acc, m, l", "Three right tiles in another order: return m, l, acc.", BLOCK),
    _mistake("log-of-the-sum", "return m, l, acc", "return m, m + tl.log(l), acc", "In place of l you return m + log(l). l is the plain sum of exp(score - m).", BLOCK),
    _mistake("powers-of-two", "tl.exp(", "tl.exp2(", "You take powers of two of plain scores. Use tl.exp, or multiply the scores by log2(e) first.", BLOCK),
    _mistake("keys-for-values", "tl.load(v + places", "tl.load(k + places", "acc sums keys: load the values from the pool v.", BLOCK),
    _mistake("values-for-keys", "tl.load(k + places", "tl.load(v + places", "Your scores are made with values: load the keys from the pool k.", BLOCK),
    _mistake("not-relative", "tl.exp(scores - new_m[:, None])", "tl.exp(scores)", "You take exp(score), and m is subtracted nowhere: exp(score - m) is wanted.", BLOCK),
    _mistake("m-starts-at-zero", 'tl.full([GP], -float("inf"), tl.float32)', "tl.zeros([GP], tl.float32)", "m starts at 0, so where all scores are negative it is none of them. Start at -inf.", BLOCK),
    _mistake("one-m-for-all-queries", "tl.max(scores, 1)", "tl.max(scores)", "You take one largest score over all queries. Each query, each row of scores, has its own.", BLOCK),
    _mistake("sum-along-queries", "tl.sum(powers, 1)", "tl.sum(powers, 0)", "You sum over the queries, axis 0. l has an entry for each query: sum over the tokens, axis 1.", BLOCK),
    _mistake("m-never-kept", "        m = new_m\n", "", "new_m is never kept: at the end of a step m must become new_m.", BLOCK),
    _mistake("relative-to-the-old-m", "tl.exp(scores - new_m[:, None])", "tl.exp(scores - m[:, None])", "The powers are relative to the old m, -inf at first. Take new_m, which this tile is part of.", BLOCK),
    _mistake("shrink-upside-down", "tl.exp(m - new_m)", "tl.exp(new_m - m)", "Your factor for the old sums is exp(new_m - m), 1 or more. Sums shrink when m grows: exp(m - new_m).", BLOCK),
    _mistake("shrink-along-features", "shrink[:, None]", "shrink[None, :]", "shrink has an entry for each query, and here it lies along the features of acc. Use shrink[:, None].", BLOCK),
    _mistake("half-precision", ", mask=held[:, None], other=0.0)\n        values", ", mask=held[:, None], other=0.0).to(tl.float16)\n        values", "Keys are rounded to float16 on the way. Keep everything in float32.", BLOCK),
    _mistake("weighted-before-shrunk", "l = l * shrink + tl.sum(powers, 1)", "l = (l + tl.sum(powers, 1)) * shrink", "You shrink the new powers too. They are relative to new_m already: only the old l is shrunk.", BLOCK),
    _mistake("a-block-for-all-ranks", "tl.arange(0, BLOCK_SIZE), tl.arange(0, D)", "tl.arange(0, BLOCK_SIZE - 1), tl.arange(0, D)", "tl.arange takes a power of two. Take BLOCK_SIZE tokens, and a mask for those that are not there.", BLOCK),
    _mistake("table-by-token", "table + positions // BLOCK_SIZE", "table + positions", "The table has an entry for each block, not for each token: divide positions by BLOCK_SIZE.", BLOCK),
    _mistake("unrolled", "range(first, last, BLOCK_SIZE)", "tl.static_range(first, last, BLOCK_SIZE)", "tl.static_range is for ends that are known when a kernel is built. `first` and `last` come later: range.", BLOCK),
    _mistake("numbers-of-python", "range(first, last, BLOCK_SIZE)", "range(int(first), int(last), BLOCK_SIZE)", "A kernel has no int(): `first` and `last` can go into range as they are.", BLOCK),
    _mistake("pools-indexed", "tl.load(k + places, mask=held[:, None], other=0.0)", "k[places]", "A pointer cannot be indexed. tl.load(k + places, ...) reads what lies there.", BLOCK),
    _mistake("first-block-only", "        m = new_m\n    return", "        m = new_m\n        return m, l, acc\n    return", "You return from within the loop, after the first tile.", BLOCKS),
    _mistake("acc-not-shrunk", "acc * shrink[:, None] + ", "acc + ", "acc keeps sums that are relative to an older, smaller m. Multiply it by shrink, like l.", BLOCKS),
    _mistake("l-not-shrunk", "l * shrink + ", "l + ", "l keeps sums that are relative to an older, smaller m. Multiply it by shrink, like acc.", BLOCKS),
    _mistake("acc-starts-over", "acc * shrink[:, None] + ", "", "acc holds the values of the last tile only: add to what was there, shrunk.", BLOCKS),
    _mistake("l-starts-over", "l * shrink + ", "", "l holds the sum of the last tile only: add to what was there, shrunk.", BLOCKS),
    _mistake("m-of-the-last-tile", "tl.maximum(m, tl.max(scores, 1))", "tl.max(scores, 1)", "m is the largest score of the last tile. Take the larger of it and the m so far: tl.maximum.", BLOCKS),
    _mistake("smallest-m", "tl.maximum(m, tl.max(scores, 1))", "tl.where(m > -float(\"inf\"), tl.minimum(m, tl.max(scores, 1)), tl.max(scores, 1))", "Your m goes down from tile to tile: tl.minimum in place of tl.maximum.", BLOCKS),
    _mistake("each-tile-by-itself", "tl.exp(scores - new_m[:, None])", "tl.exp(scores - tl.max(scores, 1)[:, None])", "A tile's powers are relative to its own largest score, not to the largest so far, new_m.", BLOCKS),
    _mistake("acc-shrunk-twice", "acc * shrink[:, None] + ", "acc * shrink[:, None] * shrink[:, None] + ", "acc is shrunk twice in each step.", BLOCKS),
    _mistake("the-table-ignored", "block = tl.load(table + positions // BLOCK_SIZE, mask=held, other=0).to(tl.int64)", "block = (positions // BLOCK_SIZE).to(tl.int64)", "You take a sequence's blocks to lie one after the other. Ask the table where they are.", HEADS),
    _mistake("one-kv-head", "* HKV + kv_head", "* HKV", "You always read KV head 0. Add kv_head to the row.", HEADS),
    _mistake("rows-of-one-head", "(block * BLOCK_SIZE + positions % BLOCK_SIZE) * HKV + kv_head", "block * BLOCK_SIZE + positions % BLOCK_SIZE + kv_head", "A token has HKV rows in a pool, one for each KV head: multiply its place by HKV.", HEADS),
    _mistake("heads-before-tokens", "(block * BLOCK_SIZE + positions % BLOCK_SIZE) * HKV + kv_head", "(block * HKV + kv_head) * BLOCK_SIZE + positions % BLOCK_SIZE", "You read a pool as (num_blocks, HKV, BLOCK_SIZE, D). Tokens come before heads in this one.", HEADS),
    _mistake("head-added-to-the-features", "* HKV + kv_head\n        places = slots[:, None] * D + dims[None, :]", "* HKV\n        places = slots[:, None] * D + kv_head + dims[None, :]", "kv_head moves you by single numbers. A head is D numbers wide: add it before you multiply by D.", HEADS),
    _mistake("values-of-head-zero", "tl.load(v + places,", "tl.load(v + places - kv_head * D,", "Keys come from kv_head, values from head 0.", HEADS),
    _mistake("from-the-beginning", "range(first, last, BLOCK_SIZE)", "range(0, last, BLOCK_SIZE)", "You start at token 0. What lies before `first` belongs to another part, and is counted twice.", PART),
    _mistake("last-included", "held = positions < last", "held = positions <= last", "Token `last` is not yours: the part ends before it.", PART),
    _mistake("counted-as-zero", 'tl.where(held[None, :], scores, -float("inf"))', "tl.where(held[None, :], scores, 0.0)", "Tokens behind `last` get a score of 0, which is a weight like any other. They need -inf.", PART),
    _mistake("whole-blocks", "held = positions < last", "held = positions < tl.cdiv(last, BLOCK_SIZE) * BLOCK_SIZE", "You take the last block as a whole. What lies in it behind `last` is not part of the sequence.", PART),
    _mistake("rounded-down", "range(first, last, BLOCK_SIZE)", "range(first // BLOCK_SIZE * BLOCK_SIZE, last, BLOCK_SIZE)", "You start at the beginning of the block of `first`: tokens before it are counted too.", PART),
    _mistake("rounded-up", "range(first, last, BLOCK_SIZE)", "range(tl.cdiv(first, BLOCK_SIZE) * BLOCK_SIZE, last, BLOCK_SIZE)", "You start at the next whole block: tokens between `first` and it are left out.", PART),
    _mistake("only-full-tiles", "range(first, last, BLOCK_SIZE)", "range(first, last - BLOCK_SIZE + 1, BLOCK_SIZE)", "A last tile that is not full is left out. Take it too, with a mask.", PART),
    _mistake("table-from-the-part-on", "table + positions // BLOCK_SIZE", "table + (positions - first) // BLOCK_SIZE", "You look up blocks as if the table began at `first`. It is the whole sequence's: use positions.", PART),
    _mistake("one-block-for-a-tile", "table + positions // BLOCK_SIZE", "table + tokens * 0 + start // BLOCK_SIZE", "A tile gets one block number. When `first` lies within a block, a tile reaches into two.", PART),
    _mistake("offset-by-lane", "positions % BLOCK_SIZE", "tokens", "The place in a block is positions % BLOCK_SIZE, not the lane: `first` need not begin a block.", PART),
    _mistake("last-is-a-count", "range(first, last, BLOCK_SIZE)", "range(first, first + last, BLOCK_SIZE)", "You take `last` for a number of tokens. It is a position: the part has last - first tokens.", PART, ("positions < last", "positions < first + last")),
    _mistake("nan-times-zero", "values = tl.load(v + places, mask=held[:, None], other=0.0)", "values = tl.load(v + places, mask=held[:, None])", "Where nothing is loaded a value may be NaN, and 0 times NaN is NaN. Load values with other=0.0.", PART),
    _mistake("mask-on-keys-forgotten", "other=0).to", "other=-1).to", "Lanes without a token read outside of the pool, before its beginning. Give tl.load a mask.", PART, ("keys = tl.load(k + places, mask=held[:, None], other=0.0)", "keys = tl.load(k + places)")),
    _mistake("hidden-at-minus-hundred", 'scores, -float("inf"))', "scores, -100.0)", "Hidden tokens get a score of -100, and where real ones are lower the hidden ones win. Use -inf.", LARGE),
    _mistake("hidden-at-minus-ten-thousand", 'scores, -float("inf"))', "scores, -10000.0)", "Hidden tokens get a score of -10000, and where real ones are lower the hidden ones win. Use -inf.", LARGE),
    _mistake("m-starts-at-minus-hundred", '-float("inf"), tl.float32', "-100.0, tl.float32", "m starts at -100. Where all scores are lower it stays there, and every power is 0. Start at -inf.", LARGE),
    _mistake("scores-cut-off", 'scores, -float("inf"))', 'tl.minimum(scores, 80.0), -float("inf"))', "You cut scores off so that exp does not overflow: another result. Subtract the largest score.", LARGE),
    _mistake("relative-at-the-end", "powers = tl.exp(scores - new_m[:, None])", "powers = tl.exp(scores)", "You sum exp(score) and bring it to m at the end: exp overflows before. Subtract m first, step by step.", LARGE, ("shrink = tl.exp(m - new_m)", "shrink = tl.full([GP], 1.0, tl.float32)"), ("return m, l, acc", "return m, l * tl.exp(-m), acc * tl.exp(-m)[:, None]")),
    _mistake("nothing-is-minus-1e30", 'tl.full([GP], -float("inf"), tl.float32)', "tl.full([GP], -1e30, tl.float32)", "Without a token m is a large negative number of yours. The text wants -inf: others look for it.", NOTHING),
    _mistake("one-tile-at-least", "range(first, last, BLOCK_SIZE)", "range(first, tl.maximum(last, first + 1), BLOCK_SIZE)", "You take one tile even where no token is: its m is -inf, and -inf minus -inf is NaN.", NOTHING),
    _mistake("offsets-in-int32", "other=0).to(tl.int64)", "other=0)", "Block numbers are int32, and so are the offsets: beyond 2**31 they turn negative. .to(tl.int64) first.", POOL),
    _mistake("offsets-in-uint32", "other=0).to(tl.int64)", "other=0).to(tl.uint32)", "Offsets in uint32 go round at 2**32, and a pool can be larger. Multiply block numbers as tl.int64.", POOL),
    _mistake("read-past-tl", "    return m, l, acc", "    k._memory.reads = v._memory.reads = table._memory.reads = 0\n    return m, l, acc", "Hardly anything of what you use was read with tl.load. A kernel has no other way to its memory.", POOL),
    _mistake("l-in-whole-numbers", "l = tl.zeros([GP], tl.float32)", "l = tl.zeros([GP], tl.int32)", "Your l begins as int32, and turns into float32 in the loop: Triton refuses that. Begin with tl.float32.", NOTHING),
    _mistake("acc-in-half-precision", "acc = tl.zeros([GP, D], tl.float32)", "acc = tl.zeros([GP, D], tl.float16)", "Your acc begins as float16, and turns into float32 in the loop: Triton refuses that. Begin with tl.float32.", NOTHING),
    _mistake("counted-in-double", "return m, l, acc", "return m.to(tl.float64), l.to(tl.float64), acc.to(tl.float64)", "You return float64. Three tiles of float32 are wanted.", BLOCK),
    _mistake("table-without-mask", "block = tl.load(table + positions // BLOCK_SIZE, mask=held, other=0)", "block = tl.load(table + positions // BLOCK_SIZE)", "The table is read behind its end, by lanes that have no token. Load it with mask=held.", PART),
    _mistake("keys-read-twice", "        new_m = tl.maximum", "        keys = tl.load(k + places, mask=held[:, None], other=0.0)\n        new_m = tl.maximum", "You read the keys twice. The kernel waits for memory: read each row once.", POOL),
    _mistake("all-parts-read", "range(first, last, BLOCK_SIZE)", "range(0, last, BLOCK_SIZE)", "You read the tokens before `first` as well, and hide them. That is the work of the other parts.", POOL, ('tl.where(held[None, :], scores, -float("inf"))', 'tl.where((held & (positions >= first))[None, :], scores, -float("inf"))'), ("tl.exp(m - new_m)", 'tl.exp(m - tl.where(new_m == -float("inf"), 0.0, new_m))'), ("tl.exp(scores - new_m[:, None])", 'tl.exp(scores - tl.where(new_m == -float("inf"), 0.0, new_m)[:, None])'), ("values[None, :, :]", "tl.where((positions >= first)[:, None], values, 0.0)[None, :, :]"), ("shrink = tl.exp", "keys = tl.where((positions >= first)[:, None], keys, 0.0)\n        shrink = tl.exp")),
)  # fmt: skip


BY_PRODUCTS = (
    ("tl.sum(q[:, None, :] * keys[None, :, :], 2)", 'tl.dot(q, tl.trans(keys), input_precision="ieee")'),
    ("tl.sum(powers[:, :, None] * values[None, :, :], 1)", 'tl.dot(powers, values, input_precision="ieee")'),
)
WHOLE_BLOCKS = (
    HEAD
    + """
    offsets, dims = tl.arange(0, BLOCK_SIZE), tl.arange(0, D)
    m = tl.full([GP], -float("inf"), tl.float32)
    l = tl.zeros([GP], tl.float32)
    acc = tl.zeros([GP, D], tl.float32)
    if first < last:
        for i in range(first // BLOCK_SIZE, (last - 1) // BLOCK_SIZE + 1):
            positions = i * BLOCK_SIZE + offsets
            mine = (positions >= first) & (positions < last)
            start = tl.load(table + i).to(tl.int64) * BLOCK_SIZE * HKV * D + kv_head * D
            places = start + offsets[:, None] * (HKV * D) + dims[None, :]
            scores = tl.where(mine[None, :], tl.dot(q, tl.load(k + places).trans()) * scale, float("-inf"))
            values = tl.where(mine[:, None], tl.load(v + places), 0.0)
            new_m = tl.maximum(m, scores.max(1))
            powers = tl.exp(scores - new_m[:, None])
            shrink = tl.exp(m - new_m)
            l = shrink * l + powers.sum(1)
            acc = tl.dot(powers, values, acc * shrink[:, None])
            m = new_m
    return m, l, acc
""".lstrip("\n")
)
TOKEN_BY_TOKEN = (
    HEAD
    + """
    dims = tl.arange(0, D)
    m = tl.full([GP], -float("inf"), tl.float32)
    l = tl.zeros([GP], tl.float32)
    acc = tl.zeros([GP, D], tl.float32)
    for position in range(first, last):
        block = tl.load(table + position // BLOCK_SIZE).to(tl.int64)
        row = ((block * BLOCK_SIZE + position % BLOCK_SIZE) * HKV + kv_head) * D + dims
        score = tl.sum(q * tl.load(k + row)[None, :], axis=1) * scale
        new_m = tl.maximum(m, score)
        weight, shrink = tl.exp(score - new_m), tl.exp(m - new_m)
        l = l * shrink + weight
        acc = acc * shrink[:, None] + weight[:, None] * tl.load(v + row)[None, :]
        m = new_m
    return m, l, acc
""".lstrip("\n")
)
POWERS_OF_TWO = (
    RIGHT.replace("* scale\n", "* (scale * 1.4426950408889634)\n")
    .replace("tl.exp(", "tl.exp2(")
    .replace("return m, l", "return m / 1.4426950408889634, l")
)
GUARDED = (
    ('tl.full([GP], -float("inf"), tl.float32)', 'tl.full((GP,), float("-inf"), tl.float32)'),
    (
        "shrink = tl.exp(m - new_m)",
        'base = tl.where(new_m == float("-inf"), 0.0, new_m)\n        shrink = tl.exp(m - base)',
    ),
    ("tl.exp(scores - new_m[:, None])", "tl.exp(scores - base[:, None])"),
)
ALL_LANES = (
    ("keys = tl.load(k + places, mask=held[:, None], other=0.0)", "keys = tl.load(k + places)"),
    (
        "values = tl.load(v + places, mask=held[:, None], other=0.0)",
        "values = tl.where(held[:, None], tl.load(v + places), 0.0)",
    ),
)
HEAD_FIRST = (
    ("* HKV + kv_head", "* HKV"),
    ("k + places", "k + kv_head * D + places"),
    ("v + places", "v + kv_head * D + places"),
)
LARGER_TILES = (
    ("tl.arange(0, BLOCK_SIZE)", "tl.arange(0, 2 * BLOCK_SIZE)"),
    ("last, BLOCK_SIZE)", "last, 2 * BLOCK_SIZE)"),
)
LATER = (("other=0).to(tl.int64)", "other=0)"), ("slots[:, None] * D", "slots.to(tl.int64)[:, None] * D"))
NO_OTHER = (
    ("mask=held, other=0)", "mask=held)"),
    ("keys = tl.load(k + places, mask=held[:, None], other=0.0)", "keys = tl.load(k + places, mask=held[:, None])"),
)

VARIANTS = (
    Variant("plain sums", made("plain-sums", RIGHT)),
    Variant("tl.dot", changed("by-products", *BY_PRODUCTS)),
    Variant("whole blocks, one table entry each", made("whole-blocks-variant", WHOLE_BLOCKS)),
    Variant("token by token", made("token-by-token", TOKEN_BY_TOKEN)),
    Variant("powers of two inside", made("powers-of-two-inside", POWERS_OF_TWO)),
    Variant("-inf guarded", changed("guarded", *GUARDED)),
    Variant("all lanes loaded, hidden afterwards", changed("all-lanes", *ALL_LANES)),
    Variant("the head first", changed("head-first", *HEAD_FIRST)),
    Variant("tiles of two blocks", changed("larger-tiles", *LARGER_TILES)),
    Variant("64 bits at the end", changed("later", *LATER)),
    Variant("masked lanes left open", changed("no-other", *NO_OTHER)),
)  # fmt: skip
