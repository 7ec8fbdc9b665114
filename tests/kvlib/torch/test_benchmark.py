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


@pytest.mark.parametrize("batch", [1, 3])
def test_its_table(caches, capsys, batch):
    assert caches.main(["--contexts", "16,32", "--rounds", "2", "--batch", str(batch), "--block-size", "4"]) == 0
    machine, setting, model, _, header, *rest = capsys.readouterr().out.splitlines()
    assert "torch" in machine and "transformers" in machine and "1 used" in machine
    assert f"sequences: {batch};" in setting and "blocks of 4 tokens" in setting
    c = caches.CONFIG
    row = 2 * c.num_layers * c.num_kv_heads * c.head_dim * 4  # bytes of one token's keys and values
    assert f"{row:,} B of KV per token" in model
    columns = ("context", "cache", "min ms", "median ms", "x kvlib", "bytes allocated", "bytes copied")
    places = [header.index(column) for column in columns]
    assert places == sorted(places)

    lines = [line for line in rest if line.strip()]
    table = {}
    for line in lines[: 2 * len(caches.MAKERS)]:
        context, *name, low, middle, ratio, allocated, copied = line.split()
        assert 0 <= float(low) <= float(middle)
        assert float(ratio) >= 0
        table[int(context), " ".join(name)] = read(allocated), read(copied)
    assert set(table) == {(context, name) for context in (16, 32) for name in caches.MAKERS}
    row *= batch
    for context in (16, 32):
        held = (context + 1) * row  # this context, and the step's own token
        assert table[context, "kvlib"] == (held, row)  # nothing is moved but the new rows
        assert table[context, "static fits"] == (held, row)
        assert table[context, "static max"] == (33 * row, row)
        assert table[context, "dynamic"] == (held, held)  # all that is held, at every step
        pool = (context // 4 + 1) * 4 * row  # whole blocks
        assert table[context, "paged"][0] == pool
        assert table[context, "paged apart"][0] == 2 * pool
        assert row <= table[context, "paged"][1] <= table[context, "paged apart"][1]
        assert table[context, "paged apart"][1] <= row + pool
        numbers = 2 * c.num_layers * c.num_kv_heads * batch
        assert table[context, "quantised"][0] == numbers * (context + 1) * (c.head_dim + 4)  # a byte each, and scales
        floats = 2 * held  # the codes as floats, and these times their scales
        assert floats < table[context, "quantised"][1] < floats + 5 * row
        if batch == 1:
            assert table[context, "paged"][1] == row  # blocks side by side are read where they are
    lines = lines[2 * len(caches.MAKERS) :]
    assert lines[0].startswith("the faster of dynamic and static fits, x kvlib, by context: 16: ")
    assert lines[1].startswith("paged, x kvlib, by context: 16: ")
    assert lines[2].startswith("quantised, x kvlib, by context: 16: ")
    assert "largest difference between the caches' logits" in lines[3]
    rounded = float(lines[3].split()[-1])
    assert 1e-4 < rounded < 1.0, "FP8 rounds, and no more than that"
    assert "GB/s" in lines[4] and "16 to 32 tokens" in lines[5]


def test_its_step_is_the_librarys(caches):
    """What is timed for kvlib is what `forward` does."""
    model = Transformer.random(caches.CONFIG, torch.Generator().manual_seed(0))
    sizes = caches.Sizes(17)
    one, two = (caches.filled("kvlib", sizes, sizes) for _ in range(2))
    logits, _ = caches.step(model, one, 16, 1)
    assert torch.equal(logits, forward(model, two.cache, torch.tensor([[7]])))
    assert torch.equal(one.cache.buffer, two.cache.buffer)


def test_paged_apart_has_no_neighbours_to_rely_on(caches):
    """Its blocks are scattered over a pool of which it owns half."""
    sizes = caches.Sizes(129, 1, 4)
    cache = caches.filled("paged apart", sizes, sizes).cache
    table = cache.tables.table(0)
    assert len(table) == 32 and cache.num_free == 1 and cache.num_blocks == 66
    assert sum(abs(a - b) == 1 for a, b in zip(table, table[1:], strict=False)) < 8
