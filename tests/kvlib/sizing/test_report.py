"""Plans as text: readable, aligned, units labelled, and numbers that are those of the plan."""

from __future__ import annotations

import json
import re

import pytest

from kvlib.sizing.compare import as_table, ratio
from kvlib.sizing.models import load_config
from kvlib.sizing.plan import Plan, make_plan
from kvlib.sizing.report import as_json, as_text, rows, size


def plan_of(name, **setting):
    return make_plan(load_config(name), setting.pop("gpu", "H100"), name=name, **setting)


def line_of(text, label):
    (found,) = [line for line in text.splitlines() if line.startswith(f"  {label}  ")]
    return found.removeprefix(f"  {label}").strip()


@pytest.fixture
def plan():
    return plan_of("llama-3-8b", context=32_768, batch=13, reserve_bytes=4 * 10**9)


def test_says_it_all(plan):
    text = as_text(plan)
    assert line_of(text, "model") == "llama-3-8b (llama), 32 layers"
    assert line_of(text, "GPUs") == "1 x H100, 80.00 GB (74.51 GiB), 3.35 TB/s each"
    assert line_of(text, "parameters") == "8.03 billion"
    assert line_of(text, "in all") == "16.06 GB (14.96 GiB)"
    assert line_of(text, "a token") == "131.07 KB (128.00 KiB)"
    assert line_of(text, "a sequence, on each GPU") == "4.29 GB (4.00 GiB)"
    assert line_of(text, "left for caches on each GPU") == "51.94 GB (48.37 GiB)"
    assert line_of(text, "sequences that fit") == "12"
    assert line_of(text, "takes at least") == "21.15 ms"
    assert line_of(text, "tokens/s at most") == "615"
    assert line_of(text, "what binds") == "memory capacity: 13 sequences do not fit"


def test_is_aligned_and_fits_on_a_screen(plan):
    lines = as_text(plan).splitlines()
    assert max(map(len, lines)) <= 120 and all(line == line.rstrip() and line.isascii() for line in lines)
    width = max(len(row.label) for row in rows(plan))
    shown = [line for line in lines if re.match(r"  [^ -]", line)]
    assert len(shown) == len(rows(plan))
    assert all(line[2 + width : 4 + width] == "  " and line[4 + width] != " " for line in shown)


def test_every_assumption_is_told(plan):
    told = " ".join(as_text(plan).split("Assumptions", 1)[1].split())
    for sentence in plan.assumptions:
        assert f"- {sentence}" in told


def test_every_size_is_labelled_in_both_units(plan):
    for row in rows(plan):
        if row.number is not None and "B" in row.text and "FLOP" not in row.text and "billion" not in row.text:
            assert re.fullmatch(r"(minus )?[\d.]+ [KMGT]B \([\d.]+ [KMGT]iB\)", row.text), row


def test_too_little_memory_is_said_as_such():
    text = as_text(plan_of("llama-3-70b"))
    assert line_of(text, "left for caches on each GPU").startswith("minus 69.11 GB (64.36 GiB)")
    assert line_of(text, "what binds") == "memory capacity: the weights alone do not fit"
    assert size(-(10**9)) == "minus 1.00 GB (0.93 GiB)"


def test_json_gives_the_plan_back(plan):
    other = plan_of("deepseek-v3", tp=8)
    assert Plan.from_dict(json.loads(as_json(plan))) == plan
    assert [Plan.from_dict(values) for values in json.loads(as_json(plan, other))] == [plan, other]


def test_two_side_by_side():
    first, second = plan_of("llama-2-70b", tp=8), plan_of("llama-3.1-405b", tp=8)
    table = as_table(first, second)
    assert re.split(r"  +", line_of(table, "a token")) == ["327.68 KB (320.00 KiB)", "516.10 KB (504.00 KiB)", "1.57 x"]
    assert re.split(r"  +", line_of(table, "sequences that fit")) == ["326", "0", "0 x"]
    assert line_of(table, "GPUs") == "8 x H100, 80.00 GB (74.51 GiB), 3.35 TB/s each"  # the same, so once
    assert "llama-3.1-405b" in line_of(table, "model")
    assert max(map(len, table.splitlines())) <= 140


def test_assumptions_of_one_carry_its_name():
    table = " ".join(as_table(plan_of("llama-3-8b"), plan_of("deepseek-v3")).split())
    assert "- deepseek-v3: The latent is cached as it is" in table
    assert "- Every sequence holds" in table


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        (2, 3, "1.5 x"),
        (3, 1, "0.333 x"),
        (1, 0, "0 x"),
        (0, 1, ""),
        (-1, 2, ""),
        (1, -2, ""),
        (None, 1, ""),
        (1, None, ""),
    ],
)
def test_ratios(first, second, shown):
    assert ratio(first, second) == shown
