"""What latents and layers that share save, held against the fact sheet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from kvlib.latent_cache import LatentAttention  # noqa: E402
from kvlib.mla_layer import MLALayer  # noqa: E402
from kvlib.shared_layers import SharedLayers  # noqa: E402
from kvlib.sizing.models import load_config  # noqa: E402

DATA = Path(__file__).parents[2] / "data"
FACTS = {row["id"]: row["figure"] for row in json.loads((DATA / "facts_j.json").read_text(encoding="utf-8"))}


def test_a_token_takes_a_latent_and_one_rotary_key():
    fact, config = FACTS["J1.row"], load_config("deepseek-v2")
    assert (config["kv_lora_rank"], config["qk_rope_head_dim"]) == (fact["kv_lora_rank"], fact["rope_dim"])
    assert fact["kv_lora_rank"] + fact["rope_dim"] == fact["elements"]
    sizes = dict(width=8, num_heads=2, kv_lora_rank=fact["kv_lora_rank"], nope_dim=4, rope_dim=fact["rope_dim"])
    layer = MLALayer.random(**sizes, value_dim=3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cache = LatentAttention(layer, 7)
    cache.forward(torch.zeros(1, 5, 8, dtype=torch.float64))
    assert cache.nbytes == 7 * fact["elements"] * 8


def test_layers_in_pairs_halve_the_cache():
    fact = FACTS["J2"]
    alone, paired = (SharedLayers(6, share, 2, 3, 7, 5).nbytes for share in (1, fact["share"]))
    assert paired == fact["part"] * alone
