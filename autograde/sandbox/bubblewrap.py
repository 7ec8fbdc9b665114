"""An empty room made by bubblewrap: namespaces with a read-only view of Python and nothing else.

bubblewrap starts `cat`, which holds the namespaces open. The worker, forked from the template, enters them.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Iterable

from autograde.sandbox.limits import Limits
from autograde.sandbox.paths import SYSTEM, SYSTEM_FILES

NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
SECONDS = 20  # for bubblewrap to set up
ADVICE = {
    "setting up uid map: Permission denied": (
        "the system forbids unprivileged user namespaces; on Ubuntu, load an AppArmor profile for bwrap or set "
        "kernel.apparmor_restrict_unprivileged_userns=0"
    ),
    "No permissions to create new namespace": (
        "the system forbids namespaces, as containers usually do; grade outside the container, or let it create them"
    ),
    "Creating new namespace failed": "the limit on namespaces or processes of this user is reached",
    "--disable-userns": "bubblewrap is older than 0.8: install a newer one",
}


class RoomError(Exception):
    """bubblewrap does not work here; the text says why."""


class Room:
    """The namespaces, held open until `close`. `mask` hides folders inside what `visible` shows, both read-only."""

    def __init__(self, visible: Iterable[str], mask: Iterable[str], limits: Limits) -> None:
        self._ended = -1
        told, tell = os.pipe()
        try:
            self._process = subprocess.Popen(
                _command(list(visible), list(mask), limits, tell),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(tell,),
                cwd="/",
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
            )
        except FileNotFoundError:
            os.close(told)
            raise RoomError("bubblewrap is not installed (its command is bwrap)") from None
        finally:
            os.close(tell)
        try:
            self.init = self._set_up(told)  # the process number of the room's first process, seen from here
            self._ended = os.pidfd_open(self.init)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(told)

    def _set_up(self, told: int) -> int:
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None and stdout is not None and stderr is not None  # all three are pipes
        with contextlib.suppress(BrokenPipeError):
            stdin.write(b"\n")
            stdin.flush()
        ready = select.select([stdout], [], [], SECONDS)[0]
        if not ready or not stdout.readline():  # `cat` answers once the room is finished
            self._process.kill()
            said = stderr.read().decode("utf-8", "replace").strip()
            advice = next((f"{text} ({said})" for sign, text in ADVICE.items() if sign in said), said)
            raise RoomError(advice or "bubblewrap did not start")
        return int(json.loads(os.read(told, 4096))["child-pid"])

    def descriptors(self) -> dict[str, int]:
        """Descriptors of the namespaces, "user" among them where it is not this process's own."""
        folder = f"/proc/{self.init}/ns"
        names = [name for name in NAMESPACES if os.path.exists(f"{folder}/{name}")]
        if os.readlink(f"{folder}/user") != os.readlink("/proc/self/ns/user"):
            names.append("user")
        return {name: os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names}

    def close(self) -> None:
        """End the room: the kernel kills every process in it, the first one last."""
        self._process.kill()
        self._process.wait()
        if self._ended >= 0:
            select.select([self._ended], [], [], SECONDS)
            os.close(self._ended)
            self._ended = -1
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


def _command(visible: list[str], mask: list[str], limits: Limits, tell: int) -> list[str]:
    command = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    command += ["--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv", "--cap-drop", "ALL"]
    # Root makes no user namespace, since in one it would still be root outside: the worker becomes another user.
    if os.geteuid() != 0:
        command += ["--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
    for path in SYSTEM:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            command += ["--ro-bind", path, path]
    for path in SYSTEM_FILES:
        command += [*_parents(path), "--ro-bind-try", path, path]
    command += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    for path, size in (("/tmp", limits.scratch), ("/dev/shm", limits.shared)):
        command += ["--perms", "1777", "--size", str(size), "--tmpfs", path]
    for path in visible:
        command += [*_parents(path), "--ro-bind", path, path]
    for path in mask:
        command += ["--perms", "0755", "--tmpfs", path, "--remount-ro", path]
    # `/` and /dev are memory file systems without a limit on their size: nobody may write to them.
    return [*command, "--info-fd", str(tell), "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--", "cat"]


def _parents(path: str) -> list[str]:
    """bubblewrap would make missing parents that nobody but root may pass."""
    command: list[str] = []
    while (path := os.path.dirname(path)) not in ("/", "/usr", "/tmp"):
        command = ["--perms", "0755", "--dir", path, *command]
    return command
