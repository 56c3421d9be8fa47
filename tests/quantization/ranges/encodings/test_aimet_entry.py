"""One tensor of AIMET: the range that its codes cover, its format, and what cannot be done as the file says."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refused

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings._aimet_entry import (
    ASYMMETRIC,
    IN_FLOAT,
    OTHER_BITS,
    AimetEntry,
    float_entry,
    integer_entry,
    read_bits,
    read_numbers,
    read_size,
)


def integer(bits: int, offset: float, scale: float = 0.5, **more: int) -> AimetEntry:
    return integer_entry("x", bits, np.array([scale]), np.array([offset]), **more)


@given(st.integers(2, 16), st.integers(-70_000, 70_000), st.sampled_from([0.125, 0.5, 3.0]))
def test_the_range_of_integers_is_that_of_their_codes(bits, offset, scale):
    """``real = (code + offset) * scale`` for codes from 0; of symmetric ones the lowest code has no counterpart."""
    found = integer(bits, offset, scale)
    low, high = (float(Fraction(scale) * (code + offset)) for code in (0, 2**bits - 1))
    middle = -(2 ** (bits - 1))
    if offset in (middle, middle + 1):
        assert found.is_centred
        assert found.format == f"int{bits}"
        high = (2 ** (bits - 1) - 1) * scale
        low = -high
    else:
        assert not found.is_centred
        assert found.format == f"uint{bits}"
    assert (found.range().min, found.range().max) == (low, high)


@pytest.mark.parametrize(("kind", "largest"), [("float8e4m3fn", 448.0), ("float8e5m2", 57344.0)])
def test_the_range_of_a_float_with_a_scale_is_that_of_its_codes(kind, largest):
    found = AimetEntry("x", kind, 0, np.array([0.25]), np.zeros(0))
    assert (found.range().min, found.range().max) == (-largest / 4, largest / 4)
    assert (found.format, found.is_centred, found.is_per_tensor, found.remark()) == (kind, True, True, None)
    scales = found.constant()
    assert (scales.format, scales.problem) == (kind, "")


@pytest.mark.parametrize(
    ("bits", "offset", "remark"),
    [
        (8, -128, None),
        (8, -127, None),
        (8, -126, ASYMMETRIC),
        (8, -129, ASYMMETRIC),
        (8, 0, ASYMMETRIC),
        (4, -8, OTHER_BITS),
        (4, 0, ASYMMETRIC),
        (16, -32768, OTHER_BITS),
    ],
)
def test_what_is_not_symmetric_in_8_bits_gets_a_remark(bits, offset, remark):
    assert integer(bits, offset).remark() == remark
    scales = integer(bits, offset, block_size=4, axis=1).constant()
    assert scales.problem == ("is asymmetric in the file" if remark == ASYMMETRIC else "")
    assert (scales.axis, scales.block_size, scales.values.tolist()) == (1, 4, [0.5])


def test_a_float_without_a_scale_has_neither_range_nor_scales():
    found = float_entry("x")
    assert (found.kind, found.bits, found.scales.size, found.offsets.size) == ("float", 0, 0, 0)
    assert (found.is_per_tensor, found.constant(), found.remark(), found.is_centred) == (False, None, IN_FLOAT, True)


@pytest.mark.parametrize(
    ("bits", "count", "block_size", "per_tensor"),
    [
        (8, 1, None, True),
        (16, 1, None, True),
        (17, 1, None, False),
        (32, 1, None, False),
        (8, 2, None, False),
        (8, 1, 1, False),
    ],
)
def test_a_range_is_that_of_one_scale_of_16_bits_at_most(bits, count, block_size, per_tensor):
    found = integer_entry("x", bits, np.ones(count), np.zeros(count), block_size=block_size)
    assert found.is_per_tensor is per_tensor
    assert (found.constant() is None) == (bits > 16)


def test_mixed_offsets_of_channels_are_symmetric_only_together():
    assert integer_entry("x", 8, np.ones(3), np.array([-128.0, -127, -128])).is_centred
    assert not integer_entry("x", 8, np.ones(3), np.array([-128.0, -126, -128])).is_centred


def test_each_scale_has_an_offset():
    with refused(UsageError, "tensor 'x' has 3 scales and 2 offsets"):
        integer_entry("x", 8, np.ones(3), np.zeros(2))


@pytest.mark.parametrize("bits", [2, 8, 32])
def test_bits_are_2_to_32(bits):
    assert read_bits("x", bits) == bits


@pytest.mark.parametrize("bits", [1, 33, 0, -8, 8.0, "8", True, None, "b" * 30])
def test_other_bits_are_refused(bits):
    with refused(UsageError, f"tensor 'x' has bitwidth {str(bits)[:20]}; 2 to 32 is legal"):
        read_bits("x", bits)


@pytest.mark.parametrize(("value", "key"), [(0, "offset"), ([-1, 2.5], "offset"), ([[1e-30]], "scale"), (3, "y_scale")])
def test_numbers_are_read_as_they_are_nested(value, key):
    assert read_numbers("x", value, key).tolist() == value


@pytest.mark.parametrize(
    ("value", "key", "what"),
    [
        ("1" * 90, "offset", "numbers"),
        (None, "scale", "numbers"),
        ([1, float("nan")], "offset", "finite, a scale above 0"),
        ([1, float("inf")], "offset", "finite, a scale above 0"),
        ([1.0, 0.0], "y_scale", "finite, a scale above 0"),
        ([2.0, -1.0] * 20, "scale", "finite, a scale above 0"),
    ],
)
def test_other_numbers_are_refused(value, key, what):
    with refused(UsageError, f"tensor 'x' has the {key} {str(value)[:80]}; it must be {what}"):
        read_numbers("x", value, key)


def test_a_size_may_be_absent():
    assert (read_size("x", None, "axis", 1), read_size("x", 1, "axis", 1), read_size("x", 5, "axis", 1)) == (None, 1, 5)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1" * 30])
def test_other_sizes_are_refused(value):
    with pytest.raises(UsageError) as caught:
        read_size("x", value, "block_size", 1)
    text = str(value)[:20]
    assert caught.value.message == f"tensor 'x' has the block_size {text}; it must be a whole number from 1"
