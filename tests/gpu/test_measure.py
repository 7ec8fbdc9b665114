"""The script for a real GPU, as far as it runs without one: what it says, and its table in the interpreter."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is missing: see `make torch`")

NO_GPU = """
import sys
sys.path.insert(0, "tests/gpu")
import measure

def run(command, **rest):
    print("would run", *command[1:])
    return measure.subprocess.CompletedProcess(command, code)

measure.subprocess.run = run
for code in (0, 1):
    assert measure.main([]) == code
"""


def test_without_a_gpu_it_says_so_and_runs_the_rest(python):
    done = python("-c", NO_GPU)
    assert done.returncode == 0, done.stderr
    assert "Nothing is measured: there is no GPU that can be used." in done.stdout
    assert "would run -m kvlib.gpu.interpret --quick\n" in done.stdout
    assert "would run -m kvlib.gpu.aot 80 90" in done.stdout


DRY = """
import json, sys
sys.path.insert(0, "tests/gpu")
import measure
from kvlib.gpu.capability import Machine
measure.DEVICE = "cpu"
measure.SHAPE, measure.BATCHES, measure.CONTEXTS, measure.FLEX_CONTEXTS = (4, 2, 16), (2,), (40,), ()
measure.CHECKS, measure.SPLITS, measure.REPEATS = [([5, 0], 2, 1, 16, 3)], (None, 2), 2
measure.copy_rate = lambda device: 1e9
measure.median_seconds = lambda step, device: (step(), 0.001)[1]
measure.detect = lambda: Machine("H100", (9, 0), 1 << 36)
right = measure.torch_decode
{change}
sys.exit(measure.main(["--json", sys.argv[1]]))
"""


@pytest.fixture
def dry(python, tmp_path):
    """Run the whole script on a CPU that plays a GPU. Returns the exit code, the output and the lines."""
    pytest.importorskip("triton", reason="triton is missing: see the gpu extra")

    def run(change: str = ""):
        import json

        path = tmp_path / "lines.json"
        done = python("-c", DRY.format(change=change), str(path), TRITON_INTERPRET="1")
        assert path.exists(), done.stderr
        return done.returncode, done.stdout, json.loads(path.read_text())["lines"]

    return run


def test_every_line_of_the_table(dry):
    code, output, lines = dry()
    assert code == 0, output
    checks = [line for line in lines if line["part"] == "check"]
    assert len(checks) == 5 + 3 * 5
    assert all(line["note"].startswith(("right", "skipped")) for line in checks), output
    assert [line["what"] for line in lines if line["part"] == "time"] == [
        "bfloat16, kernel",
        "bfloat16, SDPA on gathered pages",
        "bfloat16, SDPA on dense rows",
        "FP8, kernel bits",
        "FP8, kernel native",
        "FP8, SDPA on gathered pages",
    ]
    held = 2 * 40 * 2 * 2  # sequences, tokens, KV heads, keys and values
    for line, row in zip([line for line in lines if line["part"] == "time"], [32] * 3 + [20] * 3, strict=True):
        assert line["microseconds"] == 1000
        assert line["gigabytes_per_second"] == pytest.approx(held * row / 1e6)
        assert line["of_copy"] == pytest.approx(line["gigabytes_per_second"])
    assert len(output.splitlines()) == 2 + 1 + len(lines) + 1


def test_a_line_that_fails_or_is_wrong_stops_nothing(dry):
    # On a GPU without triton; wrong where it is checked, broken where it is timed.
    change = "measure.detect = lambda: Machine('H100', (9, 0), 1 << 36, has_triton=False); "
    change += "measure.torch_decode = lambda *rest, check=None: (0 / 0 if check is False else right(*rest) + 1)"
    code, output, lines = dry(change)
    assert code == 1
    notes = [line["note"] for line in lines]
    assert sum(note.startswith("WRONG") for note in notes) == 6
    assert sum(note.startswith("FAILED: ZeroDivisionError") for note in notes) == 2
    assert len(lines) == 3 * 2 + 1 + 3 and "8 of 10 lines" in output


def test_it_ends_in_time(dry):
    _, _, lines = dry("measure.CHECK_BUDGET = measure.BUDGET = -1.0")
    assert all(line["note"] == "left out: -1 s have passed" for line in lines)
