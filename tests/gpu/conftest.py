"""One thread, and child processes that see no more of this machine than they should."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tests run beside each other; threads of one would wait for those of another."""
    if find_spec("torch") is None:  # what is chosen and planned needs none
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def python(tmp_path) -> Callable[..., subprocess.CompletedProcess]:
    """Run Python with these arguments in a process of its own, with an empty Triton cache and no GPU in sight.

    The interpreter's setting is read when triton is imported, and a read outside of a tensor ends the process.
    """

    def run(*arguments: str, timeout: int = 240, **environment: str) -> subprocess.CompletedProcess:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TRITON")}
        clean |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TRITON_CACHE_DIR": str(tmp_path / "triton")}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=clean | environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
