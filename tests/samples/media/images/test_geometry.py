"""Sizes against OpenCV's results and sizes computed by hand; values of pixels and back, and the types they take."""

import itertools

import numpy as np
import pytest
from PIL import Image
from support.paths import ROOT
from support.pictures import picture, preprocessing

from qdqtool.errors import UsageError
from qdqtool.samples.media.images.geometry import fit, in_type, opencv_bilinear, to_pixels, to_values

OPENCV = np.load(ROOT / "tests" / "golden" / "opencv_resize.npz")
CASES = sorted(name.removesuffix("_given") for name in OPENCV.files if name.endswith("_given"))
GROWS = ("4_rgb", "4_grey")


@pytest.mark.parametrize("case", [case for case in CASES if case not in GROWS])
def test_what_shrinks_is_what_opencv_gives_to_the_bit(case: str):
    given, expected = OPENCV[f"{case}_given"], OPENCV[f"{case}_expected"]
    assert np.array_equal(opencv_bilinear(given, *expected.shape[:2]), expected)


@pytest.mark.parametrize("case", GROWS)
def test_what_grows_differs_from_opencv_by_one_step_at_most(case: str):
    given, expected = OPENCV[f"{case}_given"], OPENCV[f"{case}_expected"]
    difference = np.abs(opencv_bilinear(given, *expected.shape[:2]).astype(int) - expected)
    assert difference.max() <= 1
    assert np.mean(difference > 0) < 0.05


@pytest.mark.parametrize(
    ("shape", "resized", "box"),
    [
        # torchvision: Resize(256) gives (256, int(256 * 500 / 375)), CenterCrop(224) cuts at round(difference / 2).
        ((375, 500), (341, 256), (58, 16, 282, 240)),
        ((500, 333), (256, 384), (16, 80, 240, 304)),
        ((64, 64), (256, 256), (16, 16, 240, 240)),
        ((300, 301), (256, 256), (16, 16, 240, 240)),
    ],
)
def test_crop_has_the_sizes_of_torchvision(shape: tuple[int, int], resized: tuple[int, int], box: tuple[int, ...]):
    image = Image.fromarray(picture(*shape))
    found = fit(image, preprocessing((224, 224), resize="crop", crop_ratio=0.875), "file")
    expected = image.resize(resized, Image.Resampling.BILINEAR).crop(box)
    assert np.array_equal(np.asarray(found), np.asarray(expected))


def test_crop_covers_an_input_that_is_not_square():
    image = Image.fromarray(picture(100, 100))
    found = fit(image, preprocessing((20, 40), resize="crop", crop_ratio=1.0), "file")
    expected = image.resize((40, 40), Image.Resampling.BILINEAR).crop((0, 10, 40, 30))
    assert np.array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize(
    ("shape", "inner", "corner"),
    [
        ((50, 100), (32, 64), (16, 0)),
        ((100, 50), (64, 32), (0, 16)),
        # ultralytics: 33 rows for 64 leave 31, of which round(15.5 - 0.1) = 15 are above.
        ((33, 64), (33, 64), (15, 0)),
        ((640, 1), (64, 1), (0, 31)),
    ],
)
def test_letterbox_fits_the_image_in_the_middle(
    shape: tuple[int, int], inner: tuple[int, int], corner: tuple[int, int]
):
    pixels = picture(*shape)
    style = preprocessing((64, 64), resize="letterbox", interpolation="opencv-bilinear", pad_color=(114, 1, 2))
    found = np.asarray(fit(Image.fromarray(pixels), style, "file"))
    expected = np.empty((64, 64, 3), np.uint8)
    expected[:] = (114, 1, 2)
    (top, left), (height, width) = corner, inner
    expected[top : top + height, left : left + width] = opencv_bilinear(pixels, height, width)
    assert np.array_equal(found, expected)


def test_letterbox_of_a_grey_image_is_filled_with_the_luma_of_the_color():
    style = preprocessing((8, 8), resize="letterbox", pad_color=(255, 0, 0), channels="grey")
    found = np.asarray(fit(Image.fromarray(picture(4, 8, channels=1)), style, "file"))
    assert set(found[0]) == {76}  # 0.299 * 255


def test_none_takes_only_images_of_the_size():
    image = Image.fromarray(picture(8, 9))
    assert fit(image, preprocessing((8, 9), resize="none"), "a.png") is image
    with pytest.raises(UsageError, match=r"a\.png is 8x9 \(height x width\); the input takes 9x8"):
        fit(image, preprocessing((9, 8), resize="none"), "a.png")


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
