"""Array files read one run at a time, against NumPy's own reader and slices."""

import io
import itertools
import math
import re
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdqtool.errors import UsageError
from qdqtool.samples import columns
from qdqtool.samples.columns import RowReader, as_one_run, common_count, make_samples, read_column, read_rows
from qdqtool.samples.readers import npz
from qdqtool.samples.signature import InputSpec

F32 = np.dtype(np.float32)


def stored(array, version=None):
    """A stream with the bytes of an array file, at its beginning, and their number."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    size = stream.tell()
    stream.seek(0)
    return stream, size


def column_of(array, declared, name="x"):
    return read_column(*stored(array), InputSpec(name, array.dtype, declared), "d.npy")


def runs(array, declared):
    column = column_of(array, declared)
    return column, list(itertools.islice(read_rows(stored(array)[0], column), column.samples))


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.integers(1, 9),
    st.integers(1, 5),
    st.sampled_from("CF"),
    st.sampled_from(["f4", "f2", "i8", "b1"]),
)
def test_a_fixed_batch_takes_its_rows_in_order_and_repeats_the_last_one_to_fill_up(inner, rows, batch, order, dtype):
    shape = (rows, *inner)
    array = np.asarray(np.arange(math.prod(shape)).reshape(shape), dtype, order=order)
    column, found = runs(array, (batch, *inner))
    padded = array[[min(row, rows - 1) for row in range(len(found) * batch)]]
    assert len(found) == column.samples == math.ceil(rows / batch)
    assert column.filler == len(padded) - rows
    np.testing.assert_array_equal(np.concatenate(found), padded)
    assert {part.dtype for part in found} == {array.dtype}


@pytest.mark.parametrize("declared", [("batch", 3), (None, 3), None])
def test_an_open_batch_takes_one_row_at_a_time(declared):
    array = np.arange(12, dtype=F32).reshape(4, 3)
    _, found = runs(array, declared)
    np.testing.assert_array_equal(found, array[:, None])


@given(st.integers(1, 5), st.sampled_from("CF"))
def test_one_axis_more_means_that_a_row_is_a_whole_input(rows, order):
    array = np.asarray(np.arange(rows * 6).reshape(rows, 2, 3), F32, order=order)
    _, found = runs(array, (2, 3))
    np.testing.assert_array_equal(found, array)


def test_a_scalar_is_the_same_in_every_run_and_serves_any_number():
    column = column_of(np.float32(7).reshape(()), ())
    assert (column.samples, column.filler) == (None, 0)
    rows = read_rows(stored(np.float32(7).reshape(()))[0], column)
    assert [float(next(rows)) for _ in range(3)] == [7, 7, 7]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_file_format_is_read(version):
    array = np.arange(6, dtype=F32).reshape(2, 3)
    column = read_column(*stored(array, version), InputSpec("x", F32, ("n", 3)), "d.npy")
    assert (column.shape, column.dtype) == ((2, 3), F32)
    np.testing.assert_array_equal(np.concatenate(list(read_rows(stored(array, version)[0], column))), array)


@pytest.mark.parametrize("shape", [(2,), (3, 4), (1, 1, 2, 3, 4)])
def test_a_rank_that_is_neither_the_models_nor_one_more_is_refused(shape):
    message = f"d.npy has shape {list(shape)}; the model takes x: float32 [2, 3, 4], with samples along the first axis"
    with pytest.raises(UsageError, match=re.escape(message)):
        column_of(np.zeros(shape, F32), (2, 3, 4))


def test_a_file_that_is_cut_off_is_damaged():
    stream, size = stored(np.zeros((2, 3), F32))
    with pytest.raises(UsageError, match=r"d\.npy is damaged: 23 bytes of data for float32 \[2, 3\]"):
        read_column(stream, size - 1, InputSpec("x", F32, None), "d.npy")
    with pytest.raises(UsageError, match=r"d\.npy is damaged: "):
        read_column(io.BytesIO(b"no array"), 8, InputSpec("x", F32, None), "d.npy")


@pytest.mark.parametrize("take", [1, 3, 7])
@pytest.mark.parametrize(("block", "chunk"), [(1, 1), (100, 100), (100, 1 << 20), (1 << 20, 1 << 20)])
def test_rows_in_fortran_order_are_read_in_blocks(tmp_path: Path, monkeypatch, block: int, chunk: int, take: int):
    monkeypatch.setattr(columns, "_BLOCK", block)
    monkeypatch.setattr(columns, "_CHUNK", chunk)
    array = np.arange(14 * 3 * 5, dtype=np.int16).reshape(14, 3, 5)
    np.savez_compressed(tmp_path / "d.npz", x=np.asfortranarray(array))
    with zipfile.ZipFile(tmp_path / "d.npz") as archive, archive.open("x.npy") as stream:
        size = archive.getinfo("x.npy").file_size
        column = read_column(stream, size, InputSpec("x", np.dtype(np.int16), ("N", 3, 5)), "it")
        reader = RowReader(stream, column)
        for first in range(0, 14 - take + 1, take):
            assert np.array_equal(reader.take(take), array[first : first + take])


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_first_samples_of_a_large_archive_need_little_memory(tmp_path: Path, monkeypatch, order: str):
    monkeypatch.setattr(columns, "_BLOCK", 1 << 20)
    monkeypatch.setattr(columns, "_CHUNK", 1 << 20)
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((1 << 18, 64), np.float32, order=order))
    samples = npz.read(tmp_path / "d.npz", [InputSpec("x", np.dtype(np.float32), ("N", 64))])
    tracemalloc.start()
    try:
        assert len([*itertools.islice(samples, 4)]) == 4
        assert tracemalloc.get_traced_memory()[1] < 1 << 23  # of 64 MiB
    finally:
        tracemalloc.stop()


def test_an_archive_that_holds_less_than_it_declares_is_damaged(tmp_path: Path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": True, "shape": (4, 2)})
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(16))
    raw = (tmp_path / "d.npz").read_bytes()
    short, declared = (struct.pack("<I", len(header.getvalue()) + held) for held in (16, 32))
    (tmp_path / "d.npz").write_bytes(raw.replace(short + short, short + declared))
    samples = npz.read(tmp_path / "d.npz", [InputSpec("x", np.dtype(np.float32), ("N", 2))])
    with pytest.raises(UsageError, match=r"is not a readable \.npz file"):
        next(iter(samples))


def test_columns_serve_as_many_runs_as_each_other():
    three, batches = column_of(np.zeros((3, 1), F32), ("n", 1)), column_of(np.zeros((9, 1), F32), (3, 1))
    scalar = column_of(np.zeros((), F32), ())
    assert common_count([three, batches, scalar], Path("d.npz")) == 3
    assert common_count([scalar], Path("d.npz")) == 1
    with pytest.raises(UsageError, match=r"d\.npz has a different number of samples for each input: x 3, y 2"):
        common_count([three, column_of(np.zeros((2, 1), F32), ("n", 1), "y")], Path("d.npz"))


@pytest.mark.parametrize(
    ("shapes", "declared", "fits"),
    [
        (((5, 3), (2, 9)), (("nodes", 3), (2, "edges")), True),
        (((5, 3), (5, 9)), (("n", 3), ("n", "edges")), True),
        (((5, 3), (4, 9)), (("n", 3), ("n", "edges")), False),  # one name, two extents
        (((4, 3), (5, 9)), (("n", 3), ("n", "edges")), False),
        (((5, 3), (2, 9)), (("nodes", 4), (2, "edges")), False),
        (((5, 3), (2, 9)), ((None, 3), (2, "edges")), False),  # an unnamed first axis is a batch
        (((5, 3), (2, 9)), (("nodes", None), (2, None)), True),
        (((5, 3), (2, 9)), (("nodes", 3), None), False),
        (((1, 5, 3), (2, 9)), (("nodes", 3), (2, "edges")), False),
    ],
)
def test_arrays_are_the_inputs_of_one_run_where_they_fit_as_such(shapes, declared, fits):
    columns = [column_of(np.zeros(shape, F32), None) for shape in shapes]
    specs = [InputSpec("x", F32, shape) for shape in declared]
    found = as_one_run(columns, specs)
    assert (found is not None) is fits
    if found is not None:
        assert common_count(found, Path()) == 1


def test_an_array_without_rows_is_whole_in_one_run():
    array = np.zeros((0, 2, 3), F32)
    column = column_of(array, (0, 2, 3))
    assert (column.samples, [part.shape for part in runs(array, (0, 2, 3))[1]]) == (0, [])
    (whole,) = as_one_run([column], [InputSpec("x", F32, ("past", 2, 3))])
    assert (whole.samples, whole.filler) == (1, 0)
    (part,) = itertools.islice(read_rows(stored(array)[0], whole), 2)
    assert part.shape == (0, 2, 3)


def test_only_the_last_sample_has_padding():
    column = column_of(np.zeros((5, 2), F32), (3, 2))
    rows = {column.name: itertools.repeat(np.zeros((3, 2), F32))}
    whole, last = make_samples(rows, [column], 2)
    assert (whole.batch, whole.filler) == (1, 0)
    assert (last.batch, last.filler) == (3, 1)
