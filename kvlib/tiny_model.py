"""A trained transformer of 62,000 parameters that finds needles (see `kvlib.needles`), shipped with the course.

`kvlib.train_tiny` made it. Its keys, values and habits are a trained model's, and a forward pass takes milliseconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvlib.needles import VOCAB_SIZE
from kvlib.transformer import Transformer, TransformerConfig

FILE = Path(__file__).parent / "data" / "tiny.npz"
CONFIG = TransformerConfig(
    num_layers=2, width=64, num_heads=4, num_kv_heads=2, head_dim=16, hidden=85, vocab_size=VOCAB_SIZE
)


def load_tiny(dtype: torch.dtype = torch.float32) -> Transformer:
    """The model, its weights (float16 in the file) turned into `dtype`.

    >>> model = load_tiny()
    >>> sum(weight.numel() for weight in model.weights.values()), model.logits(torch.tensor([[0, 1, 2]])).shape
    (62272, torch.Size([1, 3, 37]))
    """
    with np.load(FILE, allow_pickle=False) as held:
        weights = {name: torch.from_numpy(held[name]).to(dtype) for name in CONFIG.shapes()}
    return Transformer(CONFIG, weights)


def recipe() -> dict[str, Any]:
    """How it was trained, and what it could do then: seed, steps, accuracy by gap."""
    with np.load(FILE, allow_pickle=False) as held:
        return json.loads(str(held["recipe"]))
