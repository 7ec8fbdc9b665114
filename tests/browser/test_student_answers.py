"""A student at work: pastes answers, reads verdicts, watches the progress, presses Validate, resets one exercise."""

from __future__ import annotations

import json

import pytest

from autograde.lessons import LESSONS
from tests.browser.lab import BOOK, ROOT, Notebook, output_text, solutions
from tests.browser.shoot import WRONG
from tests.browser.test_student_lessons import every_picture_is_described, runs_without_a_red_wall
from tests.browser.test_student_look import OVER

# Those that show most. 01 is solved below, by hand; 09 and 12 alone would take as long as these together.
SOLVED = ("00-start-here", "03-memory-and-capacity", "05-rectangular-masks", "07-fp8-on-a-gpu", "08-mla-and-sharing")
RIGHT = solutions("01-toy-cache")


def paste(book: Notebook, cell_id: str, text: str) -> None:
    """Put text into a cell as a person does: click into it, select all, paste."""
    book.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    book.page.evaluate("text => navigator.clipboard.writeText(text)", text)
    book.select(cell_id)
    book.cell(cell_id).query_selector(".cm-content").click()
    book.page.keyboard.press("Control+a")
    book.page.keyboard.press("Control+v")


def run_by_keyboard(book: Notebook, cell_id: str) -> None:
    """Shift+Enter in the active cell; back when `cell_id` has run."""
    count = f"() => ({book.count(cell_id)})"
    before = book.page.evaluate(count)
    book.page.keyboard.press("Shift+Enter")
    book.page.wait_for_function(f"before => ({book.count(cell_id)}) > before", arg=before or 0)


def test_a_pasted_answer_is_diagnosed_then_turns_green_and_progress_moves(opened, lab):
    book = opened("01-toy-cache")
    book.run_all()
    book.write({key: RIGHT[key] for key in ("exercise-1-1", "exercise-1-2")})
    book.run("exercise-1-1", "check-1-1", "exercise-1-2", "check-1-2")

    paste(book, "exercise-1-3", WRONG)
    run_by_keyboard(book, "exercise-1-3")  # which moves on to the check
    run_by_keyboard(book, "check-1-3")
    seen = book.cell("check-1-3").inner_text()
    assert "1.3 ToyCache: not passed, 1.0 of 6 points" in seen
    assert "every step" in seen and "newest" in seen
    before = json.loads((lab.progress / "progress.json").read_text())

    paste(book, "exercise-1-3", RIGHT["exercise-1-3"])
    run_by_keyboard(book, "exercise-1-3")
    run_by_keyboard(book, "check-1-3")
    assert "1.3 ToyCache: passed, 6.0 of 6 points" in book.cell("check-1-3").inner_text()
    after = json.loads((lab.progress / "progress.json").read_text())
    assert (before["1.3"], after["1.3"]) == (1.0, 6.0)

    last = book.cells()[-1]["id"]
    book.select(last)
    book.do("notebook:insert-cell-below")
    book.page.keyboard.press("Enter")
    book.page.keyboard.insert_text("from autograde import progress; progress()")
    new = book.cells()[-1]["id"]
    book.do("notebook:run-cell")
    told = book.text(new)
    assert "01-toy-cache 12.0 of 12 points" in " ".join(told.split())


@pytest.mark.parametrize("slug", SOLVED)
def test_a_solved_lesson_turns_green(slug, opened):
    book = opened(slug)
    book.write(solutions(slug))
    cells = book.run_all()
    runs_without_a_red_wall(cells)
    checks = {cell["id"]: output_text(cell["outputs"][0]) for cell in cells if cell["id"].startswith("check-")}
    lesson = next(lesson for lesson in LESSONS if lesson.slug == slug)
    assert len(checks) == len(lesson.exercises)
    assert [told for told in checks.values() if ": passed, " not in told] == []
    every_stored_picture_is_drawn(book)
    every_picture_is_described(book)


def every_stored_picture_is_drawn(book: Notebook) -> None:
    """As many pictures as the solution has, none of them empty or wider than its cell, in a narrow window too."""
    stored = (ROOT / "solutions" / book.path).read_text(encoding="utf-8").count('"image/png": "')
    shown = book.page.query_selector_all(".jp-OutputArea-output:has(img)")
    assert len(shown) == stored
    for width in (1280, 1000):
        book.page.set_viewport_size({"width": width, "height": 800})
        for output in shown:
            assert output.evaluate("root => root.querySelector('img').naturalWidth") > 0
            assert output.evaluate(OVER) == []


def test_validate_names_what_failed_and_passes_what_is_solved(opened):
    book = opened("01-toy-cache")
    book.write(RIGHT | {"exercise-1-3": WRONG})
    said = validate(book)
    assert 'check("1.3")' in said and "newest" in said
    assert 'check("1.1")' not in said
    book.write(RIGHT)
    said = validate(book)
    assert "passes all the tests" in said


def validate(book: Notebook) -> str:
    """Press Validate, which saves and runs the notebook in a kernel of its own; what the dialog says."""
    book.do("docmanager:save")
    book.page.get_by_text("Validate", exact=True).first.click()
    book.page.wait_for_selector(".jp-Dialog:has-text('Validation Results')")
    said = book.page.inner_text(".jp-Dialog")
    book.page.keyboard.press("Enter")
    book.page.wait_for_selector(".jp-Dialog", state="detached")
    return said


def test_reset_puts_one_template_below_and_leaves_the_answers(opened):
    book = opened("01-toy-cache")
    template = next(cell["source"] for cell in book.cells() if cell["id"] == "exercise-1-2")
    book.write(RIGHT)
    book.select("check-1-2")
    book.do("notebook:insert-cell-below")
    book.page.keyboard.press("Enter")
    book.page.keyboard.insert_text('from autograde import reset; reset("1.2")')
    before = book.cells()
    book.do("notebook:run-cell")
    book.page.wait_for_function(f"count => {BOOK}.content.widgets.length > count", arg=len(before))
    after = book.cells()
    place = [cell["id"] for cell in after].index("check-1-2") + 2
    new = after.pop(place)
    assert (new["cell_type"], new["source"]) == ("code", template)
    assert [(cell["id"], cell["source"]) for cell in after] == [(cell["id"], cell["source"]) for cell in before]
    assert {cell["id"]: cell["source"] for cell in after if cell["id"] in RIGHT} == RIGHT
