"""Made-up texts with needles: a key and its value, named once, and the key again much later.

A text is slots of two tokens behind one start token. A slot is a needle, `KEY value`, where each text has its own value
for each of 12 keys; or it is two steps of a chain: each of 24 symbols has three successors, the same in all texts. What
follows in the chain is told by the newest symbol. What a key's value is, is told only where it was named before.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

START, NUM_SYMBOLS, NUM_KEYS = 0, 24, 12
FIRST_SYMBOL, FIRST_KEY = 1, 1 + NUM_SYMBOLS
VOCAB_SIZE = 1 + NUM_SYMBOLS + NUM_KEYS  # 37
OTHER, CHAIN, KEY, FRESH, KNOWN = range(5)  # the kinds of tokens; a value is FRESH at its key's first mention
STEPS = torch.tensor([1, 8, 14])  # symbol s is followed by 5 s plus one of these, counted round


@dataclass(frozen=True)
class Text:
    """B texts of T tokens: tokens and kinds, int64 (B, T) each. A kind is one of OTHER, CHAIN, KEY, FRESH, KNOWN."""

    tokens: torch.Tensor
    kinds: torch.Tensor


def sample_texts(batch: int, num_tokens: int, generator: torch.Generator, share: float = 0.5) -> Text:
    """Texts (batch, num_tokens), `share` of their slots needles with keys drawn evenly.

    Raises ValueError for an even number of tokens, since a text is a start token and whole slots.

    >>> text = sample_texts(batch=2, num_tokens=9, generator=torch.Generator().manual_seed(0))
    >>> text.tokens.shape, text.tokens[:, 0].tolist()  # each begins with START
    (torch.Size([2, 9]), [0, 0])
    """
    keys = torch.randint(NUM_KEYS, (batch, _slots(num_tokens)), generator=generator)
    return _write(keys, torch.rand(keys.shape, generator=generator) < share, generator)


def sample_questions(
    batch: int, num_tokens: int, gap: int, generator: torch.Generator, share: float = 0.5
) -> tuple[torch.Tensor, torch.Tensor]:
    """Texts (B, num_tokens) that end in a key named once before, `gap` tokens earlier, and the values wanted (B,).

    B is `batch`. The texts hold other needles too, by generator and share as in `sample_texts`. Raises ValueError
    unless num_tokens and gap are even and there is room: 2 <= gap <= num_tokens - 2.
    """
    if num_tokens % 2 or gap % 2 or not 2 <= gap <= num_tokens - 2:
        raise ValueError(f"wanted even numbers, 2 <= gap <= num_tokens - 2; got gap {gap}, num_tokens {num_tokens}")
    keys = torch.randint(NUM_KEYS - 1, (batch, num_tokens // 2), generator=generator)
    asked = torch.randint(NUM_KEYS, (batch, 1), generator=generator)
    keys = torch.where(keys < asked, keys, keys + 1)  # every other key
    needle = torch.rand(keys.shape, generator=generator) < share
    for slot in (-1, -1 - gap // 2):
        keys[:, slot], needle[:, slot] = asked[:, 0], True
    tokens = _write(keys, needle, generator).tokens
    return tokens[:, :-1], tokens[:, -1]


def spelled(tokens: torch.Tensor) -> str:
    """A text, or a part of one, tokens (T,), in letters: ^ starts it, symbols are a to x, keys are A to L.

    >>> spelled(torch.tensor([0, 1, 2, 25, 24]))  # symbols a and b, then key A with value x
    '^abAx'
    """
    return "".join(("^abcdefghijklmnopqrstuvwx" + "ABCDEFGHIJKL")[token] for token in tokens.tolist())


def _slots(num_tokens: int) -> int:
    if num_tokens < 3 or num_tokens % 2 == 0:
        raise ValueError(f"a text is a start token and slots of two, an odd number of 3 or more; got {num_tokens}")
    return num_tokens // 2


def _write(keys: torch.Tensor, needle: torch.Tensor, generator: torch.Generator) -> Text:
    """keys, needle: (B, slots), whole numbers and bools."""
    batch, slots = keys.shape
    values = torch.randint(NUM_SYMBOLS, (batch, NUM_KEYS), generator=generator)
    steps = STEPS[torch.randint(len(STEPS), (batch, slots, 2), generator=generator)]
    last = torch.randint(NUM_SYMBOLS, (batch,), generator=generator)
    tokens = torch.full((batch, 1 + 2 * slots), START)
    kinds = torch.full_like(tokens, OTHER)
    named = torch.zeros(batch, NUM_KEYS, dtype=torch.bool)
    for slot in range(slots):
        key, here = keys[:, slot : slot + 1], needle[:, slot]
        value, known = values.gather(1, key)[:, 0], named.gather(1, key)[:, 0]
        named |= torch.nn.functional.one_hot(key[:, 0], NUM_KEYS).bool() & here[:, None]
        first = (5 * last + steps[:, slot, 0]) % NUM_SYMBOLS
        second = (5 * first + steps[:, slot, 1]) % NUM_SYMBOLS
        last = torch.where(here, value, second)  # the chain goes on from the newest symbol, a needle's too
        tokens[:, 1 + 2 * slot] = torch.where(here, FIRST_KEY + key[:, 0], FIRST_SYMBOL + first)
        tokens[:, 2 + 2 * slot] = FIRST_SYMBOL + last
        kinds[:, 1 + 2 * slot] = torch.where(here, KEY, CHAIN)
        kinds[:, 2 + 2 * slot] = torch.where(here, torch.where(known, KNOWN, FRESH), CHAIN)
    return Text(tokens, kinds)
