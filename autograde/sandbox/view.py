"""The folder that a worker may import the course from: everything but the answers.

It holds kvlib without the modules that answer the lesson being graded, and of this package only the learner's side. The
checks, the reference solutions, the catalogue of mistakes and the gradebook are not in it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from autograde.lessons import Lesson

PACKAGE = Path(__file__).resolve().parents[1]
LEARNERS_SIDE = (
    "deadline.py",
    "host.py",
    "poison.py",
    "quiet.py",
    "tensors.py",
    "value.py",
    *(f"sandbox/{name}.py" for name in ("__init__", "enter", "landlock", "seccomp", "template", "wire", "worker")),
)
PICTURES = (  # drawing takes longer than all else, and nobody would see them
    "kvlib.plots",
    "kvlib.plots_cache",
    "kvlib.plots_forgetting",
    "kvlib.plots_fp8",
    "kvlib.plots_kernel",
    "kvlib.plots_mask",
    "kvlib.plots_mla",
    "kvlib.plots_paging",
    "kvlib.plots_real_model",
    "kvlib.plots_server",
    "kvlib.plots_sizing",
    "kvlib.widgets",
)
NO_PICTURES = '''"""Stands in for the pictures while a notebook is graded: it can all be called, and draws nothing."""


class Picture:
    def __repr__(self):
        return "(pictures are not drawn while grading)"

    def __call__(self, *args, **kwargs):
        return self

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return Picture()
'''
NO_MODEL = '''"""Stands in for the real model while a notebook is graded: it takes long, and nobody would see it."""


class NoModel(Exception):
    pass


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)

    def left_out(*args, **kwargs):
        raise NoModel("the real model is left out while a notebook is graded")

    return left_out
'''
ANSWERS = '''"""Left out while this lesson is graded."""

raise ImportError("{module} answers an exercise of this lesson, so it cannot be imported while the lesson is graded")
'''


def make_view(folder: Path, lesson: Lesson) -> None:
    """Fill an empty folder. Everybody may read it: it holds nothing that is not public."""
    for name in LEARNERS_SIDE:
        target = folder / "autograde" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PACKAGE / name, target)
    shutil.copyfile(PACKAGE / "sandbox" / "stand_in.py", folder / "autograde" / "__init__.py")
    kvlib = PACKAGE.parent / "kvlib"
    data = [path for kind in ("json", "txt", "npz") for path in (kvlib / "data").rglob(f"*.{kind}")]
    for path in sorted([*kvlib.rglob("*.py"), *data]):
        target = folder / "kvlib" / path.relative_to(kvlib)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for module in PICTURES:
        _file_of(folder, module).write_text(NO_PICTURES, encoding="utf-8")
    _file_of(folder, "kvlib.smollm2").write_text(NO_MODEL, encoding="utf-8")
    for module in lesson.answers:
        _file_of(folder, module).write_text(ANSWERS.format(module=module), encoding="utf-8")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def _file_of(folder: Path, module: str) -> Path:
    return folder.joinpath(*module.split(".")).with_suffix(".py")
