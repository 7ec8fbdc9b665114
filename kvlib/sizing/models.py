"""The configs that come with the course: the fields of real models' config.json files that sizing reads."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

FOLDER = files("kvlib") / "data" / "models"


def names() -> list[str]:
    """Names of all shipped models, sorted.

    >>> names()[:2]
    ['deepseek-67b', 'deepseek-v2']
    """
    return sorted(entry.name.removesuffix(".json") for entry in FOLDER.iterdir() if entry.name.endswith(".json"))


def load_config(name: str) -> dict[str, Any]:
    """The config of a shipped model, as a new dict; upper and lower case are the same. ValueError names the known ones.

    The keys are the model's own. Those with an underscore are ours: `_source` says whose config.json it is, and
    `_parameters` and `_active_parameters` are the counts that its makers publish, where they do.

    >>> config = load_config("llama-3-8b")
    >>> config["num_attention_heads"], config["num_key_value_heads"]
    (32, 8)
    """
    known = names()
    if not isinstance(name, str) or name.lower() not in known:
        raise ValueError(f"no model {name!r} comes with the course: there are {', '.join(known)}")
    return json.loads((FOLDER / f"{name.lower()}.json").read_text(encoding="utf-8"))
