"""What holds for every page of the built site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from autograde.authoring.site.mathml import convert
from tests.site.conftest import build, copy_docs
from tests.site.page import Page

OF_STYLE = re.compile(r"(url\(|@import)[^;)]*//[^;)]*")
IN_A_PAGE = re.compile(r"<style\b.*?</style>|<[a-z][^<>]*\sstyle=[^<>]*>|<script\b.*?</script>", re.DOTALL)
BADGES = ("colab.research.google.com", "kaggle.com", "www.kaggle.com", "mybinder.org", "img.shields.io")


def test_every_internal_link_and_anchor_leads_somewhere(pages: dict[str, Page], site: Path) -> None:
    lost = []
    for name, page in pages.items():
        for address in [*page.links, *(address for _, address in page.loads)]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            path = posixpath.join(posixpath.dirname(name), unquote(parts.path))
            target = posixpath.normpath(path) if parts.path else name
            has_anchor = not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].ids
            if not (site / target).is_file() or not has_anchor:
                lost.append((name, address))
    assert not lost


def test_nothing_is_loaded_from_another_host_but_badges(pages: dict[str, Page], site: Path) -> None:
    foreign = [
        (name, address)
        for name, page in pages.items()
        for tag, address in page.loads
        if urlsplit(address).netloc and not (tag == "img" and urlsplit(address).netloc in BADGES)
    ]
    sheets = [(path.name, text) for path in site.rglob("*.css") for text in [path.read_text(encoding="utf-8")]]
    sheets += [(name, part[0]) for name, page in pages.items() for part in IN_A_PAGE.finditer(page.text)]
    foreign += [(name, found[0]) for name, text in sheets for found in OF_STYLE.finditer(text)]
    foreign += [(name, text) for name, text in sheets if re.search(r"\bimport\(?\s*[\"'](https?:)?//", text)]
    assert not foreign


def test_headings_go_down_one_step_at_a_time(pages: dict[str, Page]) -> None:
    wrong = {}
    for name, page in pages.items():
        levels = page.headings
        steps = zip(levels, levels[1:], strict=False)
        if levels[:1] != [1] or levels.count(1) != 1 or any(after > before + 1 for before, after in steps):
            wrong[name] = levels
    wrong = {name: levels for name, levels in wrong.items() if name not in ("search.html", "genindex.html")}
    assert not wrong


def test_every_picture_has_a_description(pages: dict[str, Page]) -> None:
    pictures = [(name, source, (alt or "").strip()) for name, page in pages.items() for source, alt in page.pictures]
    # Sphinx describes a picture without a description by its address.
    assert not [picture for picture in pictures if not picture[2] or picture[2].endswith((".png", ".svg"))]


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        (r"\nothing{1}", r"unknown command \nothing"),
        (r"\frac{1}", "something is missing in a mfrac"),
        ("x^{1", "braces do not match"),
        (r"\left(", "NoAvailableTokensError"),
    ],
)
def test_a_formula_that_cannot_be_converted_is_named(formula: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'formula "{formula}": {why}')):
        convert(formula)


def test_a_broken_page_breaks_the_build(tmp_path: Path, site: Path) -> None:
    """A formula, a link to a file, a link to a heading. The site is asked for first: without it nothing is proven."""
    docs = copy_docs(tmp_path / "docs")
    conf = (docs / "conf.py").read_text(encoding="utf-8")
    small = ["[!i]*.md", "install.md", "instructor-guide.md", "_generated"]
    conf = conf.replace('exclude_patterns = ["_build"]', f"exclude_patterns = {small}")
    conf = conf.replace('    write_pages(Path(app.srcdir) / "_generated")\n', "")
    (docs / "conf.py").write_text(conf, encoding="utf-8")
    (docs / "index.md").write_text("# A\n\n$\\nothing{1}$ [a](gone.md) [b](#no-heading)\n", encoding="utf-8")
    done = build(docs, tmp_path / "html")
    assert done.returncode != 0
    for complaint in ("unknown command \\nothing", "gone.md", "no-heading"):
        assert complaint in done.stderr
