"""What passes so far, kept in one small file on the learner's machine.

The file is `progress.json` in the folder named by AUTOGRADE_PROGRESS, or `~/.kvcourse`. AUTOGRADE_PROGRESS=off keeps
nothing. It is a note to the learner, not a record of grades: nobody else reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

from autograde.lessons import LESSONS


def progress_file() -> Path | None:
    """Where progress is kept. None, for nowhere: switched off, no home, or nbgrader grades somebody's notebook."""
    folder = os.environ.get("AUTOGRADE_PROGRESS", "")
    if folder == "off" or os.environ.get("NBGRADER_EXECUTION"):
        return None
    try:
        return Path(folder or Path.home() / ".kvcourse") / "progress.json"
    except RuntimeError:  # nobody's home
        return None


def load() -> dict[str, float]:
    """Points by exercise id. A file that cannot be read counts as empty."""
    path = progress_file()
    if path is None:
        return {}
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): float(value) for key, value in kept.items()}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}


def keep(exercise_id: str, points: float) -> None:
    """Note the points of the newest check. A folder that cannot be written to is no reason to fail a check."""
    path = progress_file()
    if path is None:
        return
    kept = load() | {exercise_id: points}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(kept, file, indent=1, sort_keys=True)
        try:
            os.replace(file.name, path)  # all of it or nothing, for whoever reads it now
        except OSError:
            os.unlink(file.name)


def progress() -> None:
    """Print what passes, lesson by lesson."""
    from autograde.exercises import load as load_exercises

    exercises, kept = load_exercises(), load()
    earned_in_all = 0.0
    widest = max(len(lesson.slug) for lesson in LESSONS)
    name_width = max(len(exercise.name) for exercise in exercises.values())
    for lesson in LESSONS:
        earned = sum(kept.get(number, 0.0) for number in lesson.exercises)
        earned_in_all += earned
        print(f"{lesson.slug:<{widest}} {earned:>5.1f} of {lesson.points:>3} points")
        for number in lesson.exercises:
            points = kept.get(number)
            full = exercises[number].points
            state = "not tried" if points is None else "passed" if points >= full else f"{points:.1f} of {full}"
            print(f"  {number:<4} {exercises[number].name:<{name_width}} {state}")
    print(f"{'in all':<{widest}} {earned_in_all:>5.1f} of {sum(lesson.points for lesson in LESSONS):>3} points")
    if progress_file() is None:
        print("Progress is not being kept (AUTOGRADE_PROGRESS=off, or a grader is running this notebook).")
