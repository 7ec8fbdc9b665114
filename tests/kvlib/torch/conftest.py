"""The published figures of the PyTorch lessons, and transformers to try things on.

PyTorch is imported inside the fixtures: each test file skips itself where there is none, which a conftest cannot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch

    from kvlib.transformer import Transformer

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="session")
def facts() -> dict[str, Any]:
    """Figure by id. Every one says what it is of and where it comes from."""
    rows = [row for name in "fgi" for row in json.loads((DATA / f"facts_{name}.json").read_text(encoding="utf-8"))]
    for row in rows:
        assert set(row) == {"id", "setting", "figure", "source"}, row
        assert row["source"] == "course fact sheet"
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["figure"] for row in rows}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tests run beside each other; threads of one would wait for those of another."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def rng() -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(20)


@pytest.fixture
def draw(rng) -> Callable[..., torch.Tensor]:
    """Noise of a shape, in float64."""
    import torch

    return lambda *shape: torch.randn(shape, generator=rng, dtype=torch.float64)


@pytest.fixture
def make_model(rng) -> Callable[..., Transformer]:
    """Transformers in float64 whose sizes are pairwise distinct, so that no mixed-up axis can hide."""
    import torch

    from kvlib.transformer import Transformer, TransformerConfig

    def make(
        num_layers: int = 3, num_heads: int = 6, num_kv_heads: int = 2, tied: bool = False, width: int = 10
    ) -> Transformer:
        config = TransformerConfig(num_layers, width, num_heads, num_kv_heads, 8, 11, 13, 500.0, 1e-5, tied)
        return Transformer.random(config, rng, torch.float64)

    return make


@pytest.fixture
def make_tokens(rng) -> Callable[..., torch.Tensor]:
    """Tokens (B, T) of a vocabulary of 13."""
    import torch

    return lambda batch_size, num_tokens: torch.randint(13, (batch_size, num_tokens), generator=rng)
