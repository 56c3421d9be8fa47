"""Content of range files: remarks as sentences, names once, and ranges of ends and of scales."""

import numpy as np
import pytest
from support.refusals import refused

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings._types import ConstantScales, Encodings, symmetric_range, tensor_range
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
