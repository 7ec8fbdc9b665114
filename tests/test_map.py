"""The map of the facts: complete, in step with the data, and every place and test on it is really there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from autograde.authoring.facts_map import PAGE, page, read_facts, read_places
from autograde.lessons import LESSONS

ROOT = Path(__file__).parents[1]
FACTS, PLACES = read_facts(ROOT), read_places(ROOT)
SOURCES = {lesson.slug[:2]: (ROOT / f"solutions/{lesson.slug}.py").read_text(encoding="utf-8") for lesson in LESSONS}


def test_the_page_is_what_the_data_says():
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(ROOT), "run `python -m autograde lessons map`"


def test_every_figure_has_a_place_and_every_sentence_has_none():
    ids = [place["id"] for place in PLACES]
    assert len(set(ids)) == len(ids)
    assert set(FACTS) <= set(ids)
    assert all(("says" in place) == (place["id"] not in FACTS) for place in PLACES)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place["id"])
def test_the_lesson_has_the_heading(place):
    assert re.search(rf"^# ##+ {re.escape(place['heading'])}$", SOURCES[place["lesson"]], flags=re.MULTILINE)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place["id"])
def test_the_tests_are_there_and_know_the_fact(place):
    """A test that holds a figure names its id, or the file that it stands in and goes through all of it."""
    assert place["tests"]
    for test in place["tests"]:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert name in {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}, test
    if place["id"] in FACTS:
        texts = [(ROOT / test.partition("::")[0]).read_text(encoding="utf-8") for test in place["tests"]]
        assert any(re.search(rf"[\"\']{re.escape(place['id'])}[\"\']", text) for text in texts), place["id"]
