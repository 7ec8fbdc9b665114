"""Times `autograde grade` against stock nbgrader on the same submissions of the same lesson, one after the other.

    python benchmarks/grading.py [--lesson 01-toy-cache] [--submissions 30] [--rounds 3]

Both start from submitted/, make and fill a gradebook, and write every student's feedback page. Stock nbgrader runs as
it comes, with its own preprocessors and the course on its import path. The submissions are the honest ones of the
sample class, repeated: hostile ones would stop stock nbgrader or wait for its time limits. Every round runs both.

Stock spends its time on starting a kernel and importing libraries for each submission. Ours forks instead; what bounds
it is nbgrader's own work, which is kept: one process writes the gradebook, and each page goes through nbconvert.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from autograde.classroom.course import Course, course_at  # noqa: E402
from autograde.classroom.sample import Answers, read_answers, sample_folder, submit  # noqa: E402

SLOW = ("nils", "pavel")  # loops without end: they measure a time limit
DAMAGED = ("rename", "delete", "lose-ids", "not-json", "empty-file", "new-name", "break")
STOCK_CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "stock"
c.CourseDirectory.source_directory = "source"
"""


@dataclass(frozen=True)
class Measured:
    """One run of one of the two."""

    seconds: float
    peak: int  # bytes, resident, of all its processes together
    points: dict[str, float]


def main() -> int:
    """Measure, print, and fail where the two disagree about honest work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lesson", default="01-toy-cache")
    parser.add_argument("--submissions", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {args.lesson}, "
          f"{args.submissions} submissions, {args.rounds} rounds")  # fmt: skip
    ours: list[Measured] = []
    stock: list[Measured] = []
    for number in range(1, args.rounds + 1):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            class_at = course_at(ROOT, Path(folder, "ours"))
            hand_in(class_at, args.lesson, args.submissions)
            stock.append(run_stock(class_at, Path(folder, "stock"), args.lesson))
            ours.append(run_ours(class_at, args.lesson))
        print(f"round {number}: stock {stock[-1].seconds:.1f} s, ours {ours[-1].seconds:.1f} s, "
              f"ratio {stock[-1].seconds / ours[-1].seconds:.1f}")  # fmt: skip
    ratio = statistics.median(a.seconds / b.seconds for a, b in zip(stock, ours, strict=True))
    for name, runs in (("stock nbgrader", stock), ("autograde grade", ours)):
        median = statistics.median(run.seconds for run in runs)
        peak = max(run.peak for run in runs) / 2**20
        each = median / args.submissions
        print(f"{name}: median {median:.1f} s, {each:.2f} s a submission, peak {peak:.0f} MiB resident")
    print(f"ratio of the times, median of {args.rounds}: {ratio:.1f}")
    pairs = {who: (stock[0].points.get(who), got) for who, got in ours[0].points.items()}
    different = {who: pair for who, pair in pairs.items() if pair[0] != pair[1]}
    print(f"marks: the same for {len(ours[0].points) - len(different)} of {len(ours[0].points)}")
    for who, (theirs, mine) in sorted(different.items()):
        print(f"  {who}: stock {theirs}, ours {mine}")
    return 1 if different else 0


def hand_in(course: Course, lesson: str, count: int) -> None:
    """The honest students of the sample class, again and again, until there are enough."""
    answers = [read_answers(path) for path in sorted((sample_folder(course) / lesson).glob("*.py"))]
    honest = [answer for answer in answers if answer.student not in SLOW and not _stops_stock(answer)]
    for number in range(count):
        chosen = honest[number % len(honest)]
        submit(course, type(chosen)(f"{chosen.student}{number:02}", "", {}, chosen.damage, chosen.cells), lesson)


def _stops_stock(answers: Answers) -> bool:
    """Damaged files, and a cell pasted twice: that alone ends stock nbgrader's whole batch."""
    ids = [grade_id for grade_id, _ in answers.cells if grade_id != "own"]
    return len(set(ids)) < len(ids) or any(damage.split()[0] in DAMAGED for damage in answers.damage)


def run_stock(course: Course, folder: Path, lesson: str) -> Measured:
    """nbgrader's own commands, in a course of their own."""
    (folder / "source" / lesson).mkdir(parents=True)
    shutil.copy(course.source(lesson), folder / "source" / lesson)
    shutil.copytree(course.submitted, folder / "submitted")
    (folder / "nbgrader_config.py").write_text(STOCK_CONFIG)
    nbgrader = [sys.executable, "-m", "nbgrader"]
    seconds, peak = 0.0, 0
    for step in ("generate_assignment", "autograde", "generate_feedback"):
        took, used = run([*nbgrader, step, lesson], folder)
        seconds, peak = seconds + took, max(peak, used)
    return Measured(seconds, peak, marks(f"sqlite:///{folder / 'gradebook.db'}", "stock", lesson))


def run_ours(course: Course, lesson: str) -> Measured:
    """The command of the instructor guide."""
    command = [sys.executable, "-m", "autograde", "grade", str(course.classroom), "--lesson", lesson]
    seconds, peak = run(command, ROOT)
    return Measured(seconds, peak, marks(course.gradebook, "kvcache", lesson))


def marks(url: str, course_id: str, lesson: str) -> dict[str, float]:
    """What the gradebook says."""
    from nbgrader.api import Gradebook

    with Gradebook(url, course_id) as gradebook:
        return {s.student.id: round(s.score, 2) for s in gradebook.assignment_submissions(lesson)}


def run(command: list[str], folder: Path) -> tuple[float, int]:
    """Run a command; return its seconds and the largest sum of its processes' resident memory seen."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    bin_folder = os.path.dirname(sys.executable)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "AUTOGRADE_PROGRESS": "off"}
    environment["PATH"] = os.pathsep.join([bin_folder, os.environ.get("PATH", "")])
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    watch = Watch(process.pid)
    output = process.communicate()[0].decode(errors="replace")
    seconds = time.monotonic() - began
    peak = watch.stop()
    if process.returncode:
        raise SystemExit(f"{json.dumps(command)} failed:\n{output[-3000:]}")
    return seconds, peak


class Watch(threading.Thread):
    """Samples the memory of a process and of what it started, once a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.over = pid, 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self.over.wait(1.0):
            try:
                top = psutil.Process(self.pid)
                processes = [top, *top.children(recursive=True)]
            except psutil.Error:
                continue
            total = 0
            for process in processes:
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, total)

    def stop(self) -> int:
        self.over.set()
        self.join()
        return self.peak


if __name__ == "__main__":
    sys.exit(main())
