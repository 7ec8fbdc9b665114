"""The tests of the sandbox again, as a user without rights: then bubblewrap makes user namespaces, and Landlock works.

When the suite itself runs as such a user, its other tests have shown all this, and only root's branch is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograde.sandbox.paths import packages
from autograde.sandbox.view import PACKAGE

UID = 64010
SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture
def for_everybody(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course that any user can read, in a folder that it can write to."""
    folder = Path("/var/tmp") / f"as-another-user-{os.getpid()}"
    ignore = shutil.ignore_patterns("__pycache__", "test_other_user.py")
    for name in ("autograde", "kvlib", "tests/sandbox"):
        shutil.copytree(PACKAGE.parent / name, folder / name, ignore=ignore)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("uid", [UID, 0], ids=["nobody", "root"])
def test_the_sandbox_works_for_others_with_the_systems_python(for_everybody: Path, uid: int) -> None:
    """For a user without rights, and for root with a Python that workers, who are not root, can read."""
    if os.geteuid() != 0:
        pytest.skip("this suite does not run as root: its other tests are this test")
    if not _is_this_version(SYSTEM_PYTHON):
        pytest.skip(f"{SYSTEM_PYTHON} is not this version of Python: none here that another user could run")
    os.chown(for_everybody, uid, uid)
    command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", SYSTEM_PYTHON, "-m", "pytest", "-q"]
    command += [
        "-rs",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "-k",
        "not tensors and (not outcome or 1.3 or 0.1)",
    ]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(for_everybody),
        "PYTHONPATH": os.pathsep.join([str(for_everybody), *packages()]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(for_everybody),
    }
    chosen = ["tests/sandbox/test_remote.py", "tests/sandbox/test_sandbox.py"]
    done = subprocess.run(
        [*command, *chosen], cwd=for_everybody, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout, done.stdout


def _is_this_version(python: str) -> bool:
    command = [python, "-c", "import sys; print(sys.version_info[:2] == tuple(map(int, sys.argv[1:])))"]
    try:
        asked = [*command, *map(str, sys.version_info[:2])]
        return subprocess.run(asked, capture_output=True, text=True).stdout == "True\n"
    except OSError:
        return False
