"""Where Triton keeps what it compiled."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path


@cache
def writable_cache() -> str:
    """A folder that can be written, set for Triton. Its own choice, where that works; else one that lasts this process.

    Triton would stop at its first kernel where the home folder is read-only, as on some shared servers.

    Skipped as an example: it makes the folder.

    >>> writable_cache()  # doctest: +SKIP
    '/home/me/.triton/cache'
    """
    home = os.environ.get("TRITON_HOME", os.path.expanduser("~"))
    folder = Path(os.environ.get("TRITON_CACHE_DIR") or Path(home) / ".triton" / "cache")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return str(folder)
    except OSError:
        os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="triton-cache-")
        return os.environ["TRITON_CACHE_DIR"]
