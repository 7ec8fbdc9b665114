"""kvlib is the bottom of the tree: it knows nothing of grading, and of Jupyter only when a picture is drawn."""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import kvlib

FOLDER = Path(kvlib.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
MODULES = sorted(module.name for module in pkgutil.walk_packages([str(FOLDER)], "kvlib."))
if importlib.util.find_spec("triton") is None:
    MODULES.remove("kvlib.gpu.kernel")  # the only one that needs it
# The modules of the lessons before PyTorch.
FIRST = [f"kvlib.{name}" for name in ("attention", "counters", "counts", "decoder", "machine", "numpy_cache", "plots")]
FIRST += ["kvlib.tiles", "kvlib.tile_values", "kvlib.attend_tiles", "kvlib.online_softmax", "kvlib.split_attend"]
FIRST += ["kvlib.recompute", "kvlib.toy", "kvlib.widgets", "kvlib.cli", "kvlib.figure"]
FIRST += [name for name in MODULES if name.startswith(("kvlib.sizing", "kvlib.plots"))]

LOADED = """
import importlib, sys
for name in {modules}:
    importlib.import_module(name)
print(*sorted({{name.split(".")[0] for name in sys.modules}}))
"""


def loaded(modules: list[str]) -> set[str]:
    """The top-level packages that a fresh Python holds after importing these modules."""
    code = LOADED.format(modules=modules)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_importing_everything_loads_no_jupyter_and_no_grading():
    pytest.importorskip("torch", reason="torch is missing: see `make torch`")
    assert set(FIRST) <= set(MODULES)
    packages = loaded(MODULES)
    assert "kvlib" in packages
    assert not packages & {"autograde", "IPython", "ipywidgets", "ipykernel", "matplotlib"}


def test_the_first_lessons_need_numpy_alone():
    packages = loaded(FIRST)
    assert "numpy" in packages
    assert not packages & {"torch", "triton", "scipy", "pandas"}


def test_the_package_itself_imports_nothing():
    assert kvlib.__version__ == "0.1.0"
    assert "numpy" not in loaded(["kvlib"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_file_names_autograde(path):
    """Not at the top, and not inside a function either."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not any(alias.name.split(".")[0] == "autograde" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] != "autograde"
