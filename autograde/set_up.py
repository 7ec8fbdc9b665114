"""What the set-up cell of every lesson calls: it installs what is missing, and says what the machine can run.

Nothing that is there is ever replaced: pip is told to keep every installed version. In a checkout of the course nothing
is installed either, since `make` or whoever made the environment chose what is in it.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
DISTRIBUTION = "kvcache-course"
# In colour or with news of pip itself, the last line would not say what went wrong.
PIP = ("-m", "pip", "install", "--quiet", "--no-input", "--no-color", "--disable-pip-version-check")
TORCH_CPU = ("--index-url", "https://download.pytorch.org/whl/cpu")


def set_up(*packages: str) -> None:
    """Install those of `packages` that are missing, and print a table of what this machine can run.

    packages: import names, such as "torch". Never raises: what could not be installed is said, with what to try.
    """
    missing = [name for name in packages if not _is_there(name)]
    if missing and is_checkout():
        print(
            f"Not installed here: {', '.join(missing)}. What needs it cannot run; docs/install.md says how to get it."
        )
    elif missing:
        for name in missing:
            try:
                _install(name)
            except OSError as error:  # no folder for temporary files, no Python to start
                print(f"{name} could not be installed: {error}")
        _see_what_is_new()
    for line in remarks(packages):
        print(line)
    from kvlib.machine import report

    report()


def is_checkout(package: Path = PACKAGE) -> bool:
    """Whether the course runs from its own folder, as opposed to being installed among other packages."""
    return (package.parent / "pyproject.toml").is_file()


def remarks(packages: tuple[str, ...]) -> Iterator[str]:
    """A line for every package whose version the course was not tested with. It stays as it is."""
    for name in dict.fromkeys(("numpy", *packages)):
        with suppress(metadata.PackageNotFoundError, ValueError):
            version, (low, high) = metadata.version(name), tested(name)
            if not low <= _numbers(version) < high:
                said = f"from {_dotted(low)} on" if high == (10**6,) else f"{_dotted(low)} to below {_dotted(high)}"
                yield f"{name} {version} stays, though the course is tested with {said}: results may differ."


def tested(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The versions of a package that the course asks for: from the first, to below the second.

    Raises `PackageNotFoundError` where the course is not installed as a package, `ValueError` where it asks for none.
    """
    for line in metadata.requires(DISTRIBUTION) or ():
        found = re.match(rf"{re.escape(name)}(?![\w.-])([^;]*)", line)
        if found:
            low, high = re.search(r">=\s*([\d.]+)", found[1]), re.search(r"<\s*([\d.]+)", found[1])
            return _numbers(low[1]) if low else (0,), _numbers(high[1]) if high else (10**6,)
    raise ValueError(f"{DISTRIBUTION} asks for no {name}")


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _install(name: str) -> None:
    more: tuple[str, ...] = ()
    if name == "torch" and sys.platform == "linux" and not shutil.which("nvidia-smi"):
        more = TORCH_CPU  # elsewhere the default index has CPU builds; here it would be gigabytes of CUDA
    print(f"Installing {name}{', the CPU build' if more else ''} ...", flush=True)
    handle, path = tempfile.mkstemp(suffix=".txt", text=True)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in installed())
        done = subprocess.run(
            [sys.executable, *PIP, "-c", path, *more, name],
            capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
    finally:
        with suppress(OSError):
            os.unlink(path)
    if done.returncode:
        why = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
        why = [line for line in why if line.lower().startswith("error")] or why  # hints may follow
        print(f"{name} could not be installed: {why[-1].strip() if why else f'pip ended with {done.returncode}'}")
        print("What needs it cannot run. Is this notebook allowed to use the internet? Then run this cell again.")


def installed() -> list[str]:
    """Every installed package with its version, as pip takes it for a constraint."""
    pairs = {(one.metadata["Name"], one.version) for one in metadata.distributions() if one.metadata["Name"]}
    plain = re.compile(r"[A-Za-z0-9._+!-]+")
    return sorted(f"{name}=={version}" for name, version in pairs if version and plain.fullmatch(name + version))


def _see_what_is_new() -> None:
    if site.ENABLE_USER_SITE:  # pip goes there where it may not write elsewhere
        site.addsitedir(site.getusersitepackages())
    importlib.invalidate_caches()


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    if not found:
        raise ValueError(f"{version!r} is no version")
    return tuple(map(int, found[0].split(".")))


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
