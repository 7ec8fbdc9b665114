"""pyproject.toml, constraints.txt and environment.yml say one and the same thing.

The three are read by different people: a student types `make lab`, another uses conda, a third installs from a cloud
notebook. When they drift apart, one of the three gets versions that nobody tested.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

yaml = pytest.importorskip("yaml", reason="pyyaml is in the extra [test]")

EXTRAS = {"course", "grading", "cluster", "postgres", "test", "docs", "torch", "model", "gpu"}
IN_ENVIRONMENT = (
    "course",
    "grading",
    "test",
    "docs",
)  # the extras that environment.yml installs, beside the core and torch
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.]+)")


def by_name(lines: list[str]) -> dict[str, SpecifierSet]:
    """Canonical name -> range. Fails on a name that is listed twice."""
    found: dict[str, SpecifierSet] = {}
    for requirement in map(Requirement, lines):
        name = canonicalize_name(requirement.name)
        assert name not in found, f"{name} is listed twice"
        found[name] = requirement.specifier
    return found


@pytest.fixture(scope="module")
def pins(root: Path) -> dict[str, Version]:
    """What constraints.txt pins."""
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned: dict[str, Version] = {}
    for line in lines:
        if line and not line.startswith("#"):
            match = PIN.fullmatch(line)
            assert match, f"constraints.txt has only lines like name==version, and this one: {line}"
            name = canonicalize_name(match[1])
            assert name not in pinned, f"{name} is pinned twice"
            pinned[name] = Version(match[2])
    assert pinned
    return pinned


@pytest.fixture(scope="module")
def environment(root: Path) -> dict:
    """environment.yml: its name, its conda packages, and the lines of its pip section."""
    parsed = yaml.safe_load((root / "environment.yml").read_text(encoding="utf-8"))
    conda = [item for item in parsed["dependencies"] if isinstance(item, str)]
    [pip] = [item["pip"] for item in parsed["dependencies"] if isinstance(item, dict)]
    return {"name": parsed["name"], "conda": conda, "pip": pip}


def test_every_extra_is_there(project):
    assert set(project["optional-dependencies"]) == EXTRAS


def test_numpy_alone_is_needed_to_import_the_course(project):
    assert set(by_name(project["dependencies"])) == {"numpy"}


def test_nothing_asks_for_torch_but_its_own_extra(project):
    """Anything else that did would bring the CUDA build, gigabytes of it, to every student on Linux."""
    for extra, lines in project["optional-dependencies"].items():
        assert ("torch" in by_name(lines)) == (extra == "torch"), extra


def test_every_requirement_says_why(root):
    lines = (root / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    required = [line for line in lines if re.match(r'\s+"[a-z0-9-]+(==|>=)', line)]
    assert len(required) >= 15
    assert [line for line in required if not re.search(r'", # \w+', line)] == []


def test_every_requirement_is_pinned_within_its_range(project, pins):
    for lines in [project["dependencies"], *project["optional-dependencies"].values()]:
        for name, allowed in by_name(lines).items():
            assert name in pins, f"constraints.txt does not pin {name}"
            assert pins[name] in allowed, f"constraints.txt pins {name} {pins[name]}, pyproject.toml asks for {allowed}"


def test_constraints_name_no_address(root, pins):
    """A pin is name==version (`pins` saw to that); neither it nor a comment says where to get it."""
    assert not re.search(r"://|\bhttps?\b", (root / "constraints.txt").read_text(encoding="utf-8"))


def test_everything_that_is_installed_for_the_course_is_pinned(project, pins):
    """Follows the requirements of what is installed, down to the last one: an unpinned one may change next year."""
    from importlib import metadata

    first = [line for extra in IN_ENVIRONMENT for line in project["optional-dependencies"][extra]]
    todo, seen, absent = [(Requirement(line), "") for line in project["dependencies"] + first], set(), set()
    while todo:
        requirement, extra = todo.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        seen.add((name, extra))
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            absent.add(name)
            continue
        for asked in {"", *requirement.extras}:
            todo += [(Requirement(line), asked) for line in lines]
    unpinned = {name for name, _ in seen} - set(pins)
    assert not unpinned, f"run `make constraints`: {sorted(unpinned)} not in constraints.txt"
    assert len(seen) > 60, f"only {len(seen)} packages of the course are installed; absent: {sorted(absent)}"


def test_conda_gets_the_same_python(project, environment):
    [python] = [line for line in environment["conda"] if line.split()[0] == "python"]
    assert SpecifierSet(python.removeprefix("python").strip()) == SpecifierSet(project["requires-python"])
    assert environment["name"] == project["name"]


def test_conda_gets_the_same_packages(project, environment):
    asked = project["dependencies"] + [
        line for extra in IN_ENVIRONMENT for line in project["optional-dependencies"][extra]
    ]
    given = [line for line in environment["pip"] if not line.startswith(("-", "torch"))]
    assert by_name(given) == by_name(asked)
    assert "-c constraints.txt" in environment["pip"]


def test_conda_gets_the_same_torch_and_never_the_cuda_build(environment, pins):
    torch = [line for line in environment["pip"] if line.startswith("torch")]
    assert torch == [
        f"torch=={pins['torch']}+cpu; sys_platform == 'linux'",
        f"torch=={pins['torch']}; sys_platform != 'linux'",
    ]
