"""Bytes that are made when they are needed, and a folder for offloaded weights that goes with the last one."""

import gc
import threading

import pytest

from qdqtool.models.payload import THREADED_BYTES, BytesPlace, Payload
from qdqtool.models.scratch import ScratchFolder


def test_a_spill_folder_lives_as_long_as_something_refers_to_it():
    place = BytesPlace(ScratchFolder(), "w.bin", 0)
    place.file.write_bytes(b"weights")
    folder = place.folder.path
    gc.collect()
    assert (folder / "w.bin").read_bytes() == b"weights"
    del place
    gc.collect()
    assert not folder.exists()


def test_two_spill_folders_are_two_folders():
    assert ScratchFolder().path.name.startswith("qdqtool-")
    one, other = ScratchFolder(), ScratchFolder()
    assert one.path != other.path


@pytest.mark.parametrize("size", [0, 5, THREADED_BYTES - 1, THREADED_BYTES, 3 * THREADED_BYTES])
def test_only_large_payloads_are_made_by_other_threads(size):
    """A model has thousands of small weights, and starting threads for each takes longer than quantizing it."""
    whole = bytes(number % 251 for number in range(size))
    makers = set()

    def part(start):
        makers.add(threading.current_thread())
        return whole[start : start + 1000]

    payload = Payload.in_parts(size, lambda: (lambda start=start: part(start) for start in range(0, size, 1000)))
    assert payload.make() == whole
    assert (threading.main_thread() in makers) == (0 < size < THREADED_BYTES)
    assert len(makers) <= 1 or size >= THREADED_BYTES
