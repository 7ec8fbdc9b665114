"""Where a link between two files of the repository leads on the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

LINK = re.compile(r"(\]\()(?![a-z][a-z+]*:|#|/)([^)\s]+)(\))")
MADE = "/_generated"  # from the site's first folder
LESSON = re.compile(r"(?:lessons|solutions)/([^/]+)/\1\.ipynb")
PAGES = {  # files outside docs/ that have a page of their own
    "README.md": "/index.md",
    "lessons": f"{MADE}/lessons/index.md",
    "autograde/exercises/MATRIX.md": f"{MADE}/matrix/index.md",
    "CONTRIBUTING.md": "/authoring.md",
}


def relink(text: str, folder: str, root: Path) -> str:
    """Markdown with its relative links led to pages of the site, or to the repository's address.

    folder: where the text lies, from the course's root, such as "docs". root: the course's root. A link to a file that
    does not exist stays as it is, and the build complains about it.
    """
    return LINK.sub(lambda found: found[1] + _target(found[2], folder, root) + found[3], text)


def _target(link: str, folder: str, root: Path) -> str:
    path, mark, anchor = link.partition("#")
    file = posixpath.normpath(posixpath.join(folder, path))
    lesson = LESSON.fullmatch(file)
    if lesson and (root / "lessons" / lesson[1] / f"{lesson[1]}.ipynb").is_file():
        return f"{MADE}/lessons/{lesson[1]}.ipynb{mark}{anchor}"
    if file in PAGES:
        return PAGES[file] + mark + anchor
    if file.startswith(("docs/", "..")) or not (root / file).exists():
        return link
    return address(file, is_folder=(root / file).is_dir()) + mark + anchor


def address(file: str, *, is_folder: bool = False) -> str:
    """Where a file of the repository can be read: "https://.../blob/main/README.md"."""
    from autograde.address import BRANCH, REPOSITORY

    return f"{REPOSITORY}/{'tree' if is_folder else 'blob'}/{BRANCH}/{file}"
