"""Train the model of `kvlib.tiny_model` anew: `python -m kvlib.train_tiny FILE [SEED]`, some two minutes of one core.

Nothing runs this but you. Texts get longer in three stages. Each ends when known values are found, not after so
many steps: looking a value up is learnt all at once, at a moment that nobody can foretell.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from kvlib.forgetting import found
from kvlib.needles import KNOWN, Text, sample_questions, sample_texts
from kvlib.tiny_model import CONFIG
from kvlib.transformer import Transformer

SEED, BATCH, RATE, WARM_UP, WANTED = 0, 64, 3e-3, 50, 0.98
LENGTHS = (65, 129, 257)
LEAST_STEPS, COOLING = 80, 300  # of each length; then, at the last one, with a rate that falls to 0
MOST_STEPS = 6000  # of one length: give up then


def loss_of(model: Transformer, text: Text) -> tuple[torch.Tensor, float]:
    """(mean surprise in nats over all tokens, share of known values that come out right).

    text: tokens (B, T). The mean is a tensor of shape (), which the model's weights can be trained on.

    >>> model = Transformer.random(CONFIG, torch.Generator().manual_seed(0))
    >>> loss, share = loss_of(model, sample_texts(4, 33, torch.Generator().manual_seed(0)))
    >>> loss.shape, 0 <= share <= 1
    (torch.Size([]), True)
    """
    logits, wanted, kinds = model.logits(text.tokens)[:, :-1], text.tokens[:, 1:], text.kinds[:, 1:]
    known = kinds == KNOWN
    share = (logits.argmax(-1) == wanted)[known].double().mean()
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten()), float(share)


def train(seed: int = SEED) -> Iterator[tuple[int, int, float, float, Transformer]]:
    """Yields (step, length, loss, accuracy, model) after each step; the model goes on changing.

    Raises RuntimeError where known values are not found after MOST_STEPS steps of one length.
    """
    generator = torch.Generator().manual_seed(seed)
    model = Transformer.random(CONFIG, generator)
    weights = list(model.weights.values())
    for name, weight in model.weights.items():
        if weight.ndim == 2 and name != "embedding":
            weight.mul_(0.5)
        weight.requires_grad_()
    optimiser = torch.optim.AdamW(weights, lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    step = 0
    for length in LENGTHS:
        batch = BATCH * LENGTHS[0] // length  # about as many tokens in each step
        smooth, left = 0.0, None  # steps left to cool down, once that has begun
        for here in range(1, MOST_STEPS + 1):
            step += 1
            rate = RATE * min(1.0, step / WARM_UP, 1.0 if left is None else left / COOLING)
            optimiser.param_groups[0]["lr"] = rate
            loss, share = loss_of(model, sample_texts(batch, length, generator))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimiser.step()
            smooth += (share - smooth) / 10
            yield step, length, float(loss.detach()), smooth, model
            if left is None and here >= LEAST_STEPS and smooth >= WANTED:
                left = COOLING if length == LENGTHS[-1] else 0
            if left is not None:
                left -= 1
                if left < 0:
                    break
        else:
            raise RuntimeError(f"{MOST_STEPS} steps at length {length}, and {smooth:.0%} found: try another seed")


def accuracy(model: Transformer, gap: int) -> float:
    """Share of 400 questions answered right, with all of their 256 tokens in view."""
    tokens, wanted = sample_questions(400, 256, gap, torch.Generator().manual_seed(1))
    with torch.no_grad():
        return found(model.logits(tokens), wanted)


def main(path: Path, seed: int = SEED) -> None:
    """Train, say how it goes, and write the weights in float16 together with the recipe."""
    torch.set_num_threads(1)
    start = time.thread_time()
    for state in train(seed):
        step, length, loss, share, model = state
        if step % 50 == 0:
            print(f"step {step}, length {length}: loss {loss:.3f}, {share:.0%} found", flush=True)
    weights = {name: weight.detach().half() for name, weight in model.weights.items()}
    model = Transformer(CONFIG, {name: weight.float() for name, weight in weights.items()})
    recipe = {
        "seed": seed,
        "steps": step,
        "lengths": LENGTHS,
        "texts_per_step": [BATCH * LENGTHS[0] // length for length in LENGTHS],
        "needles": 0.5,
        "until": f"{WANTED:.0%} of known values found at each length; then {COOLING} steps, the rate falling to 0",
        "optimiser": f"AdamW, rate {RATE}, {WARM_UP} steps of warm-up, betas 0.9 and 0.98, decay 0.01, clipped at 1",
        "accuracy": {gap: accuracy(model, gap) for gap in (2, 20, 40, 60, 80, 128, 200, 254)},
        "torch": torch.__version__,
    }
    print(recipe, f"{time.thread_time() - start:.0f} s")
    with path.open("wb") as file:
        held: dict[str, Any] = {name: weight.numpy() for name, weight in weights.items()}
        np.savez_compressed(file, recipe=np.array(json.dumps(recipe)), **held)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else SEED)
