"""A process that has imported the libraries and forks a worker for each submission.

Starting Python, NumPy, IPython and torch takes seconds, forking takes milliseconds. The template itself never runs a
student's code and knows nothing that a student may not know: it was started from a folder that holds only what is
mounted in the sandbox, with an empty environment.

It reads one request after another from descriptor 0, a UNIX socket, each with the descriptors of the new worker:

    {"namespaces": ["mnt", ...], "uid": 60001 | null, "limits": {...}, "files": 20000,
     "landlock": {"read": [...], "write": [...], "devices": [...]} | null, "seccomp": {...} | null,
     "home": "/tmp"}     with [connection, output, *namespaces]
    {"end": true}                                          kills whatever was forked and is still there

and answers {"started": true}, {"ended": true} or {"failed": "why"}, one line each.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
from typing import Any

from autograde.sandbox import enter, landlock, seccomp, worker

PR_SET_CHILD_SUBREAPER = 36
MOST = 1 << 16  # bytes of a request


def main(preload: list[str]) -> None:
    """Import, then fork on demand until the judge hangs up. Modules that are not installed are left out."""
    control = socket.socket(fileno=os.dup(0))
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # whoever loses its parent comes to us
    missing = [name for name in preload if not _imported(name)]
    worker.make_shell()
    gc.freeze()  # the children share this memory as long as nobody touches it
    control.sendall(json.dumps({"ready": True, "missing": missing}).encode() + b"\n")
    signal.signal(signal.SIGCHLD, _collect)
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MOST, 16)
        if not data:
            break
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # `start` waits for one child by itself
        request = json.loads(data)
        if request.get("end"):
            answer: dict[str, Any] = {"ended": end_descendants()}
        else:
            answer = start(request, descriptors, control)
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(json.dumps(answer).encode() + b"\n")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    end_descendants()


def _collect(*_: object) -> None:
    """Collect who has ended. A room's first process cannot end before its workers are collected, and they are ours."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _imported(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def start(request: dict, descriptors: list[int], control: socket.socket) -> dict:
    """Fork a worker. Only the child ever enters anything, so the next one starts as clean as this one."""
    connection, output, *others = descriptors
    namespaces = dict(zip(request["namespaces"], others, strict=True))
    child = os.fork()
    if child == 0:
        _child(request, connection, output, namespaces, control)
    if "pid" in namespaces and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        return {"failed": "the worker could not enter the sandbox"}  # else it has forked the worker, and is done
    return {"started": True}


def _child(request: dict, connection: int, output: int, namespaces: dict[str, int], control: socket.socket) -> None:
    """Give up every right, step by step, then serve. Never returns."""
    try:
        channel = socket.socket(fileno=connection)
        try:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            os.setsid()
            if namespaces:
                enter.join(namespaces)
                enter.limit_files(request["files"])
                enter.enter_user(namespaces)
                if os.fork() != 0:  # only what is forked from here on is inside the process namespace
                    os._exit(0)
            else:
                enter.die_with_parent()
            enter.own_descriptors(channel.detach(), output)
            channel = socket.socket(fileno=enter.CHANNEL)
            os.environ.update(HOME=request["home"], TMPDIR=request["home"])
            os.chdir(request["home"])
            enter.limit(request["limits"])
            enter.drop_rights(request["uid"])
            if request["landlock"] is not None:
                landlock.restrict(**request["landlock"])
            if request["seccomp"] is not None:
                seccomp.install(**request["seccomp"])
        except Exception as error:
            with contextlib.suppress(OSError):
                channel.sendall(worker.encode({"failed": f"{type(error).__name__}: {error}"}))
            os._exit(1)
        worker.work(channel)
    finally:
        os._exit(1)


def end_descendants() -> bool:
    """Kill and collect everything that was forked here. They may fork while we look, so look until nobody is left."""
    for _ in range(200):
        found = descendants(os.getpid())
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _collect()
        if not found:
            return True
        time.sleep(0.005)
    return False


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, as the kernel lists them."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:
                    children = list(map(int, file.read().split()))
                found += children
                waiting += children
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
