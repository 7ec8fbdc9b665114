"""Runs on the machine that is tried: check every exercise's reference, as a learner's work, and print what came."""

from __future__ import annotations

import contextlib
import io
import json

from autograde import check
from autograde.exercises import load

found = {}
for name, exercise in load().items():
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        points = check(name, exercise.reference)
    needs_torch = exercise.tensors not in (False, "tiles") or type(exercise.reference).__name__ == "Later"
    found[name] = {"full": points == exercise.points, "said": said.getvalue(), "torch": needs_torch}
print(json.dumps(found))
