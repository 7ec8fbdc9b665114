"""The published table, figure by figure, against the fact sheet. Nothing works these out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlib.compare_results import compare
from kvlib.published import (
    DENSE,
    FEWER_PERCENT,
    LARGE_PAIR,
    RESULTS,
    SMALL_PAIR,
    TRANSLATION,
    UPTRAINED,
)

DATA = Path(__file__).parents[1] / "data"
FIELDS = {"setting", "metric", "unit", "better", "method", "value", "source"}


@pytest.fixture(scope="module")
def figures() -> dict:
    """Figure by id."""
    names = ("facts_d.json", "facts_f.json", "facts_j.json")
    rows = [row for name in names for row in json.loads((DATA / name).read_text("utf-8"))]
    assert all(set(row) == {"id", "setting", "figure", "source"} for row in rows)
    return {row["id"]: row["figure"] for row in rows}


def measured(setting: str, metric: str) -> dict[str, float]:
    """Value by method of one metric in one setting."""
    return {row["method"]: row["value"] for row in RESULTS if (row["setting"], row["metric"]) == (setting, metric)}


def test_what_shazeer_measured(figures):
    fact = figures["F4.speed"]
    assert measured(TRANSLATION, "decoder time per token") == {"MHA": fact["mha_us"], "MQA": fact["mqa_us"]}
    assert measured(TRANSLATION, "BLEU") == {"MHA": fact["mha_bleu"], "MQA": fact["mqa_bleu"]}


def test_what_ainslie_measured(figures):
    fact = figures["F4.uptrained"]
    assert measured(UPTRAINED, "mean score") == {"MHA": fact["mha"], "GQA-8": fact["gqa8"], "MQA": fact["mqa"]}
    assert measured(UPTRAINED, "time per sample") == {"MHA": fact["mha_s"], "GQA-8": fact["gqa8_s"]}


def test_what_deepseek_measured(figures):
    fact, pairs, cache = figures["F4.scratch"], figures["F4.mla"], figures["J1.cache"]
    assert measured(DENSE, "MMLU") == {"MHA": fact["mha"], "GQA": fact["gqa"], "MQA": fact["mqa"]}
    for setting, metric, (mla, mha) in (
        (LARGE_PAIR, "MMLU", pairs["mmlu"]),
        (LARGE_PAIR, "BBH", pairs["bbh"]),
        (SMALL_PAIR, "C-Eval", pairs["small_c_eval"]),
        (SMALL_PAIR, "cache", reversed(cache["small"])),
        (LARGE_PAIR, "cache", reversed(cache["large"])),
    ):
        assert measured(setting, metric) == {"MHA": mha, "MLA": mla}
    assert figures["D15.fewer"]["percent"] == FEWER_PERCENT


def test_the_large_pairs_cache_is_that_of_the_shipped_model(figures):
    """34,560 elements: the figure in thousands is the same number, rounded."""
    assert round(figures["D3.elements_per_token"]["deepseek-v2"] / 1000, 1) == measured(LARGE_PAIR, "cache")["MLA"]


def test_every_row_is_whole():
    assert all(set(row) == FIELDS for row in RESULTS)
    keys = [(row["setting"], row["metric"], row["method"]) for row in RESULTS]
    assert len(set(keys)) == len(keys) == 22
    for metric in {row["metric"] for row in RESULTS}:
        kinds = {(row["unit"], row["better"]) for row in RESULTS if row["metric"] == metric}
        assert len(kinds) == 1, metric
        assert kinds <= {(unit, better) for unit, _ in kinds for better in ("higher", "lower")}
    for setting in {row["setting"] for row in RESULTS}:
        assert len({row["source"] for row in RESULTS if row["setting"] == setting}) == 1


def test_mla_does_not_beat_mha_everywhere():
    """What the lesson asks: better in the large pair, worse on the small pair's C-Eval."""
    large, small = (compare(RESULTS, metric, "MLA", "MHA") for metric in ("MMLU", "C-Eval"))
    assert large == [(LARGE_PAIR, pytest.approx(1.5))]
    assert small == [(SMALL_PAIR, pytest.approx(-0.7))]


def test_settings_are_never_mixed():
    """MMLU is there of two settings, but nobody measured GQA and MLA in one."""
    assert compare(RESULTS, "MMLU", "MLA", "GQA") == []
    assert compare(RESULTS, "mean score", "MQA", "GQA-8") == [(UPTRAINED, pytest.approx(-0.5))]
    assert compare(RESULTS, "time per sample", "GQA-8", "MHA") == [(UPTRAINED, pytest.approx(1.23))]
    assert [setting for setting, _ in compare(RESULTS, "cache", "MLA", "MHA")] == [SMALL_PAIR, LARGE_PAIR]


def row(setting: str, method: str, value: float, metric: str = "score") -> dict:
    return {"setting": setting, "metric": metric, "better": "higher", "method": method, "value": value}


def test_compare_keeps_zeros_and_the_order_of_first_appearance():
    rows = [row("b", "X", 1.0, "other"), row("a", "X", 0.0), row("a", "Y", 0.0), row("b", "Y", 2.0), row("b", "X", 0.0)]
    assert compare(rows, "score", "X", "Y") == [("b", -2.0), ("a", 0.0)]
    assert compare(rows, "other", "X", "Y") == compare([], "score", "X", "Y") == []
