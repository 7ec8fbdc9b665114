"""Where the course is published: the one place that says so.

Badges, links and install commands follow it. `python -m autograde lessons address` writes another address here and
wherever it stands in a file.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

REPOSITORY = "https://github.com/OWNER/kvcache-course"
BRANCH = "main"


def published() -> bool:
    """Whether the address is a real one, and not the placeholder that the course starts with."""
    return "/OWNER/" not in REPOSITORY


def notebook(slug: str) -> str:
    """A lesson's released notebook, as a path in the repository. slug: "01-toy-cache"."""
    return f"lessons/{slug}/{slug}.ipynb"


def archive() -> str:
    """The branch as a zip, which pip installs without git."""
    return f"{REPOSITORY}/archive/refs/heads/{BRANCH}.zip"


def colab(slug: str) -> str:
    """A link that opens a lesson in Colab. Colab opens notebooks of GitHub."""
    return f"https://colab.research.google.com/github/{_name()}/blob/{BRANCH}/{notebook(slug)}"


def kaggle(slug: str) -> str:
    """A link that opens a lesson in a Kaggle notebook."""
    return f"https://kaggle.com/kernels/welcome?src={quote(f'{REPOSITORY}/blob/{BRANCH}/{notebook(slug)}', safe=':/')}"


def nbgitpuller(hub: str, slug: str = "", repository: str = "", branch: str = "") -> str:
    """A link that fetches the course onto a student's JupyterHub server and opens a lesson. hub: the hub's address.
    repository, branch: of a course of one's own; default: this one's.

    A student's own changes are kept; see nbgitpuller's documentation on automatic merging.
    """
    repository = repository.rstrip("/") or REPOSITORY
    folder = repository.rsplit("/", 1)[1].removesuffix(".git")
    opens = f"lab/tree/{folder}/{notebook(slug)}" if slug else f"lab/tree/{folder}/lessons"
    query = urlencode({"repo": repository, "branch": branch or BRANCH, "urlpath": opens})
    return f"{hub.rstrip('/')}/hub/user-redirect/git-pull?{query}"


def _name() -> str:
    """Owner and repository, with a slash between them."""
    return "/".join(REPOSITORY.split("/")[-2:])
