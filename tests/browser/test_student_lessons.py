"""Every lesson as a student first sees it: opened in JupyterLab and run from top to bottom, unsolved."""

from __future__ import annotations

from typing import Any

import pytest

from autograde.lessons import LESSONS
from tests.browser.lab import Notebook, joined, output_text

HEADINGS = "all => all.map(heading => [Number(heading.tagName[1]), heading.textContent])"
PICTURES = "all => all.map(picture => picture.alt)"
SLIDER = ".widget-hslider .noUi-handle"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_a_lesson_runs_unsolved(lesson, opened):
    book = opened(lesson.slug)
    cells = book.run_all()
    runs_without_a_red_wall(cells)
    says_what_to_do(cells, lesson)
    outline_is_whole(book)
    every_picture_is_described(book)
    if book.page.query_selector(SLIDER):
        sliders_move_the_picture(book)


def runs_without_a_red_wall(cells: list[dict[str, Any]]) -> None:
    code = [cell for cell in cells if cell["cell_type"] == "code" and joined(cell["source"]).strip()]
    assert not [cell["id"] for cell in code if not cell["execution_count"]], "not every cell was reached"
    outputs = [(cell["id"], output) for cell in code for output in cell["outputs"]]
    red = [(cell_id, output) for cell_id, output in outputs if output["output_type"] == "error"]
    assert not red
    assert not [(cell_id, output) for cell_id, output in outputs if output.get("name") == "stderr"]


def says_what_to_do(cells: list[dict[str, Any]], lesson: Any) -> None:
    checks = {cell["id"]: cell for cell in cells if cell["id"].startswith("check-")}
    assert list(checks) == [f"check-{number.replace('.', '-')}" for number in lesson.exercises]
    for cell in checks.values():
        verdict, points = cell["outputs"]
        assert "not implemented yet" in output_text(verdict)
        assert "in the cell above, run that cell, then run this one again." in output_text(verdict)
        assert output_text(points) == "0.0"


def outline_is_whole(book: Notebook) -> None:
    headings = book.page.eval_on_selector_all(", ".join(f".jp-Notebook h{n}" for n in range(1, 7)), HEADINGS)
    levels = [level for level, _ in headings]
    assert levels[0] == 1 and levels.count(1) == 1
    deeper = [(before, after) for before, after in zip(levels, levels[1:], strict=False) if after > before + 1]
    assert not deeper, headings


def every_picture_is_described(book: Notebook) -> None:
    alts = book.page.eval_on_selector_all(".jp-Notebook img", PICTURES)
    assert all(alt.strip() for alt in alts), alts


def sliders_move_the_picture(book: Notebook) -> None:
    """Each slider by the arrow keys alone; the picture below must become another one."""
    for cell in book.page.query_selector_all(".jp-CodeCell"):
        for handle in cell.query_selector_all(SLIDER):
            before = cell.query_selector("img").get_attribute("src")
            last = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
            handle.focus()
            book.page.keyboard.press("ArrowLeft" if last else "ArrowRight")
            changed = "([cell, before]) => cell.querySelector('img').src !== before"
            book.page.wait_for_function(changed, arg=[cell, before])
