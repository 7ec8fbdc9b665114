"""One exercise gets its template back, and nothing else changes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import autograde
from autograde import reset
from autograde.cli import main
from autograde.course_files import course_files, template
from autograde.lessons import LESSONS
from autograde.reset import KEPT
from autograde.sandbox import stand_in

SLUG = "01-toy-cache"
OWN = "def count_positions(prompt, new):\n    return 'my café'"


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A learner's copy of lesson 01, with work in every answer cell and an output in each code cell."""
    content = released()
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [{"output_type": "stream", "name": "stdout", "text": ["x"]}], 7
        if cell["id"].startswith("exercise-"):
            cell["source"] = OWN.replace("count_positions", defined(cell)).splitlines(keepends=True)
    path = tmp_path / "work" / f"{SLUG}.ipynb"
    path.parent.mkdir()
    write(path, content)
    return path


def released() -> dict:
    return json.loads((course_files() / "lessons" / SLUG / f"{SLUG}.ipynb").read_text(encoding="utf-8"))


def defined(cell: dict) -> str:
    return {"exercise-1-1": "attend", "exercise-1-2": "count_positions", "exercise-1-3": "ToyCache"}[cell["id"]]


def write(path: Path, content: dict, **style) -> None:
    style = {"indent": 1, "ensure_ascii": False} | style
    path.write_text(json.dumps(content, **style) + "\n", encoding="utf-8")


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def answer(content: dict) -> dict:
    """The cell of exercise 1.2: the last code cell before its check."""
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    index = next(n for n, cell in enumerate(cells) if "".join(cell["source"]).endswith('check("1.2")'))
    return cells[index - 1]


def refused(capsys, *arguments: object) -> str:
    """Run the command; it must fail with one line."""
    assert main(["reset", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_every_exercise_has_a_template(lesson):
    for exercise in lesson.exercises:
        assert "NotImplementedError" in template(exercise) or "# YOUR CODE HERE" in template(exercise), exercise


@pytest.mark.parametrize("indent", [1, 2, "\t", None], ids=repr)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_only_that_cell_changes_and_the_rest_keeps_its_bytes(notebook, indent, newline):
    content = read(notebook)
    write(notebook, content, indent=indent, ensure_ascii=indent != 1)
    before = notebook.read_text(encoding="utf-8").replace("\n", newline).encode()
    notebook.write_bytes(before)
    assert main(["reset", str(notebook), "1.2"]) == 0
    cell = answer(content)
    cell["source"], cell["outputs"], cell["execution_count"] = template("1.2").splitlines(keepends=True), [], None
    if indent is None:
        assert read(notebook) == content
    else:
        write(notebook.with_name("wanted"), content, indent=indent, ensure_ascii=indent != 1)
        wanted = notebook.with_name("wanted").read_text(encoding="utf-8").replace("\n", newline).encode()
        assert notebook.read_bytes() == wanted
    assert notebook.with_name(f"{SLUG}.before-reset.ipynb").read_bytes() == before


def test_odd_but_valid_text_around_the_cell_stays(notebook):
    """Whatever wrote the file, and however: escapes, spaces and the order of keys are its own."""
    text = json.dumps(read(notebook), separators=(" ,", "  : ")).replace("[{", "[ \n{")
    notebook.write_text("\ufeff" + text, encoding="utf-8")
    old = json.dumps(OWN.splitlines(keepends=True), separators=(" ,", "  : "))
    start = text.index(old)
    assert main(["reset", str(notebook), "1.2"]) == 0
    now = notebook.read_text(encoding="utf-8").removeprefix("\ufeff")
    assert answer(json.loads(now))["source"] == template("1.2").splitlines(keepends=True)
    begin = text.rindex('{"cell_type"', 0, text.index('"id"  : "exercise-1-2"'))
    assert now[:begin] == text[:begin]
    rest = text[start + len(old) :]
    assert now.endswith(rest)


def test_a_source_that_is_one_text_stays_one_text(notebook):
    content = read(notebook)
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"])
    write(notebook, content)
    assert main(["reset", str(notebook), "1.2"]) == 0
    assert answer(read(notebook))["source"] == template("1.2")


def lose_ids(cell: dict) -> None:
    cell.pop("id")


def lose_all(cell: dict) -> None:
    cell.pop("id")
    cell["metadata"] = {}


def as_colab(cell: dict) -> None:
    cell["metadata"] = {"id": cell.pop("id")}


@pytest.mark.parametrize("lose", [lose_ids, lose_all, as_colab])
def test_finds_the_cell_where_a_platform_lost_its_names(notebook, lose):
    content = read(notebook)
    for cell in content["cells"]:
        lose(cell)
    write(notebook, content)
    assert main(["reset", str(notebook), "1.2"]) == 0
    after = read(notebook)
    assert "".join(answer(after)["source"]) == template("1.2")
    changed = [number for number, cell in enumerate(after["cells"]) if cell != content["cells"][number]]
    assert len(changed) == 1


@pytest.mark.parametrize("keep", [as_colab, lose_ids])
def test_a_cell_that_kept_one_of_its_names_is_found_wherever_it_was_moved(notebook, keep):
    content = read(notebook)
    for cell in content["cells"]:
        keep(cell)
    moved = answer(content)
    content["cells"].remove(moved)
    content["cells"].insert(0, moved)
    write(notebook, content)
    assert main(["reset", str(notebook), "1.2"]) == 0
    after = read(notebook)["cells"]
    assert "".join(after[0]["source"]) == template("1.2")
    assert after[1:] == content["cells"][1:]


def test_a_scratch_cell_before_the_check_is_not_taken_for_the_answer(notebook):
    content = read(notebook)
    for cell in content["cells"]:
        lose_all(cell)
    index = next(n for n, cell in enumerate(content["cells"]) if 'check("1.2")' in "".join(cell["source"]))
    content["cells"].insert(index, content["cells"][index] | {"source": ["print(count_positions(1, 2))"]})
    write(notebook, content)
    assert main(["reset", str(notebook), "1.2"]) == 0
    after = read(notebook)["cells"]
    assert "".join(after[index - 1]["source"]) == template("1.2")
    assert after[index] == content["cells"][index]


def test_an_answer_that_defines_nothing_is_the_cell_right_before_the_check(notebook):
    content = read(notebook)
    for cell in content["cells"]:
        lose_all(cell)
    answer(content)["source"] = ["def (broken"]
    write(notebook, content)
    assert main(["reset", str(notebook), "1.2"]) == 0
    assert "".join(answer(read(notebook))["source"]) == template("1.2")


def test_a_second_reset_keeps_the_first_copy_too(notebook):
    first = notebook.read_bytes()
    main(["reset", str(notebook), "1.2"])
    second = notebook.read_bytes()
    main(["reset", str(notebook), "1.1"])
    assert notebook.with_name(f"{SLUG}.before-reset.ipynb").read_bytes() == first
    assert notebook.with_name(f"{SLUG}.before-reset-2.ipynb").read_bytes() == second
    kept = [path.name for path in notebook.parent.iterdir() if KEPT.search(path.name)]
    assert sorted(kept) == [f"{SLUG}.before-reset-2.ipynb", f"{SLUG}.before-reset.ipynb"]


def test_an_untouched_cell_is_left_alone(notebook, capsys):
    main(["reset", str(notebook), "1.2"])
    before = {path: path.stat().st_mtime_ns for path in notebook.parent.iterdir()}
    capsys.readouterr()
    assert main(["reset", str(notebook), "1.2"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in notebook.parent.iterdir()} == before


def test_a_dry_run_writes_nothing(notebook, capsys):
    before = notebook.read_bytes()
    assert main(["reset", str(notebook), "1.2", "--dry-run"]) == 0
    assert "Would reset 1.2" in capsys.readouterr().out
    assert list(notebook.parent.iterdir()) == [notebook] and notebook.read_bytes() == before


def test_a_link_stays_a_link_and_the_mode_stays(notebook, tmp_path):
    if os.name == "nt":
        pytest.skip("links need a privilege on Windows")
    notebook.chmod(0o640)
    link = tmp_path / "link.ipynb"
    link.symlink_to(notebook)
    assert main(["reset", str(link), "1.2"]) == 0
    assert link.is_symlink() and notebook.stat().st_mode & 0o777 == 0o640
    assert "".join(answer(read(notebook))["source"]) == template("1.2")


def test_a_file_that_cannot_be_replaced_is_left_as_it_was(notebook, monkeypatch):
    before = notebook.read_bytes()

    def broken(*paths: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="Input/output"):
        main(["reset", str(notebook), "1.2"])
    backup = notebook.with_name(f"{SLUG}.before-reset.ipynb")
    assert notebook.read_bytes() == backup.read_bytes() == before
    assert sorted(notebook.parent.iterdir()) == sorted([notebook, backup])


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"cells": [1]}', '{"cells": {}}', '{"cells": [{}]}'])
def test_what_is_no_notebook_is_refused(tmp_path, capsys, text):
    path = tmp_path / "work" / "a.ipynb"
    path.parent.mkdir()
    path.write_text(text)
    assert "is not a notebook" in refused(capsys, path, "1.2")
    assert list(path.parent.iterdir()) == [path] and path.read_text() == text


def test_a_missing_file_an_unknown_exercise_and_another_lessons_exercise_are_refused(notebook, capsys):
    before = notebook.read_bytes()
    assert "cannot be read" in refused(capsys, notebook.with_name("none.ipynb"), "1.2")
    assert "there is no exercise '1.9'" in refused(capsys, notebook, "1.9")
    assert "no answer cell for exercise 2.1" in refused(capsys, notebook, "2.1")
    assert list(notebook.parent.iterdir()) == [notebook] and notebook.read_bytes() == before


def test_two_cells_of_that_name_are_refused(notebook, capsys):
    content = read(notebook)
    content["cells"].append(answer(content))
    write(notebook, content)
    assert "are all called exercise-1-2" in refused(capsys, notebook, "1.2")
    assert list(notebook.parent.iterdir()) == [notebook]


def test_without_an_answer_cell_or_with_two_checks_it_is_refused(notebook, capsys):
    content = read(notebook)
    for cell in content["cells"]:
        lose_all(cell)
    gone = content | {"cells": [cell for cell in content["cells"] if cell is not answer(content)]}
    write(notebook, gone)
    assert "the cell before its check is no code" in refused(capsys, notebook, "1.2")
    check = next(cell for cell in content["cells"] if 'check("1.2")' in "".join(cell["source"]))
    write(notebook, content | {"cells": [*content["cells"], check]})
    assert "its check is in several cells" in refused(capsys, notebook, "1.2")


def test_in_a_notebook_the_template_comes_as_a_new_cell(monkeypatch, capsys):
    given: list[str] = []
    shell = SimpleNamespace(set_next_input=given.append)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    reset("1.2")
    assert given == [template("1.2")]
    assert "Your own cell stays" in capsys.readouterr().out


def test_outside_ipython_the_template_is_printed(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    reset("1.2")
    assert capsys.readouterr().out.strip() == template("1.2").strip()


def test_an_unknown_exercise_gets_one_line(capsys):
    reset("7.99")
    assert capsys.readouterr().out == "reset: there is no exercise '7.99'; they go from 0.1 to 12.3, such as '1.2'\n"


def test_the_sandboxs_stand_in_offers_the_same_names():
    """A cell that imports one of them must not fail where it is graded."""
    assert [name for name in autograde.__all__ if not callable(getattr(stand_in, name, None))] == []
    assert stand_in.reset("1.2") is None
