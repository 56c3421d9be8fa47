"""Bytes in a temporary file: what is read is what was written, where and as long as it is needed."""

import gc
from types import SimpleNamespace

import pytest

from qdqtool.models.graph.io.data_file import aligned
from qdqtool.models.graph.io.offload import LEAST_BYTES, SpillFile, offloaded_bytes

FEW, MANY = b"few", bytes(range(256)) * (LEAST_BYTES // 256)


def test_all_that_was_added_is_read_while_the_file_is_open_and_afterwards():
    with SpillFile(100) as file:
        payloads = [file.add(data) for data in (FEW, MANY, b"", FEW)]
        assert [each.make() for each in payloads] == [FEW, MANY, b"", FEW]
    assert [each.make() for each in payloads] == [FEW, MANY, b"", FEW]
    assert [each.nbytes for each in payloads] == [3, LEAST_BYTES, 0, 3]


def test_places_are_aligned_as_in_a_file_of_external_data_and_do_not_overlap():
    with SpillFile(100) as file:
        places = [file.add(data).place for data in (FEW, MANY, FEW)]
    ends = 0
    for place, size in zip(places, (3, LEAST_BYTES, 3), strict=True):
        assert place.offset == aligned(ends, size)
        ends = place.offset + size
        assert place.file.read_bytes()[place.offset : ends] == (FEW if size == 3 else MANY)


def test_what_the_system_writes_in_parts_is_written_to_its_end(monkeypatch):
    with SpillFile(100) as file:
        whole = file._file.write
        monkeypatch.setattr(file._file, "write", lambda data: whole(data[:1000]))
        assert file.add(MANY).make() == MANY


def test_a_file_goes_with_the_last_payload_that_reads_it():
    with SpillFile(100) as file:
        first, second = file.add(FEW), file.add(FEW)
    folder = first.place.folder.path
    del file, first
    gc.collect()
    assert second.make() == FEW
    del second
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize(("data", "outside"), [(b"", False), (MANY[1:], False), (MANY, True)])
def test_few_bytes_stay_in_memory(data, outside):
    kept = offloaded_bytes(data)
    assert (kept.make(), kept.nbytes, kept.place is not None) == (data, len(data), outside)


def test_half_of_the_space_is_left_to_others(monkeypatch):
    for free, outside in ((2 * len(MANY), True), (2 * len(MANY) - 1, False)):
        monkeypatch.setattr(
            "qdqtool.models.graph.io.offload.shutil.disk_usage", lambda _, free=free: SimpleNamespace(free=free)
        )
        kept = offloaded_bytes(MANY)
        assert (kept.make(), kept.place is not None) == (MANY, outside)


def test_a_disk_that_is_full_in_the_end_leaves_the_bytes_in_memory(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SpillFile, "add", full)
    assert (offloaded_bytes(MANY).make(), offloaded_bytes(MANY).place) == (MANY, None)
