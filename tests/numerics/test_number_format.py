"""What a number format says of itself, for the formats there are."""

import numpy as np
import pytest
from onnx import numpy_helper
from support import rational

from qdqtool.numerics import formats


@pytest.mark.parametrize("name", sorted(rational.FLOATS.keys() & set(formats.names())))
def test_the_exponent_of_the_largest_value_is_that_of_its_layout(name):
    layout = rational.FLOATS[name]
    assert formats.get(name).max_exponent == rational.exponent_of(layout.top)


@pytest.mark.parametrize(
    ("name", "exponent"),
    [("float8e4m3fn", 8), ("float8e5m2", 15), ("float4e2m1", 2), ("float6e2m3", 2), ("float6e3m2", 4), ("int8", 6)],
)
def test_max_exponent_is_emax_of_the_ocp_text(name, exponent):
    assert formats.get(name).max_exponent == exponent


@pytest.mark.parametrize("name", formats.names())
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 1001])
def test_stored_bytes_are_what_onnx_stores(name, count):
    fmt = formats.get(name)
    stored = numpy_helper.from_array(np.ones(count, fmt.dtype))
    assert fmt.stored_bytes(count) == len(stored.raw_data)


@pytest.mark.parametrize(
    ("name", "has_nan"), [("int8", False), ("float4e2m1", False), ("float8e4m3fn", True), ("float8e5m2", True)]
)
def test_a_format_has_nan_unless_overflow_can_only_saturate(name, has_nan):
    assert formats.get(name).has_nan is has_nan


def test_a_format_is_printed_as_onnx_spells_it():
    assert f"{formats.get('float8e4m3fn')}" == "float8e4m3fn"
