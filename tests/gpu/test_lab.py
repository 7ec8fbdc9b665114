"""The laboratory's table where there is no GPU, and for choices of other machines."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is missing: see `make torch`")

from kvlib.gpu import lab  # noqa: E402
from kvlib.gpu.capability import Choice, Machine, choose  # noqa: E402

CPU = choose(Machine())


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(lab, "CPU_SHAPE", (4, 2, 16))
    monkeypatch.setattr(lab, "CPU_CONTEXTS", (32, 48))
    monkeypatch.setattr(lab, "median_seconds", lambda step, device, repeats: (step(), 0.25e-3)[1])


def test_its_rows():
    threads = torch.get_num_threads()
    rows = lab.run(CPU, 0, quick=True)
    assert [(row.part, row.context) for row in rows] == [
        ("error", 0),
        ("memory", 32),
        ("time", 32),
        ("memory", 48),
        ("time", 48),
    ]
    slots = 2 * 32 + 2 * 16  # two sequences of two blocks, and two blocks that nobody holds
    assert (rows[1].sixteen_bit, rows[1].fp8) == (slots * 2 * 2 * 16 * 2, slots * 2 * 2 * (16 + 4))
    assert rows[2].sixteen_bit == rows[2].fp8 == pytest.approx(250)
    assert 0 < rows[0].sixteen_bit < 0.1 and 0 < rows[0].fp8 < 0.1
    assert torch.get_num_threads() == threads
    text = lab.table(rows)
    assert "no GPU's" in text and f"{rows[1].fp8:,}" in text and " 1.60 " in text
    assert len(text.splitlines()) == 6


def test_the_longest_context_is_for_the_patient():
    assert lab.run(CPU, 0, quick=False)[-1].context == 4 * 48


def test_a_wrong_way_is_not_timed(monkeypatch):
    monkeypatch.setattr(lab, "step_of", lambda choice, case: lambda: case.q * float("nan"))
    monkeypatch.setattr(lab, "median_seconds", None)
    rows = lab.run(CPU, 0, quick=True)
    assert rows[0].note.startswith("WRONG: nan") and "nothing is timed" in rows[0].note
    assert {row.part for row in rows} == {"error", "memory"}
    assert "WRONG" in lab.table(rows)


def test_a_kernel_that_does_not_start_gives_way_and_says_so():
    """It cannot start here: this is a CPU."""
    rows = lab.run(Choice("cpu", "float16", "bits", "triton", ()), 0, quick=True)
    assert "by PyTorch, because the kernel failed (ValueError: the kernel runs on a GPU" in rows[0].note
    assert [row.part for row in rows] == ["error", "memory", "time", "memory", "time"]


def test_without_fp8_its_column_is_empty_and_says_why():
    rows = lab.run(Choice("cpu", "float16", "none", "torch", ()), 0, quick=True)
    assert all(row.fp8 is None for row in rows)
    assert "float8_e4m3fn" in rows[0].note
    assert all(row.sixteen_bit is not None for row in rows)


def test_what_does_not_fit_is_skipped_with_its_reason(monkeypatch):
    monkeypatch.setattr(lab, "_errors", lambda choice, shape: lab.Row("error", 0, 0.0, 0.0, ""))
    rows = lab.run(Choice("cuda", "float16", "bits", "torch", ()), 1 << 30, quick=True)
    assert all(row.note.startswith("skipped: it needs") and "1.0 GiB are free" in row.note for row in rows[1:])
    assert len(rows) == 4


def test_the_whole_laboratory_here(monkeypatch):
    monkeypatch.setattr(lab, "detect", Machine)
    assert lab.laboratory()[0].note == "largest difference from float64"
