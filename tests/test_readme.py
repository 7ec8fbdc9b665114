"""What the README says about the project, held against the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograde.classroom.intake import MAX_BYTES, MAX_CELLS, MAX_SOURCE
from autograde.cli import main
from autograde.exercises import load
from autograde.judge import judge_here
from autograde.lessons import LESSONS
from autograde.report_text import points_text, verdict_text
from autograde.sandbox.limits import Limits

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
    for guide in ("README.md", "CONTRIBUTING.md", "docs/threat-model.md", "docs/instructor-guide.md"):
        text = (ROOT / guide).read_text(encoding="utf-8")
        targets = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]
        for target in targets:
            assert ((ROOT / guide).parent / target).exists(), (guide, target)


def test_the_threat_model_states_the_limits_that_are_kept():
    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, flags=re.MULTILINE))
    limits = Limits()
    mib = 1 << 20
    assert rows["one cell"].startswith(f"{limits.cell_seconds:.0f} seconds")
    assert {exercise.seconds for exercise in load().values()} == {float(rows["one check"].split()[0])}
    assert rows["the whole notebook"] == f"{limits.total_seconds:.0f} seconds"
    assert rows["memory of all its processes together"] == f"{limits.memory // mib} MiB"
    assert rows["processes and threads"] == str(limits.processes)
    assert rows["one file"] == f"{limits.file // mib} MiB"
    sizes = f"{limits.scratch // mib} and {limits.shared // mib} MiB"
    assert rows["`/tmp` and `/dev/shm`"] == f"{sizes}, {limits.files:,} files each"
    assert rows["printed while one cell or check runs"].startswith(f"{limits.output // mib} MiB")
    assert rows["sent to the judge in one exercise"] == f"{limits.traffic // mib} MiB"
    notebook = f"{MAX_BYTES // mib} MiB, {MAX_CELLS} cells, {MAX_SOURCE:,} characters in a cell"
    assert rows["the notebook itself"] == notebook


def test_the_guides_name_options_that_exist(capsys):
    """Every --option in the guides, except those of other programs."""
    offered = set()
    for command in ("quickstart", "release", "collect", "grade", "feedback", "export", "report", "links", "reset"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        offered |= set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    for guide in ("docs/threat-model.md", "docs/instructor-guide.md"):
        named = set(re.findall(r"--[a-z][a-z-]+", (ROOT / guide).read_text(encoding="utf-8")))
        assert named - offered <= {"--nthreads", "--nworkers"}, guide


def test_the_changelog_names_every_exercise():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for exercise in load().values():
        assert f"{exercise.id} `{exercise.name}`" in text
