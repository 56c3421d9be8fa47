"""The folder of a conversion: which files belong to it, and how they are replaced together.

All files are first made in a temporary folder inside it. So a conversion that is interrupted, or has a wrong input,
leaves the folder unchanged. At the end the files that the earlier ``report.json`` lists are removed, and the new files
take their place; the new ``report.json`` comes last. So a folder never has a report and files of different runs.
``report.html`` is the page of ``report.json``.
"""

import contextlib
import hashlib
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from qdqtool.errors import OutputError, UsageError
from qdqtool.jobs.conversion.report import ConversionReport, WrittenFile
from qdqtool.models.graph.io.output import destination, output_errors
from qdqtool.models.scratch import ScratchFolder, note, uninterrupted

REPORT = "report.json"
PAGE = "report.html"
_MARK = b'<meta name="generator" content="qdqtool '
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FileNames:
    """The names of the files in the folder.

    Attributes:
        stem: The first part of all names except ``report.json`` and ``report.html``.
    """

    stem: str

    @classmethod
    def of(cls, model: Path | None, mode: str) -> "FileNames":
        """Return the names for a model that is quantized in a mode: ``net.onnx`` becomes ``net.int8.onnx``."""
        return cls(f"{model.stem if model is not None else 'model'}.{mode}")

    @property
    def kinds(self) -> dict[str, str]:
        """The content of each file by its name, in the order of the report."""
        return {
            f"{self.stem}.onnx": "model",
            f"{self.stem}.plan.json": "plan",
            f"{self.stem}.ranges.json": "ranges",
            f"{self.stem}.preview.png": "preview",
            f"{self.stem}.engine": "engine",
            f"{self.stem}.engine.manifest.json": "manifest",
            f"{self.stem}.engine.manifest.json.sig": "signature",
        }

    def name(self, what: str) -> str:
        """Return the name of the file with that content."""
        return next(name for name, kind in self.kinds.items() if kind == what)


class _Listed(msgspec.Struct):
    name: str
    sha256: str


class _EarlierReport(msgspec.Struct):
    """The keys of an earlier report that are read."""

    folder: str
    steps: list[object]
    files: list[_Listed]


@dataclass(frozen=True, slots=True)
class Staging:
    """The temporary folder in which files are made.

    Attributes:
        folder: The folder that the files are moved to.
        place: The temporary folder.
        names: The names of the files.
        earlier: Names of the files of an earlier conversion, which are removed when the new files are moved.
    """

    folder: Path
    place: Path
    names: FileNames
    earlier: tuple[str, ...]

    def made(self, what: str) -> Path:
        """Return the temporary path of the file with that content."""
        return self.place / self.names.name(what)

    def final(self, what: str) -> Path:
        """Return the final path of the file with that content."""
        return self.folder / self.names.name(what)

    def written(self) -> tuple[WrittenFile, ...]:
        """Return the files made so far, in the order in which they are moved: a model comes after its external data."""
        data = ((path, "weights") for path in self.place.glob("*.onnx.*.data"))
        found = ((self.place / name, kind) for name, kind in self.names.kinds.items())
        return tuple(_describe(path, kind) for path, kind in (*data, *found) if path.exists())

    def publish(self, report: ConversionReport, page: Callable[[bytes, str, Path], bytes]) -> ConversionReport:
        """Replace the files of an earlier conversion by the new files, and write the report.

        Returns:
            The report, with the names of files that were removed.
        """
        made = [each.name for each in report.files]
        gone = tuple(name for name in self.earlier if name not in {*made, REPORT, PAGE})
        report = replace(report, removed=gone)
        with output_errors(self.folder):
            (self.place / REPORT).write_bytes(report.encode())
            (self.place / PAGE).write_bytes(page(report.encode(), REPORT, self.place))
            mode = _usual_mode(self.place)
            for name in (*made, PAGE, REPORT):
                (self.place / name).chmod(mode)
            with uninterrupted():
                for name in (*made, PAGE, REPORT):
                    (self.place / name).replace(self.folder / name)
                    note(b"=", self.folder / name)
                for name in gone:
                    (self.folder / name).unlink(missing_ok=True)
        return report


def check_folder(folder: Path, names: FileNames, inputs: Iterable[Path]) -> tuple[str, ...]:
    """Check that a conversion can write into a folder, and return the files of an earlier one.

    Args:
        folder: The folder. Its parent must exist.
        names: The files that may be made.
        inputs: Files that the conversion reads, and outputs outside the folder. The conversion must not replace them.

    Raises:
        OutputError: The folder is a file, or its parent does not exist; or a name is too long.
        UsageError: A file that may be made is an input, or it exists and no conversion made it.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(
            f"output {folder} is a file, but a conversion writes several files", hint="name a folder: `-o FOLDER`"
        )
    if not folder.parent.is_dir():
        hint = f"create it first: `mkdir -p {shlex.quote(str(folder.parent))}`"
        raise OutputError(f"folder {folder.parent} does not exist", hint=hint)
    for name in names.kinds:
        destination(folder / name)
    earlier = _earlier(folder)
    taken = {(folder / name).resolve() for name in (*names.kinds, REPORT, PAGE, *earlier)}
    for path in inputs:
        if path.resolve() in taken:
            raise UsageError(
                f"the conversion would overwrite or remove {path}: inputs are never overwritten",
                hint="name another folder: `-o FOLDER`",
            )
    for name in (*names.kinds, REPORT, PAGE):
        if name not in earlier and (folder / name).exists():
            raise UsageError(
                f"{folder / name} exists already, and report.json does not list it, or it was changed since",
                hint="move it away, or name another folder: `-o FOLDER`",
            )
    return earlier


@contextlib.contextmanager
def staging(folder: Path, names: FileNames, earlier: tuple[str, ...]) -> Iterator[Staging]:
    """Make the folder and a temporary folder inside it; a new folder is removed again if it stays empty."""
    is_new = not folder.exists()
    with output_errors(folder):
        folder.mkdir(exist_ok=True)
        scratch = ScratchFolder(".convert-", folder)
    try:
        with scratch:
            yield Staging(folder, scratch.path, names, earlier)
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()


def _earlier(folder: Path) -> tuple[str, ...]:
    """Return the names of the report, the page and the unchanged files of an earlier conversion."""
    try:
        found = msgspec.json.decode((folder / REPORT).read_bytes(), type=_EarlierReport)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    # The report may come from anybody, so files outside the folder are not accepted.
    names = [each for each in found.files if Path(each.name).name == each.name and (folder / each.name).is_file()]
    page = (PAGE,) if _is_page(folder / PAGE) else ()
    return (REPORT, *page, *(each.name for each in names if _digest(folder / each.name) == each.sha256))


def _is_page(path: Path) -> bool:
    """Return whether qdqtool made this page. ``report.json``, from which it is made, cannot have its digest."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return _MARK in file.read(_HEAD_BYTES)


def _describe(path: Path, kind: str) -> WrittenFile:
    return WrittenFile(name=path.name, what=kind, bytes=path.stat().st_size, sha256=_digest(path))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _usual_mode(folder: Path) -> int:
    """Return the usual mode of a new file; a file from a temporary folder may be readable only for its owner."""
    probe = folder / "mode"
    probe.touch()
    mode = probe.stat().st_mode & 0o777
    probe.unlink()
    return mode
