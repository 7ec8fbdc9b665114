"""A folder of results is read whole, and what is foreign in it is listed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from autograde.report.results import lessons_in, read_results


def test_foreign_and_broken_files_are_listed_by_name(
    classroom: Path, put: Callable[..., Path], make: SimpleNamespace
) -> None:
    put(make.result("ann", {}))
    moved = put(make.result("bob", {}))
    moved.rename(moved.with_name("eve.json"))
    folder = classroom / "results" / "07-tiny"
    (folder / "half.json").write_text('{"schema": 1')
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "bytes.json").write_bytes(b"\xff\xfe{}")
    (folder / "list.json").write_text("[]")
    (folder / "readme.txt").write_text("hello")
    (folder / "folder.json").mkdir()
    (folder / ".ann.json.tmp").write_text("half")
    (classroom / "results" / "stray.json").write_text("{}")
    os.symlink("ann.json", folder / "link.json")
    os.mkfifo(folder / "pipe.json")

    found = read_results(classroom / "results")
    assert [result.student for result in found.results] == ["ann"]
    assert list(found.problems) == [
        "stray.json: not a lesson's folder",
        "07-tiny/bytes.json: not JSON",
        "07-tiny/deep.json: not JSON",
        "07-tiny/eve.json: student: wanted 'eve', as the file lies, got 'bob'",
        "07-tiny/folder.json: not a plain file",
        "07-tiny/half.json: not JSON",
        "07-tiny/link.json: not a plain file",
        "07-tiny/list.json: the file: wanted an object, got list",
        "07-tiny/pipe.json: not a plain file",
        "07-tiny/readme.txt: not a result file (its name does not end in .json)",
    ]


def test_a_result_in_another_lessons_folder_is_foreign(
    classroom: Path, put: Callable[..., Path], make: SimpleNamespace
) -> None:
    path = put(make.result("ann", {}))
    path.parent.rename(path.parent.with_name("08-other"))
    found = read_results(classroom / "results")
    assert not found.results
    assert found.problems == ("08-other/ann.json: lesson: wanted '08-other', as the file lies, got '07-tiny'",)


def test_one_lesson_can_be_chosen(classroom: Path, put: Callable[..., Path], make: SimpleNamespace) -> None:
    put(make.result("ann", {}))
    put(make.result("ann", {}, lesson="08-other"))
    assert lessons_in(classroom / "results") == ["07-tiny", "08-other"]
    assert [r.lesson for r in read_results(classroom / "results", "08-other").results] == ["08-other"]
