"""Another address of the repository: where it comes from, and that everything follows it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from autograde import address, cli
from autograde.authoring.addresses import AddressError, files, normalised, remote, rewrite
from autograde.authoring.notebook import compose, to_text

ROOT = Path(__file__).parents[2]
OLD, NEW = address.REPOSITORY, "https://github.com/ada/kv"
# Files that do not name the repository today, and may tomorrow.
NOT_YET = ("pyproject.toml", "binder/postBuild", ".devcontainer/devcontainer.json")


@pytest.mark.parametrize(
    "given",
    ["https://github.com/ada/kv", "https://github.com/ada/kv.git", "https://github.com/ada/kv/", "http://github.com/ada/kv",
     "https://token@github.com/ada/kv.git", "git@github.com:ada/kv.git", "ssh://git@github.com/ada/kv",
     "ssh://git@github.com:22/ada/kv.git", " git@github.com:ada/kv.git\n"],
)  # fmt: skip
def test_an_address_in_any_form_is_one(given):
    assert normalised(given) == NEW


@pytest.mark.parametrize(
    "given", ["", "kv", "/home/ada/kv", "../kv", "https://github.com/ada", "https://github.com/ada/kv/tree/main",
              "https://github.com/../..", "ftp://github.com/ada/kv", "https://github.com/ada/k v"],
)  # fmt: skip
def test_what_is_no_address_is_refused(given):
    with pytest.raises(
        AddressError, match="wanted a repository's address such as https://github.com/you/kvcache-course"
    ):
        normalised(given)


@pytest.mark.parametrize("rest", ["ada", "ada/kv/tree/main", "ada/k v"])
@pytest.mark.parametrize("word", ["SECRET", "p@SECRET", "p/SECRET"])
def test_a_password_in_a_refused_address_is_not_repeated(word, rest):
    with pytest.raises(AddressError) as refused:
        normalised(f"https://me:{word}@github.com/{rest}")
    assert "SECRET" not in str(refused.value) and f"github.com/{rest}" in str(refused.value)


def test_a_password_may_have_an_at_sign():
    assert normalised("https://me:p@SECRET@github.com/ada/kv.git") == NEW


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def test_it_is_found_from_the_git_remote(tmp_path):
    git(tmp_path, "init", "-q")
    with pytest.raises(AddressError, match="no git remote `origin`"):
        remote(tmp_path)
    git(tmp_path, "remote", "add", "origin", "git@github.com:ada/kv.git")
    assert remote(tmp_path) == NEW
    git(tmp_path, "remote", "set-url", "origin", "/srv/kv.git")
    with pytest.raises(AddressError, match="got '/srv/kv.git'"):
        remote(tmp_path)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A few of the real files that may name the repository, and one that names another."""
    for path in files(ROOT):
        if path.suffix != ".ipynb" or "01-toy" in path.name:
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    (tmp_path / "docs" / "more").mkdir()
    (tmp_path / "docs" / "more" / "other.md").write_text(f"{OLD}-two {OLD}.old {OLD}.git {OLD}/x", encoding="utf-8")
    for name in NOT_YET:
        (tmp_path / name).write_text(f"# {OLD}\n", encoding="utf-8")
    return tmp_path


def text_of(folder: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.is_file())


def test_everything_follows(tree):
    before = text_of(tree)
    assert rewrite(tree, NEW, dry_run=True) and text_of(tree) == before
    changed = {path.relative_to(tree).as_posix() for path in rewrite(tree, NEW)}
    after = text_of(tree)
    assert {"autograde/address.py", "README.md", "docs/install.md", *NOT_YET} <= changed
    assert {path.split("/")[0] for path in changed if path.endswith(".ipynb")} == {"lessons", "solutions"}
    assert "OWNER" not in re.sub(re.escape(OLD) + r"(-two|\.old)", "", after).replace('"/OWNER/" not in', "")
    assert f"{OLD}-two {OLD}.old {NEW}.git {NEW}/x" in after
    assert "colab.research.google.com/github/ada/kv/blob/main/lessons/01-toy-cache" in after


def test_pages_that_the_next_build_makes_anew_are_let_be(tree):
    page = tree / "docs" / "_generated" / "index.md"
    page.parent.mkdir()
    page.write_text(OLD, encoding="utf-8")
    assert page not in rewrite(tree, NEW) and page.read_text(encoding="utf-8") == OLD


def test_a_rewritten_notebook_is_what_a_build_makes(course, monkeypatch):
    lesson = course.lessons[0]
    path = course.solution(lesson)
    path.write_text(to_text(compose(course, lesson)), encoding="utf-8")
    assert path in rewrite(course.root, NEW)
    monkeypatch.setattr(address, "REPOSITORY", NEW)
    assert path.read_text(encoding="utf-8") == to_text(compose(course, lesson))


def test_the_command(course, monkeypatch, capsys):
    monkeypatch.setattr("autograde.authoring.cli.Course", lambda root: replace(course, root=root))
    command = ["lessons", "address", "--root", str(course.root)]
    assert cli.main([*command, "nonsense"]) == 2
    assert capsys.readouterr().err.startswith("address: wanted a repository's address")
    assert cli.main([*command, OLD]) == 0
    assert capsys.readouterr().out == f"The address is {OLD} already.\n"
    assert cli.main([*command, "https://gitlab.example.org/ada/kv", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "would become https://gitlab.example.org/ada/kv" in said and "  lessons/01-double/01-double.ipynb" in said
    assert "open notebooks of github.com" in said


def test_the_repository_has_one_address():
    """Every web address that ends in the repository's name, in every file of the tree, is the one of address.py.

    And a new one gets there: a file that names it and that `files` passes over would keep the old one for ever.
    """
    name = OLD.rsplit("/", 1)[1]
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".ipynb", ".txt"}
    folders = ("autograde", "kvlib", "lessons", "solutions", "docs", "benchmarks", ".github", ".ci")
    reached = set(files(ROOT))
    mine = {path for folder in folders for path in (ROOT / folder).rglob("*")}
    seen = 0
    for path in {*mine, *ROOT.glob("*.*"), ROOT / "Makefile", *reached}:
        if (path.suffix in kinds or path.name == "Makefile") and path.is_file() and "_generated" not in path.parts:
            for owner in re.findall(rf"[/:]([\w.-]+)/{name}\b", path.read_text(encoding="utf-8")):
                assert owner == "you" or (owner == "OWNER" and path in reached), path
                seen += 1
    assert seen > 40
