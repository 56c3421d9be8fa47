"""ONNX Runtime's tables: what counts as one, every way of writing a number, and the bounds of what is written."""

import json

import numpy as np
import pytest
from support.refusals import refused

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings.ort_json import FORMAT
from qdqtool.quantization.ranges.types import TensorRange

ENTRY = {"lowest": -1, "highest": 2}


@pytest.mark.parametrize(
    ("document", "is_table"),
    [
        ({"CLS": "TensorsData", "data": {}}, True),
        ({"CLS": "TensorsData"}, False),
        ({"data": {}}, False),
        ({}, False),
        ({"x": ENTRY}, True),
        ({"x": {"CLS": "TensorData"}}, True),
        ({"x": {"CLS": "Other"}}, False),
        ({"x": {"lowest": 1}}, False),
        ({"x": {"highest": 1}}, False),
        ({"x": [0, 1.5], "y": ENTRY}, True),
        ({"x": [0, 1.5], "y": 3}, False),
        ({"x": [0]}, False),
        ({"x": [0, 1, 2]}, False),
        ({"x": ["0", 1]}, False),
        ({"x": "ab"}, False),
    ],
)
def test_a_table_is_known_by_all_its_entries(document, is_table):
    assert FORMAT.recognizes(json.dumps(document).encode()) is is_table


@pytest.mark.parametrize(
    "end",
    [
        2,
        2.0,
        [2],
        [[2.0]],
        {"CLS": "numpy.array", "data": 2.0},
        {"CLS": "numpy.array", "data": [[2]], "dtype": "float32"},
    ],
)
def test_every_way_of_writing_a_number_is_read(end):
    for table in ({"x": {"lowest": -1, "highest": end}}, {"CLS": "TensorsData", "data": {"x": [-1, end]}}):
        assert FORMAT.read(json.dumps(table).encode()).ranges == {"x": TensorRange(-1.0, 2.0, 2.0, 1)}


@pytest.mark.parametrize("end", ["2" * 99, None, [1, 2], [], True, {"CLS": "other", "data": 2.0}, {"data": 2.0}])
def test_what_is_no_number_is_quoted(end):
    with refused(UsageError, f"tensor 'x': {str(end)[:80]} is no number", hint="only per-tensor ranges are read"):
        FORMAT.read(json.dumps({"x": {"lowest": -1, "highest": end}}).encode())


@pytest.mark.parametrize("entry", [[1], [1, 2, 3], 3, "ab", None])
def test_an_entry_has_two_ends(entry):
    with refused(UsageError, "tensor 'x' has no lowest and highest value"):
        FORMAT.read(json.dumps({"CLS": "TensorsData", "data": {"x": entry}}).encode())


def test_what_is_written_has_the_keys_of_onnxruntime():
    written = FORMAT.write({"x": TensorRange(-1 / 3, 0.1, 1 / 3, 1)})
    assert written.endswith(b"}\n")
    document = json.loads(written)
    arrays = {key: document["data"]["x"].pop(key) for key in ("lowest", "highest")}
    assert document == {
        "CLS": "TensorsData",
        "data": {"x": {"CLS": "TensorData"}},
        "calibration_method": {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"},
        "smooth_quant": False,
    }
    assert arrays == {
        key: {"data": [float(np.float32(end))], "dtype": "float32", "CLS": "numpy.array"}
        for key, end in (("lowest", -1 / 3), ("highest", 0.1))
    }


def test_the_largest_float32_can_be_written_and_nothing_larger():
    largest = float(np.finfo(np.float32).max)
    found = TensorRange(-largest, 1.0, largest, 1)
    assert FORMAT.read(FORMAT.write({"x": found})).ranges == {"x": found}
    with refused(UsageError, "tensor 'x' reaches 3.40282e+38, which float32 cannot hold"):
        FORMAT.write({"x": TensorRange(0.0, 2.0**128, 2.0**128, 1)})


def test_what_users_call_it():
    assert (FORMAT.title, FORMAT.can_write, FORMAT.keeps_ends) == ("ONNX Runtime calibration table", True, True)
