"""Every command in the README is run, as it stands there, in a copy of the course.

The copy has an environment of its own that borrows the packages of the one that runs this test, so nothing is fetched:
that `make` installs them is what runs before every test, in CI and for whoever types `make test`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograde.classroom.course import course_at
from autograde.classroom.execute import tier_for
from autograde.classroom.sample import read_answers, submit
from autograde.cli import main
from autograde.sandbox.tiers import NoSandbox

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MADE = {".git", ".venv", ".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", "build", "classroom"}
CLASS = ("autograde ", "cd ")  # these follow one another, in one class
ACTIVATE = "source .venv/bin/activate"
STEPS = ["quickstart", "release", "collect", "grade", "feedback", "export", "report"]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")


def commands() -> list[str]:
    """The lines of the README's shell blocks, without what is said about them."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    return [line.split(" #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def steps() -> list[str]:
    """What `autograde` is asked for, in its order."""
    return [line.split()[1] for line in commands() if line.startswith("autograde ")]


def left_out(folder: str, names: list[str]) -> set[str]:
    """What was made in a checkout and does not belong to it."""
    return (MADE if Path(folder) == ROOT else {"__pycache__", "_generated"}) & set(names)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course, with an environment that looks installed."""
    folder = tmp_path_factory.mktemp("readme") / "course"
    shutil.copytree(ROOT, folder, ignore=left_out, symlinks=True)
    venv.create(folder / ".venv", symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / ".venv")}))
    borrowed = [*site.getsitepackages(), site.getusersitepackages()]
    (packages / "borrowed.pth").write_text(
        f"{folder}\n" + "".join(f"import site; site.addsitedir({path!r})\n" for path in borrowed if os.path.isdir(path))
    )
    for program in ("autograde", "kvlib"):
        script = folder / ".venv/bin" / program
        script.write_text(f"#!{folder}/.venv/bin/python\nfrom {program}.cli import main\n\nraise SystemExit(main())\n")
        script.chmod(0o755)
    for stamp in (".python", ".lab", ".lessons", ".test", ".torch-cpu", ".model"):
        (folder / ".venv" / stamp).touch()
    return folder


def environment(copy: Path) -> dict[str, str]:
    """As in a fresh shell with the course's programs on the path: not as a part of the `make test` that may run us."""
    clean = {key: value for key, value in os.environ.items() if key not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "PYTHONPATH", "TORCH", "PYTHON"):
        clean.pop(name, None)
    path = [f"{copy}/.venv/bin", os.path.dirname(sys.executable), os.environ["PATH"]]
    return clean | {"PATH": os.pathsep.join(path), "AUTOGRADE_PROGRESS": "off"}


def run(copy: Path, command: str, folder: Path | None = None) -> str:
    """Run it, and give back what it printed."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder or copy, env=environment(copy), capture_output=True, text=True, timeout=600,
        stdin=subprocess.DEVNULL, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_command_has_a_test():
    """The blocks are found, and every line in them is run by one of the tests below."""
    known = {
        "make lab",
        "make test",
        "make demo",
        ACTIVATE,
        *(line for line in commands() if line.startswith(("kvlib ", *CLASS))),
    }
    installs = [line for line in commands() if line.startswith("pip install ")]
    assert len(commands()) >= 12 and len(installs) == 1
    assert set(commands()) - known - set(installs) == set()
    assert steps() == STEPS
    fences = [line.strip() for line in README.splitlines() if line.lstrip().startswith("```")]
    # A command in a block of another kind would be run by nobody.
    assert set(fences[::2]) == {"```sh", "```text"} and set(fences[1::2]) == {"```"}


def test_each_command_of_a_class_but_the_report_takes_a_dry_run(capsys):
    for step in STEPS:
        with pytest.raises(SystemExit):
            main([step, "--help"])
        assert ("--dry-run" in capsys.readouterr().out) == (step != "report"), step


@pytest.fixture
def lab(copy: Path) -> Iterator[str]:
    """The address that `make lab` prints."""
    log = copy / "lab.log"
    with log.open("w") as file:
        running = subprocess.Popen(
            ["bash", "-c", "make lab ARGS='--port=0 --ip=127.0.0.1'"], cwd=copy, env=environment(copy), stdout=file,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        for _ in range(600):
            found = re.search(r"http://127\.0\.0\.1:\d+/lab/\S+", log.read_text(encoding="utf-8"))
            if found:
                yield found[0]
                break
            assert running.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.2)
        else:
            pytest.fail(f"no address in two minutes:\n{log.read_text(encoding='utf-8')}")
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        running.wait(30)


def test_make_lab_serves_the_first_lesson(lab):
    assert "/lab/tree/lessons/00-start-here/00-start-here.ipynb" in lab
    where, token = lab.split("/lab/")[0], lab.split("token=")[1]
    with urllib.request.urlopen(f"{where}/api/contents/lessons/00-start-here?content=1&token={token}") as answer:
        assert b"00-start-here.ipynb" in answer.read()


def test_what_puts_the_commands_on_the_path(copy):
    assert ACTIVATE in commands()
    said = run(copy, f"PATH=/usr/bin:/bin; {ACTIVATE}; command -v autograde kvlib")
    assert said.split() == [f"{copy}/.venv/bin/autograde", f"{copy}/.venv/bin/kvlib"]


def test_make_test_runs_the_suite(copy):
    assert "1 passed" in run(copy, "make test ARGS='-p no:cacheprovider -n0 tests/test_cli.py -k ctrl_c'")


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("kvlib ")])
def test_kvlib(copy, command):
    assert "llama-3-8b" in run(copy, command).lower()


def test_pip_installs_the_package_by_that_name(copy, tmp_path):
    """The address is replaced by a wheel of this very tree; tests/cloud installs one for real."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    [line] = [line for line in commands() if line.startswith("pip install ")]
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=copy, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    [wheel] = tmp_path.glob("*.whl")
    local = re.sub(r"https://\S+\.zip", wheel.as_uri(), line)
    assert local != line
    command = local.replace(
        "pip install", f"{sys.executable} -m pip install --dry-run --no-deps --no-index --ignore-installed"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    assert "Would install kvcache-course" in done.stdout
    assert "does not provide the extra" not in done.stderr


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make ([a-z-]+)`", README))))
def test_commands_named_in_a_sentence_exist(copy, target):
    run(copy, f"make -n {target}")


@pytest.fixture
def locked_in() -> None:
    """Skip where submissions cannot be locked in."""
    try:
        tier_for(False, "")
    except NoSandbox as error:
        pytest.skip(f"no sandbox works here: {error}")


def test_make_demo_grades_a_made_up_class(copy, locked_in):
    said = run(copy, "make demo")
    assert "rows" in said and (copy / "classroom/demo/feedback/index.html").is_file()


def test_the_commands_of_a_class_in_their_order(copy, locked_in, tmp_path):
    """Quickstart, and then every command in the folder that it made."""
    lines = [line for line in commands() if line.startswith(CLASS)]
    given = course_at(ROOT, tmp_path / "given")
    for path in sorted((ROOT / "tests/sample_class/01-toy-cache").glob("*.py"))[:2]:
        submit(given, read_answers(path), "01-toy-cache")
    folder = tmp_path
    for line in lines:
        if line.startswith("cd "):
            folder = folder / line.split()[1]
            shutil.make_archive(str(folder / "submissions"), "zip", given.submitted)
        else:
            run(copy, line, folder)
    with zipfile.ZipFile(folder / "01.zip") as handed_out:
        assert any(name.endswith("01-toy-cache.ipynb") for name in handed_out.namelist())
    grades = (folder / "classroom/grades.csv").read_text(encoding="utf-8")
    assert grades.count("01-toy-cache") == 2
    assert (folder / "classroom/feedback/index.html").is_file()
    assert (folder / "classroom/report/index.html").is_file()
