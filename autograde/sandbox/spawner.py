"""Starts the template process and asks it for workers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from autograde.sandbox.paths import packages
from autograde.sandbox.scratch import Scratch

PRELOAD = ("numpy", "IPython.core.interactiveshell")  # what every worker needs
START = """
import json, sys
view, packages, *preload = sys.argv[1:]
packages = json.loads(packages)
sys.path = [view, *(path for path in sys.path if path not in packages), *packages]
from autograde.sandbox.template import main
main(preload)
"""
SECONDS = 120  # for importing everything on a slow disk


class SpawnError(Exception):
    """The template or a worker could not be started."""


class Spawner:
    """One template process, started from `view` with nothing but what a worker may know."""

    def __init__(self, view: Path, preload: tuple[str, ...] = ()) -> None:
        self._control, theirs = socket.socketpair()
        self._home = Scratch("template")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", START, str(view), json.dumps(packages()), *PRELOAD, *preload],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                env=_environment(self._home.path),
            )
        self._control.settimeout(SECONDS)
        try:
            first = self._answer()
        except SpawnError:
            self._process.kill()
            assert self._process.stderr is not None  # a pipe
            said = self._process.stderr.read().decode("utf-8", "replace").strip()
            self.close()
            raise SpawnError(f"the template did not start: {said[-500:] or 'no reason given'}") from None
        self.missing: list[str] = first["missing"]

    @property
    def pid(self) -> int:
        """The template's process number: every worker outside a room descends from it."""
        return self._process.pid

    def fork(self, request: dict, descriptors: list[int]) -> None:
        """Ask for a worker, with these descriptors."""
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        except OSError:
            raise SpawnError("the template is gone") from None
        self._answer()

    def end_workers(self) -> None:
        """Kill whatever was forked and is still there."""
        with contextlib.suppress(OSError, SpawnError):
            self._control.sendall(b'{"end": true}')
            self._answer()

    def close(self) -> None:
        """End the template and its workers."""
        self.end_workers()
        self._control.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._home.close()

    def _answer(self) -> dict:
        data = b""
        while not data.endswith(b"\n"):
            try:
                piece = self._control.recv(1 << 16)
            except OSError:
                piece = b""
            if not piece:
                raise SpawnError("the template is gone")
            data += piece
        answer = json.loads(data)
        if "failed" in answer:
            raise SpawnError(answer["failed"])
        return answer


def _environment(home: str) -> dict[str, str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
    return {
        **one,
        "OMP_THREAD_LIMIT": "16",  # else torch.set_num_threads(64) starts twice as many
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), "/usr/bin", "/bin"]),
        "HOME": home,
        "TMPDIR": home,
        "USER": "student",
        "LOGNAME": "student",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NBGRADER_EXECUTION": "autograde",
        "AUTOGRADE_PROGRESS": "off",
        "PIP_NO_INDEX": "1",
    }
