"""Badges and the set-up cell, in the course's own notebooks."""

from __future__ import annotations

import json

import pytest

from autograde import address
from autograde.authoring.course import Course
from autograde.authoring.header import needs
from autograde.authoring.source import read_source
from autograde.lessons import LESSONS

COURSE = Course()
NEEDS = {"00": (), "01": ("matplotlib", "ipywidgets"), "02": (), "03": ("matplotlib", "ipywidgets"),
         "04": ("torch", "matplotlib", "ipywidgets"), "08": ("torch", "matplotlib"),
         "11": ("torch", "matplotlib")}  # fmt: skip


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
@pytest.mark.parametrize("which", ["release", "solution"])
def test_they_stand_below_the_title(lesson, which):
    book = json.loads(getattr(COURSE, which)(lesson).read_text(encoding="utf-8"))
    title, badges, set_up = book["cells"][:3]
    assert "".join(title["source"]).startswith("# ") and "\n## " not in "".join(title["source"])
    assert (badges["id"], set_up["id"]) == ("badges", "set-up")
    for link in (address.colab(lesson.slug), address.kaggle(lesson.slug)):
        assert f"]({link})" in "".join(badges["source"])
    assert set_up["outputs"] == []
    assert "nbval-ignore-output" in set_up["metadata"]["tags"]


@pytest.mark.parametrize("number", NEEDS)
def test_a_lesson_asks_for_what_it_uses(number):
    lesson = LESSONS[int(number)]
    assert needs(COURSE, lesson, read_source(COURSE, lesson)) == NEEDS[number]


def test_what_only_drawing_imports_is_asked_for_but_not_torch(course):
    """kvlib draws inside functions: a picture needs matplotlib, and torch is the business of checks and cells."""
    lesson = course.lessons[1]
    module = course.package("kvlib") / "later.py"
    assert needs(course, lesson, read_source(course, lesson)) == ()
    module.write_text("from kvlib.figure import BLUE\n\nTWO = 2\n", encoding="utf-8")
    assert needs(course, lesson, read_source(course, lesson)) == ("matplotlib",)
    module.write_text("TWO = 2\n\n\ndef draw():\n    import ipywidgets, torch\n", encoding="utf-8")
    assert needs(course, lesson, read_source(course, lesson)) == ("ipywidgets",)


def test_the_links_are_the_services_own():
    slug = "01-toy-cache"
    book = "lessons/01-toy-cache/01-toy-cache.ipynb"
    assert address.colab(slug).endswith(f"/github/OWNER/kvcache-course/blob/main/{book}")
    assert address.kaggle(slug) == f"https://kaggle.com/kernels/welcome?src={address.REPOSITORY}/blob/main/{book}"
    assert address.archive() == f"{address.REPOSITORY}/archive/refs/heads/main.zip"
    link = address.nbgitpuller("https://hub.example.edu/", slug)
    assert link.startswith("https://hub.example.edu/hub/user-redirect/git-pull?repo=https%3A%2F%2Fgithub.com%2FOWNER")
    assert "&branch=main&" in link
    assert link.endswith("urlpath=lab%2Ftree%2Fkvcache-course%2Flessons%2F01-toy-cache%2F01-toy-cache.ipynb")
    assert not address.published()
