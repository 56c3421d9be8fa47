"""Content of range files: remarks as sentences, names once, and ranges of ends and of scales."""

import json

import numpy as np
import pytest
from support.refusals import refused

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings import _types
from qdqtool.quantization.ranges.encodings._types import (
    MAX_ODD_BYTES,
    MAX_PEEK,
    MAX_RANK,
    ConstantScales,
    Encodings,
    as_array,
    as_number,
    decode_object,
    peek_values,
    symmetric_range,
    tensor_range,
    top_level_keys,
)
from qdqtool.quantization.ranges.types import TensorRange


def test_every_tensor_is_named_once_in_order():
    scales = ConstantScales("int8", np.ones(1))
    found = Encodings({"b": tensor_range("b", 0, 1)}, {"a": scales, "b": scales}, {"c": "float", "a": "int8"})
    assert found.names == ("b", "a", "c")


def test_remarks_are_sentences_with_a_count_and_an_example():
    remarks = {"a": "stays float", "b": "has 4 bits", "c": "stays float", "d": "has 4 bits"}
    found = Encodings({}, remarks=remarks)
    assert list(found.remarks_of(["x", "c", "a", "b"])) == [
        "2 activations stays float, such as 'c'",
        "1 activation has 4 bits, such as 'b'",
    ]
    assert list(found.remarks_of(["x"])) == []


@pytest.mark.parametrize(("low", "high", "amax"), [(-2, 1, 2), (1, 1, 1), (0, 3, 3), (-5, -4, 5), (0, 0, 0)])
def test_a_range_has_the_larger_magnitude_of_its_ends(low, high, amax):
    assert tensor_range("x", low, high) == TensorRange(low, high, amax, 1)


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (1.0, 0.5, "1 to 0.5"),
        (float("-inf"), 0, "-inf to 0"),
        (0, float("inf"), "0 to inf"),
        (0, float("nan"), "0 to nan"),
    ],
)
def test_ends_are_finite_and_in_order(low, high, ends):
    with refused(UsageError, f"tensor 'x' has the range {ends}; both ends must be finite and in order"):
        tensor_range("x", low, high)


@pytest.mark.parametrize("scale", [0.0, 0.5, 3.0])
def test_a_scale_covers_127_steps_to_both_sides(scale):
    assert symmetric_range("x", scale) == TensorRange(-127 * scale, 127 * scale, 127 * scale, 1)


@pytest.mark.parametrize(("scale", "text"), [(-1.0, "-1"), (float("nan"), "nan"), (float("inf"), "inf")])
def test_a_scale_is_finite_and_not_negative(scale, text):
    with refused(UsageError, f"tensor 'x' has the scale {text}; a scale must be finite and not negative"):
        symmetric_range("x", scale)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"a": 1, "b": [2]}', {"a": 1, "b": [2]}),
        (b'  \n{"a": {}}', {"a": {}}),
        (b'{"a": Infinity, "b": 2}', {"a": float("inf"), "b": 2}),
        (b"[1]", {}),
        (b'"{"', {}),
        (b"{", {}),
        (b'{"a": NaN,}', {}),
        (b'{"a": ' + b"[" * 100_000, {}),
        (b"", {}),
    ],
)
def test_a_peek_shows_keys_and_values_of_an_object(data, found):
    assert top_level_keys(data) == set(found)
    assert peek_values(data) == list(found.values())


def test_the_brace_must_be_among_the_first_bytes():
    assert (MAX_PEEK, MAX_ODD_BYTES, MAX_RANK) == (65_536, 16_777_216, 8)
    assert top_level_keys(b" " * 65_535 + b'{"a": 1}') == {"a"}
    assert top_level_keys(b" " * 65_536 + b'{"a": 1}') == set()


@pytest.mark.parametrize(("spare", "keys"), [(0, {"a"}), (1, {"a"}), (-1, set())])
def test_only_small_files_with_nan_are_read(spare, keys, monkeypatch):
    data = b'{"a": NaN}'
    monkeypatch.setattr(_types, "MAX_ODD_BYTES", len(data) + spare)
    assert top_level_keys(data) == keys


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0.0),
        (-7, -7.0),
        (2.5, 2.5),
        (True, None),
        (False, None),
        ("1", None),
        (None, None),
        ([1], None),
        (10**400, float("inf")),
        (10**300, 1e300),
    ],
)
def test_numbers_are_ints_and_floats(value, number):
    assert as_number(value) == number
    assert not isinstance(as_number(value), bool | int)


@pytest.mark.parametrize("value", [1, 2.5, [1, 2], [[1.5], [2]], [[[0]]]])
def test_arrays_are_nested_numbers(value):
    found = as_array(value)
    assert found.dtype == np.float64
    assert found.tolist() == value


@pytest.mark.parametrize("value", [None, "1", True, [True, False], [], [[]], [[1], [1, 2]], ["1"], {"a": 1}, 10**400])
def test_anything_else_is_no_array(value):
    assert as_array(value) is None


def test_an_array_has_at_most_eight_dimensions():
    eight = json.loads("[" * 8 + "1" + "]" * 8)
    found = as_array(eight)
    assert found.shape == (1,) * 8
    assert as_array([eight]) is None


def test_an_object_is_decoded():
    assert decode_object(b'{"a": {"b": 1}, "c": {"b": 2}}') == {"a": {"b": 1}, "c": {"b": 2}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("[1]", "is not valid JSON: it is no object"),
        ('{"a": {"bb": 1, "c": 2, "bb": 1}}', "has the name 'bb' twice in one object"),
        ('{"x": 0, "x": 0, "y": 0, "y": 0}', "has the name 'x' twice in one object"),
        (f'{{"{"a" * 99}": 0, "{"a" * 99}": 0}}', f"has the name '{'a' * 80}' twice in one object"),
        ('{"a": -Infinity}', "holds -Infinity, which is not a JSON number"),
        ('{"a": ' + "[" * 100_000, "is not valid JSON: it is nested too deeply"),
        ("{", "is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
)
def test_any_other_json_is_refused(data, message):
    with refused(UsageError, message):
        decode_object(data.encode())
