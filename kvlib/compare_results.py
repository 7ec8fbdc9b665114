"""What one method gains over another, setting by setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def compare(rows: Iterable[Mapping[str, Any]], metric: str, method: str, baseline: str) -> list[tuple[str, float]]:
    """(setting, gain) for each setting in which both methods were measured on this metric.

    rows: each with "setting", "metric", "better" ("higher" or "lower"), "method" and "value", as
    `kvlib.published.RESULTS` has them. A gain is a difference in the metric's unit, and positive where `method` is the
    better one. Settings come in the order in which they first appear in `rows`. [] where none has both.

    >>> row = {"setting": "7B", "metric": "time", "unit": "s", "better": "lower"}
    >>> compare([{**row, "method": "MHA", "value": 1.5}, {**row, "method": "MQA", "value": 0.5}], "time", "MQA", "MHA")
    [('7B', 1.0)]
    """
    measured: dict[str, dict[str, float]] = {}  # by setting and method; larger is better
    for row in rows:
        values = measured.setdefault(row["setting"], {})
        if row["metric"] == metric:
            values[row["method"]] = row["value"] if row["better"] == "higher" else -row["value"]
    return [
        (setting, values[method] - values[baseline])
        for setting, values in measured.items()
        if method in values and baseline in values
    ]
