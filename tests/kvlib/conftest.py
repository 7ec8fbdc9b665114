"""The published figures, and models to try things on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvlib.decoder import Decoder, DecoderConfig

FACTS = Path(__file__).parents[1] / "data" / "facts_abc.json"


@pytest.fixture(scope="session")
def facts() -> dict[str, Any]:
    """Figure by id. Every one says what it is of and where it comes from."""
    rows = json.loads(FACTS.read_text(encoding="utf-8"))
    for row in rows:
        assert set(row) == {"id", "setting", "figure", "source"}, row
        assert row["source"] == "course fact sheet"
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["figure"] for row in rows}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def make_model(rng) -> Callable[..., Decoder]:
    """Decoders whose dimensions are pairwise distinct primes, so that no mixed-up axis can hide."""

    def make(num_layers: int = 1, max_len: int = 13) -> Decoder:
        return Decoder.random(DecoderConfig(num_layers, vocab_size=7, width=5, hidden=11, max_len=max_len), rng)

    return make
