"""What a piece of code imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def imported(source: str) -> Iterator[str]:
    """The modules that a code cell imports; `from kvlib import toy` counts as kvlib.toy. Magics are let be."""
    from IPython.core.inputtransformer2 import TransformerManager

    for node in ast.walk(ast.parse(TransformerManager().transform_cell(source))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module in ("kvlib", "autograde"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."
