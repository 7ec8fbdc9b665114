"""How well a student's code is locked in, from best to none, and which of the ways works on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

BUBBLEWRAP, LANDLOCK, NONE = "bubblewrap", "landlock", "none"
SENTENCES = {
    BUBBLEWRAP: "bubblewrap (own namespaces, no network, no files but Python's, seccomp, limits)",
    LANDLOCK: "Landlock and seccomp (no network, no files but Python's, limits; file names can be guessed)",
    NONE: "none: submissions ran with your own rights, because you said that you trust them",
}
ONLY_LINUX = (
    "grading a class needs Linux, which can lock submissions in, and this is {system}. On Windows, grade in WSL2; on "
    "macOS, in a Linux virtual machine. The lessons and their checks work here as everywhere"
)


class NoSandbox(Exception):
    """No tier works here; the text says why, and what can be done."""


def choose(trusted: bool, wanted: str | None = None, try_it: Callable[[str], str] | None = None) -> str:
    """The best tier that works here. Each is tried by running it. Raises `NoSandbox` when none does.

    `trusted` is the instructor's word that the submissions may run with the instructor's rights, without a sandbox.
    `wanted` asks for one tier only.
    """
    insist_on_linux()
    if trusted and wanted in (None, NONE):
        return NONE
    if wanted == NONE:
        raise NoSandbox("the tier none has to be asked for with --i-trust-these-submissions")
    problems = []
    for tier in (wanted,) if wanted else (BUBBLEWRAP, LANDLOCK):
        problem = (try_it or problem_with)(tier)
        if not problem:
            return tier
        problems.append(f"{tier}: {problem}")
    raise NoSandbox("no sandbox works here. " + "; ".join(problems) + ". See docs/threat-model.md")


def insist_on_linux() -> None:
    """Raise `NoSandbox` elsewhere: not even the tier `none` works there."""
    if not sys.platform.startswith("linux"):
        raise NoSandbox(ONLY_LINUX.format(system=sys.platform))


def problem_with(tier: str) -> str:
    """Why a tier does not work here, or nothing: a worker is started in it and looks around."""
    from autograde.lessons import LESSONS
    from autograde.sandbox.bubblewrap import RoomError
    from autograde.sandbox.limits import Limits
    from autograde.sandbox.sandbox import Sandbox
    from autograde.sandbox.spawner import Spawner, SpawnError
    from autograde.sandbox.view import make_view
    from autograde.subject import WorkStopped

    if tier == LANDLOCK and (private := private_prefix()):
        return f"as root, a submission runs as another user, who cannot read the Python in {private}"
    with tempfile.TemporaryDirectory(prefix="probe-") as folder, tempfile.TemporaryDirectory(prefix="probe-") as other:
        view, secret = Path(folder), Path(other, "secret")
        make_view(view, LESSONS[0])
        secret.write_text("not for you", encoding="utf-8")
        for path in (secret, secret.parent):
            path.chmod(0o755)
        try:
            spawner = Spawner(view, preload=("numpy",))
        except SpawnError as error:
            return str(error)
        try:
            with Sandbox(spawner, view, tier, Limits(cell_seconds=20)) as sandbox:
                reply = sandbox.execute(LOOK_AROUND.format(secret=str(secret)))
        except (RoomError, SpawnError, WorkStopped, OSError) as error:
            return str(error)
        finally:
            spawner.close()
    return "" if reply.status == "ok" else reply.error or reply.status


def private_prefix() -> str:
    """Where Python lies, if this is root and nobody else may read it there."""
    from autograde.sandbox.paths import prefixes

    if os.geteuid() == 0:
        for prefix in prefixes():
            if not all(os.stat(path).st_mode & 0o001 for path in (prefix, *map(str, Path(prefix).parents))):
                return prefix
    return ""


LOOK_AROUND = """
import os, socket, tempfile, wave, numpy.polynomial
def refused(what, *args):
    try:
        what(*args)
    except OSError:
        return
    raise SystemExit(f"{{what.__name__}} is not refused")
refused(open, {secret!r})
refused(os.listdir, os.path.dirname({secret!r}))
refused(open, "/written-by-a-student", "w")
refused(lambda: socket.create_connection(("127.0.0.1", 9), 1).close())
tempfile.TemporaryFile().write(b"this is allowed")
"""
