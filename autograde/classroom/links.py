"""The command `links`: what students of a JupyterHub click on to get a lesson."""

from __future__ import annotations

import argparse
import sys
from urllib.parse import urlsplit


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `links` to a command line."""
    links = subparsers.add_parser("links", help="print a link for each lesson that opens it on a JupyterHub")
    links.add_argument("lessons", nargs="*", metavar="LESSON", help="for example 01-toy-cache (default: all)")
    links.add_argument("--hub", required=True, metavar="URL", help="the hub, for example https://hub.example.edu")
    links.add_argument(
        "--repo", default="", metavar="URL", help="your course's git repository (default: this course's)"
    )
    links.add_argument("--branch", default="", help="its branch (default: main)")
    links.set_defaults(run=run_links)


def run_links(args: argparse.Namespace) -> int:
    """Print the links. Returns 2 for an address or a lesson that is none, and where the course is not published."""
    from autograde import address
    from autograde.lessons import LESSONS

    known = [lesson.slug for lesson in LESSONS]
    hub, problem = urlsplit(args.hub), ""
    if hub.scheme not in ("http", "https") or not hub.netloc:
        problem = f"--hub: wanted an address such as https://hub.example.edu, got {args.hub!r}"
    elif unknown := [name for name in args.lessons if name not in known]:
        problem = f"there is no lesson {unknown[0]!r}; there are: {', '.join(known)}"
    elif args.repo and urlsplit(args.repo).scheme not in ("http", "https"):
        problem = f"--repo: wanted an address such as https://github.com/me/my-course, got {args.repo!r}"
    elif not args.repo and not address.published():
        problem = f"{address.REPOSITORY} is no published repository: name yours with --repo URL"
    if problem:
        print(f"links: {problem}", file=sys.stderr)
        return 2
    for lesson in args.lessons or known:
        print(f"{lesson}  {address.nbgitpuller(args.hub, lesson, args.repo, args.branch)}")
    return 0
