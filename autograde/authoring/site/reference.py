"""kvlib's reference: a page for each module, grouped by the lesson that introduces it. autodoc fills them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from autograde.authoring.course import Course


def write_reference(course: Course, folder: Path) -> None:
    """Write the pages and their index."""
    folder.mkdir(parents=True)
    sources = modules(course.root / "kvlib")
    for name, path in sources.items():
        (folder / f"{name}.rst").write_text(_page(name, path), encoding="utf-8")
    (folder / "index.md").write_text(_index(course, sources), encoding="utf-8")


def modules(package: Path) -> dict[str, Path]:
    """The sources of a package by module name, in alphabetical order; those that start with _ are not public."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if not any(part.startswith("_") for part in name.split(".")):
            found[name] = path
    return dict(sorted(found.items()))


def public_names(tree: ast.Module) -> Iterator[tuple[str, str, ast.stmt]]:
    """Kind, name and statement of what a module defines for others: "class", "function" or "data"."""
    seen: set[str] = set()  # a name may be given twice, as one for each system
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            kind, names = "class", [node.name]
        elif isinstance(node, ast.FunctionDef):
            kind, names = "function", [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            kind = "data"
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            leaves = [leaf for target in targets for leaf in getattr(target, "elts", [target])]
            names = [leaf.id for leaf in leaves if isinstance(leaf, ast.Name)]
        else:
            continue
        yield from ((kind, name, node) for name in names if not name.startswith("_") and name not in seen)
        seen.update(names)


def _page(name: str, path: Path) -> str:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    lines = [name, "=" * len(name), "", f".. automodule:: {name}", "   :no-members:", ""]
    for kind, member, node in public_names(tree):
        if kind == "data":
            lines += _data(member, node, source)
            continue
        lines.append(f".. auto{kind}:: {name}.{member}")
        if isinstance(node, ast.ClassDef):
            lines += ["   :members:", "   :undoc-members:", "   :member-order: bysource"]
            special = [part.name for part in node.body if isinstance(part, ast.FunctionDef) and _is_shown(part)]
            lines += [f"   :special-members: {', '.join(special)}"] if special else []
        lines.append("")
    return "\n".join(lines)


def _is_shown(method: ast.FunctionDef) -> bool:
    """Whether a method such as __len__ says what it does. The text of __init__ stands with its class."""
    return method.name.startswith("__") and method.name != "__init__" and ast.get_docstring(method) is not None


def _data(member: str, node: ast.stmt, source: str) -> list[str]:
    """A constant with its value, where that is short, and the comment behind it."""
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    lines = [f".. py:data:: {member}"]
    plain = isinstance(node, ast.AnnAssign) or isinstance(node.targets[0], ast.Name)
    value = ast.unparse(node.value) if node.value and plain else ""
    if value and len(value) <= 90 and "\\" not in value:
        lines.append(f"   :value: {value}")
    return [*lines, "", f"   {comment_of(node, source)}".rstrip(), ""]


def comment_of(node: ast.stmt, source: str) -> str:
    """The comment at the end of a statement's last line, or "", as reStructuredText."""
    from autograde.authoring.site.docstrings import in_line

    line = source.splitlines()[(node.end_lineno or 1) - 1].encode()[node.end_col_offset or 0 :].decode()
    comment = line.strip().removeprefix("#").strip() if line.strip().startswith("#") else ""
    return in_line(comment) if not comment.startswith(("type:", "noqa")) else ""


def _index(course: Course, sources: dict[str, Path]) -> str:
    groups: dict[str, list[str]] = {}
    left = dict(sources)
    for lesson in course.lessons:
        mine = [name for name in lesson.introduces if left.pop(name, None)]
        # The parts of a package come with it, unless a later lesson introduces them by name.
        later = {name for other in course.lessons for name in other.introduces}
        packages = tuple(f"{name}." for name in mine if name in ("kvlib.sizing", "kvlib.gpu"))
        mine += [name for name in left if packages and name.startswith(packages) and name not in later]
        for name in mine:
            left.pop(name, None)
        groups[f"{lesson.number:02} {lesson.title}"] = mine
    groups["More modules"] = list(left)
    lines = [
        "# Reference",
        "",
        "`kvlib`, module by module, in the order in which the lessons introduce it. Each page says shapes, units and",
        "errors, and leads to the source. A shape is written as its letters: `(T, S)`. How to use it without the",
        "lessons: [kvlib as a library](/practitioner.md).",
        "",
    ]
    for title, names in groups.items():
        lines += [f"## {title}", "", "| module | what it is |", "|---|---|"]
        lines += [f"| [{name}]({name}.rst) | {_summary(sources[name])} |" for name in names]
        lines += ["", "```{toctree}", ":hidden:", ":titlesonly:", "", *names, "```", ""]
    return "\n".join(lines)


def _summary(path: Path) -> str:
    text = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*")
