"""The published figures of sizes and speeds, and what tests of them share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvlib.sizing.models import load_config, names

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="session")
def facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Figure by id: those of the fixture of this name one folder up, and those about memory and time."""
    rows = [row for file in ("facts_d.json", "facts_e.json") for row in json.loads((DATA / file).read_text("utf-8"))]
    for row in rows:
        assert set(row) == {"id", "setting", "figure", "source"}, row
        assert row["source"] == "course fact sheet"
    mine = {row["id"]: row["figure"] for row in rows}
    assert len(mine) == len(rows) and not set(mine) & set(facts)
    return facts | mine


@pytest.fixture(params=names())
def shipped(request) -> dict[str, Any]:
    """The config of each shipped model in turn."""
    return load_config(request.param)
