"""Temporary files and folders that are deleted when the process ends, even if another process has to end it.

The code that creates a file or folder deletes it. The ledger is for a process that can no longer do so, because a
library crashed or hangs: it lists the existing files, and the process that started this one deletes them
(:mod:`qdqtool.cli.supervisor`).
"""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Self

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a command to end."""


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
    """A list of existing scratch files and finished outputs, in an unnamed file that forked processes share.

    Attributes:
        current: The ledger that this process writes to; None if no process would read it.
    """

    current: ClassVar["Ledger | None"] = None

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  open until the process ends

    def note(self, event: bytes, path: Path) -> None:
        """Append that a scratch path was made (``+``) or removed (``-``), or an output was put in place (``=``)."""
        self._file.write(event + os.fsencode(path.absolute()) + b"\0")

    def close(self) -> None:
        """Close the list without removing anything."""
        self._file.close()

    def remove_all(self) -> None:
        """Remove every scratch path that still exists."""
        for path in self._scratch():
            _remove(path)

    def outputs(self) -> tuple[str, ...]:
        """Return the names of the outputs that were put in place and still exist, each once."""
        found = (Path(os.fsdecode(record[1:])) for record in self._records() if record[:1] == b"=")
        scratch = {*self._scratch()}
        return tuple(dict.fromkeys(path.name for path in found if path.exists() and scratch.isdisjoint(path.parents)))

    def _scratch(self) -> list[Path]:
        """Return the scratch paths that were made and not removed."""
        there: dict[bytes, None] = {}
        for record in self._records():
            if record[:1] == b"+":
                there[record[1:]] = None
            else:
                there.pop(record[1:], None)
        return [Path(os.fsdecode(name)) for name in there]

    def _records(self) -> list[bytes]:
        """Return what was noted."""
        self._file.seek(0)
        # Names hold no NUL. A process that was killed while it wrote may have left half a record at the end.
        return self._file.read().split(b"\0")[:-1]


def left_behind(outputs: Sequence[str]) -> str:
    """Describe, for a message, the outputs of a command that ended early."""
    return f"complete before: {', '.join(outputs)}" if outputs else "nothing was left behind"


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
        with uninterrupted():
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=inside))
            note(b"+", self.path)
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
    path = None
    try:
        # A signal between these lines would leave the file.
        with uninterrupted():
            handle, made = tempfile.mkstemp(prefix=f".{name[:64]}.", suffix=".tmp", dir=folder)
            path = Path(made)
            note(b"+", path)
            os.close(handle)
        yield path
    finally:
        if path is not None:
            _remove(path)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay signals that ask to end until the block ends; the block has to be short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    heeded = [each for each in ENDING if callable(signal.getsignal(each))]
    before = {each: signal.signal(each, lambda number, _: waiting.append(number)) for each in heeded}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def note(event: bytes, path: Path) -> None:
    """Write to the ledger of this process, if it has one (:meth:`Ledger.note`)."""
    if Ledger.current is not None:
        Ledger.current.note(event, path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
    # A folder that cannot be opened, because too many files are open, is left to the process that started this one.
    if not os.path.lexists(path):
        note(b"-", path)
