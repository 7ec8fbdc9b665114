"""`python -m autograde`: one command line for authors and for those who grade."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

# What is wrong with a place, not with the program. A missing file (ENOENT) is a defect, and keeps its traceback.
PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC,
         errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP)  # fmt: skip
# Each offers `add_commands(subparsers)` and imports nothing heavy before one of its commands runs.
PARTS = (
    "autograde.authoring.cli",
    "autograde.classroom.quickstart",
    "autograde.classroom.release",
    "autograde.classroom.collect",
    "autograde.classroom.cli",
    "autograde.classroom.give_back",
    "autograde.report.export",
    "autograde.report.cli",
    "autograde.classroom.links",
    "autograde.matrix",
    "autograde.reset",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m autograde", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")
    for part in PARTS:
        if find_spec(part) is not None:
            import_module(part).add_commands(subparsers)
    arguments = parser.parse_args(argv)
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the last flush would complain
        return 1
    except KeyboardInterrupt:
        print(f"\n{arguments.command}: stopped. What is finished is kept; the same command goes on.", file=sys.stderr)
        return 130
    except OSError as error:
        if error.errno not in PLACE:
            raise
        print(f"{arguments.command}: {error.strerror}: {error.filename}", file=sys.stderr)
        return 2
