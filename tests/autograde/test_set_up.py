"""The set-up cell and what it calls, with a pip that only takes notes. tests/cloud has a real one."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograde import address, set_up
from autograde.authoring.header import set_up as cell


class Pip:
    """What pip was asked, and what it was to keep."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.kept: list[list[str]] = []
        self.answer = SimpleNamespace(returncode=0, stdout="", stderr="")

    def __call__(self, command: list[str], **how: object) -> SimpleNamespace:
        self.asked.append(command)
        self.kept.append(Path(command[command.index("-c") + 1]).read_text(encoding="utf-8").splitlines())
        return self.answer


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    """An installed course, on a machine where nothing but NumPy is there."""
    noted = Pip()
    monkeypatch.setattr(set_up, "is_checkout", lambda: False)
    monkeypatch.setattr(set_up, "_is_there", lambda name: name == "numpy")
    monkeypatch.setattr(set_up.subprocess, "run", noted)
    return noted


def test_what_is_there_is_left_alone_and_the_table_is_printed(pip, monkeypatch, capsys):
    monkeypatch.setattr(set_up, "_is_there", lambda name: True)
    set_up.set_up("torch", "matplotlib")
    set_up.set_up("torch", "matplotlib")
    said = capsys.readouterr().out
    assert pip.asked == []
    for row in ("Python", "NumPy", "torch", "GPU", "native FP8", "Triton"):
        assert said.count(f"\n{row}") + said.startswith(row) == 2, row


def test_in_a_checkout_nothing_is_installed(pip, monkeypatch, capsys):
    monkeypatch.setattr(set_up, "is_checkout", lambda: True)
    set_up.set_up("torch")
    assert pip.asked == []
    assert capsys.readouterr().out.startswith("Not installed here: torch. What needs it cannot run; docs/install.md")


def test_a_checkout_is_told_from_an_installed_course(tmp_path):
    assert set_up.is_checkout()
    assert not set_up.is_checkout(tmp_path / "site-packages" / "autograde")


def test_only_the_missing_is_installed_and_every_version_is_kept(pip, monkeypatch, capsys):
    looked: list[str] = []
    monkeypatch.setattr(set_up.site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(set_up.site, "addsitedir", looked.append)
    monkeypatch.setattr(set_up.importlib, "invalidate_caches", lambda: looked.append("anew"))
    set_up.set_up("matplotlib", "ipywidgets")
    assert looked == [set_up.site.getusersitepackages(), "anew"]  # else this kernel would not see what pip brought
    assert [command[-1] for command in pip.asked] == ["matplotlib", "ipywidgets"]
    assert f"numpy=={metadata.version('numpy')}" in pip.kept[0]
    assert len(pip.kept[0]) > 20 and all("==" in line for line in pip.kept[0])
    assert not any(Path(command[command.index("-c") + 1]).exists() for command in pip.asked)
    assert "Installing matplotlib ..." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("system", "gpu", "cpu_build"), [("linux", None, True), ("linux", "/x", False), ("darwin", None, False)]
)
def test_torch_comes_as_the_cpu_build_where_the_other_would_be_gigabytes(pip, monkeypatch, system, gpu, cpu_build):
    monkeypatch.setattr(set_up.sys, "platform", system)
    monkeypatch.setattr(set_up.shutil, "which", lambda name: gpu)
    set_up.set_up("torch")
    [command] = pip.asked
    assert ("--index-url" in command) == cpu_build


def test_a_failed_install_is_a_sentence(pip, capsys):
    pip.answer = SimpleNamespace(
        returncode=1, stdout="Looking\n", stderr="Got\nERROR: No matching distribution\nhint: ask\n"
    )
    set_up.set_up("matplotlib")
    said = capsys.readouterr().out
    assert "matplotlib could not be installed: ERROR: No matching distribution\n" in said
    assert "run this cell again" in said and "Python" in said


def test_no_folder_for_temporary_files_is_a_sentence(pip, monkeypatch, capsys):
    def full(**how: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(set_up.tempfile, "mkstemp", full)
    set_up.set_up("matplotlib")
    assert "matplotlib could not be installed: No space left on device" in capsys.readouterr().out


@pytest.mark.parametrize(("version", "told"), [("1.26.4", True), ("2.0", False), ("2.4.1", False), ("3.0", True)])
def test_an_untested_version_is_named_and_stays(monkeypatch, capsys, version, told):
    real = metadata.version
    monkeypatch.setattr(set_up.metadata, "version", lambda name: version if name == "numpy" else real(name))
    monkeypatch.setattr(set_up.metadata, "requires", lambda name: ['numpydoc>=9; extra == "docs"', "numpy<3,>=2.0"])
    said = list(set_up.remarks(("numpy",)))
    assert said == (
        [f"numpy {version} stays, though the course is tested with 2.0 to below 3: results may differ."] * told
    )
    set_up.set_up()
    assert capsys.readouterr().out.count(f"numpy {version} stays") == told


def run_cell(folder: Path, *, pip_says: int | None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the set-up cell's text; with `pip_says`, where the course is missing and pip is played by a file."""
    text, start = cell(()), ""
    if pip_says is not None:
        start = (
            "import subprocess as s, sys, types\nsys.modules['autograde'] = None\n"
            "def run(command, **how):\n    print('ASKED', *command[-3:])\n"
            f"    return types.SimpleNamespace(returncode={pip_says}, stderr='x\\nerror: no network\\nhint: ask\\n')\n"
            "s.run = run\n"
        )
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-c", start + text], cwd=folder, capture_output=True, encoding="utf-8",
        stdin=subprocess.DEVNULL, env={"PATH": "", "PYTHONPATH": root, "PYTHONIOENCODING": "utf-8", **environment},
    )  # fmt: skip


def test_the_cell_installs_nothing_where_the_course_is(tmp_path):
    done = run_cell(tmp_path, pip_says=None)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("Python ")


def test_the_cell_asks_pip_for_the_course_where_it_is_missing(tmp_path):
    assert f"ASKED --no-deps {address.archive()} numpy\n" in run_cell(tmp_path, pip_says=0).stdout
    done = run_cell(tmp_path, pip_says=0, KVCOURSE_SOURCE="/a/wheel.whl")
    assert "ASKED --no-deps /a/wheel.whl numpy\n" in done.stdout
    assert done.returncode == 0 and "Python " in done.stdout  # pip put it where the cell now finds it


def test_the_cell_says_in_a_line_why_the_course_could_not_be_installed(tmp_path):
    done = run_cell(tmp_path, pip_says=1, KVCOURSE_SOURCE="/a/wheel.whl")
    assert "The course could not be installed from /a/wheel.whl: error: no network\n" in done.stdout
