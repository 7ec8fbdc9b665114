"""One JupyterLab and one browser for all tests of a process; a page for each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.browser.lab import CHROMIUM, FLAGS, ROOT, Lab, Notebook, lesson_path

MISSING = [name for name in ("playwright", "jupyterlab", "nbgrader", "ipywidgets", "matplotlib") if not find_spec(name)]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium without a window."""
    if MISSING or CHROMIUM is None:
        pytest.skip(f"needs {', '.join(MISSING) or 'chromium on the path'}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab on a copy of the released lessons."""
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """An empty page, as wide as a small laptop's screen."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def opened(lab: Lab, page: Any) -> Iterator[Callable[[str], Notebook]]:
    """Opens a lesson by its name; its kernel ends with the test."""
    books: list[Notebook] = []

    def open_lesson(slug: str) -> Notebook:
        shutil.copyfile(ROOT / "lessons" / lesson_path(slug), lab.course / lesson_path(slug))  # another test saved it
        books.append(Notebook(page, lab, lesson_path(slug)))
        return books[-1]

    yield open_lesson
    for book in books:
        book.close()
