"""What a lesson's kernel sees, and what is kept of what it shows."""

from __future__ import annotations

import contextlib
import os

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograde.authoring.course import LessonError
from autograde.authoring.execute import execute


def run(pristine, folder, *sources, **options):
    cells = [new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources, start=1)]
    ran = execute(new_notebook(cells=cells), pristine.lessons[0], folder, pristine.root, **options)
    return [cell.outputs for cell in ran.cells], ran


def test_the_kernel_runs_beside_the_notebook_without_the_authors_settings(pristine, tmp_path, monkeypatch):
    """MPLBACKEND=Agg is common on servers, and with it a lesson has no plots."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("AUTOGRADE_PROGRESS", "/nowhere")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    names = "('MPLBACKEND', 'PYTHONHASHSEED', 'AUTOGRADE_PROGRESS')"
    (here, settings), _ = run(pristine, tmp_path, "import os; os.getcwd()", f"[os.environ[name] for name in {names}]")
    assert here[0].data["text/plain"] == repr(str(tmp_path))
    assert "'module://matplotlib_inline.backend_inline', '0'" in settings[0].data["text/plain"].replace("\n", "")
    assert "/nowhere" not in settings[0].data["text/plain"]


def test_streams_are_merged_and_widgets_leave_their_text_only(pristine, tmp_path):
    (printed, slider), ran = run(
        pristine,
        tmp_path,
        "import sys, time\nfor _ in range(3):\n    print(1); sys.stdout.flush(); time.sleep(0.1)",
        "import ipywidgets\nipywidgets.IntSlider(value=3)",
    )
    assert [output.text for output in printed] == ["1\n1\n1\n"]
    assert slider[0].data == {"text/plain": "IntSlider(value=3)"}
    assert "widgets" not in ran.metadata


def test_a_cell_that_takes_too_long_is_named(pristine, tmp_path):
    with pytest.raises(LessonError, match="timed out") as failure:
        run(pristine, tmp_path, "1", "import time; time.sleep(60)", seconds=1)
    assert failure.value.problem.cell == "cell cell-2 ('import time; time.sleep(60)')"


@pytest.mark.parametrize("last", ["1", "1 / 0"])
def test_no_kernel_is_left_running(pristine, tmp_path, last):
    with contextlib.suppress(LessonError):
        run(pristine, tmp_path, "import os, pathlib\n_ = pathlib.Path('pid').write_text(str(os.getpid()))", last)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_errors_are_kept_when_asked_for(pristine, tmp_path):
    (first, second), _ = run(pristine, tmp_path, "1 / 0", "2", stop_at_errors=False)
    assert first[0].ename == "ZeroDivisionError"
    assert second[0].data["text/plain"] == "2"
