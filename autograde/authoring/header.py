"""The two cells that every lesson's notebook has below its title: badges, and the set-up cell."""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograde import address
from autograde.authoring.course import Course
from autograde.authoring.imported import imported
from autograde.authoring.source import Source
from autograde.lessons import Lesson

# Fixed, so that a new address changes a notebook in these two places and nowhere else.
BADGES, SET_UP = "badges", "set-up"
INSTALLABLE = ("torch", "matplotlib", "ipywidgets")  # what a lesson may need beside NumPy


def header(course: Course, lesson: Lesson, source: Source) -> list[NotebookNode]:
    """The badges and the set-up cell of a lesson."""
    # The machine in front of the reader is none of a stored output's business.
    metadata = {"tags": ["nbval-ignore-output"], "jupyter": {"source_hidden": True}}  # a first screen is for the lesson
    return [
        new_markdown_cell(badges(lesson.slug), id=BADGES),
        new_code_cell(set_up(needs(course, lesson, source)), id=SET_UP, metadata=metadata),
    ]


def badges(slug: str) -> str:
    """Markdown: where else the lesson opens."""
    places = {"Colab": address.colab(slug), "Kaggle": address.kaggle(slug)}
    pictures = {
        "Colab": "https://colab.research.google.com/assets/colab-badge.svg",
        "Kaggle": "https://kaggle.com/static/images/open-in-kaggle.svg",
    }
    return "\n".join(f"[![Open in {name}]({pictures[name]})]({places[name]})" for name in places)


def set_up(packages: tuple[str, ...]) -> str:
    """The code of the set-up cell. It cannot import the course before it is there, so it is written out."""
    asked = ", ".join(f'"{name}"' for name in packages)
    return f'''\
# Set-up. On a cloud notebook this installs the course; where the course is installed, it only looks.
import importlib
import os
import site
import subprocess
import sys

try:
    import autograde.set_up
except ImportError:
    source = os.environ.get("KVCOURSE_SOURCE", "{address.archive()}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-color", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--no-deps", source, "numpy"], capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        why = [line for line in said if line.lower().startswith("error")] or said  # hints may follow
        print(f"The course could not be installed from {{source}}:", *why[-1:])
    if site.ENABLE_USER_SITE:
        site.addsitedir(site.getusersitepackages())  # pip goes there where it may not write elsewhere
    importlib.invalidate_caches()
    sys.modules.pop("autograde", None)  # of somebody else's, where there was one

from autograde.set_up import set_up

set_up({asked})'''


def needs(course: Course, lesson: Lesson, source: Source) -> tuple[str, ...]:
    """The installable packages that a lesson uses: its cells, the kvlib modules that they import, and its checks."""
    modules = {name for part in source.parts if part.cell_type == "code" for name in imported(part.text)}
    found = {name.split(".")[0] for name in modules}
    texts = [file.read_text(encoding="utf-8") for module in modules if (file := _file(course, module))]
    # kvlib draws inside functions, and a picture may be one of another lesson's: torch itself is not looked for there.
    found |= {name.split(".")[0] for text in texts for name in imported(text)} - {"torch"}
    if any("from kvlib.figure import" in text for text in texts):
        found.add("matplotlib")
    if any(course.exercise(lesson, "", name).tensors for name in lesson.exercises):
        found.add("torch")
    return tuple(name for name in INSTALLABLE if name in found)


def _file(course: Course, module: str) -> Path | None:
    if module.split(".")[0] != "kvlib":
        return None
    path = course.package("kvlib").parent.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
