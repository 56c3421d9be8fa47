"""Items that can be read once are kept in a file: in memory there is one at a time, and no file is left."""

import errno
import gc
from pathlib import Path

import numpy as np
import pytest

from qdqtool.errors import UsageError
from qdqtool.samples import spool
from qdqtool.samples.spool import Item, SpooledItems


def item(number: int) -> Item:
    return Item((np.full((2, 3), number), np.array(number, np.float16)), ("a", "/b/c"))


class Source:
    """Counts up to an end, and what was taken of it."""

    def __init__(self, end: int) -> None:
        self.end, self.taken = end, 0

    def __call__(self, number: int) -> Item | None:
        assert number == self.taken, "items are taken once, in order"
        if number == self.end:
            return None
        self.taken += 1
        return item(number)


def values(items: object) -> list[tuple[int, int]]:
    return [(int(each.arrays[0][1, 2]), int(each.arrays[1])) for each in items]


def test_passes_may_stop_early_and_run_side_by_side() -> None:
    source = Source(4)
    items = SpooledItems(source, "data", is_endless=True)
    first, second = iter(items), iter(items)
    assert values([next(first), next(first), next(second)]) == [(0, 0), (1, 1), (0, 0)]
    assert source.taken == 2
    assert values(second) == [(1, 1), (2, 2), (3, 3)]
    assert values(first) == [(2, 2), (3, 3)]
    assert values(items) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    last = [*items][-1]
    assert (last.names, last.arrays[1].dtype) == (("a", "/b/c"), np.float16)


def test_the_file_goes_with_the_items(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    items = SpooledItems(Source(2), "data", is_endless=True)
    list(items)
    assert [path.name for path in tmp_path.rglob("*")][1:] == ["items"]
    del items
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_an_iterator_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_ITEMS", 3)
    assert len([*SpooledItems(Source(3), "data", is_endless=True)]) == 3
    with pytest.raises(UsageError, match="data gave 3 items and has more; it may never end") as caught:
        list(SpooledItems(Source(4), "data", is_endless=True))
    assert caught.value.hint == "give the number of samples to use: samples=N"
    assert len([*SpooledItems(Source(9), "data", is_endless=False)]) == 9
    monkeypatch.setattr(spool, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match="data gave 0 GiB in 1 items and has more"):
        list(SpooledItems(Source(4), "data", is_endless=False))


def test_an_interrupted_iterator_is_not_taken_for_a_complete_one() -> None:
    def interrupted(number: int) -> Item | None:
        if number == 2:
            raise KeyboardInterrupt
        return item(number)

    items = SpooledItems(interrupted, "data", is_endless=True)
    with pytest.raises(KeyboardInterrupt):
        list(items)
    with pytest.raises(UsageError, match="data was interrupted at item 2"):
        list(items)


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    items = SpooledItems(Source(4), "data", is_endless=True)
    next(iter(items))
    monkeypatch.setattr("numpy.lib.format.write_array", full)
    with pytest.raises(UsageError, match=r"data, item 1 cannot be kept in .*: No space left on device") as caught:
        list(items)
    assert "TMPDIR" in caught.value.hint
