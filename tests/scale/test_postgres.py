"""The gradebook on a real PostgreSQL server."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from autograde.classroom import record, schedule
from autograde.classroom.cli import ROOT
from autograde.classroom.course import Course, CourseError, prepare_process
from autograde.classroom.grade import Options, grade_class
from autograde.cli import main

LESSON = "07-tiny"
PASSWORD = "gr@de/book:100%?"  # every character that means something in an address
ONE = Options(workers=1)


class Server:
    """PostgreSQL in a temporary folder, on a UNIX socket in it. It refuses root, so there it runs as another user."""

    def __init__(self, programs: Path) -> None:
        self.programs, self.folder = programs, Path(tempfile.mkdtemp(prefix="pg-"))
        self.user: dict = {"cwd": self.folder, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}}
        if os.geteuid() == 0:
            somebody = next(entry for entry in pwd.getpwall() if entry.pw_name in ("postgres", "nobody"))
            os.chown(self.folder, somebody.pw_uid, somebody.pw_gid)
            self.user |= {"user": somebody.pw_uid, "group": somebody.pw_gid, "extra_groups": []}
        (self.folder / "password").write_text(PASSWORD)
        (self.folder / "password").chmod(0o644)
        options = ["--auth=scram-sha-256", "--username=teacher", "--pwfile=password", "--no-sync", "--encoding=UTF8"]
        subprocess.run([programs / "initdb", "-D", "data", *options], check=True, capture_output=True, **self.user)
        self.start()

    def start(self) -> None:
        settings = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", "data", *options], stdout=log, stderr=log, **self.user
            )
        ready = [self.programs / "pg_isready", "-q", "-t", "1", "-h", self.folder]
        for _ in range(600):
            if subprocess.run(ready).returncode == 0:
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
                break
        pytest.fail((self.folder / "log").read_text())

    def stop(self) -> None:
        self.process.send_signal(2)  # a fast shutdown: clients are sent away
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def url(self, database: str, password: str = PASSWORD) -> str:
        return f"postgresql+psycopg://teacher:{quote(password, safe='')}@/{database}?host={self.folder}"

    def new_database(self, name: str) -> str:
        """Make an empty database, and return its address."""
        with self.connect("postgres") as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}"')
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self.folder), user="teacher", password=PASSWORD, dbname=database, autocommit=True
        )


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests of this process."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL server is installed: there is no /usr/lib/postgresql/*/bin/initdb")
    server = Server(Path(found[-1]).parent)
    yield server
    server.close()


def quiet(line: str) -> None:
    """Say nothing."""


def test_the_same_class_has_the_same_rows_as_in_sqlite(
    course: Course, server: Server, sandbox: str, hand_in, works, marks
) -> None:
    """Really graded once, and recorded in both."""
    for number, student in enumerate(("ann", "Bob Ö", "cy")):
        hand_in(student, works(number))
    hand_in("di", b"<html>")
    (course.submitted / "ed").mkdir()
    expected = grade_class(course, ONE, quiet)
    tables = [(course.classroom / name).read_bytes() for name in ("grades.csv", "nbgrader.csv")]
    assert [row.total for row in expected.rows] == [5, 6, 4, 0, 0]
    there = replace(course, db_url=server.new_database("same"))
    graded = grade_class(there, ONE, quiet)
    assert (graded.rows, graded.again, graded.faults) == (expected.rows, 4, 0)
    assert marks(there) == marks(course)
    with server.connect("same") as connection:  # marks that are really there
        assert connection.execute("SELECT count(*) FROM grade").fetchone() == (8,)
    assert [(course.classroom / name).read_bytes() for name in ("grades.csv", "nbgrader.csv")] == tables


def test_marks_by_hand_survive_a_regrade(course: Course, server: Server, hand_in, answered, no_worker) -> None:
    course = replace(course, db_url=server.new_database("by-hand"))
    hand_in("ann", answered)
    grade_class(course, ONE, quiet)
    with record.open_gradebook(course) as gradebook:
        gradebook.find_grade("check-7-1", LESSON, LESSON, "ann").manual_score = 3.5
        gradebook.db.commit()
    (row,) = grade_class(course, replace(ONE, fresh=True), quiet).rows
    assert row.points == {"0.1": 3.5, "1.2": 1.0}
    assert "ann" in (course.classroom / "nbgrader.csv").read_text()


def test_two_classes_with_their_own_databases_do_not_mix(
    course: Course, server: Server, hand_in, answered, no_worker, tmp_path: Path
) -> None:
    hand_in("ann", answered)
    other = Course(course.root, tmp_path / "other")
    shutil.copytree(course.submitted / "ann", other.submitted / "bob")
    course, other = (replace(c, db_url=server.new_database(name)) for c, name in ((course, "one"), (other, "two")))
    for one, who in ((course, "ann"), (other, "bob"), (course, "ann")):
        assert [row.student for row in grade_class(one, ONE, quiet).rows] == [who]
        with record.open_gradebook(one) as gradebook:
            assert [student.id for student in gradebook.students] == [who]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("gradebook", "is no address of a database"),
        ("postgresql+psycopg://teacher:{password}@host:port/name", "is no address of a database"),
        ("nosuch://teacher:{password}@/x", "nosuch"),
        ("postgresql+psycopg://teacher:wrong-{password}@/postgres?host={folder}", "password authentication failed"),
        ("postgresql+psycopg://teacher:{password}@/none?host={folder}", 'database "none" does not exist'),
        ("postgresql+psycopg:///none?user=teacher&password={password}&host={folder}", "does not exist"),
        ("postgresql+psycopg://teacher:{password}@/x?host={folder}/elsewhere", "elsewhere"),
        ("postgresql+psycopg://teacher:{password}@127.0.0.1:1/x", "refused"),
    ],
)
def test_a_wrong_address_is_told_without_its_password_and_changes_nothing(
    course: Course, server: Server, hand_in, answered, url: str, says: str
) -> None:
    hand_in("ann", answered)
    before = sorted(course.classroom.rglob("*"))
    url = url.format(password=quote(PASSWORD, safe=""), folder=server.folder)
    with pytest.raises(CourseError) as raised:
        grade_class(replace(course, db_url=url), ONE, quiet)
    text = str(raised.value)
    assert says in text
    assert record.masked(url) in text
    assert "gr%40de" not in text and PASSWORD not in text
    assert sorted(course.classroom.rglob("*")) == before


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////home/ann@school/gradebook.db", "sqlite:////home/ann@school/gradebook.db"),
        ("postgresql://ann@host:5432/x?a=b@c", "postgresql://ann@host:5432/x?a=b@c"),
        ("postgresql://ann:a@b/c:d@host/x", "postgresql://ann:***@host/x"),
        ("postgresql:///x?user=ann&password=secret&host=/tmp", "postgresql:///x?user=ann&password=***&host=/tmp"),
    ],
)
def test_only_the_password_is_masked(url: str, shown: str) -> None:
    assert record.masked(url) == shown


def test_a_server_that_is_stopped_before_or_during_a_run(
    course: Course, server: Server, hand_in, answered, no_worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run says so. The next one goes on where it was."""
    course = replace(course, db_url=server.new_database("stopped"))
    for student in ("ann", "bob"):
        hand_in(student, answered)

    def stops(job) -> dict:
        if job.student == "bob":
            server.stop()
        return no_worker(job)

    monkeypatch.setattr(schedule, "grade_job", stops)
    try:
        with pytest.raises(CourseError, match=r"the gradebook postgresql\+psycopg://teacher:\*\*\*@/stopped"):
            grade_class(course, ONE, quiet)
        before = sorted(course.classroom.rglob("*"))
        with pytest.raises(CourseError, match="does not work: connection"):
            grade_class(course, ONE, quiet)
        assert sorted(course.classroom.rglob("*")) == before
    finally:
        server.start()
    graded = grade_class(course, ONE, quiet)
    assert [(row.student, row.total) for row in graded.rows] == [("ann", 2.0), ("bob", 2.0)]


def test_the_command_line_shows_no_password(
    course: Course, server: Server, hand_in, answered, no_worker, capsys: pytest.CaptureFixture, monkeypatch
) -> None:
    """Neither on the screen nor in any file. The address may come from the environment, which others cannot see."""
    hand_in("ann", answered)
    monkeypatch.setenv("GRADEBOOK", server.new_database("shown"))
    command = ["grade", str(course.classroom), "--course", str(course.root), "--jobs", "1"]
    command += ["--i-trust-these-submissions"]
    assert main(command) == 0
    server.stop()
    try:
        assert main(command) == 2
    finally:
        server.start()
    said = capsys.readouterr()
    assert "gradebook  postgresql+psycopg://teacher:***@/shown" in said.out
    assert "grade: the gradebook postgresql+psycopg://teacher:***@/shown" in said.err
    files = [path for path in course.classroom.rglob("*") if path.is_file()]
    texts = [said.out, said.err, repr(replace(course, db_url=server.url("shown")))]
    texts += [path.read_text(errors="replace") for path in files]
    assert not [text for text in texts if "gr%40de" in text or PASSWORD in text]


def test_nbgraders_own_commands_work_on_an_empty_database(
    tiny_root: Path, tmp_path: Path, server: Server, answered, sandbox: str
) -> None:
    """They read nbgrader_config.py, which takes the address from GRADEBOOK."""
    root = tmp_path / "course"
    shutil.copytree(tiny_root, root)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    course = Course(root, tmp_path / "class", db_url=server.new_database("plain"))
    (course.submitted / "ann" / LESSON).mkdir(parents=True)
    (course.submitted / "ann" / LESSON / f"{LESSON}.ipynb").write_text(json.dumps(answered))
    environment = {**os.environ, "GRADEBOOK": course.db_url, "CLASSROOM": str(course.classroom)}
    environment["PYTHONPATH"] = str(ROOT)

    def nbgrader(*arguments: str) -> str:
        command = [sys.executable, "-m", "nbgrader", *arguments]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        assert "gr%40de" not in done.stdout + done.stderr
        return done.stdout

    nbgrader("db", "student", "add", "ann", "--first-name=Ann")
    with server.connect("plain") as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
    prepare_process()
    record.register(course, LESSON)
    nbgrader("autograde", LESSON)
    assert record.read_row(course, "ann", LESSON).total == 6.0
    nbgrader("export", f"--to={tmp_path / 'marks.csv'}")
    assert "ann,,Ann" in (tmp_path / "marks.csv").read_text()
    assert not list(course.classroom.glob("*.db"))
