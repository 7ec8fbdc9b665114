"""Published comparisons of ways to make the cache smaller. Each figure belongs to its setting, and to no other.

The figures are the papers' own. A loss or a gain in one setting says nothing sure about another: model sizes, training
and tests all differ.

>>> [(row["method"], row["value"]) for row in RESULTS if row["setting"] == TRANSLATION and row["metric"] == "BLEU"]
[('MHA', 26.7), ('MQA', 26.5)]
"""

from __future__ import annotations

from typing import TypedDict


class Result(TypedDict):
    """One measured figure."""

    setting: str  # the paper's model and training: only figures of one setting may be compared
    metric: str
    unit: str
    better: str  # "higher" or "lower"
    method: str
    value: float
    source: str


def _rows(setting: str, source: str, metric: str, unit: str, better: str, **values: float) -> list[Result]:
    """One row for each method, named as papers write it: `gqa8=...` is GQA-8."""
    names = {"mha": "MHA", "gqa": "GQA", "gqa8": "GQA-8", "mqa": "MQA", "mla": "MLA"}
    return [
        Result(setting=setting, metric=metric, unit=unit, better=better, method=names[name], value=value, source=source)
        for name, value in values.items()
    ]


SHAZEER = "Shazeer 2019, Fast Transformer Decoding, arXiv 1911.02150"
AINSLIE = "Ainslie et al. 2023, GQA, arXiv 2305.13245"
DEEPSEEK = "DeepSeek-AI 2024, DeepSeek-V2, arXiv 2405.04434"

TRANSLATION = "translation, trained from scratch, decoding on a TPUv2"
UPTRAINED = "T5-XXL, heads pooled and trained further"
DENSE = "DeepSeek 7B, trained from scratch"
SMALL_PAIR = "DeepSeek, small pair, each trained from scratch"
LARGE_PAIR = "DeepSeek, large pair, each trained from scratch"

RESULTS: tuple[Result, ...] = (
    *_rows(TRANSLATION, SHAZEER, "decoder time per token", "µs", "lower", mha=46, mqa=3.8),
    *_rows(TRANSLATION, SHAZEER, "BLEU", "points", "higher", mha=26.7, mqa=26.5),
    *_rows(UPTRAINED, AINSLIE, "mean score", "points", "higher", mha=47.2, gqa8=47.1, mqa=46.6),
    *_rows(UPTRAINED, AINSLIE, "time per sample", "s", "lower", mha=1.51, gqa8=0.28),
    *_rows(DENSE, DEEPSEEK, "MMLU", "points", "higher", mha=45.2, gqa=41.2, mqa=37.9),
    *_rows(SMALL_PAIR, DEEPSEEK, "C-Eval", "points", "higher", mha=51.6, mla=50.9),
    *_rows(SMALL_PAIR, DEEPSEEK, "cache", "thousand elements/token", "lower", mha=110.6, mla=15.6),
    *_rows(LARGE_PAIR, DEEPSEEK, "MMLU", "points", "higher", mha=57.5, mla=59.0),
    *_rows(LARGE_PAIR, DEEPSEEK, "BBH", "points", "higher", mha=46.6, mla=50.7),
    *_rows(LARGE_PAIR, DEEPSEEK, "cache", "thousand elements/token", "lower", mha=860.2, mla=34.6),
)

FEWER_PERCENT = 93.3  # DeepSeek-AI 2024: the cache of DeepSeek-V2, in percent below that of DeepSeek 67B
