"""Exercise 7.4: whole numbers of eight and of four bits, with a scale for each group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.int_quantiser.candidates import MISTAKES, VARIANTS
from autograde.exercises.int_quantiser.pack import Pack
from autograde.expect import agrees, refuses
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject


def drawn(rng: np.random.Generator, shape: tuple[int, ...], group_size: int) -> np.ndarray:
    """Rows in float32 whose neighbouring groups differ widely, with the largest of a group of either sign."""
    x = rng.uniform(0.05, 1.0, shape) * rng.choice([-1.0, 1.0], shape)
    for start in range(0, shape[-1], group_size):
        group = x[..., start : start + group_size]
        group *= 4.0 ** rng.uniform(-2, 2, (*shape[:-1], 1))
    return x.astype("float32")


def there_and_back(subject: Subject, bits: int, group_size: int, x: np.ndarray) -> Iterator[Finding]:
    """Quantise and dequantise by the same quantiser."""
    pack = Pack(subject, bits, group_size, x)
    yield from pack.quantise()
    yield pack.read()


@stage("eight bits", why="Each group's largest number becomes 127 or -127; nothing is off by more than half a step.")
def eight_bits(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for group_size, shape in ((3, (5, 6)), (4, (3, 12))):
        yield from there_and_back(subject, 8, group_size, drawn(rng, shape, group_size))


@stage("four bits", weight=2, why="Two numbers share a byte, and neither may disturb the other.")
def four_bits(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for group_size, shape in ((3, (5, 6)), (4, (3, 12)), (2, (7, 4))):
        yield from there_and_back(subject, 4, group_size, drawn(rng, shape, group_size))


@stage("odd widths", weight=2, why="Head dims are not always multiples: the last group is smaller, a byte half full.")
def odd_widths(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for bits, group_size, D in (
        (4, 3, 7),
        (8, 3, 7),
        (4, 4, 6),
        (4, 4, 5),
        (4, 16, 5),
        (8, 16, 5),
        (4, 1, 3),
        (4, 2, 1),
    ):
        yield from there_and_back(subject, bits, group_size, drawn(rng, (3, D), group_size))


@stage("zeros, small and large numbers", why="A head that is off gives zeros, and 0 / 0 would be NaN.")
def zeros(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for bits in (8, 4):
        x = drawn(rng, (4, 7), 3)
        x[0], x[1, 3:6], x[2, 6], x[3, 1] = 0.0, 0.0, 0.0, 0.0
        yield from there_and_back(subject, bits, 3, x)
        yield from there_and_back(subject, bits, 3, (drawn(rng, (3, 7), 3) * 1e-4).astype("float32"))
        yield from there_and_back(subject, bits, 3, (drawn(rng, (3, 7), 3) * 1e20).astype("float32"))
        yield from there_and_back(subject, bits, 3, (drawn(rng, (3, 7), 3) * 1e-25).astype("float32"))


@stage("rows on their own", weight=2, why="A cache keeps the bytes, and reads any rows of them much later.")
def rows_on_their_own(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from there_and_back(subject, 4, 3, drawn(rng, (7,), 3))
    yield from there_and_back(subject, 8, 3, drawn(rng, (2, 3, 5, 7), 3))
    packs = [Pack(subject, bits, group_size, drawn(rng, (4, 7), group_size)) for bits, group_size in ((4, 3), (8, 2))]
    for pack in packs:
        yield from pack.quantise()
    for pack in packs:
        yield pack.read(rows=slice(1, 3))
        yield pack.read(rows=[3, 0])
        yield pack.read(quantiser=subject.new(pack.bits, pack.group_size))
    first, second = (Pack(subject, 4, 3, drawn(rng, (4, 7), 3)) for _ in range(2))
    second.quantiser = first.quantiser
    for pack in (first, second):
        yield from pack.quantise()
    yield first.read()


@stage("other settings", why="A quantiser that cannot be should not come to be.")
def other_settings(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    x = drawn(rng, (2, 6), 1)
    yield from there_and_back(subject, 4, 1, x)
    refused = [(bits, 3) for bits in (12, 5, 16, 2, 0, -4)] + [(4, 0), (8, -1)]
    refused += [(bits, 3) for bits in (1, 3, 6, 7, 10, 24, 32, 64, -8)] + [(8, 0), (4, -1), (4, -3), (8, -64)]
    for bits, group_size in refused:
        what = f"IntQuantiser({bits}, {group_size})"

        def later(bits: int = bits, group_size: int = group_size) -> None:
            subject.call(subject.new(bits, group_size), "quantise", x)

        yield refuses(subject, None, "", bits, group_size, key=what, what=what, after=later)
    yield from there_and_back(subject, 8, 1, x)


@stage(
    "nothing passed in changes", why="The caller goes on with x, and reads the same bytes again for every new token."
)
def left_alone(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for bits in (8, 4):
        pack = Pack(subject, bits, 3, drawn(rng, (3, 7), 3))
        kept = subject.put(pack.x)
        yield from pack.quantise(kept)
        yield pack.read()
        yield agrees(subject, subject.read(kept), pack.x, key="x", fact="quantise() leaves x as it was")
        packed, scale = subject.put(pack.packed), subject.put(pack.scale)
        for _ in range(2):
            got = subject.call(pack.quantiser, "dequantise", packed, scale, 7)
            yield pack.judge(got, pack.x, pack.scale)
        for name, handle, part in (("packed", packed, pack.packed), ("scale", scale, pack.scale)):
            fact = f"dequantise() leaves {name} as it was"
            yield agrees(subject, subject.read(handle), part, key=name, fact=fact)


EXERCISE = Exercise(
    id="7.4",
    name="IntQuantiser",
    title="Whole numbers, packed",
    goal="Store a row in eight or four bits a number, with a scale for each group, and read it back.",
    points=5,
    minutes=25,
    difficulty=4,
    hints=(
        "Do it in three steps: the scales of the groups, the whole numbers, the bytes. Where the last group or the "
        "last byte is not full, `torch.nn.functional.pad` fills it with zeros, and you cut them off again in the end.",
        "`pad(x, (0, -D % g)).unflatten(-1, (-1, g))` lays the groups along an axis of their own. "
        "`scale.repeat_interleave(g, -1)[..., :D]` gives each number its scale. Add 8 (or 128) to the whole numbers, "
        "so that they are positive and need no sign in their byte.",
        "`codes = (x / each).round().clamp(-top, top) + top + 1`, as uint8, with top 7 or 127. In four bits: "
        "`packed = codes[..., 0::2] | codes[..., 1::2] << 4`, and back: `torch.stack((packed & 15, packed >> 4), "
        "-1).flatten(-2)[..., :head_dim]`. Then subtract top + 1 and multiply by `each`.",
    ),
    stages=(eight_bits, four_bits, odd_widths, zeros, rows_on_their_own, other_settings, left_alone),
    reference=Later("kvlib.int_quantiser", "IntQuantiser"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
