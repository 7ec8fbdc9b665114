"""benchmarks/caches.py on a tiny context: its table and its counts. What its clock says is no test's business."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytest.importorskip("transformers")

from kvlib.generate import forward  # noqa: E402
from kvlib.transformer import Transformer  # noqa: E402

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "caches.py"


@pytest.fixture(scope="module")
def caches() -> ModuleType:
    spec = importlib.util.spec_from_file_location("caches_benchmark", SCRIPT)
    module = sys.modules["caches_benchmark"] = importlib.util.module_from_spec(spec)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def read(number: str) -> int:
    return int(number.replace(",", ""))


def test_its_table(caches, capsys):
    assert caches.main(["--contexts", "16,32", "--rounds", "2"]) == 0
    machine, model, _, header, *rest = capsys.readouterr().out.splitlines()
    assert "torch" in machine and "transformers" in machine and "1 used" in machine
    c = caches.CONFIG
    row = 2 * c.num_layers * c.num_kv_heads * c.head_dim * 4  # bytes of one token's keys and values
    assert f"{row:,} B of KV per token" in model
    columns = ("context", "cache", "min ms", "median ms", "x kvlib", "bytes allocated", "bytes copied")
    places = [header.index(column) for column in columns]
    assert places == sorted(places)

    lines = [line for line in rest if line.strip()]
    table = {}
    for line in lines[:8]:
        context, *name, low, middle, ratio, allocated, copied = line.split()
        assert 0 <= float(low) <= float(middle)
        assert float(ratio) >= 0
        table[int(context), " ".join(name)] = read(allocated), read(copied)
    assert set(table) == {(context, name) for context in (16, 32) for name in caches.NAMES}
    for context in (16, 32):
        held = (context + 1) * row  # this context, and the step's own token
        assert table[context, "kvlib"] == (held, row)  # nothing is moved but the new rows
        assert table[context, "static fits"] == (held, row)
        assert table[context, "static max"] == (33 * row, row)
        assert table[context, "dynamic"] == (held, held)  # all that is held, at every step
    assert lines[8].startswith("the faster of dynamic and static fits, x kvlib, by context: 16: ")
    assert "largest difference between the caches' logits" in lines[9]
    assert "GB/s" in lines[10] and "16 to 32 tokens" in lines[11]


def test_its_step_is_the_librarys(caches):
    """What is timed for kvlib is what `forward` does."""
    model = Transformer.random(caches.CONFIG, torch.Generator().manual_seed(0))
    one, two = (caches.filled("kvlib", 16, 16) for _ in range(2))
    assert torch.equal(caches.step(model, one, 16), forward(model, two.cache, torch.tensor([[7]])))
    assert torch.equal(one.cache.buffer, two.cache.buffer)
