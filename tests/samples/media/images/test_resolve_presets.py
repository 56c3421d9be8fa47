"""Every preset against the formula of the library that it is named after, in float32 and to the bit.

The formulas are written down here once more, from the sources of torchvision, CLIP, ultralytics, OpenCV and Keras; the
size is that of the input, or computed by hand, so that resizing is one call of Pillow, or a result of OpenCV's own.
"""

import numpy as np
import pytest
from PIL import Image
from support.paths import ROOT
from support.pictures import image_spec, picture, save_picture

from qdqtool.errors import ArgumentError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.media.images.resolve import PRESETS, with_preset
from qdqtool.samples.media_options import ImageOptions
from qdqtool.samples.options import ReadOptions

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
