"""What is left of an answer in Markdown."""

from __future__ import annotations

import re

import pytest

from autograde.classroom.markdown import to_html

HOSTILE = [
    "# Because <script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![](javascript:alert(1))",
    "![x](http://tracker.example/x.png)",
    "[click](javascript:alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD4=)",
    "<a href='https://example.org' onclick='alert(1)'>x</a>",
    "<iframe src='https://example.org'></iframe>",
    "<svg/onload=alert(1)>",
    "<svg onload=alert(1)><image href='https://example.org/x.png'/></svg>",
    "<details open ontoggle=alert(1)>x</details>",
    "<style>@import 'https://example.org/x.css'</style>",
    "<form action='https://example.org'><input name=q></form>",
    "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    "`</code><script>alert(1)</script>`",
    "<p style='background:url(https://example.org/x)'>x</p>",
    "<base href='https://example.org/'>",
    "<meta http-equiv=refresh content='0;url=https://example.org'>",
]


@pytest.mark.parametrize("source", HOSTILE)
def test_nothing_is_left_that_a_browser_would_run_or_fetch(source: str) -> None:
    tags = re.findall(r"<[^>]*>", to_html(source))
    allowed = re.compile(r"</?(p|h1|a|code|span|details|div|pre)\b[^>]*>")
    assert all(allowed.fullmatch(tag) for tag in tags), tags
    assert not re.search(r"<[^>]*(\son\w+|style|src|javascript:|data:)", to_html(source))


def test_what_people_write_is_shown() -> None:
    html = to_html("# Why\n\n*Because* `a < b`, see [this](https://example.org).\n\n| a |\n|---|\n| 1 |\n\n- $x^2 < y$")
    for part in (
        "<h1",
        "<em>Because</em>",
        "<code>a &lt; b</code>",
        '<a href="https://example.org">',
        "<td>1</td>",
        "<li>",
    ):
        assert part in html, html


def test_a_picture_is_shown_as_its_description() -> None:
    badge = to_html("[![Open in Colab](https://a.example/badge.svg)](https://b.example/book)")
    assert '<a href="https://b.example/book">Open in Colab</a>' in badge
    assert "<script" not in to_html('<img src="x" alt="<script>alert(1)</script>" onerror="alert(2)">')
    assert "onerror" not in to_html('<img src="x" alt="a cat" onerror="alert(2)">')
