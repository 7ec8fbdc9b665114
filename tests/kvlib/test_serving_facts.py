"""What the course says of shared prompts in a serving engine, counted with its own prefix index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvlib.prefix_index import PrefixIndex

FACTS = Path(__file__).parents[1] / "data" / "facts_k.json"
PROMPT = list(range(12))  # 3 blocks of 4


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    rows = json.loads(FACTS.read_text(encoding="utf-8"))
    assert all(set(row) == {"id", "setting", "figure", "source"} for row in rows)
    assert all(row["source"] == "course fact sheet" for row in rows)
    return {row["id"]: row["figure"] for row in rows}


def computed_blocks(identities: list[tuple[str, ...]]) -> int:
    """Blocks of a shared prompt that are computed when each of these asks with one token more of its own."""
    index, blocks = PrefixIndex(num_blocks=97, block_size=4), 0
    for i, identity in enumerate(identities):
        cached = index.admit(i, [*PROMPT, 100 + i], identity)
        blocks += (len(PROMPT) - cached) // 4
        index.computed(i)
    return blocks


@pytest.mark.parametrize("adapters", [1, 2, 5])
def test_a_shared_prompt_is_cached_once_for_each_adapter(facts, adapters):
    users = [("model", f"adapter {i % adapters}", "tenant") for i in range(3 * adapters)]
    assert computed_blocks(users) == 3 * adapters * facts["K2.adapters"]["times_per_adapter"]


def test_each_part_of_the_key_tells_prompts_apart(facts):
    parts = facts["K2.identity"]
    for i in range(len(parts)):
        other = tuple("another" if j == i else part for j, part in enumerate(parts))
        assert computed_blocks([tuple(parts), other, tuple(parts), other]) == 2 * 3
