"""What a learner's machine imports also imports on Windows, and reads and writes text in UTF-8 there."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POSIX = {
    "crypt",
    "fcntl",
    "grp",
    "posix",
    "pty",
    "pwd",
    "pyseccomp",
    "readline",
    "resource",
    "syslog",
    "termios",
    "tty",
}
STARTS = ("autograde", "autograde.check", "autograde.set_up", "autograde.reset", "autograde.cli", "autograde.progress")
TEXT = {"text", "universal_newlines"}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement that runs when the module is imported: no function bodies, nothing that is for types only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_import(child)


def imported(tree: ast.Module) -> set[str]:
    """Names that may be modules, as they are written."""
    found: set[str] = set()
    for node in at_import(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def file_of(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)


def learners_modules() -> dict[str, Path]:
    """kvlib, the exercises, and what `check`, `reset` and the set-up cell import, from there on and on."""
    whole = [*(ROOT / "kvlib").rglob("*.py"), *(ROOT / "autograde/exercises").rglob("*.py")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in whole]
    waiting, found = [*STARTS, *names], {}
    while waiting:
        module = waiting.pop()
        path = file_of(module)
        if path is not None and module not in found:
            found[module] = path
            waiting += imported(tree_of(path))
    return found


MODULES = learners_modules()


def without_encoding(tree: ast.Module) -> list[int]:
    """The lines of calls that ask for text and do not say in which encoding."""
    lines = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        named = {word.arg for word in call.keywords}
        if named & TEXT and "encoding" not in named and "subprocess" in ast.unparse(call.func):
            lines.append(call.lineno)
    return lines


def test_all_that_a_learner_imports_is_looked_at():
    assert {"autograde.judge", "autograde.deadline", "kvlib.gpu.own_process", "kvlib.widgets"} <= MODULES.keys()
    assert "autograde.sandbox.enter" not in MODULES


def test_no_module_needs_what_windows_has_not():
    found = {name: POSIX & {one.split(".")[0] for one in imported(tree_of(path))} for name, path in MODULES.items()}
    assert {name: modules for name, modules in found.items() if modules} == {}


def test_programs_are_read_in_a_named_encoding():
    found = {name: without_encoding(tree_of(path)) for name, path in MODULES.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.skipif(find_spec("ruff") is None, reason="ruff is not installed")
def test_ruff_asks_for_the_encoding_of_files(tmp_path):
    """It looks at all of kvlib and autograde; here is that it sees what it should."""
    file = tmp_path / "reads.py"
    file.write_text('from pathlib import Path\n\nTEXT = Path("a").read_text()\n', encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise"]
    command += ["--config", str(ROOT / "pyproject.toml")]
    planted = subprocess.run([*command, str(file)], capture_output=True, encoding="utf-8")
    assert planted.returncode == 1 and "encoding" in planted.stdout
    whole = subprocess.run([*command, "--select", "PLW1514", "kvlib", "autograde"], cwd=ROOT, capture_output=True)
    assert whole.returncode == 0, whole.stdout


def test_a_console_of_another_code_page_shows_what_a_learner_is_told():
    """Windows gives a program whose output goes to a file the old code page; a letter that it lacks would raise."""
    script = (
        "import autograde\n"
        "from autograde.exercises import load\n"
        "class Mine: pass\n"
        "for id in load():\n"
        "    autograde.check(id), autograde.check(id, Mine), autograde.reset(id)\n"
        "autograde.check('99.9'), autograde.progress()\n"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "AUTOGRADE_PROGRESS": "off", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="cp1252", env=environment)
    assert done.returncode == 0, done.stderr
    assert "1.3" in done.stdout and "12.3" in done.stdout
