"""Temporary files and folders that are deleted when the process ends, even if another process has to end it.

The code that creates a file or folder deletes it. The ledger is for a process that can no longer do so, because a
library crashed or hangs: it lists the existing files, and the process that started this one deletes them
(:mod:`qdqtool.cli.supervisor`).
"""

import contextlib
import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Self


class Closing(ABC):
    """An object that a ``with`` block closes at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Free all resources."""


class Ledger:
    """The scratch files that exist, listed in an unnamed file that a forked process shares.

    Attributes:
        current: The ledger that this process writes to; None if no process would read it.
    """

    current: ClassVar["Ledger | None"] = None

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  open until the process ends

    def note(self, event: bytes, path: Path) -> None:
        """Record that a path was created (``+``) or removed (``-``)."""
        self._file.write(event + os.fsencode(path.absolute()) + b"\0")

    def close(self) -> None:
        """Close the list without removing anything."""
        self._file.close()

    def remove_all(self) -> None:
        """Remove every path that was created and not removed."""
        self._file.seek(0)
        # Names contain no NUL. If a process was killed while it wrote, the last record may be incomplete.
        *records, _ = self._file.read().split(b"\0")
        there: dict[bytes, None] = {}
        for record in records:
            if record[:1] == b"+":
                there[record[1:]] = None
            else:
                there.pop(record[1:], None)
        for name in there:
            _remove(Path(os.fsdecode(name)))


class ScratchFolder:
    """A temporary folder that is removed with this object, at the end of a ``with`` block, or when Python exits.

    Args:
        prefix: Beginning of the folder name.
        inside: The parent folder; None for the system's folder of temporary files.

    Attributes:
        path: The folder.

    Raises:
        OSError: The folder cannot be created.
    """

    def __init__(self, prefix: str = "qdqtool-", inside: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=inside))
        _note(b"+", self.path)
        self._remove = weakref.finalize(self, _remove, self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()


@contextlib.contextmanager
def scratch_file(folder: Path, name: str) -> Iterator[Path]:
    """Create an empty file in ``folder`` that is removed at the end of the block, unless it was renamed.

    Args:
        folder: The folder.
        name: The name that the file will get later; the temporary name contains it.
    """
    # The name is truncated, because prefix and suffix must fit in the 255 bytes of a file name.
    handle, made = tempfile.mkstemp(prefix=f".{name[:64]}.", suffix=".tmp", dir=folder)
    path = Path(made)
    _note(b"+", path)
    try:
        os.close(handle)
        yield path
    finally:
        _remove(path)


def _note(event: bytes, path: Path) -> None:
    if Ledger.current is not None:
        Ledger.current.note(event, path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
    _note(b"-", path)
