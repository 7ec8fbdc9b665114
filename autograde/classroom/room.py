"""Whether a folder can be made, found out before anything is written."""

from __future__ import annotations

import os
from pathlib import Path


def obstacle(folder: Path) -> str:
    """Why this folder cannot be made, or not be written to where it is there; empty when it can.

    It goes on from "wanted a folder, ".
    """
    try:
        for path in (folder.absolute(), *folder.absolute().parents):
            if path.is_dir():
                # Asks the kernel, which also knows of a file system that is mounted read-only.
                return "" if os.access(path, os.W_OK | os.X_OK) else f"but {path} cannot be written to"
            if os.path.lexists(path):
                return f"got the {'file' if path.exists() else 'link to nothing'} {path}"
    except OSError as error:  # a name that is too long
        return f"got {folder}: {error.strerror}"
    return ""
