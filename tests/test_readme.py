"""What the README says about the project, held against the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograde.exercises import load
from autograde.judge import judge_here
from autograde.lessons import LESSONS
from autograde.report_text import points_text, verdict_text

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_shows_a_real_diagnosis():
    exercise = load()["1.3"]
    mistake = next(mistake for mistake in exercise.mistakes if mistake.name == "recomputes-everything")
    verdict = judge_here(exercise, mistake.candidate)
    shown = README.split("```text\n")[1].split("```")[0].splitlines()
    assert shown[1:-1] == verdict_text(verdict).splitlines()
    assert shown[-1] == points_text(verdict.points)


def test_the_readme_counts_the_catalogue():
    exercises = load().values()
    mistakes = sum(len(exercise.mistakes) for exercise in exercises)
    variants = sum(len(exercise.variants) for exercise in exercises)
    text = " ".join(README.split())
    assert f"{len(exercises)} exercises, {mistakes} mistakes and {variants} unusual right solutions" in text


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_the_readme_lists_every_lesson(lesson):
    row = next(line for line in README.splitlines() if line.startswith("| [") and f"lessons/{lesson.slug}/" in line)
    assert row.rstrip(" |").endswith(f"| {lesson.points}")


def test_every_link_in_the_guides_leads_somewhere():
    for guide in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / guide).read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), (guide, target)


def test_the_changelog_names_every_exercise():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for exercise in load().values():
        assert f"{exercise.id} `{exercise.name}`" in text
