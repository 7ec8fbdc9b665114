"""The wheel is enough to run every check: no checkout, no nbgrader, no Jupyter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from autograde.exercises import MODULES
from tests.cloud.conftest import Machine

SCRIPT = Path(__file__).with_name("judge_all.py")


def judged(machine: Machine) -> dict[str, dict]:
    """Every exercise's reference, checked there."""
    machine.install("--no-deps", str(machine.wheel))
    done = machine.run("-I", str(SCRIPT))
    assert done.returncode == 0 and not done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == list(MODULES)
    return found


def test_with_torch_every_reference_gets_full_marks(with_torch: Machine, copy_of: Callable[[Machine], Machine]):
    found = judged(copy_of(with_torch))
    assert {name: result["said"] for name, result in found.items() if not result["full"]} == {}


def test_without_torch_the_numpy_exercises_pass_and_the_others_say_what_is_missing(without_torch: Machine):
    found = judged(without_torch)
    numpy = {name: result for name, result in found.items() if not result["torch"]}
    assert {"0.1", "1.3", "2.3", "3.9"} <= set(numpy) and len(numpy) < len(found)
    assert {name: result["said"] for name, result in numpy.items() if not result["full"]} == {}
    for name, result in found.items():  # of the others a few need no tensor after all
        said = " ".join(result["said"].split())
        checked_in_vain = "No module named 'torch'" in said  # the exercise needs no tensor, this reference does
        assert result["full"] or checked_in_vain or "not checked, since PyTorch is not installed here" in said, name
    assert "not checked, since PyTorch" in found["4.2"]["said"]
    assert not found["4.1"]["full"]
