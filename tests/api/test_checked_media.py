"""Folders of images in Python: the keywords say what the options of the command line say."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.networks import Network
from support.pictures import picture, save_picture

import qdqtool
from qdqtool import __main__ as entry
from qdqtool.api.checked import values_of
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.options import build
from qdqtool.samples.options import ReadOptions


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x[1,3,8,8] -> Conv, Relu -> y[1,16,8,8], and 20 images in ``photos``."""
    net = Network()
    net.relu(net.conv("x", "y", (16, 3, 3, 3)))
    onnx.save(net.model({"x": (1, 3, 8, 8)}), tmp_path / "net.onnx")
    for number in range(20):
        save_picture(tmp_path / "photos" / f"{number}.png", picture(10, 12, number))
    return tmp_path / "net.onnx"


def test_keywords_and_command_line_give_the_same_bytes(model: Path):
    photos, by_words, by_keywords = (model.with_name(name) for name in ("photos", "a.onnx", "b.onnx"))
    words = [
        "--image-preset",
        "imagenet",
        "--image-resize",
        "letterbox",
        "--image-pad-color",
        "9",
        "--image-std",
        "0.5",
    ]
    assert entry._run(["quantize", str(model), "--calib-data", str(photos), *words, "-o", str(by_words)]) == 0
    qdqtool.quantize_model(
        model, photos, by_keywords, image_preset="imagenet", image_resize="letterbox", image_pad_color=9, image_std=0.5
    )
    assert by_words.read_bytes() == by_keywords.read_bytes()
    report = qdqtool.check_model(by_words, baseline=model, data=photos, image_preset="unit", image_mean=[0.1, 0.2, 0.3])
    assert report.data.preprocessing is not None
    assert report.data.preprocessing.mean == (0.1, 0.2, 0.3)


def test_validation_images_are_read_likewise_without_the_labels_of_the_others(model: Path):
    photos, labels = model.with_name("photos"), model.with_name("labels.csv")
    labels.write_text("".join(f"{number}.png,{number % 2}\n" for number in range(20)))
    save_picture(model.with_name("others") / "z.png", picture(9, 9, 50))
    report = qdqtool.quantize_model(
        model, photos, validation_data=model.with_name("others"), image_preset="unit", labels=labels
    )
    assert report.accuracy is not None
    assert report.accuracy.samples == 1


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"image_preset": "imagenot"}, "imagenet"),
        ({"image_resize": "stretched"}, "stretch"),
        ({"image_size": "320x320"}, "image_size"),
        ({"image_mean": ["a"]}, "image_mean"),
        ({"image_std": 0.0}, "larger than 0"),
        ({"image_crop_ratio": 7}, "crop_ratio"),
    ],
)
def test_wrong_values_are_told_with_what_is_legal(model: Path, keywords: dict[str, object], message: str):
    with pytest.raises((ArgumentError, UsageError), match=message):
        qdqtool.calibrate(model, model.with_name("photos"), **{"image_preset": "unit"} | keywords)


def test_keywords_of_images_need_images(model: Path):
    with pytest.raises(UsageError, match="needs a folder of images, and no such data is given"):
        qdqtool.check_model(model, image_preset="unit")
    with pytest.raises(UsageError, match="holds arrays"):
        qdqtool.calibrate(model, np.ones((4, 3, 8, 8), np.float32), image_preset="unit")


def test_one_number_is_for_all_channels():
    given = {"image_pad_color": 7, "image_mean": 1, "image_range": "0..255"}
    found = build(ReadOptions, values_of(given, "check", "check_model")).images
    assert (found.pad_color, found.mean, found.pixel_range) == ((7, 7, 7), (1.0,), "0..255")
