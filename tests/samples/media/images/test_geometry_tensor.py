"""Values of pixels and back, and the types that they take."""

import itertools

import numpy as np
import pytest
from support.pictures import picture, preprocessing

from qdqtool.errors import UsageError
from qdqtool.samples.media.images.geometry import in_type, to_pixels, to_values

COMBINATIONS = list(
    itertools.product(("0..1", "0..255", "-1..1"), ("rgb", "bgr", "grey"), ("nchw", "nhwc"), (None, 0.4))
)


@pytest.mark.parametrize(("pixel_range", "channels", "layout", "number"), COMBINATIONS)
def test_values_are_those_of_the_formula_and_pixels_come_back(pixel_range, channels, layout, number):
    pixels = picture(5, 7, channels=1 if channels == "grey" else 3)
    each = None if number is None else tuple(number + 0.1 * at for at in range(1 if channels == "grey" else 3))
    how = preprocessing((5, 7), pixel_range=pixel_range, channels=channels, layout=layout, mean=each, std=each)
    values = to_values(pixels, how)
    expected = pixels.reshape(5, 7, -1).astype(np.float64)
    expected = {"0..1": expected / 255, "0..255": expected, "-1..1": expected / 127.5 - 1}[pixel_range]
    expected = expected[..., ::-1] if channels == "bgr" else expected
    expected = expected if each is None else (expected - each) / each
    expected = np.moveaxis(expected, -1, 0) if layout == "nchw" else expected
    assert values.dtype == np.float32
    assert np.allclose(values, expected, rtol=1e-6, atol=1e-6)
    assert np.array_equal(to_pixels(values, how), pixels.reshape(5, 7, -1))


def test_integers_are_taken_where_every_value_is_one():
    whole = to_values(picture(5, 7), preprocessing((5, 7), pixel_range="0..255"))
    for dtype, values in (("uint8", whole), ("int8", whole - 128), ("int32", whole)):
        found = in_type(values, np.dtype(dtype), "x")
        assert found.dtype == dtype
        assert np.array_equal(found, values)
    for dtype, values in (("uint8", whole / 255), ("int8", whole), ("uint8", whole - 1)):
        with pytest.raises(UsageError, match=rf"input 'x' has type {dtype}, .*`?"):
            in_type(values, np.dtype(dtype), "x")


def test_float_types():
    values = np.ones((1, 1, 1), np.float32)
    assert in_type(values, np.dtype(np.float64), "x").dtype == np.float64
    assert in_type(values, np.dtype(np.float16), "x").dtype == np.float32
    with pytest.raises(UsageError, match="type bool"):
        in_type(values, np.dtype(bool), "x")
