"""Links for a hub: one for each lesson, and what is refused."""

from __future__ import annotations

import pytest

from autograde import address
from autograde.cli import main
from autograde.lessons import LESSONS

HUB = "https://hub.example.edu"


def test_a_link_for_each_lesson(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(address, "published", lambda: True)
    assert main(["links", "--hub", HUB]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [lesson.slug for lesson in LESSONS]
    assert all(line.split()[1] == address.nbgitpuller(HUB, line.split()[0]) for line in lines)
    assert lines[0].split()[1].startswith(HUB)
    assert main(["links", "--hub", HUB, LESSONS[1].slug]) == 0
    assert capsys.readouterr().out.splitlines() == lines[1:2]


def test_a_course_of_ones_own(capsys: pytest.CaptureFixture) -> None:
    own = ["--repo", "https://git.example.edu/me/my-course.git", "--branch", "spring"]
    assert main(["links", "--hub", HUB, "01-toy-cache", *own]) == 0
    link = capsys.readouterr().out.split()[1]
    assert link == (
        f"{HUB}/hub/user-redirect/git-pull?repo=https%3A%2F%2Fgit.example.edu%2Fme%2Fmy-course.git&branch=spring"
        "&urlpath=lab%2Ftree%2Fmy-course%2Flessons%2F01-toy-cache%2F01-toy-cache.ipynb"
    )


@pytest.mark.parametrize(
    ("published", "options", "said"),
    [
        (True, ["--hub", "hub.example.edu"], "--hub: wanted an address such as https://hub.example.edu"),
        (True, ["--hub", "ftp://hub.example.edu"], "--hub: wanted an address such as https://hub.example.edu"),
        (True, ["--hub", "https:///hub"], "--hub: wanted an address such as https://hub.example.edu"),
        (True, ["--hub", HUB, "99-none"], "there is no lesson '99-none'"),
        (False, ["--hub", HUB], "is no published repository: name yours with --repo URL"),
        (False, ["--hub", HUB, "--repo", "git@example.org:me/course"], "--repo: wanted an address such as https://"),
    ],
)
def test_what_is_refused(published: bool, options: list[str], said: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(address, "published", lambda: published)
    assert main(["links", *options]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
