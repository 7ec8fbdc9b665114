"""The reference pages are made from docstrings: each says what is needed, and its examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import kvlib

FOLDER = Path(kvlib.__file__).parent
NAMES = sorted(module.name for module in pkgutil.walk_packages([str(FOLDER)], "kvlib."))

# Without an example of their own, and why.
WITHOUT_EXAMPLE = {
    "kvlib.__main__": "hands over to kvlib.cli",
    "kvlib.gpu": "a package of other modules",
    "kvlib.gpu.kernel": "a kernel runs on a GPU; kvlib.gpu.interpret has the example",
    "kvlib.sizing": "a package of other modules",
}

# Examples that want a package which the module itself does without.
WANTED = {"kvlib.figure": "matplotlib", "kvlib.widgets": "matplotlib"}

# Whose idea a module shows: author and year, in its docstring or in that of one of its parts.
SOURCES = {
    "kvlib.attend_in_place": "Dao et al. 2023",
    "kvlib.attend_tiles": "Dao et al. 2022",
    "kvlib.attention": "Vaswani et al. 2017",
    "kvlib.block_allocator": "Kwon et al. 2023",
    "kvlib.block_tables": "Kwon et al. 2023",
    "kvlib.counts": "Shazeer 2019",
    "kvlib.decoder": "Zhang and Sennrich 2019",
    "kvlib.forgetting": "Xiao et al. 2023",
    "kvlib.fp8": "Micikevicius et al. 2022",
    "kvlib.gqa": "Ainslie et al. 2023",
    "kvlib.heavy_hitters": "Zhang et al. 2023",
    "kvlib.latent_cache": "DeepSeek-AI 2024",
    "kvlib.lora": "Hu et al. 2021",
    "kvlib.mla": "DeepSeek-AI 2024",
    "kvlib.mla_layer": "DeepSeek-AI 2024",
    "kvlib.online_softmax": "Milakov and Gimelshein 2018",
    "kvlib.paged_attend": "Kwon et al. 2023",
    "kvlib.paged_cache": "Kwon et al. 2023",
    "kvlib.rope": "Su et al. 2021",
    "kvlib.serve": "Yu et al. 2022",
    "kvlib.server": "Agrawal et al. 2023",
    "kvlib.sink_cache": "Xiao et al. 2023",
    "kvlib.sizing.experts": "DeepSeek-AI 2024",
    "kvlib.sizing.roofline": "Williams, Waterman and Patterson 2009",
    "kvlib.speculative": "Leviathan et al. 2023",
    "kvlib.split_attend": "Dao et al. 2023",
}

ARRAY = re.compile(r"\b(Tensor|ndarray)\b")
# (T,), (..., D), (B, Hkv, S + T, D), (..., ceil(D / 2)), () for a single number; or "of the shape of x" in words.
SHAPE = re.compile(r"\((?:\.\.\.|[\w*+/ -]+),[^()]*(?:\([^()]*\)[^()]*)?\)|\(\)|\bshapes?\b")


def module_of(name: str) -> ModuleType:
    """The module, or a skip that says which package it wants."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("torch", "triton", "transformers"):
            raise
        pytest.skip(f"{name} needs {error.name}")


def tree_of(name: str) -> ast.Module:
    """The module's source, which is there even where what it imports is not."""
    return ast.parse(Path(importlib.util.find_spec(name).origin).read_text(encoding="utf-8"))


def parts_of(name: str) -> list[tuple[str, ast.AST, str]]:
    """Public functions, classes and methods: name, node, docstring. What `__init__` takes may stand in its class's."""
    parts: list[tuple[str, ast.AST, str]] = []
    for node in tree_of(name).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        said = ast.get_docstring(node) or ""
        parts.append((node.name, node, said))
        for child in node.body if isinstance(node, ast.ClassDef) else ():
            if not isinstance(child, ast.FunctionDef) or (child.name.startswith("_") and child.name != "__init__"):
                continue
            above = f"{said}\n" if child.name == "__init__" else ""
            parts.append((f"{node.name}.{child.name}", child, above + (ast.get_docstring(child) or "")))
    return parts


def docstrings_of(name: str) -> list[str]:
    """The module's, and those of its parts."""
    return [ast.get_docstring(tree_of(name)) or "", *(said for _, _, said in parts_of(name))]


def functions_of(name: str) -> list[tuple[str, ast.FunctionDef, str]]:
    """The functions and methods among the parts."""
    return [part for part in parts_of(name) if isinstance(part[1], ast.FunctionDef)]


def own_nodes(function: ast.FunctionDef) -> list[ast.AST]:
    """What runs when this function runs: not what lies in functions that it only makes."""
    found, waiting = [], list(function.body)
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_example_runs(name):
    module = module_of(name)
    if name in WANTED:
        pytest.importorskip(WANTED[name])
    failed, tried = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert not failed, f"{failed} of {tried} examples"


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(WITHOUT_EXAMPLE)))
def test_every_module_has_an_example(name):
    assert any(">>>" in said for said in docstrings_of(name)), f"{name} has no example"


@pytest.mark.parametrize("name", NAMES)
def test_every_public_part_says_what_it_is(name):
    assert ast.get_docstring(tree_of(name)), f"{name} has no docstring"
    silent = [part for part, _, said in parts_of(name) if not said.strip()]
    assert not silent, f"without a docstring: {silent}"


@pytest.mark.parametrize("name", NAMES)
def test_whoever_takes_or_gives_arrays_says_their_shapes(name):
    for part, node, said in functions_of(name):
        given = node.args
        annotations = [a.annotation for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)] + [node.returns]
        if any(a is not None and ARRAY.search(ast.unparse(a)) for a in annotations):
            assert SHAPE.search(said), f"{name}.{part} takes or gives arrays, of no shape in its docstring"


@pytest.mark.parametrize("name", NAMES)
def test_whoever_takes_several_arrays_names_each(name):
    for part, node, said in functions_of(name):
        taken = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        arrays = [a.arg for a in taken if a.annotation is not None and ARRAY.search(ast.unparse(a.annotation))]
        silent = [array for array in arrays if not re.search(rf"\b{array}\b", said)]
        assert len(arrays) < 2 or not silent, f"{name}.{part} does not speak of {silent}"


@pytest.mark.parametrize("name", NAMES)
def test_errors_that_a_function_raises_are_named(name):
    for part, node, said in functions_of(name):
        for raised in (n for n in own_nodes(node) if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call)):
            error = ast.unparse(raised.exc.func)
            assert error in said, f"{name}.{part} raises {error} in line {raised.lineno}, and does not say when"


@pytest.mark.parametrize(("name", "source"), SOURCES.items())
def test_published_ideas_name_their_source(name, source):
    said = [" ".join(text.split()) for text in docstrings_of(name)]  # a name may be broken at the end of a line
    assert any(source in text for text in said), f"{name} does not name {source}"


def test_the_tables_name_modules_that_there_are():
    assert set(WITHOUT_EXAMPLE) | set(SOURCES) | set(WANTED) <= set(NAMES)


@pytest.mark.parametrize("text", ["(T,)", "x (B, T) in", "(..., D)", "(B, Hkv, S + T, D)", "(..., ceil(D / 2))", "()"])
def test_a_shape_is_known_when_it_is_seen(text):
    assert SHAPE.search(text)


@pytest.mark.parametrize(
    "text", ["queries of x", "queries (see above)", "f(x)", "reshaped", "the mask (causal) of T, S"]
)
def test_other_words_are_no_shape(text):
    assert not SHAPE.search(text)
