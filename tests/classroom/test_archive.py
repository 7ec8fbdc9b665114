"""Zip files that are not what they should be: each ends in a reason, and nothing is believed that they declare."""

from __future__ import annotations

import io
import random
import stat
import struct
import zipfile
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograde.classroom import archive
from autograde.classroom.archive import Budget, Member, read_archive
from autograde.classroom.intake import MAX_BYTES, Reason

GOOD = b'{"cells": [], "nbformat": 4}'


def zipped(*files: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, data in files:
            made.writestr(name, data)
    return out.getvalue()


def read(data: bytes, budget: Budget | None = None) -> dict[str, bytes | str]:
    """Paths, each with its bytes or with why it was not read."""
    members = list(read_archive(io.BytesIO(data), budget))
    return {m.path: m.content.text if isinstance(m.content, Reason) else m.content for m in members}


def only(data: bytes) -> bytes | str:
    (content,) = read(data).values()
    return content


def test_a_good_zip() -> None:
    info = zipfile.ZipInfo("ann/a.ipynb", (2026, 11, 30, 9, 20, 44))
    (member,) = read_archive(io.BytesIO(zipped((info, GOOD), ("ann/", b""))))
    assert member == Member("ann/a.ipynb", GOOD, datetime(2026, 11, 30, 9, 20, 44).timestamp())


@pytest.mark.parametrize(
    "name",
    ["/etc/a.ipynb", "../a.ipynb", "a/../b.ipynb", "./a.ipynb", "a//b.ipynb", "C:/a.ipynb", "c:a.ipynb", "a\\b.ipynb"]
    + ["..\\a.ipynb", "a\0.ipynb", "\0.ipynb", "\0", "a.ipynb\0.txt"],
)
def test_paths_that_lead_elsewhere_are_refused(name: str) -> None:
    info = zipfile.ZipInfo("placeholder")
    info.filename = name
    assert only(zipped((info, GOOD))) == "its path is not a plain one"


@pytest.mark.parametrize("name", ["a" * 501 + ".ipynb", "/".join("abcdefghijkl") + ".ipynb"])
def test_long_and_deep_paths_are_refused(name: str) -> None:
    assert "longer than 500 characters or 10 folders" in only(zipped((name, GOOD)))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_special_files_are_refused(kind: int) -> None:
    info = zipfile.ZipInfo("a.ipynb")
    info.external_attr = (kind | 0o777) << 16
    assert only(zipped((info, b"/etc/passwd"))) == "a link or another special file"


def test_what_is_encrypted_is_refused() -> None:
    data = bytearray(zipped(("a.ipynb", GOOD)))
    data[data.index(b"PK\1\2") + 8] |= 1
    assert only(bytes(data)) == "encrypted"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_cannot_be_unpacked_by_pieces_are_refused(method: int) -> None:
    assert "ordinary zip" in only(zipped(("a.ipynb", GOOD), method=method))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_are_both_refused() -> None:
    got = list(read_archive(io.BytesIO(zipped(("a.ipynb", GOOD), ("a.ipynb", b"{}")))))
    assert [m.content for m in got] == [Reason("two files have this name")] * 2


def test_junk_is_ignored_and_other_files_are_named() -> None:
    junk = [("__MACOSX/ann/._a.ipynb", b"x"), (".DS_Store", b"x"), ("ann/.ipynb_checkpoints/a-checkpoint.ipynb", b"x")]
    junk.append(("ann/._a.ipynb", b"x"))
    junk += [("ann/a.before-reset.ipynb", GOOD), ("ann/a.before-reset-2.ipynb", GOOD)]
    assert read(zipped(*junk, ("a.pdf", b"x"), ("a.ipynb", GOOD))) == {"a.pdf": "not a notebook", "a.ipynb": GOOD}


def test_one_zip_inside_is_read_but_no_deeper() -> None:
    deepest = zipped(("a.ipynb", GOOD))
    got = read(zipped(("ann.zip", zipped(("b.ipynb", GOOD), ("c.zip", deepest))), ("bad.zip", b"no zip")))
    assert got == {
        "ann.zip/b.ipynb": GOOD,
        "ann.zip/c.zip": "a zip inside a zip inside a zip is not opened",
        "bad.zip": "the file is not a zip file, or is damaged",
    }


def test_inner_zips_share_the_limits() -> None:
    inner = zipped(("a.ipynb", GOOD), ("b.ipynb", GOOD))
    got = read(zipped(("1.zip", inner), ("2.zip", inner)), Budget(members=5))
    assert got["1.zip/b.ipynb"] == GOOD and got["2.zip"] == "the zip holds 2 files, at most 1 more are read"
    got = read(zipped(("1.zip", inner), ("2.zip", inner)), Budget(total=2 * len(inner) - 10))
    assert "unpacks to more than" in got["2.zip"]


def test_size_is_counted_not_believed() -> None:
    """The directory declares 10 bytes and the data unpacks to more; then the other way round."""
    data = zipped(("a.ipynb", b"x" * 1000))
    small = data.replace(struct.pack("<L", 1000), struct.pack("<L", 10))
    assert only(small) == "damaged inside the zip"
    huge = data.replace(struct.pack("<L", 1000), struct.pack("<L", 2**31))
    assert only(huge) in (b"x" * 1000, "damaged inside the zip")


def test_a_large_file_is_not_unpacked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = random.Random(1).randbytes(MAX_BYTES + 1)
    assert only(zipped(("a.ipynb", noise))) == "larger than 5 MiB"
    asked = []
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda self, size: asked.append(size) or b"")
    read(zipped(("a.ipynb", b"0")))
    assert asked == [MAX_BYTES + 1]


def test_a_bomb_is_refused_by_its_ratio() -> None:
    assert only(zipped(("a.ipynb", bytes(4 * 2**20)))) == "packed more than 200 to 1"
    assert only(zipped(("a.ipynb", bytes(2**20)))) == bytes(2**20)


def test_overlapping_files_are_refused() -> None:
    """The second entry of the directory points into the first one's data."""
    data = zipped(("a.ipynb", GOOD), ("b.ipynb", GOOD))
    second = data.rindex(b"PK\1\2")
    data = data[: second + 42] + struct.pack("<L", 0) + data[second + 46 :]
    with pytest.raises(ValueError, match="files overlap"):
        read(data)


def test_a_huge_directory_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_DIRECTORY", 70_000)
    with pytest.raises(ValueError, match="list of files is larger"):
        read(zipped(*((f"{n}{'x' * 400}", b"") for n in range(200))))


def test_too_many_files() -> None:
    with pytest.raises(ValueError, match="holds 3 files, at most 2 more"):
        read(zipped(*((f"{n}.ipynb", b"") for n in range(3))), Budget(members=2))


def test_names_in_other_encodings() -> None:
    data = zipped(("Zoe.ipynb", GOOD))
    assert list(read(data.replace(b"Zoe", b"\x81\xff\xfe"))) == ["ü\xa0■.ipynb"]  # as old zips write names
    assert list(read(data.replace(b"Zoe", "ü·".encode()[:3]))) != []
    marked = bytearray(zipped(("Zoë.ipynb", GOOD)).replace("ë".encode(), b"\xff\xff"))
    with pytest.raises(ValueError, match="not the UTF-8 that it says"):
        read(bytes(marked))
    plain = zipped(("Zo__.ipynb", GOOD)).replace(b"Zo__", "Zoë".encode())
    assert list(read(plain)) == ["Zoë.ipynb"]  # UTF-8 without the mark, as macOS writes it


@pytest.mark.parametrize("data", [b"", b"PK", b"<html>", b"PK\5\6" + bytes(18)[:10]])
def test_what_is_no_zip(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a zip file"):
        read(data)


SAMPLE = zipped(("ann/a.ipynb", GOOD * 20), ("b.zip", zipped(("c.ipynb", GOOD))), ("Zoë.ipynb", b""))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.binary(max_size=8)), min_size=1, max_size=6))
def test_a_damaged_zip_ends_in_reasons(changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(SAMPLE)
    for place, new in changes:
        data[place : place + len(new)] = new
    for damaged in (data, data[: changes[0][0]]):
        try:
            members = list(read_archive(io.BytesIO(bytes(damaged))))
        except ValueError as error:
            assert str(error)
            continue
        assert all(isinstance(m.content, bytes) or m.content.text for m in members)
