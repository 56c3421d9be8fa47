"""Temporary files and folders, which go when the process ends, also where another process has to end it.

Each is removed by its maker. The ledger is for a process that cannot do so any more, because a library crashed or does
not let go of it: it lists what is there, and the process that started this one removes it
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
    """What a ``with`` block closes at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Free everything."""


class Ledger:
    """The scratch files that exist, listed in a file without a name that a forked process shares.

    Attributes:
        current: The ledger that this process writes to; None where nobody would read it.
    """

    current: ClassVar["Ledger | None"] = None

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  open until the process ends

    def note(self, event: bytes, path: Path) -> None:
        """Append that a path came (``+``) or went (``-``)."""
        self._file.write(event + os.fsencode(path.absolute()) + b"\0")

    def close(self) -> None:
        """Forget what is there."""
        self._file.close()

    def remove_all(self) -> None:
        """Remove everything that came and did not go."""
        self._file.seek(0)
        # Names hold no NUL. A process that was killed while it wrote may have left half a record at the end.
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
    """A temporary folder that is removed with this object, at the end of a ``with`` block, or when Python ends.

    Args:
        prefix: How its name begins.
        inside: The folder that it is made in; None for that of temporary files.

    Attributes:
        path: The folder.

    Raises:
        OSError: It cannot be made.
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
    """Make an empty file in ``folder`` that is gone at the end of the block, unless it was renamed.

    Args:
        folder: The folder.
        name: The name of the file that it will become; its own name contains it.
    """
    # The name is cut, since prefix and suffix must fit into the 255 bytes of a file name.
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
