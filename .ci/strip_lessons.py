"""Takes out of released lessons what running them left there, so that their own bytes remain.

    python .ci/strip_lessons.py lessons/01-toy-cache/01-toy-cache.ipynb ...

A pre-commit hook: exits with 1 when it changed a file. nbstripout takes out outputs and counts; the rest is what
JupyterLab writes beside them when it saves. Answers and marks for nbgrader stay.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbstripout import strip_output

DISPLAY_NAME = "Python 3"  # JupyterLab puts its kernel's own there
LEFT_BY_A_RUN = [
    "metadata.language_info.version",
    "metadata.language_info.codemirror_mode",
    "metadata.language_info.nbconvert_exporter",
    "metadata.widgets",
    "cell.metadata.collapsed",
    "cell.metadata.execution",
    "cell.metadata.jupyter.outputs_hidden",
    "cell.metadata.scrolled",
    "cell.metadata.trusted",
]


def stripped(text: str) -> str:
    """A notebook's text without what a run left. Raises `ValueError` for what is no notebook."""
    try:
        notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
        notebook = strip_output(
            notebook, keep_output=False, keep_count=False, keep_id=True, extra_keys=list(LEFT_BY_A_RUN)
        )
    except Exception as error:  # nbformat and nbstripout have no common one
        raise ValueError(f"not a notebook: {error}") from error
    for cell in notebook.cells:
        if not cell.metadata.get("jupyter", True):  # nothing is left in it
            del cell.metadata["jupyter"]
    if "kernelspec" in notebook.metadata:
        notebook.metadata.kernelspec.display_name = DISPLAY_NAME
    return nbformat.writes(notebook) + "\n"


def main(paths: list[str]) -> int:
    """Strip each file where it lies, and name those that changed."""
    changed = False
    for path in map(Path, paths):
        before = path.read_text(encoding="utf-8")
        try:
            after = stripped(before)
        except ValueError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
        if after != before:
            path.write_text(after, encoding="utf-8", newline="\n")
            print(f"{path}: what a run left in it is taken out")
            changed = True
    return int(changed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
