"""kvlib's docstrings as reStructuredText. They are plain text, with `code`, lists, indented code and doctests."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

ITEM = re.compile(r"(?:[-*]|\d+\.) ")
CODE = re.compile(r"`([^`]+)`")


def to_rst(lines: list[str]) -> list[str]:
    """Lines of a docstring in the project's style, as reStructuredText that shows the same.

    >>> to_rst(["Weights of `x`, 2 * d.", "- one", "- two", "", "    y = f(x)"])
    ['Weights of ``x``, 2 \\\\* d.', '', '- one', '- two', '', '::', '', '    y = f(x)', '']
    """
    result: list[str] = []
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            result += [*_block(block), ""]
            block = []
    return result


def _block(block: list[str]) -> list[str]:
    """One paragraph, list, piece of code or doctest."""
    if block[0].lstrip().startswith(">>>"):
        return [line.strip() if line.lstrip().startswith((">>>", "...")) else line for line in block]
    if block[0].startswith(" "):
        return ["::", "", *block]
    result: list[str] = []
    in_list = False
    for line in block:
        if ITEM.match(line):
            if result and not in_list:
                result.append("")
            in_list = True
            result.append(in_line(line) if not line.startswith("* ") else "* " + in_line(line[2:]))
        elif line.startswith(">>>"):
            return [*result, "", *_block(block[block.index(line) :])]
        else:
            # A continuation of an item stands below its text; anything else is flush.
            indent = len(line) - len(line.lstrip()) if in_list else 0
            result.append(" " * indent + in_line(line.strip()))
    return result


def in_line(text: str) -> str:
    """A line of plain text with `code`: what reStructuredText would take for markup is escaped."""
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2:  # code; where it touches a letter, as in `x`s, an invisible space keeps it code
            before, after = parts[i - 1][-1:], parts[i + 1][:1]
            parts[i] = ("\\ " if before.isalnum() else "") + f"``{part.strip()}``" + ("\\ " if after.isalnum() else "")
        else:
            parts[i] = re.sub(r"([\\*`|]|_\b|\b_)", r"\\\1", part)
    return "".join(parts)


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Sphinx's event: put a docstring into reStructuredText; a field without one gets the comment behind it."""
    if what in ("attribute", "property") and not any(lines):
        lines[:] = [in_line(_field_comment(name))]
        return
    lines[:] = to_rst(lines)


def _field_comment(name: str) -> str:
    """The comment behind a field of a class, "kvlib.module.Class.field", or ""."""
    import importlib

    module, owner, field = name.rsplit(".", 2)
    try:
        source = inspect.getsource(importlib.import_module(module))
    except (ImportError, OSError):
        return ""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == owner:
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and getattr(part.target, "id", "") == field:
                    line = source.splitlines()[(part.end_lineno or 1) - 1]
                    return line.partition("  # ")[2].strip()
    return ""


def import_for_types(app: Any) -> None:
    """Carry out the imports that kvlib's modules make for type checkers only, so that their types become links."""
    import contextlib
    import importlib
    from pathlib import Path

    import kvlib
    from autograde.authoring.site.reference import modules

    for name, path in modules(Path(kvlib.__file__).parent).items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                with contextlib.suppress(ImportError):  # a library that is not there stays a name
                    exec(compile(ast.Module(node.body, []), str(path), "exec"), vars(importlib.import_module(name)))


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", import_for_types)
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
