"""Parameters refuse constants that no model may have."""

import numpy as np
import pytest

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme, check_scale_values, may_be_negative

INT8 = QuantScheme(formats.get("int8"), PerAxis(0))
E4M3 = QuantScheme(formats.get("float8e4m3fn"), PerAxis(0))
ONES = np.ones(2, np.float32)


def test_schemes_name_format_and_granularity():
    assert str(QuantScheme(formats.get("int4"), Blocked(0, 32))) == "int4 blocks of 32 on axis 0"


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_scales_must_be_finite_and_positive(bad):
    with pytest.raises(ArgumentError, match=r"at index \[1\]; every scale must be finite and greater than 0"):
        QuantParams(INT8, np.float32([1, bad]))


def test_the_first_bad_scale_is_named_and_the_others_counted():
    with pytest.raises(ArgumentError, match=r"scale is 0 at index \[0, 1\] \(and 2 more\)"):
        check_scale_values(np.float32([[1, 0], [-1, np.nan]]))


def test_zero_points_have_the_scales_shape():
    with pytest.raises(ArgumentError, match=r"zero_point has shape \[\], not the shape of scale, \[2\]"):
        QuantParams(INT8, ONES, np.zeros((), np.int8))


def test_formats_without_zero_points_take_only_zero():
    QuantParams(E4M3, ONES, np.zeros(2, formats.get("float8e4m3fn").dtype))
    with pytest.raises(ArgumentError, match="zero_point must be 0 for float8e4m3fn"):
        QuantParams(E4M3, ONES, np.array([0, 1], formats.get("float8e4m3fn").dtype))


BLOCKS = Blocked(0, 32)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("int4", {}, True),
        ("int8", {}, True),
        ("uint4", {}, False),
        ("float4e2m1", {}, False),
        ("int4", {"granularity": PerAxis(0)}, False),
        ("int4", {"granularity": PerTensor()}, False),
        ("int4", {"symmetric": False}, False),
        ("int4", {"scale_scheme": E4M3}, False),
    ],
)
def test_only_block_scales_of_signed_integers_without_zero_point_may_be_negative(name, options, expected):
    scheme = QuantScheme(formats.get(name), **{"granularity": BLOCKS, **options})
    assert may_be_negative(scheme) is expected
