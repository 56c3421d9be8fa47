"""TensorRT's calibration cache, line by line."""

import numpy as np
import pytest
from support.refusals import refused

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings.tensorrt_cache import FORMAT
from qdqtool.quantization.ranges.types import TensorRange

HEAD = "TRT-8601-EntropyCalibration2\n"


def magnitude(amax: float) -> TensorRange:
    return TensorRange(-amax, amax, amax, 1)


def test_blank_lines_and_line_ends_of_windows_are_skipped():
    text = f"{HEAD}x: 3f800000\r\n\n  \n\r\na: b: 40000000\n"
    assert FORMAT.read(text.encode()).ranges == {"x": magnitude(127.0), "a: b": magnitude(254.0)}
    assert FORMAT.read(HEAD.encode()).ranges == {}


@pytest.mark.parametrize(
    ("lines", "number", "text"),
    [
        ("x 3f800000", 2, "x 3f800000"),
        (": 3f800000", 2, ": 3f800000"),
        ("x:3f800000", 2, "x:3f800000"),
        ("x: 3f8000", 2, "x: 3f8000"),
        ("x: 3f80000000", 2, "x: 3f80000000"),
        ("x: 3f80000g", 2, "x: 3f80000g"),
        ("x: 3f 80 00", 2, "x: 3f 80 00"),
        ("x: 3f800000\n\ny\r", 4, "y"),
        ("y" * 99, 2, "y" * 80),
    ],
)
def test_any_other_line_is_named_by_its_number(lines, number, text):
    with refused(UsageError, f"line {number} is not 'name: ' and eight hexadecimal digits: {text!r}"):
        FORMAT.read(f"{HEAD}{lines}".encode())


def test_a_tensor_stands_there_once():
    with refused(UsageError, "names tensor 'x' twice"):
        FORMAT.read(f"{HEAD}x: 3f800000\ny: 3f800000\nx: 40000000\n".encode())


def test_what_is_written_is_the_larger_end_over_127():
    found = {"x": TensorRange(-1.0, 254.0, 254.0, 1), "a: b": TensorRange(0.0, 0.0, 0.0, 1)}
    assert FORMAT.write(found) == b"TRT-100300-EntropyCalibration2\nx: 40000000\na: b: 00000000\n"


@pytest.mark.parametrize("name", ["a\nb", "a\rb"])
def test_a_name_with_a_line_break_is_refused(name):
    with refused(
        UsageError, f"tensor {name!r} has a line break in its name, which a TensorRT calibration cache cannot hold"
    ):
        FORMAT.write({name: magnitude(1.0)})


def test_a_scale_beyond_float32_is_refused():
    largest = 127 * float(np.finfo(np.float32).max)
    assert FORMAT.write({"x": magnitude(largest)}).endswith(b"x: 7f7fffff\n")
    with refused(UsageError, "tensor 'x' reaches 8.64317e+40: float32 cannot hold its scale"):
        FORMAT.write({"x": magnitude(2 * largest)})


def test_a_cache_is_known_by_its_beginning():
    assert FORMAT.recognizes(HEAD.encode())
    assert not FORMAT.recognizes(b"\n" + HEAD.encode())
    assert (FORMAT.title, FORMAT.can_write, FORMAT.keeps_ends) == ("TensorRT calibration cache", True, False)
