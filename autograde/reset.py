"""One exercise back to how it was released: `reset("1.2")` in a notebook, `python -m autograde reset` for a file.

No work is lost. In a notebook the template comes as a new cell; a file is copied first.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from autograde.answer_cell import find_answer
from autograde.course_files import CourseFilesError, template
from autograde.notebook_text import NotebookError, NotebookText

KEPT = re.compile(r"\.before-reset(-\d+)?\.ipynb$")  # the names of the copies that `reset_file` keeps


def reset(exercise_id: str) -> None:
    """Put the template of an exercise, such as "1.2", into a new cell below; the learner's own cell stays.

    Outside IPython the template is printed. An unknown exercise gets one line that says so.
    """
    try:
        source = template(exercise_id)
    except CourseFilesError as error:
        print(f"reset: {error}")
        return
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        print(source)
        return
    shell.set_next_input(source)
    print(f"The template of {exercise_id} is in a new cell below. Your own cell stays as it is.")


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `reset`."""
    parser = subparsers.add_parser("reset", help="give one exercise of a notebook its template back")
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK", help="the .ipynb file")
    parser.add_argument("exercise", metavar="EXERCISE", help='an exercise, such as "1.2"')
    parser.add_argument("--dry-run", action="store_true", help="say what would be done; write nothing")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Reset one exercise of one file; 2 when that cannot be done."""
    try:
        print(reset_file(arguments.notebook, arguments.exercise, dry_run=arguments.dry_run))
    except (CourseFilesError, NotebookError) as error:
        print(f"reset: {error}", file=sys.stderr)
        return 2
    return 0


def reset_file(path: Path, exercise_id: str, *, dry_run: bool = False) -> str:
    """Give the answer cell of an exercise its template back, and say in a sentence what was done.

    The file as it was is kept beside it. Every other cell keeps its bytes. Raises `CourseFilesError` for an exercise
    that does not exist, `NotebookError` for a file that is no notebook or has no such cell; then nothing was written.
    """
    source = template(exercise_id)
    notebook = NotebookText.read(path)
    number = find_answer(notebook, exercise_id, source)
    what = f"{exercise_id}, cell {number + 1} of {path}"
    if notebook.source(number) == source:
        return f"{what}, is as it was released; nothing to do."
    if dry_run:
        return f"Would reset {what}, and keep the notebook as it is now in {_backup_name(path).name}."
    real = path.resolve()  # a link stays one
    backup = _keep(real)
    _replace(real, notebook.with_source(number, source))
    return f"Reset {what}. The notebook as it was: {backup.name}. If it is open, reload it from disk."


def _backup_name(path: Path) -> Path:
    """NAME.before-reset.ipynb, or the first NAME.before-reset-N.ipynb that is free: an older copy is work as well."""
    count, name = 1, path.with_name(f"{path.stem}.before-reset.ipynb")
    while os.path.lexists(name):
        count += 1
        name = path.with_name(f"{path.stem}.before-reset-{count}.ipynb")
    return name


def _keep(path: Path) -> Path:
    backup = _backup_name(path)
    with path.open("rb") as old, backup.open("xb") as new:
        shutil.copyfileobj(old, new)
        new.flush()
        os.fsync(new.fileno())
    return backup


def _replace(path: Path, content: bytes) -> None:
    """All of it or nothing, even if the machine stops in between."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".reset-", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            file.close()
            shutil.copymode(path, file.name)
            os.replace(file.name, path)
        except BaseException:
            file.close()
            os.unlink(file.name)
            raise
