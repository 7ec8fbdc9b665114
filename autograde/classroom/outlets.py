"""Where a lesson goes out to students: a folder, a zip, nbgrader's exchange, or nowhere but the gradebook."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from traitlets.config import Config

from autograde.classroom.course import Course, CourseError
from autograde.classroom.room import obstacle


@dataclass(frozen=True)
class Outlet:
    """Nowhere: the gradebook alone. `place` says where, for people."""

    course: Course
    where: Path
    force: bool = False

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return "the gradebook alone (--to, --zip and --exchange hand lessons out)"

    def insist(self, lessons: list[str]) -> None:
        """Raise `CourseError` for what is in the way. Writes nothing."""

    def put(self, lessons: list[str]) -> None:
        """Hand the lessons out."""


class Folder(Outlet):
    """FOLDER/LESSON/LESSON.ipynb."""

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.where)

    def insist(self, lessons: list[str]) -> None:
        """Nothing of these names may be there, unless `force`."""
        if problem := obstacle(self.where):
            raise CourseError(f"--to: wanted a folder, {problem}")
        if self.where.resolve() in (self.course.root / "lessons", self.course.root / "solutions"):
            raise CourseError(f"--to: {self.where} is the course's own")
        for lesson in lessons:
            if (self.where / lesson).exists() and not self.force:
                raise CourseError(f"--to: {self.where / lesson} is there already; --force replaces it")
            if problem := obstacle(self.where / lesson):
                raise CourseError(f"--to: wanted a folder, {problem}")

    def put(self, lessons: list[str]) -> None:
        """Copy. Files of other names that are there stay."""
        for path, name in _files(self.course, lessons):
            (self.where / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.where / name)


class Zip(Outlet):
    """One zip of all the lessons."""

    @property
    def place(self) -> str:
        """The file."""
        return str(self.where)

    def insist(self, lessons: list[str]) -> None:
        """The file may not be there, unless `force`."""
        insist_on_new_file(self.where, "--zip", self.force)

    def put(self, lessons: list[str]) -> None:
        """Write the zip."""
        write_zip(self.where, list(_files(self.course, lessons)))


class Exchange(Outlet):
    """nbgrader's exchange: EXCHANGE/COURSE/outbound/LESSON. nbgrader itself writes it, with the rights it needs."""

    @property
    def place(self) -> str:
        """The folder in the exchange."""
        return f"the exchange {outbound(self.course, self.where)}"

    def insist(self, lessons: list[str]) -> None:
        """The exchange has to be a folder, without these lessons unless `force`."""
        folder = outbound(self.course, self.where)
        insist_on_exchange(folder.parents[1])
        for lesson in lessons:
            if (folder / lesson).exists() and not self.force:
                raise CourseError(f"--exchange: {folder / lesson} is there already; --force replaces it")

    def put(self, lessons: list[str]) -> None:
        """Let nbgrader release."""
        from nbgrader.apps import NbGraderAPI

        from autograde.classroom.record import failure

        settings = exchange_settings(self.course, self.where)
        settings.ExchangeReleaseAssignment.force = True
        for lesson in lessons:
            result = NbGraderAPI(config=settings).release_assignment(lesson)
            if not result["success"]:
                raise CourseError(f"--exchange: nbgrader did not release {lesson}: {failure(result)}")


def outlet_for(course: Course, to: Path | None, archive: Path | None, exchange: Path | None, force: bool) -> Outlet:
    """The outlet that was asked for."""
    if to is not None:
        return Folder(course, to, force)
    if archive is not None:
        return Zip(course, archive, force)
    return Exchange(course, exchange, force) if exchange is not None else Outlet(course, Path())


def exchange_settings(course: Course, where: Path) -> Config:
    """nbgrader's settings with this exchange; the empty path stands for the one that nbgrader_config.py names."""
    settings = course.instructors_settings()
    settings.merge(course.settings())
    if where != Path():
        settings.Exchange.root = str(where.resolve())
    return settings


def outbound(course: Course, where: Path) -> Path:
    """The exchange's folder of released lessons."""
    from nbgrader.exchange.default import Exchange as Theirs

    settings = exchange_settings(course, where)
    return Path(Theirs(config=settings).root, settings.CourseDirectory.course_id, "outbound")


def insist_on_exchange(folder: Path) -> None:
    """Raise `CourseError` unless the exchange is a folder."""
    if not folder.is_dir():
        raise CourseError(f"--exchange: there is no folder {folder}; make it, or name another one")


def insist_on_new_file(path: Path, option: str, force: bool = False) -> None:
    """Raise `CourseError` where a file cannot be made."""
    if path.is_dir():
        raise CourseError(f"{option}: wanted a file, got the folder {path}")
    if path.exists() and not force:
        raise CourseError(f"{option}: {path} is there already; --force replaces it")
    if not path.resolve().parent.is_dir():
        raise CourseError(f"{option}: there is no folder {path.resolve().parent}")
    if problem := obstacle(path.parent):
        raise CourseError(f"{option}: wanted a folder for it, {problem}")


def write_zip(path: Path, files: list[tuple[Path, str]]) -> None:
    """Write (file, name in the zip) pairs; all of it or nothing."""
    part = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for file, name in files:
                archive.write(file, name)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _files(course: Course, lessons: list[str]) -> Iterator[tuple[Path, str]]:
    """Every file that students get, with its name below the target."""
    for lesson in lessons:
        folder = course.release(lesson).parent
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            hidden = any(part.startswith(".") for part in inside.parts) or ".before-reset" in path.name
            if path.is_file() and not path.is_symlink() and not hidden:
                yield path, f"{lesson}/{inside.as_posix()}"
