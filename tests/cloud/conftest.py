"""Machines as cloud notebooks have them: Python environments that never saw this repository.

Each is a virtual environment of its own. The large packages are installed once for all tests, whichever process comes
first; a test gets a copy whose files are links to those, and may install into it what it likes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PIP = ("-m", "pip", "install", "--quiet", "--no-input", "--no-compile", "--disable-pip-version-check")
TORCH = re.search(r"^torch==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
TORCH_INDEX = os.environ.get("TORCH_INDEX", "https://download.pytorch.org/whl/cpu")
PLATFORM = ("matplotlib", "ipykernel", "ipywidgets")  # what every cloud notebook brings
USED = "import matplotlib.pyplot, ipywidgets, ipykernel.kernelapp, torch"
KEPT_OUT = ("PYTHON", "VIRTUAL_ENV", "PIP_REQUIRE", "JUPYTER", "JPY_", "IPYTHON", "KVCOURSE")


class CannotInstall(Exception):
    """pip could not get a package; the message is its last line."""


@dataclass(frozen=True)
class Machine:
    """One environment."""

    folder: Path
    wheel: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Where its packages lie."""
        return self.folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def environment(self, **more: str) -> dict[str, str]:
        """What a program sees there: nothing of the environment that the tests run in, and this course's wheel."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith(KEPT_OUT)}
        mine |= {"PATH": f"{self.folder / 'bin'}:{mine['PATH']}", "KVCOURSE_SOURCE": str(self.wheel)}
        mine |= {"AUTOGRADE_PROGRESS": "off", "OMP_NUM_THREADS": "1", "IPYTHONDIR": str(self.folder / "ipython")}
        return mine | {"MPLCONFIGDIR": str(self.folder / "matplotlib"), "PYTHONNOUSERSITE": "1"} | more

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run its Python, in its own folder."""
        return subprocess.run(
            [str(self.python), *arguments], cwd=self.folder, env=self.environment(**more),
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def install(self, *what: str) -> None:
        """Install something there. Raises `CannotInstall`."""
        done = self.run(*PIP, *what)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip failed"]
            raise CannotInstall(f"pip cannot install {' '.join(what)}: {lines[-1].strip()}")

    def files(self, *tops: str) -> dict[str, tuple[int, int, int]]:
        """The files of these packages, of all without a name: size, time and inode. Compiled ones are left out."""
        found = {}
        for path in self.packages.rglob("*"):
            name = path.relative_to(self.packages).as_posix()
            if path.is_file() and path.suffix != ".pyc" and (not tops or name.startswith(tops)):
                state = path.stat()
                found[name] = (state.st_size, state.st_mtime_ns, state.st_ino)
        return found


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # let go of when the file is closed
        yield


def _once(folder: Path, make: Callable[[], None]) -> None:
    """Make a folder, in whichever of the tests' processes comes first; a failure is remembered for the others."""
    done, failed = folder.with_suffix(".done"), folder.with_suffix(".failed")
    with _alone(folder.with_suffix(".lock")):
        if not done.exists() and not failed.exists():
            try:
                make()
                done.touch()
            except CannotInstall as error:
                failed.write_text(str(error))
    if failed.exists():
        pytest.skip(failed.read_text())


def _new(folder: Path, wheel: Path) -> Machine:
    done = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True)
    if done.returncode:
        raise CannotInstall(f"python -m venv failed: {(done.stdout + done.stderr).strip()[-200:]}")
    return Machine(folder, wheel)


def _copy(old: Machine, folder: Path) -> Machine:
    new = Machine(folder, old.wheel)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    new.packages.rmdir()
    shutil.copytree(old.packages, new.packages, copy_function=os.link)
    return new


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all processes of this run of the tests."""
    if sys.platform != "linux":
        pytest.skip("cloud notebooks run Linux, and so does what imitates them")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cloud"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    """The wheel of the tree as it is."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed, so no wheel was built: pip install hatchling, or make test")

    def build() -> None:
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", shared / "wheel"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr

    _once(shared / "wheel", build)
    [path] = (shared / "wheel").glob("*.whl")
    return path


@pytest.fixture(scope="session")
def with_torch(shared: Path, wheel: Path) -> Machine:
    """NumPy, the newest of the range, and the CPU build of torch."""
    machine = Machine(shared / "with-torch", wheel)

    def make() -> None:
        _new(machine.folder, wheel)
        # As the Makefile does: this build alone, since the plain one brings gigabytes of CUDA; then what it needs.
        machine.install(
            "--no-deps", f"torch=={TORCH}+cpu", "--index-url", TORCH_INDEX, "--retries", "1", "--timeout", "15"
        )
        machine.install(f"torch=={TORCH}", "numpy>=2.0,<3")
        machine.run("-c", "import torch")  # compiled once for all copies

    _once(machine.folder, make)
    return machine


@pytest.fixture(scope="session")
def cloud(shared: Path, with_torch: Machine) -> Machine:
    """What a cloud notebook brings before anybody installs anything; no nbgrader, and no course."""
    machine = Machine(shared / "cloud", with_torch.wheel)

    def make() -> None:
        _copy(with_torch, machine.folder)
        machine.install(*PLATFORM)
        machine.run("-c", USED)

    _once(machine.folder, make)
    return machine


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[Machine], Machine]:
    """Makes a test's own copy of a machine, to install into."""
    return lambda machine: _copy(machine, tmp_path / "machine")


@pytest.fixture
def without_torch(tmp_path: Path, wheel: Path) -> Machine:
    """NumPy alone."""
    try:
        machine = _new(tmp_path / "machine", wheel)
        machine.install("numpy>=2.0,<3")
    except CannotInstall as error:
        pytest.skip(str(error))
    return machine
