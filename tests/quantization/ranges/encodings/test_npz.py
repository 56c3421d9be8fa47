"""NumPy archives of ranges: sizes and types of arrays, and equal bytes."""

import io
import zipfile

import numpy as np
import pytest
from support.refusals import refused

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings.npz import FORMAT
from qdqtool.quantization.ranges.types import TensorRange


def archive(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def stored(array: np.ndarray, size: int = 0) -> bytes:
    """An archive of one array ``x``, whose entry has so many bytes at least."""
    buffer, entry = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array(entry, array, allow_pickle=True)
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("x.npy", entry.getvalue().ljust(size, b"\0"))
    return buffer.getvalue()


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.uint8(3), np.float16(3), [3], [[3.0]]])
def test_one_number_is_a_magnitude(value):
    assert FORMAT.read(archive(x=value)).ranges == {"x": TensorRange(-3.0, 3.0, 3.0, 1)}


@pytest.mark.parametrize("value", [[-1, 2], [[-1.0], [2.0]], np.int8([-1, 2]), np.float64([-1, 2])])
def test_two_numbers_are_the_ends(value):
    found = {"x": TensorRange(-1.0, 2.0, 2.0, 1), "y": TensorRange(0.0, 0.0, 0.0, 1)}
    assert FORMAT.read(archive(x=value, y=0)).ranges == found


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ([1, 2, 3], "3 elements of int64"),
        (np.zeros(0), "0 elements of float64"),
        (True, "1 elements of bool"),
        (np.complex64(1), "1 elements of complex64"),
        ("x", "1 elements of <U1"),
    ],
)
def test_other_arrays_are_refused(value, what):
    with refused(UsageError, f"array 'x' has {what}; it must be one or two numbers"):
        FORMAT.read(archive(x=value))


def test_an_entry_has_4096_bytes_at_most():
    assert FORMAT.read(stored(np.float64([-1, 2]), 4096)).ranges == {"x": TensorRange(-1.0, 2.0, 2.0, 1)}
    with refused(UsageError, "array 'x' is larger than one or two numbers"):
        FORMAT.read(stored(np.float64([-1, 2]), 4097))


def test_pickles_are_not_read():
    with pytest.raises(UsageError, match="array 'x' cannot be read: Object arrays cannot be loaded"):
        FORMAT.read(stored(np.array(1.0, object)))


def test_what_is_written_has_the_earliest_date_and_float64():
    written = FORMAT.write({"a/b": TensorRange(-1.0, 2.0, 2.0, 9), "c": TensorRange(0.0, 1.0, 1.0, 9)})
    with zipfile.ZipFile(io.BytesIO(written)) as file:
        assert [(each.filename, each.date_time) for each in file.infolist()] == [
            ("a/b.npy", (1980, 1, 1, 0, 0, 0)),
            ("c.npy", (1980, 1, 1, 0, 0, 0)),
        ]
    with np.load(io.BytesIO(written), allow_pickle=False) as file:
        assert file["a/b"].dtype == np.float64
        assert file["a/b"].tolist() == [-1.0, 2.0]


def test_an_archive_is_known_by_its_beginning():
    assert FORMAT.recognizes(archive(x=1))
    assert not FORMAT.recognizes(b"x" + archive(x=1))
    assert not FORMAT.recognizes(b"PK\x05\x06" + bytes(18))
    assert (FORMAT.title, FORMAT.can_write, FORMAT.keeps_ends) == ("npz of ranges", True, True)
