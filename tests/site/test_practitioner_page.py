"""Each example of the page for practitioners, run from the page."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.site.blocks import DOCS, examples

EXAMPLES = examples("practitioner.md")


def test_there_are_five() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_prints_what_the_page_says(code: str, printed: str) -> None:
    for library, sign in (("torch", "import torch"), ("transformers", "transformers_bridge")):
        if sign in code and find_spec(library) is None:
            pytest.skip(f"{library} is missing")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=DOCS.parent, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
