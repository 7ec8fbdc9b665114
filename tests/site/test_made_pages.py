"""The pages that are made: lessons without answers, every exercise of the catalogue, every public name of kvlib."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from autograde.authoring.course import REPOSITORY, Course
from autograde.authoring.gates.leaks import answer_lines
from autograde.authoring.notebook import compose
from autograde.authoring.site.links import relink
from autograde.authoring.site.matrix import read
from autograde.authoring.site.reference import modules, public_names
from autograde.exercises import load
from autograde.lessons import LESSONS, Lesson
from autograde.matrix import FILE
from tests.site.page import Page

MODULES = modules(REPOSITORY / "kvlib")


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_no_answer_stands_on_a_lessons_page(lesson: Lesson, pages: dict[str, Page]) -> None:
    answers = answer_lines(cell.source for cell in compose(Course(), lesson).cells)
    assert answers
    page = pages[f"_generated/lessons/{lesson.slug}.html"]
    solved = (REPOSITORY / "solutions" / lesson.slug / f"{lesson.slug}.ipynb").read_text(encoding="utf-8")
    for cell in json.loads(solved)["cells"]:  # what a lesson prints is no answer: one shows the source of a cache
        for output in cell.get("outputs", []):
            answers -= {line.strip() for line in output.get("text", [])}
    shown = {line.strip() for line in page.shown.splitlines()}
    assert not shown & answers
    assert "raise NotImplementedError()" in shown


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_a_lessons_page_has_its_hints_plots_and_outputs(lesson: Lesson, pages: dict[str, Page]) -> None:
    page = pages[f"_generated/lessons/{lesson.slug}.html"]
    assert page.text.count("Hint 1 of 3: ") == len(lesson.exercises)
    assert page.text.count("<details") >= 3 * len(lesson.exercises)
    solved = (REPOSITORY / "solutions" / lesson.slug / f"{lesson.slug}.ipynb").read_text(encoding="utf-8")
    assert sum("_images" in source for source, _ in page.pictures) == solved.count('"image/png": "')
    assert "points</b>" not in page.text  # a check's result


def test_the_matrix_has_every_exercise_and_every_mistake(pages: dict[str, Page]) -> None:
    _, mistakes, variants = read(FILE.read_text(encoding="utf-8"))
    exercises = load()
    for lesson in LESSONS:
        page = pages[f"_generated/matrix/{lesson.slug}.html"]
        ids = re.findall(r"<h2>(\d+\.\d+) ", page.text)
        assert tuple(ids) == lesson.exercises
        wrong = sum(len(exercises[id].mistakes) for id in ids)
        right = sum(len(exercises[id].variants) for id in ids)
        assert page.text.count("<tr") == wrong + right + 2 * len(ids)  # and two heads each
        row = (
            f'<p>{len(ids)}</p></td>\n<td class="text-right"><p>{wrong}</p></td>\n<td class="text-right"><p>{right}</p>'
        )
        assert row in pages["_generated/matrix/index.html"].text
    assert len(mistakes) == sum(len(exercise.mistakes) for exercise in exercises.values())
    assert len(variants) == sum(len(exercise.variants) for exercise in exercises.values())


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_has_every_public_name(module: str, pages: dict[str, Page]) -> None:
    page = pages[f"_generated/reference/{module}.html"]
    index = pages["_generated/reference/index.html"].text.partition("<article")[2].partition("</article")[0]
    assert f'href="{module}.html"' in index  # in the table: the sidebar has every page
    for kind, name, node in public_names(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        assert f"{module}.{name}" in page.ids
        if kind != "data":
            assert any(link.endswith(f"{module.replace('.', '/')}.html#{name}") for link in page.links)
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
                assert f"{module}.{name}.{part.name}" in page.ids


@pytest.mark.parametrize("module", MODULES)
def test_no_markup_shows_in_the_reference(module: str, pages: dict[str, Page]) -> None:
    text = pages[f"_generated/reference/{module}.html"].text
    prose = re.sub(
        r"<(pre|code)\b.*?</\1>", "", text.partition("<article")[2].partition("</article")[0], flags=re.DOTALL
    )
    assert "`" not in prose
    assert "problematic" not in text


def test_links_of_the_repository_become_links_of_the_site(tmp_path: Path) -> None:
    def link(target: str, folder: str = "docs") -> str:
        return relink(f"[x]({target})", folder, REPOSITORY)[4:-1]

    assert (
        link("../lessons/01-toy-cache/01-toy-cache.ipynb#predict") == "/_generated/lessons/01-toy-cache.ipynb#predict"
    )
    assert link("../02-numpy-cache/02-numpy-cache.ipynb", "lessons/01-toy-cache").endswith(
        "/lessons/02-numpy-cache.ipynb"
    )
    assert link("../solutions/01-toy-cache/01-toy-cache.ipynb") == "/_generated/lessons/01-toy-cache.ipynb"
    assert link("../autograde/exercises/MATRIX.md") == "/_generated/matrix/index.md"
    assert link("../tests/test_map.py").endswith("/blob/main/tests/test_map.py")
    assert link("../tests").endswith("/tree/main/tests")
    for same in ("install.md", "#heading", "https://example.org/a.md", "../gone.md"):
        assert link(same) == same
