"""The page: well-formed, alone, without scripts, with every name shown as text, and its plots said in words."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograde.exercises import load
from autograde.report.analyse import analyse
from autograde.report.html_table import Html, Number, table
from autograde.report.page import page
from autograde.report.plot import Bar, bars
from autograde.report.result import parse

VOID = {"meta", "br", "img", "hr", "link", "input"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a&b'c\"",
    "</title></svg><b>",
    "x\u202ey\x00z",
)


class Walk(HTMLParser):
    """Follows every tag, and holds each against what the page promises."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.alts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        assert len(named) == len(attrs) and not any(name.startswith("on") for name in named), attrs
        assert not {"src", "srcset", "xlink:href", "data", "action"} & set(named)
        if "id" in named:
            self.ids.append(named["id"] or "")
        if "href" in named:
            self.links.append(named["href"] or "")
        if tag == "svg":
            assert named["role"] == "img"
            self.alts.append(named["aria-label"] or "")
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open or tag in VOID
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def walk(text: str) -> Walk:
    """The page's parts, after the checks that hold for every page."""
    seen = Walk(text)
    assert set(seen.tags) <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "h4", "p", "b", "ul", "li", "nav", "a"),
        *("code", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "text", "rect"),
    }
    assert len(set(seen.ids)) == len(seen.ids)
    assert all(link.startswith("#") and link[1:] in seen.ids for link in seen.links)
    assert "http:" not in text and "https:" not in text and "url(" not in text and "@import" not in text
    return seen


def rows_of(text: str, caption: str) -> list[list[str]]:
    """The cells of the first table with this caption, as text, its heading first."""
    found = re.search(rf"<caption>{re.escape(caption)}.*?</table>", text, flags=re.DOTALL)
    assert found is not None, caption
    rows = re.findall(r"<tr>(.*?)</tr>", found.group())
    return [[re.sub("<.*?>", "", cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)] for row in rows]


def test_the_tables_hold_the_numbers_of_a_class_of_four(small: list[dict]) -> None:
    text = page("class", analyse(map(parse, small), {}), [])
    seen = walk(text)
    assert rows_of(text, "The exercises, and their mean")[1:] == [
        ["7.1", "4", "4", "2", "50 %", "2", "25 %", "0.71"],
        ["7.2", "4", "2", "1", "50 %", "1", "50 %", "0.71"],
    ]
    assert rows_of(text, "From left to right")[1:] == [["one", "3", "0", "1", "75 %"], ["two", "1", "2", "1", "25 %"]]
    assert rows_of(text, "Only points")[1:] == [["0", "1", "25 %"], ["2", "2", "50 %"], ["4", "1", "25 %"]]
    assert [row[:3] for row in rows_of(text, "Work that the checks")[1:]] == [
        ["2", "50 %", "slow"], ["1", "25 %", "leaky"],
    ]  # fmt: skip
    assert rows_of(text, "1 failure")[1:] == [["1", "timeout", "\u2013", "\u2013", "cy"]]
    assert [row[:4] for row in rows_of(text, "Over all lessons")[1:]] == [
        ["2", "50 %", "7.1", "slow"], ["1", "25 %", "7.1", "leaky"],
    ]  # fmt: skip
    assert len(seen.alts) == 4  # the lesson, the stages and points of 7.1, the points of 7.2
    assert "one: 3 held, 0 failed, 1 not reached; two: 1 held, 2 failed, 1 not reached" in seen.alts[1]
    assert seen.alts[2].endswith("1 with 0, 2 with 2, 1 with 4")


def test_a_page_of_nothing() -> None:
    seen = walk(page("class", [], []))
    assert "There are no results yet." in "".join(seen.words)


def test_one_student_with_nothing_but_a_refusal(make: SimpleNamespace) -> None:
    text = page("class", analyse([parse(make.result("ann", {}, refused="not JSON"))], {}), ["07-tiny/x: not JSON"])
    walk(text)
    assert rows_of(text, "Not graded")[1:] == [["ann", "not JSON"]]
    assert "<li>07-tiny/x: not JSON</li>" in text


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_names_are_shown_as_text(make: SimpleNamespace, evil: str) -> None:
    stages = (make.stage("one", True), make.stage(evil, False, evil))
    works = {evil: make.exercise(1, 2, "failed", (evil,), stages), "7.2": make.exercise(1, 2, "failed", (), stages)}
    results = [parse(make.result(evil, works, lesson=evil)), parse(make.result("bob", {}, lesson=evil, refused=evil))]
    text = page(evil, analyse(results, {}), [evil])
    seen = walk(text)
    assert "script" not in seen.tags and "img" not in seen.tags
    assert "\x00" not in text and "\u202e" not in text
    words = "".join(seen.words)
    shown = evil.replace("\x00", "?").replace("\u202e", "?")
    # title, heading, problem, contents twice, lesson, refusal, exercise, stages, mistake and student
    assert words.count(shown) >= 10


def test_the_most_frequent_mistakes_come_first_over_all_lessons(make: SimpleNamespace) -> None:
    def works(first: str, second: str) -> dict:
        return {"7.1": make.exercise(0, 1, "failed", (first,)), "7.2": make.exercise(0, 1, "failed", (second,))}

    results = [make.result("ann", works("a", "c")), make.result("bob", works("b", "c"))]
    text = page("class", analyse(map(parse, results), {}), [])
    assert [row[2:4] for row in rows_of(text, "Over all lessons")[1:]] == [["7.2", "c"], ["7.1", "a"], ["7.1", "b"]]


def test_a_mistake_is_told_in_the_catalogues_words(make: SimpleNamespace) -> None:
    known = next(mistake for mistake in load()["1.3"].mistakes if mistake.seen_in)
    work = make.exercise(0, 6, "failed", (known.name, "nobody-knows"))
    text = page("class", analyse([parse(make.result("ann", {"1.3": work}))], load()), [])
    told = {row[2]: html.unescape(row[3]) for row in rows_of(text, "Work that the checks")[1:]}
    assert told == {
        known.name: f"{known.tells} (Seen in: {known.seen_in}.)",
        "nobody-knows": "Not in the catalogue of this version.",
    }


def test_a_table_escapes_all_of_its_text() -> None:
    text = table("<i>", ["<b>", "n"], [["<u>", 1], [Html("<code>x</code>"), Number("2 %")]])
    assert walk(text).tags.count("code") == 1
    assert rows_of(text, "&lt;i&gt;") == [["&lt;b&gt;", "n"], ["&lt;u&gt;", "1"], ["x", "2 %"]]


def test_half_characters_do_not_stop_the_page(
    classroom: Path, put: Callable[..., Path], report: Callable[..., int], make: SimpleNamespace
) -> None:
    """JSON can hold half of a character, which no file can."""
    work = make.exercise(1, 2, "failed", (), (make.stage("one", False, "got \ud800"),))
    path = put(make.result("ann", {"7.1": work}))
    assert json.loads(path.read_text())["exercises"]["7.1"]["stages"][0]["fact"] == "got \ud800"
    assert report() == 0
    walk((classroom / "report" / "index.html").read_text(encoding="utf-8"))


def test_a_bar_is_as_long_as_its_number() -> None:
    text = bars([Bar("a", (("held", 3), ("failed", 1))), Bar("b", (("held", 0), ("failed", 2)))], 4, "alt")
    found = re.findall(r'<rect class="(\w+)" x="([\d.]+)" y="(\d+)" width="([\d.]+)"', text)
    assert [style for style, *_ in found] == ["held", "failed", "failed"]  # a part of nothing is not drawn
    (_, x, y, wide), (_, x2, y2, narrow), (_, x3, y3, half) = found
    assert float(wide) == pytest.approx(3 * float(narrow), abs=0.2)
    assert float(half) == pytest.approx(2 * float(narrow), abs=0.2)
    assert float(x2) == pytest.approx(float(x) + float(wide), abs=0.2)
    assert y == y2 != y3 and x == x3
