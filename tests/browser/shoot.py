"""Takes the pictures of the README and the guides, so that they can be taken again:

    python tests/browser/shoot.py diagnosis lab docs/images/

Each name makes NAME.png in the folder that comes last. Without a name, every picture is taken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a file, not from a test

from autograde.classroom.record import open_gradebook
from autograde.cli import main as main_of_autograde
from tests.browser.lab import CHROMIUM, FLAGS, Lab, Notebook, lesson_path, solutions
from tests.browser.taught import LESSON as TAUGHT
from tests.browser.taught import QUESTION, STUDENTS, hand_in, make_course

LESSON = "01-toy-cache"
# A real mistake: the step looks at the newest key and value only, and the kept ones are never used.
WRONG = """class ToyCache:
    def __init__(self, project_q, project_k, project_v):
        self.project_q, self.project_k, self.project_v = project_q, project_k, project_v
        self.keys, self.values = [], []

    def __len__(self):
        return len(self.keys)

    def step(self, x):
        k, v = self.project_k(x), self.project_v(x)
        self.keys.append(k)
        self.values.append(v)
        return attend(self.project_q(x), np.array([k]), np.array([v]))"""


def diagnosis(book: Notebook, path: Path) -> None:
    """A wrong answer to 1.3, and the check below that names the mistake."""
    book.write({"exercise-1-1": solutions(LESSON)["exercise-1-1"], "exercise-1-3": WRONG})
    book.run_all()
    book.select("check-1-3")  # the answer's cell, not active, shows no buttons
    answer, check = book.cell("exercise-1-3"), book.cell("check-1-3")
    code = answer.query_selector(".jp-InputArea-editor")
    card = check.query_selector(".jp-RenderedHTMLCommon")
    answer.evaluate("cell => cell.scrollIntoView({block: 'start'})")
    book.page.add_style_tag(content=".jp-Toolbar.jp-cell-toolbar {display: none}")
    first, last = code.bounding_box(), card.bounding_box()
    clip = {"x": first["x"] - 4, "y": first["y"], "width": first["width"] + 12}
    clip["height"] = last["y"] + last["height"] - first["y"] + 4
    book.page.screenshot(path=path, clip=clip)


def lab(book: Notebook, path: Path) -> None:
    """JupyterLab with the first exercise: its card, its answer cell, its check and its hints."""
    book.select("exercise-1-1")
    book.page.screenshot(path=path)


def widget(book: Notebook, path: Path) -> None:
    """The slider of lesson 01 at its fifth step."""
    book.run_all()
    slider = ".widget-hslider .noUi-handle"
    book.page.focus(slider)
    for _ in range(4):
        book.page.keyboard.press("ArrowRight")
    book.page.wait_for_selector(".widget-html-content img[alt*='by step 5:']")
    book.page.query_selector(f".jp-OutputArea-output:has({slider})").screenshot(path=path)


PICTURES: dict[str, Callable[[Notebook, Path], None]] = {"diagnosis": diagnosis, "lab": lab, "widget": widget}
CLASS = ("formgrader-assignments", "formgrader-submissions", "formgrader-marking", "feedback-page", "report-page")


def class_pictures(browser: Any, folder: Path, names: list[str], into: Path) -> None:
    """The instructor guide's pictures, of a class made in `folder`."""
    course = make_course(folder / "course")
    where = [str(course.classroom), "--course", str(course.root)]
    steps = [["release", *where, TAUGHT, "--to", str(folder / "given"), "--due", "2027-01-31 18:00"], ["grade", *where]]
    hand_in(course, *STUDENTS)
    for step in [*steps, ["report", str(course.classroom)]]:
        if main_of_autograde(step):
            raise RuntimeError(f"autograde {' '.join(step)} failed")
    with open_gradebook(course) as gradebook:
        waiting = gradebook.find_submission_notebook(TAUGHT, TAUGHT, "ada").id
    server = Lab(folder)
    places = dict(
        zip(
            CLASS,
            (
                f"{server.url}/formgrader/manage_assignments",
                f"{server.url}/formgrader/manage_submissions/{TAUGHT}",
                f"{server.url}/formgrader/submissions/{waiting}",
                (course.feedback / "fatima" / TAUGHT / f"{TAUGHT}.html").as_uri(),
                (course.classroom / "report" / "index.html").as_uri(),
            ),
            strict=True,
        )
    )
    heights = {"formgrader-assignments": 510, "formgrader-submissions": 560}
    try:
        for name in names:
            size = {"width": 1150, "height": heights.get(name, 620)}
            page = browser.new_page(viewport=size, device_scale_factor=1.25)
            page.goto(places[name], wait_until="domcontentloaded")
            if name.startswith("formgrader-m"):
                page.wait_for_selector(f"#{QUESTION}")
                page.eval_on_selector(f"#{QUESTION}", "field => field.scrollIntoView({block: 'center'})")
            elif name.startswith("formgrader"):
                page.wait_for_selector(f"tbody a:has-text('{TAUGHT if name.endswith('assignments') else 'Okoye'}')")
            page.screenshot(path=into / f"{name}.png")
            page.close()
            print(f"{into / f'{name}.png'} written")
    finally:
        server.stop()


def lesson_pictures(browser: Any, folder: Path, names: list[str], into: Path) -> None:
    """Pictures of lesson 01 in JupyterLab."""
    server = Lab(folder)
    try:
        for name in names:
            page = browser.new_page(viewport={"width": 980, "height": 900}, device_scale_factor=2)
            page.set_default_timeout(60_000)
            book = Notebook(page, server, lesson_path(LESSON))
            PICTURES[name](book, into / f"{name}.png")
            book.close()
            page.close()
            print(f"{into / f'{name}.png'} written")
    finally:
        server.stop()


def main(arguments: list[str]) -> int:
    """Take pictures; 2 for a name that is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join((*PICTURES, *CLASS))}")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in (*PICTURES, *CLASS)]
    if unknown:
        parser.error(f"no picture is called {unknown[0]}; there are {', '.join((*PICTURES, *CLASS))}")
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is no folder")
    if CHROMIUM is None:
        parser.error("chromium is not on the path")

    from playwright.sync_api import sync_playwright

    names = given.names or [*PICTURES, *CLASS]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        of_class = [name for name in names if name in CLASS]
        if of_class:
            (Path(folder) / "class").mkdir()
            class_pictures(browser, Path(folder) / "class", of_class, given.folder)
        of_lesson = [name for name in names if name in PICTURES]
        if of_lesson:
            lesson_pictures(browser, Path(folder), of_lesson, given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
