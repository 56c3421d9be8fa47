"""Keep the items of a one-pass iterator in a temporary file, so that they can be read again."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models.scratch import ScratchFolder
from qdqtool.numerics.dtypes import Array

MOST_ITEMS = 10_000
"""The most items that are read from an iterator without a length. This stops an endless iterator."""
MOST_BYTES = 1 << 36
"""The most bytes that are written: 64 GiB."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the data.

    Attributes:
        arrays: The arrays of the item.
        names: Input name of each array; None if the arrays are in the order of the inputs.
    """

    arrays: tuple[Array, ...]
    names: tuple[str, ...] | None = None


class SpooledItems:
    """The items of an iterator. Known items are read from a file; others are taken from the iterator when needed.

    So the iterator is read only as far as samples are used, and only one item is in memory.

    Args:
        take: Returns the next item, given its number, or None at the end.
        source: The name of the data in messages.
        is_endless: Whether the number of items is unknown.
    """

    def __init__(self, take: Callable[[int], Item | None], source: str, *, is_endless: bool) -> None:
        self._take, self._source, self._is_endless = take, source, is_endless
        self._folder = ScratchFolder("qdqtool-data-")
        self._file = self._folder.path / "items"
        self._file.touch()
        self._places: list[tuple[int, int, tuple[str, ...] | None]] = []
        self._bytes = 0
        self._is_complete = False
        self._failure: UsageError | None = None

    def __iter__(self) -> Iterator[Item]:
        with self._file.open("rb") as stream:
            for number in itertools.count():
                if number == len(self._places) and not self._pull():
                    return
                yield self._read(stream, number)

    def _pull(self) -> bool:
        """Read and store one more item of the iterator; return False at its end."""
        item = None if self._is_complete else self._taken()
        if item is None:
            self._is_complete = True
            return False
        self._check_size()
        try:
            with self._file.open("r+b") as stream:
                # This overwrites bytes of an interrupted write.
                stream.seek(self._bytes)
                for array in item.arrays:
                    np.lib.format.write_array(stream, array, allow_pickle=False)
                place, self._bytes = self._bytes, stream.tell()
        except OSError as error:
            raise UsageError(
                f"{self._source}, item {len(self._places)} cannot be kept in {self._folder.path}: {error.strerror}",
                hint="set TMPDIR to a folder with more space, or take fewer items: samples=N",
            ) from None
        self._places.append((place, len(item.arrays), item.names))
        return True

    def _taken(self) -> Item | None:
        # A generator that raised or was interrupted reports afterwards that it has no more items: the next pass would
        # miss items without any error.
        if self._failure is not None:
            raise self._failure
        number = len(self._places)
        self._failure = UsageError(
            f"{self._source} was interrupted at item {number}",
            hint="make a new iterator: the remaining items are not known",
        )
        try:
            item = self._take(number)
        except UsageError as error:
            self._failure = error
            raise
        self._failure = None
        return item

    def _check_size(self) -> None:
        if self._is_endless and len(self._places) >= MOST_ITEMS:
            raise UsageError(
                f"{self._source} gave {MOST_ITEMS} items and has more; it may never end",
                hint="give the number of samples to use: samples=N",
            )
        if self._bytes > MOST_BYTES:
            raise UsageError(
                f"{self._source} gave {self._bytes >> 30} GiB in {len(self._places)} items and has more",
                hint="give the number of samples to use: samples=N",
            )

    def _read(self, stream: IO[bytes], number: int) -> Item:
        place, count, names = self._places[number]
        stream.seek(place)
        arrays = tuple(np.lib.format.read_array(stream, allow_pickle=False) for _ in range(count))
        return Item(arrays, names)
