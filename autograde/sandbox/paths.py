"""What of this machine's files a worker may read: Python with its packages, and none of ours."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/sbin")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime")
MACHINE = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/sys/devices/system/cpu")
OUR_PACKAGES = ("autograde", "kvlib")
PACKAGE_FOLDERS = ("site-packages", "dist-packages")


def packages() -> list[str]:
    """Folders on the import path in which packages are installed, in its order; a course's own folder is none."""
    known = {os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    known |= {os.path.realpath(path) for path in (*site.getsitepackages(), site.getusersitepackages())}
    found = [path for path in sys.path if path and os.path.isdir(path)]
    chosen = [p for p in found if os.path.basename(p) in PACKAGE_FOLDERS or os.path.realpath(p) in known]
    return list(dict.fromkeys(map(os.path.realpath, chosen)))


def prefixes() -> list[str]:
    """Folders that Python needs, each without those inside another or inside what every program sees."""
    found = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    found = {path for path in found | set(packages()) if not _inside(path, SYSTEM)}
    return sorted(path for path in found if not _inside(path, found - {path}))


def masks() -> list[str]:
    """This course's own packages, where they are installed among others."""
    return [path for folder in packages() for name in OUR_PACKAGES if os.path.isdir(path := os.path.join(folder, name))]


def readable(view: Path) -> list[str]:
    """What Landlock lets a worker read. It can allow a folder but hide nothing in it, so masked ones are gone round."""
    hidden = masks()
    allowed = [path for top in (*SYSTEM, *prefixes()) if os.path.exists(top) for path in _without(top, hidden)]
    return [*allowed, *filter(os.path.exists, SYSTEM_FILES), str(view), *MACHINE]


def is_exposed(path: Path) -> bool:
    """Whether a folder lies where workers may read."""
    return _inside(os.path.realpath(path), [*map(os.path.realpath, SYSTEM), *prefixes()])


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _without(folder: str, hidden: list[str]) -> list[str]:
    if folder in hidden:
        return []
    if not any(path.startswith(folder + os.sep) for path in hidden):
        return [folder]
    return [path for entry in os.scandir(folder) for path in _without(entry.path, hidden)]
