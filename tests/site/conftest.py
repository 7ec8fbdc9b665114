"""The built site, once for all tests and all workers: from a copy of docs/, without network, warnings as errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.site.blocks import DOCS
from tests.site.page import Page

NOWHERE = "http://127.0.0.1:9"  # where nothing listens: what asks for a page fails at once


def build(docs: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make site` does, in a network namespace of its own where that is possible."""
    alone = ["unshare", "--map-root-user", "--net"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True).returncode:
        alone = []
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    env |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
    options = ["-W", "--keep-going", "-n", "-q", "-b", "html"]
    command = [*alone, sys.executable, "-m", "sphinx", *options, str(docs), str(out)]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=DOCS.parent, timeout=900)


def copy_docs(to: Path) -> Path:
    """A copy of docs/ without what a build made: tests beside each other write into none of them."""
    return Path(shutil.copytree(DOCS, to, ignore=shutil.ignore_patterns("_generated", "__pycache__")))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of the built site. The first worker that asks builds it, the others wait."""
    missing = [name for name in ("sphinx", "myst_nb", "furo", "latex2mathml", "torch") if find_spec(name) is None]
    if missing:
        pytest.skip(f"the site cannot be built: {', '.join(missing)} is missing")
    from filelock import FileLock

    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "site"
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            shared.mkdir()
            done = build(copy_docs(shared / "docs"), shared / "html")
            (shared / "log").write_text(done.stdout + done.stderr)
            (shared / "status").write_text(str(done.returncode))
    status, log = (shared / "status").read_text(), (shared / "log").read_text()
    assert status == "0", log
    return shared / "html"


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[str, Page]:
    """Every page of the site by its address from the site's root."""
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}
