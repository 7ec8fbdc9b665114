"""What the command line says when it is stopped, refused or asked for nonsense."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autograde import cli


def told(error: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    def fails(args: object) -> int:
        raise error

    monkeypatch.setattr("autograde.report.cli.run_report", fails)
    return cli.main(["report", str(tmp_path)])


def test_ctrl_c_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    assert told(KeyboardInterrupt(), monkeypatch, tmp_path) == 130
    assert capsys.readouterr().err == "\nreport: stopped. What is finished is kept; the same command goes on.\n"


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied", "/x"), OSError(28, "No space left", "/x")])
def test_a_folder_that_cannot_be_written_to_is_a_sentence(
    error: OSError, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    assert told(error, monkeypatch, tmp_path) == 2
    assert capsys.readouterr().err == f"report: {error.strerror}: /x\n"


@pytest.mark.parametrize("there", ["file", "folder"])
def test_a_file_in_place_of_a_folder_is_a_sentence(there: str, tmp_path: Path, capsys) -> None:
    (tmp_path / "results").mkdir()
    if there == "file":
        (tmp_path / "report").write_text("mine")
    else:
        (tmp_path / "report" / "index.html").mkdir(parents=True)
    assert cli.main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("report: ") and str(tmp_path / "report") in error and error.count("\n") == 1


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        told(FileNotFoundError(2, "No such file", "/x"), monkeypatch, tmp_path)


@pytest.mark.parametrize(
    "command",
    ["kvlib.cli size --list", "autograde lessons address https://example.org/a/b --dry-run"],
    ids=lambda command: command.split()[0],
)
def test_a_reader_that_has_seen_enough_is_no_error(command: str) -> None:
    """As with `| head`."""
    code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__')"
    start = [sys.executable, "-c", code, *command.split()]
    if command.startswith("kvlib"):
        start[2] = "import sys; from kvlib.cli import main; sys.exit(main(sys.argv[2:]))"
    with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert (running.stderr.read(), running.wait()) == (b"", 1)


@pytest.mark.parametrize(
    "options",
    [["--cell-timeout", "0"], ["--cell-timeout", "-5"], ["--cell-timeout", "x"], ["--jobs", "-3"], ["--jobs", "x"]],
)
def test_nonsense_is_refused(options: list[str], tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["grade", str(tmp_path), *options])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and options[1] in said and " value: " not in said  # which names our functions
