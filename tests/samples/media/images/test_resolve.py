"""What the input of a model says about images, what nobody may guess, and presets against their libraries' formulas."""

import numpy as np
import pytest
from PIL import Image
from support.paths import ROOT
from support.pictures import image_spec, picture, save_picture

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media.images.resolve import PRESETS, image_input, resolve, with_preset
from qdqtool.samples.media_options import ImageOptions
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.signature import InputSpec

UNIT = ImageOptions(preset="unit")


def resolved(options, *shape):
    return resolve(options, image_input(image_spec(*shape), "d"), "d")


@pytest.mark.parametrize(
    ("shape", "layout", "size", "channels"),
    [
        ((1, 3, 24, 32), "nchw", (24, 32), "rgb"),
        (("batch", 24, 32, 3), "nhwc", (24, 32), "rgb"),
        ((1, 1, 8, 9), "nchw", (8, 9), "grey"),
        ((3, 24, 32), "nchw", (24, 32), "rgb"),
        ((24, 32, 1), "nhwc", (24, 32), "grey"),
    ],
)
def test_layout_size_and_grey_are_read_from_the_input(shape, layout, size, channels):
    found = resolved(UNIT, *shape)
    assert (found.layout, found.size, found.channels) == (layout, size, channels)


@pytest.mark.parametrize(("first", "batch"), [(4, 4), ("batch", 1), (None, 1), (1, 1)])
def test_a_fixed_batch_is_kept(first, batch):
    assert image_input(image_spec(first, 3, 8, 8), "d").batch == batch
    assert image_input(image_spec(3, 8, 8), "d").batch is None


def test_without_a_preset_everything_that_a_model_cannot_tell_is_asked_for():
    with pytest.raises(UsageError, match="not given: --image-resize, --image-channels, --image-range") as caught:
        resolved(ImageOptions(), 1, 3, 8, 8)
    assert "`--image-preset imagenet`" in caught.value.hint
    with pytest.raises(UsageError, match="not given: --image-range"):
        resolved(ImageOptions(resize="stretch", channels="bgr"), 1, 3, 8, 8)
    with pytest.raises(UsageError, match="not given: --image-resize, --image-range"):
        resolved(ImageOptions(), 1, 1, 8, 8)


def test_explicit_values_do_without_a_preset():
    found = resolved(ImageOptions(resize="stretch", channels="bgr", pixel_range="0..255", mean=(4,)), 1, 3, 8, 8)
    assert (found.mean, found.std, found.interpolation) == ((4, 4, 4), None, "bilinear")
    assert (found.crop_ratio, found.pad_color) == (None, None)


@pytest.mark.parametrize(
    ("shape", "says"), [((1, 3, 8, 3), "two axes could hold channels"), ((1, "c", 8, 8), "no dimension")]
)
def test_an_ambiguous_layout_is_asked_for(shape, says):
    with pytest.raises(UsageError, match=says) as caught:
        resolved(UNIT, *shape)
    assert "`--image-layout nchw`" in caught.value.hint
    assert resolved(ImageOptions(preset="unit", layout="nchw"), *shape).size == shape[2:]


def test_an_open_size_is_asked_for_and_a_known_one_is_not_changed():
    with pytest.raises(UsageError, match="the size of the images is not known") as caught:
        resolved(UNIT, 1, 3, "height", "width")
    assert "`--image-size 320x320`" in caught.value.hint
    assert resolved(ImageOptions(preset="unit", size=(5, 7)), 1, 3, "height", 7).size == (5, 7)
    with pytest.raises(UsageError, match="--image-size 5x7 contradicts the model"):
        resolved(ImageOptions(preset="unit", size=(5, 7)), 1, 3, "height", 8)


def test_three_means_do_not_fit_one_channel():
    with pytest.raises(UsageError, match="preset 'imagenet' has 3 numbers as mean, and the input has 1 channel"):
        resolved(ImageOptions(preset="imagenet"), 1, 1, 8, 8)
    found = resolved(ImageOptions(preset="imagenet", mean=(0.5,), std=(0.25,)), 1, 1, 8, 8)
    assert (found.mean, found.std) == ((0.5,), (0.25,))


@pytest.mark.parametrize(("channels", "count"), [("rgb", 1), ("grey", 3)])
def test_channels_that_the_input_does_not_have_are_refused(channels, count):
    with pytest.raises(UsageError, match=f"have channels {channels}, .* with {count} of them"):
        resolved(ImageOptions(preset="unit", channels=channels), 1, count, 8, 8)


def test_a_layout_that_makes_another_dimension_the_channels_is_no_crash():
    options = ImageOptions(resize="stretch", pixel_range="0..1", layout="nhwc")
    with pytest.raises(UsageError, match=r"the order of the channels is not given, .* with 8 of them"):
        resolved(options, 1, 1, 8, 8)


def test_images_fill_one_input_with_the_shape_of_an_image():
    with pytest.raises(UsageError, match="the model has 2: x, mask"):
        image_input((*image_spec(1, 3, 8, 8), InputSpec("mask", image_spec(1)[0].dtype, (1,))), "d")
    for shape in ((1, 64), (1, 3, 4, 8, 8)):
        with pytest.raises(UsageError, match="has 3 dimensions, or 4"):
            image_input(image_spec(*shape), "d")


# --- presets ---
# Every preset against the formula of the library that it is named after, in float32 and to the bit. The formulas are
# written down here once more, from the sources of torchvision, CLIP, ultralytics, OpenCV and Keras. The size is that of
# the input, or computed by hand, so that resizing is one call of Pillow, or a result of OpenCV's own.

F = np.float32
OPENCV = np.load(ROOT / "tests" / "golden" / "opencv_resize.npz")


def preprocessed(tmp_path, pixels, preset, *shape):
    save_picture(tmp_path / "d" / "a.png", pixels)
    options = ReadOptions(images=ImageOptions(preset=preset))
    (sample,) = load_feeds(tmp_path / "d", image_spec(*shape), options=options)
    return sample["x"]


def torch_normalize(pixels, mean, std):
    """ToTensor, which divides by 255 in float32, then Normalize: sub_(mean).div_(std)."""
    planes = np.moveaxis(pixels, -1, 0).astype(F) / F(255)
    return (planes - np.array(mean, F)[:, None, None]) / np.array(std, F)[:, None, None]


def test_imagenet(tmp_path):
    pixels = picture(375, 500)
    cut = np.asarray(Image.fromarray(pixels).resize((341, 256), Image.Resampling.BILINEAR))[16:240, 58:282]
    expected = torch_normalize(cut, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    assert np.array_equal(preprocessed(tmp_path, pixels, "imagenet", 1, 3, 224, 224), expected[None])


def test_clip(tmp_path):
    pixels = picture(300, 450)
    cut = np.asarray(Image.fromarray(pixels).resize((336, 224), Image.Resampling.BICUBIC))[:, 56:280]
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    assert np.array_equal(preprocessed(tmp_path, pixels, "clip", 1, 3, 224, 224), torch_normalize(cut, mean, std)[None])


def test_yolo(tmp_path):
    """48x64 to 24x32 in a field of 32x32: four rows of 114 above and below."""
    pixels = picture(48, 64)
    field = np.full((32, 32, 3), 114, np.uint8)
    # Exactly half the size: bilinear is the mean of four pixels, rounded half up.
    field[4:28] = (pixels.reshape(24, 2, 32, 2, 3).sum(axis=(1, 3), dtype=int) + 2) // 4
    expected = np.moveaxis(field, -1, 0).astype(F) / F(255)
    assert np.array_equal(preprocessed(tmp_path, pixels, "yolo", 1, 3, 32, 32), expected[None])


def test_opencv(tmp_path):
    """blobFromImage(imread(file), size=(32, 32)): imread gives BGR, and nothing is scaled or subtracted."""
    pixels, resized = OPENCV["0_rgb_given"], OPENCV["0_rgb_expected"]
    expected = np.moveaxis(resized[..., ::-1], -1, 0).astype(F)
    assert np.array_equal(preprocessed(tmp_path, pixels, "opencv", 1, 3, 32, 32), expected[None])


def test_caffe(tmp_path):
    pixels = picture(256, 256)
    expected = pixels[16:240, 16:240, ::-1].astype(F) - np.array([103.939, 116.779, 123.68], F)
    assert np.array_equal(preprocessed(tmp_path, pixels, "caffe", 1, 224, 224, 3), expected[None])


def test_tensorflow(tmp_path):
    pixels = picture(10, 20)
    resized = np.asarray(Image.fromarray(pixels).resize((8, 8), Image.Resampling.BILINEAR))
    expected = resized.astype(F) / F(127.5) - F(1)
    assert np.array_equal(preprocessed(tmp_path, pixels, "tensorflow", 1, 8, 8, 3), expected[None])


def test_unit(tmp_path):
    pixels = picture(8, 8)
    assert np.array_equal(preprocessed(tmp_path, pixels, "unit", 1, 8, 8, 3), (pixels.astype(F) / F(255))[None])


def test_every_preset_has_a_test():
    assert {f"test_{name}" for name in PRESETS} <= globals().keys()


def test_given_values_win_over_those_of_the_preset():
    found = with_preset(ImageOptions(preset="imagenet", resize="stretch", mean=(0.5,)))
    assert (found.resize, found.mean, found.std) == ("stretch", (0.5,), PRESETS["imagenet"].std)
    assert with_preset(ImageOptions(resize="crop")) == ImageOptions(resize="crop")


def test_an_unknown_preset_lists_the_known_ones():
    with pytest.raises(
        ArgumentError, match=r"'imgnet' is unknown; the presets are imagenet, .*did you mean 'imagenet'"
    ):
        with_preset(ImageOptions(preset="imgnet"))
