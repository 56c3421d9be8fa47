"""Write partial ranges to the ranges file during a calibration, and resume from them."""

import time
from collections.abc import Callable
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.output import write_output
from qdqtool.quantization.ranges.file import encode_ranges, read_ranges
from qdqtool.quantization.ranges.types import Ranges, TensorKey

INTERVAL = 5.0
"""Smallest number of seconds between two writes: what a kill loses at most, besides the current chunk."""
SHARE = 0.05
"""Largest share of the time that writing may take."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a message on what was kept."""


class RangesCheckpoint:
    """Writes partial ranges to a file, each time whole, and reads those that an earlier run left there.

    Args:
        path: The ranges file.
        clock: The time in seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._last = clock()
        self._cost = 0.0

    def earlier(self, wanted: Ranges) -> Ranges | None:
        """Return what an interrupted run of the same calibration left; None where the file is absent or another.

        Raises:
            UsageError: The file holds what an interrupted run of another calibration left.
        """
        try:
            found = read_ranges(self._path) if self._path.is_file() else None
        except UsageError:
            return None
        if found is None or found.part is None or found.part.is_whole:
            return None
        if _identity(found) != _identity(wanted):
            raise UsageError(
                f"{self._path} holds what an interrupted calibration left, with another model, data or options: "
                f"{found.part.done - found.part.start} of {found.part.stop - found.part.start} samples",
                hint="go on with those, or remove the file, or name another output",
            )
        return found

    def offer(self, make: Callable[[], Ranges]) -> None:
        """Write the partial ranges, if the last write is long enough ago."""
        if self._clock() - self._last >= max(INTERVAL, self._cost / SHARE):
            self.keep(make())

    def keep(self, ranges: Ranges) -> None:
        """Write the partial ranges."""
        start = self._clock()
        write_output(self._path, encode_ranges(ranges))
        self._last = self._clock()
        self._cost = self._last - start

    def interrupted(self, ranges: Ranges) -> Interrupted:
        """Write the partial ranges, and return the exception that reports it."""
        part = ranges.part
        assert part is not None
        if part.done == part.start:
            return Interrupted("interrupted before the first samples were done; nothing was left behind")
        self.keep(ranges)
        return Interrupted(
            f"interrupted; {part.done - part.start} of {part.stop - part.start} samples are kept in {self._path}: "
            "the same command goes on from there"
        )


def _identity(ranges: Ranges) -> tuple[bytes, list[TensorKey], tuple[int, int] | None]:
    """Return what must be equal for a run to resume another: the record as written, the tensors, the bounds."""
    bounds = None if ranges.part is None else (ranges.part.start, ranges.part.stop)
    return encode_ranges(Ranges(ranges.record)), list(ranges.tensors), bounds
