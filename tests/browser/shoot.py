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

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a file, not from a test

from tests.browser.lab import CHROMIUM, FLAGS, Lab, Notebook, lesson_path, solutions

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


def main(arguments: list[str]) -> int:
    """Take pictures; 2 for a name that is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in PICTURES]
    if unknown:
        parser.error(f"no picture is called {unknown[0]}; there are {', '.join(PICTURES)}")
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is no folder")
    if CHROMIUM is None:
        parser.error("chromium is not on the path")

    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Lab(Path(folder))
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            for name in given.names or PICTURES:
                page = browser.new_page(viewport={"width": 980, "height": 900}, device_scale_factor=2)
                page.set_default_timeout(60_000)
                book = Notebook(page, server, lesson_path(LESSON))
                path = given.folder / f"{name}.png"
                PICTURES[name](book, path)
                book.close()
                page.close()
                print(f"{path} written")
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
