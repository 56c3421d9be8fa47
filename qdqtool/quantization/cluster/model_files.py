"""The files of a model on the client, and the same files or a copy of them on a worker.

A worker that has files with the same bytes at the same path reads those files. Other workers get a copy, in pieces, in
a folder that is named after the digests of the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qdqtool.models.graph.io.external import external_files
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.scratch import ScratchFolder

PIECE = 16 << 20
"""Largest number of bytes of one message: a large model is sent in many messages."""

_COPIES = "qdqtool-models"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFile:
    """One file of a model, by its path relative to the folder of the model, with ``/``; ``size`` is in bytes."""

    location: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of a model on the client.

    Attributes:
        folder: Absolute path of the folder of the model.
        files: The ``.onnx`` file, then its external data.
    """

    folder: Path
    files: tuple[SharedFile, ...]

    @property
    def digest(self) -> str:
        """The sha256 of locations, sizes and digests: the same files in any folder give the same digest."""
        lines = [f"{file.sha256} {file.size} {file.location}\n" for file in self.files]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def model_in(self, folder: Path) -> Path:
        """Return the path of the ``.onnx`` file in a folder with these files."""
        return folder / self.files[0].location

    def pieces(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield the location, the offset and the bytes of each piece; an empty file is one piece."""
        for file in self.files:
            with (self.folder / file.location).open("rb") as stream:
                offset = 0
                while (data := stream.read(PIECE)) or not offset:
                    yield file.location, offset, data
                    if not data:
                        break
                    offset += len(data)


@contextlib.contextmanager
def files_of(model: Path | Model) -> Iterator[ModelFiles]:
    """Yield the files of a model; a model in memory is written into a temporary folder for the block."""
    with contextlib.ExitStack() as stack:
        if isinstance(model, Model):
            folder = stack.enter_context(ScratchFolder()).path
            path = folder / "model.onnx"
            save_model(model, path)
        else:
            path = model
        folder = path.absolute().parent
        paths = [folder / path.name, *external_files(load_model(path).proto, folder)]
        yield ModelFiles(folder=folder, files=tuple(_described(each, folder) for each in paths))


def _described(path: Path, folder: Path) -> SharedFile:
    location = path.relative_to(folder).as_posix()
    return SharedFile(location=location, size=path.stat().st_size, sha256=_sha256(path))


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def find_copy(files: ModelFiles, local: Path) -> Path | None:
    """Return a folder of this machine with exactly these files, or None if there is none."""
    copy, sent = local / _COPIES / files.digest, _unfinished(files, local)
    if copy.is_dir():
        return copy
    if sent.is_dir() and _has(sent, files):
        sent.rename(copy)
        return copy
    return files.folder if _has(files.folder, files) else None


def store_piece(files: ModelFiles, local: Path, location: str, offset: int, data: bytes) -> None:
    """Write one piece of a copy; :func:`find_copy` finds the copy once all pieces are there."""
    path = _unfinished(files, local) / location
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if offset else "wb") as stream:
        stream.seek(offset)
        stream.write(data)


def remove_copy(files: ModelFiles, local: Path) -> None:
    """Remove the copy, complete or not; do nothing if there is none."""
    for folder in (local / _COPIES / files.digest, _unfinished(files, local)):
        shutil.rmtree(folder, ignore_errors=True)


def _unfinished(files: ModelFiles, local: Path) -> Path:
    return local / _COPIES / f"{files.digest}.part"


def _has(folder: Path, files: ModelFiles) -> bool:
    paths = [(folder / file.location, file) for file in files.files]
    try:
        # Sizes first: other files of the same name mostly differ in size, and are then not read.
        return all(path.stat().st_size == file.size for path, file in paths) and all(
            _sha256(path) == file.sha256 for path, file in paths
        )
    except OSError:
        return False
