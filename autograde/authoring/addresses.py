"""Writing another address of the repository wherever the old one stands."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from autograde import address

# What names the repository: the one place, and all that is written from it.
PLACES = ("autograde/address.py", "pyproject.toml", "README.md", "docs/**/*.md", "binder/*", ".devcontainer/*",
          "lessons/*/*.ipynb", "solutions/*/*.ipynb")  # fmt: skip
SSH = re.compile(r"(?:ssh://)?git@([^:/]+)(?::\d+(?=/))?[:/](.+)")
ADDRESS = re.compile(r"https://[\w.-]+(?:/[\w.-]+){2,}")


class AddressError(ValueError):
    """An address that is none, as one line."""


def normalised(text: str) -> str:
    """A repository's address as a browser takes it: https, without `.git`. Raises `AddressError`."""
    ssh = SSH.fullmatch(text.strip())
    found = f"https://{ssh[1]}/{ssh[2]}" if ssh else text.strip()
    found = re.sub(r"^http://", "https://", re.sub(r"//[^/]+@", "//", found)).rstrip("/").removesuffix(".git")
    parts = found.split("/")[3:]
    if not ADDRESS.fullmatch(found) or {".", ".."} & set(parts) or ("github.com" in found and len(parts) != 2):
        shown = re.sub(r"//.*@", "//", text)  # a password, or a token, is for nobody's screen or log
        raise AddressError(
            f"wanted a repository's address such as https://github.com/you/kvcache-course, got {shown!r}"
        )
    return found


def remote(root: Path) -> str:
    """The address of the git remote `origin`. Raises `AddressError` where there is none, or it is no web address."""
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL)
    except OSError:
        raise AddressError("git is not installed; name the address") from None
    if done.returncode:
        raise AddressError("this folder has no git remote `origin`; name the address")
    return normalised(done.stdout.strip())


def files(root: Path) -> Iterator[Path]:
    """Every file in which the repository's address may stand."""
    for place in PLACES:
        yield from sorted(path for path in root.glob(place) if path.is_file() and "_generated" not in path.parts)


def rewrite(root: Path, new: str, *, dry_run: bool = False, old: str = "") -> list[Path]:
    """Put `new` in place of `old` (the address so far), and return the files in which it stood.

    Colab's and mybinder's links name the owner and the repository alone; they follow too.
    """
    old = old or address.REPOSITORY
    swaps = {old: new}
    for host in ("https://colab.research.google.com/github", "https://mybinder.org/v2/gh"):
        swaps[f"{host}/{'/'.join(old.split('/')[-2:])}/"] = f"{host}/{'/'.join(new.split('/')[-2:])}/"
    changed = []
    for path in files(root):
        text = path.read_text(encoding="utf-8")
        fresh = text
        for before, after in swaps.items():
            pattern = rf"{re.escape(before)}(?![\w-]|\.(?!git\b)\w)" if before == old else re.escape(before)
            fresh = re.sub(pattern, after.replace("\\", r"\\"), fresh)  # no backslash of it is a group
        if fresh != text:
            changed.append(path)
            if not dry_run:
                path.write_text(fresh, encoding="utf-8", newline="\n")
    return changed
