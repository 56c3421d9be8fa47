"""Write partial ranges to the ranges file during a calibration, and resume from them."""

import time
from collections.abc import Callable
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.output import write_output
from qdqtool.quantization.ranges.file import encode_ranges, read_ranges
from qdqtool.quantization.ranges.types import Ranges, TensorKey

INTERVAL = 5.0
"""Shortest time between two writes, in seconds. A kill loses the results of at most this time and the current chunk."""
SHARE = 0.05
"""Largest share of the run time that writing may take."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a message about the results that were kept."""


class RangesCheckpoint:
    """Writes partial ranges to a file, each time completely, and reads the partial ranges of an earlier run.

    Args:
        path: The ranges file.
        clock: Returns the time in seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._last = clock()
        self._cost = 0.0

    def earlier(self, wanted: Ranges) -> Ranges | None:
        """Return the partial ranges of an interrupted run of the same calibration, or None if the file has none.

        Raises:
            UsageError: The file has partial ranges of another calibration.
        """
        try:
            found = read_ranges(self._path) if self._path.is_file() else None
        except UsageError:
            return None
        if found is None or found.part is None or found.part.is_whole:
            return None
        if _identity(found) != _identity(wanted):
            raise UsageError(
                f"{self._path} holds an interrupted calibration with another model, data or options: "
                f"{found.part.done - found.part.start} of {found.part.stop - found.part.start} samples",
                hint="continue with its model, data and options, or remove the file, or name another output",
            )
        return found

    def offer(self, make: Callable[[], Ranges]) -> None:
        """Write the partial ranges if enough time has passed since the last write."""
        if self._clock() - self._last >= max(INTERVAL, self._cost / SHARE):
            self.keep(make())

    def keep(self, ranges: Ranges) -> None:
        """Write the partial ranges."""
        start = self._clock()
        write_output(self._path, encode_ranges(ranges))
        self._last = self._clock()
        self._cost = self._last - start

    def interrupted(self, ranges: Ranges) -> Interrupted:
        """Write the partial ranges, and return the exception that reports this."""
        part = ranges.part
        assert part is not None
        if part.done == part.start:
            return Interrupted("interrupted before the first samples were done; nothing was left behind")
        self.keep(ranges)
        return Interrupted(
            f"interrupted; {part.done - part.start} of {part.stop - part.start} samples are kept in {self._path}: "
            "the same command continues from there"
        )


def _identity(ranges: Ranges) -> tuple[bytes, list[TensorKey], tuple[int, int] | None]:
    """Return the data that must be equal to resume a run: the record as written, the tensors, the bounds."""
    bounds = None if ranges.part is None else (ranges.part.start, ranges.part.stop)
    return encode_ranges(Ranges(ranges.record)), list(ranges.tensors), bounds
