"""What a student sees in a light and in a dark page, and at 125 %: text can be read, nothing runs over the edge."""

from __future__ import annotations

import pytest

from tests.browser.lab import solutions
from tests.browser.shoot import WRONG

THEMES = ("JupyterLab Light", "JupyterLab Dark")

# The contrast of every piece of text in an element, by the formula of WCAG 2: from the computed colour, and from the
# first background behind it that is not transparent.
CONTRAST = """root => {
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => {
        const part = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const behind = node => {
        for (; node; node = node.parentElement) {
            const colour = numbers(getComputedStyle(node).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const found = [];
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const node = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
        if (!text) continue;
        const [a, b] = [light(numbers(getComputedStyle(node).color)), light(behind(node))];
        found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), text]);
    }
    return found;
}"""
# What sticks out to the right of the notebook: nobody scrolls a card sideways.
OVER = """root => [...root.querySelectorAll('*')]
    .filter(node => node.getBoundingClientRect().right > root.getBoundingClientRect().right + 1)
    .map(node => node.outerHTML.slice(0, 200))"""


@pytest.fixture
def three_cards(opened):
    """Lesson 01 with one check passed, one not tried and one diagnosed."""
    book = opened("01-toy-cache")
    book.write({"exercise-1-1": solutions("01-toy-cache")["exercise-1-1"], "exercise-1-3": WRONG})
    book.run_all()
    return book


def test_text_has_contrast_in_both_themes(three_cards):
    for theme in THEMES:
        three_cards.theme(theme)
        for check in ("check-1-1", "check-1-2", "check-1-3"):
            card = three_cards.cell(check).query_selector(".jp-RenderedHTMLCommon")
            seen = card.evaluate(CONTRAST)
            assert seen, "no text"
            assert not [(ratio, text) for ratio, text in seen if ratio < 4.5], theme


def test_nothing_runs_over_the_edge_at_125_percent(three_cards):
    page = three_cards.page
    page.set_viewport_size({"width": 1024, "height": 640})  # what is left of 1280 x 800
    for cell in page.query_selector_all(".jp-Notebook .jp-OutputArea-output, .jp-Notebook .jp-MarkdownOutput"):
        assert cell.evaluate(OVER) == []


def test_a_check_is_run_by_keyboard_alone(three_cards):
    page = three_cards.page
    three_cards.select("exercise-1-1")
    three_cards.do("notebook:enter-command-mode")
    page.keyboard.press("ArrowDown")
    active = "() => window.jupyterapp.shell.currentWidget.content.activeCell.model.id"
    page.wait_for_function(f"() => ({active})() === 'check-1-1'")
    before = page.evaluate(f"() => {three_cards.count('check-1-1')}")
    page.keyboard.press("Control+Enter")
    page.wait_for_function(f"before => {three_cards.count('check-1-1')} > before", arg=before)
    assert "passed" in three_cards.text("check-1-1")
