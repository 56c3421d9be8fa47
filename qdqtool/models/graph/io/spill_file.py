"""A temporary file for bytes of tensors that would take memory until the end of a job."""

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

from qdqtool.models.graph.io.data_file import aligned
from qdqtool.models.payload import Payload, Place
from qdqtool.models.scratch import ScratchFolder

LEAST_BYTES = 1 << 16
"""Fewer bytes of one tensor stay in memory: a folder and a file of their own are not worth it."""


class SpillFile:
    """Bytes of tensors, one behind the other. The file goes with the last payload that reads it.

    Args:
        size: Bytes that will be added, about.

    Raises:
        OSError: It cannot be made, or there is not twice as much space: half of it is left to others.
    """

    def __init__(self, size: int) -> None:
        self._folder = ScratchFolder()
        if 2 * size > shutil.disk_usage(self._folder.path).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # Without a buffer: payloads read the file while others are added.
        self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115  closed by __exit__
            dir=self._folder.path, prefix="weights-", delete=False, buffering=0
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, data: bytes) -> Payload:
        """Write bytes, aligned for mapping, and return what reads them.

        Raises:
            OSError: The disk is full.
        """
        place = Place(self._folder, Path(self._file.name).name, aligned(self._file.tell(), len(data)))
        self._file.write(bytes(place.offset - self._file.tell()))
        rest = memoryview(data)
        # Linux writes at most 2 GiB at once.
        while rest:
            rest = rest[self._file.write(rest) :]
        size = len(data)
        return Payload(size, lambda: _read(place, size), place)


def spilled_bytes(data: bytes) -> Payload:
    """Return what reads these bytes, from a file of their own; from memory, where they are few or there is no space.

    For bytes that come one tensor after the other, while a job runs.
    """
    if len(data) >= LEAST_BYTES:
        with contextlib.suppress(OSError), SpillFile(len(data)) as file:
            return file.add(data)
    return Payload(len(data), lambda: data)


def _read(place: Place, size: int) -> bytes:
    with place.file.open("rb") as file:
        file.seek(place.offset)
        return file.read(size)
