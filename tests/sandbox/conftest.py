"""Workers for tests: one template for the whole test process, and a room of its own for each worker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autograde.lessons import LESSONS
from autograde.sandbox.limits import Limits
from autograde.sandbox.sandbox import Sandbox
from autograde.sandbox.spawner import Spawner
from autograde.sandbox.tiers import BUBBLEWRAP, LANDLOCK, problem_with
from autograde.sandbox.view import PACKAGE, make_view

PRELOAD = ("numpy", "IPython.core.interactiveshell")


@pytest.fixture(scope="session")
def view(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What workers may import, for lesson 01; and, for tests that need known work inside, all of the course."""
    folder = tmp_path_factory.mktemp("view")
    make_view(folder, LESSONS[1])
    for name in ("autograde", "kvlib"):
        shutil.copytree(
            PACKAGE.parent / name, folder / "autograde" / "known" / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.geteuid() and path.name.startswith(("pytest", "view")):
            path.chmod(0o755)  # root's workers are somebody else
    return folder


@pytest.fixture(scope="session")
def spawner(view: Path) -> Iterator[Spawner]:
    """The template."""
    spawner = Spawner(view, PRELOAD)
    yield spawner
    spawner.close()


@pytest.fixture(scope="session", params=[BUBBLEWRAP, LANDLOCK])
def tier(request: pytest.FixtureRequest) -> str:
    """Each tier that works on this machine."""
    if problem := problem_with(request.param):
        pytest.skip(f"{request.param} does not work here: {problem}")
    return request.param


@pytest.fixture
def worker(spawner: Spawner, view: Path, tier: str) -> Iterator[Callable[..., Sandbox]]:
    """`worker()` starts a worker, `worker(memory=...)` one with other limits; all are gone after the test."""
    started: list[Sandbox] = []

    def start(**limits: float) -> Sandbox:
        started.append(Sandbox(spawner, view, tier, Limits(**{"cell_seconds": 5.0, **limits})))
        return started[-1]

    yield start
    for sandbox in started:
        sandbox.close()
