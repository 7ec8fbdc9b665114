"""Sphinx's settings. `make site` builds the site; nothing on it loads anything from another host but the badges."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autograde.authoring.course import REPOSITORY
from autograde.authoring.site import write_pages
from autograde.authoring.site.links import relink

project = "The KV cache course"
author = copyright = "The KV cache course authors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",  # [source] behind every name
    "sphinx.ext.githubpages",  # folders whose names start with _ are published too
    "autograde.authoring.site.docstrings",
    "autograde.authoring.site.mathml",
]
exclude_patterns = ["_build"]

# Markdown and notebooks. Nothing is executed: the outputs are those that the tests hold.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, Any] = {}  # sliders need a kernel; their scripts would come from another host
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_update_mathjax = False
myst_heading_anchors = 4

# The reference. Only kvlib's own names must resolve: other projects' pages would have to be fetched.
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autoclass_content = "both"
autodoc_mock_imports = [name for name in ("torch", "triton", "transformers") if find_spec(name) is None]
nitpick_ignore_regex = [("py:.*", ".*")]
viewcode_line_numbers = True
add_module_names = False
toc_object_entries = False  # every page's sidebar would copy every name: half of the build's time

# How it looks.
html_theme = "furo"
html_title = project
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["course.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"


def relink_page(app: Any, docname: str, source: list[str]) -> None:
    """Links of the written pages point into the repository; on the site they lead to pages."""
    if not docname.startswith("_generated/"):
        source[0] = relink(source[0], "docs", REPOSITORY)


def without_sources(app: Any, env: Any) -> list[str]:
    """Take out of viewcode's books the modules that have no source to show: its index would link to them."""
    known = getattr(env, "_viewcode_modules", {})
    for name in [name for name, entry in known.items() if not entry]:
        del known[name]
    return []


def setup(app: Any) -> None:
    """Make the pages that nobody writes, before Sphinx looks for pages."""
    write_pages(Path(app.srcdir) / "_generated")
    app.connect("source-read", relink_page)
    app.connect("env-updated", without_sources)
