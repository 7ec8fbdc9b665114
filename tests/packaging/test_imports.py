"""What the code imports, pyproject.toml lists; and the core needs NumPy alone."""

from __future__ import annotations

import ast
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = {"kvlib", "autograde", "tests"}


def imported(path: Path) -> set[str]:
    """The top-level names of the other people's packages that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").split(".")[0])
    return names - OURS - set(sys.stdlib_module_names)


def test_every_import_is_listed(root, project):
    """An import of something that only happens to be there breaks when whatever brought it stops doing so."""
    lines = project["dependencies"] + [line for extra in project["optional-dependencies"].values() for line in extra]
    listed = {canonicalize_name(Requirement(line).name) for line in lines}
    distributions = metadata.packages_distributions()
    missing = {}
    files = [path for folder in ("kvlib", "autograde") for path in (root / folder).rglob("*.py")]
    assert files
    for path in files:
        for name in imported(path):
            offered_by = {canonicalize_name(each) for each in distributions.get(name, [name])}
            if not offered_by & listed:
                missing.setdefault(name, []).append(str(path.relative_to(root)))
    assert not missing, f"imported, but not in pyproject.toml: {missing}"
