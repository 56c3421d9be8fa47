"""What the input of a model says about images, and what nobody may guess."""

import pytest
from support.pictures import image_spec

from qdqtool.errors import UsageError
from qdqtool.samples.media.images.resolve import image_input, resolve
from qdqtool.samples.media_options import ImageOptions
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


@pytest.mark.parametrize(("shape", "says"), [((1, 3, 8, 3), "both|first and last"), ((1, "c", 8, 8), "no dimension")])
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
