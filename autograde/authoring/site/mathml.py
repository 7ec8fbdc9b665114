"""Formulas as MathML, which browsers draw by themselves. A formula that cannot be converted stops the build."""

from __future__ import annotations

from typing import Any

CHILDREN = {"mfrac": 2, "mroot": 2, "msup": 2, "msub": 2, "mover": 2, "munder": 2, "msubsup": 3, "munderover": 3}


def convert(formula: str, display: str = "inline") -> str:
    r"""A LaTeX formula as a <math> element; display is "inline" or "block".

    Raises ValueError for one that latex2mathml does not know whole: what it does not know it would show as text.

    >>> convert(r"\frac{1}{2}").startswith("<math")
    True
    >>> convert(r"\wrong{1}")
    Traceback (most recent call last):
    ...
    ValueError: formula "\wrong{1}": unknown command \wrong
    """
    import re
    from xml.etree import ElementTree

    from latex2mathml.converter import convert as to_mathml

    try:
        element = to_mathml(formula, display=display)
    except Exception as error:  # its errors have no common base, and some no text
        raise ValueError(f'formula "{formula}": {type(error).__name__} {error}'.rstrip()) from error
    unknown = re.search(r"\\[A-Za-z]+", element)
    if unknown:
        raise ValueError(f'formula "{formula}": unknown command {unknown[0]}')
    for part in ElementTree.fromstring(element).iter():
        if len(part) != CHILDREN.get(part.tag.partition("}")[2], len(part)):
            raise ValueError(f'formula "{formula}": something is missing in a {part.tag.partition("}")[2]}')
    plain = re.sub(r"\\.", "", formula)
    if plain.count("{") != plain.count("}"):
        raise ValueError(f'formula "{formula}": braces do not match')
    return element


def visit_inline(translator: Any, node: Any) -> None:
    """Write a formula of a line."""
    _write(translator, node, "inline")


def visit_block(translator: Any, node: Any) -> None:
    """Write a formula that stands by itself."""
    translator.body.append('<div class="math">')
    _write(translator, node, "block", after="</div>\n")


def _write(translator: Any, node: Any, display: str, after: str = "") -> None:
    import docutils.nodes as nodes  # type: ignore[import-untyped]  # it has no stubs of its own
    from sphinx.util import logging

    try:
        element = convert(node.astext(), display)
    except ValueError as error:
        logging.getLogger(__name__).error(str(error), location=node)
        element = ""
    translator.body.append(element + after)
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer "mathml" with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
