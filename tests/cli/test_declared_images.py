"""The options of images on the command line: what is read, what is refused, and what is recorded of it."""

import json
import re

import msgspec
import numpy as np
import onnx
import pytest
from support.networks import Network
from support.pictures import picture, save_picture

from qdqtool import __main__ as entry
from qdqtool.cli.commands import calibrate
from qdqtool.cli.declared import values_of
from qdqtool.errors import UsageError
from qdqtool.models.graph.io.load import load_model
from qdqtool.options import build, declared
from qdqtool.samples.calibration_note import CalibrationNote, read_note
from qdqtool.samples.media.images.resolve import PRESETS
from qdqtool.samples.media_options import CHOICES, ImageOptions
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.preprocessing import ImagePreprocessing


def request(words):
    """The request that words of the command line make."""
    return build(ReadOptions, values_of(ReadOptions, words))


@pytest.fixture
def model(tmp_path):
    """x[1,3,8,8] -> Conv, Relu -> y[1,16,8,8], and 20 images of two classes in ``photos``."""
    net = Network()
    net.relu(net.conv("x", "y", (16, 3, 3, 3)))
    onnx.save(net.model({"x": (1, 3, 8, 8)}), tmp_path / "net.onnx")
    for number in range(20):
        save_picture(tmp_path / "photos" / f"c{number % 2}" / f"{number}.png", picture(10, 12, number))
    return tmp_path / "net.onnx"


def run(*words):
    return entry._run([str(word) for word in words])


def test_the_help_names_every_preset_and_choice():
    helps = {
        option.name: option.help
        for option in calibrate.command.params
        if option.name in {each.name for each in declared(ImageOptions)}
    }
    assert all(re.search(rf"\b{name}\b", helps["image_preset"]) for name in PRESETS)
    for name, legal in CHOICES.items():
        option = "image_range" if name == "pixel_range" else f"image_{name}"
        assert all(re.search(rf"(?<!\w){re.escape(word)}\b", helps[option]) for word in legal)


def test_values_become_a_request():
    found = request(
        {
            "image_resize": "letterbox",
            "image_size": "320x640",
            "image_pad_color": "114",
            "image_mean": "0.5,0.25,1",
            "image_std": "2",
        }
    ).images
    assert (found.resize, found.size, found.pad_color) == ("letterbox", (320, 640), (114, 114, 114))
    assert (found.mean, found.std, found.preset) == ((0.5, 0.25, 1), (2,), None)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("image_resize", "letterbax", "--image-resize is 'letterbax'.*did you mean 'letterbox'"),
        ("image_range", "0..2", r"--image-range is '0\.\.2'; it must be one of 0\.\.1"),
        ("image_size", "320", "such as 320x640"),
        ("image_size", "0x5", "such as 320x640"),
        ("image_size", "320x640x3", "such as 320x640"),
        ("image_mean", "a,b", "--image-mean is 'a,b'; it must be one or three finite numbers"),
        ("image_mean", "1,nan,1", "finite"),
        ("image_mean", "1,2", "one or three"),
        ("image_std", "0", "numbers above 0"),
        ("image_pad_color", "256", "from 0 to 255"),
        ("image_pad_color", "1,2", "from 0 to 255"),
    ],
)
def test_malformed_values_are_refused_with_the_form_that_is_legal(option, value, says):
    with pytest.raises(UsageError, match=says):
        request({option: value})


def test_ranges_and_reports_record_the_preprocessing_and_another_one_is_noticed(model, tmp_path, capsys):
    photos, ranges, out = tmp_path / "photos", tmp_path / "ranges.json", tmp_path / "out.onnx"
    words = ("--calib-data", photos, "--image-preset", "imagenet")
    assert run("calibrate", model, *words, "-o", ranges, "--output-format", "json") == 0
    expected = {
        "kind": "images",
        "size": [8, 8],
        "layout": "nchw",
        "channels": "rgb",
        "resize": "crop",
        "interpolation": "bilinear",
        "crop_ratio": 0.875,
        "pad_color": None,
        "pixel_range": "0..1",
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
    }
    assert json.loads(capsys.readouterr().out)["data"]["preprocessing"] == expected
    assert json.loads(ranges.read_text())["data"]["preprocessing"] == expected
    cached = ("--calibration-cache", ranges, "-o", out, "--output-format", "json")
    assert run("quantize", model, *words, *cached) == 0
    assert json.loads(capsys.readouterr().out)["calibration"]["preprocessing"] == expected
    assert read_note(load_model(out)) == CalibrationNote(
        method="auto",
        samples=20,
        random=False,
        seed=None,
        preprocessing=msgspec.convert(expected, ImagePreprocessing),
        quantized_nodes=1,
    )
    first = out.read_bytes()
    assert run("quantize", model, *cached) == 0
    assert out.read_bytes() == first
    capsys.readouterr()
    assert run("quantize", model, *words, "--image-range", "0..255", *cached) == 2
    said = capsys.readouterr().err
    assert "0..1, mean 0.485" in said
    assert "0..255, mean 0.485" in said


@pytest.mark.parametrize(
    "words",
    [
        ("calibrate", "--random-calibration", "--image-preset", "unit", "-o", "r.json"),
        ("check", "--image-preset", "unit"),
        ("check", "--preview", "p.png"),
        ("quantize", "--quantize-mode", "int8-weight-only", "--labels", "l.csv", "-o", "q.onnx"),
        ("quantize", "--calibration-cache", "r.json", "--image-range", "0..1", "-o", "q.onnx"),
        ("quantize", "--calibration-cache", "r.json", "--validation-data", "photos", "--preview", "p.png", "-o", "q"),
    ],
)
def test_options_of_images_without_data_are_refused_and_never_ignored(words, model, monkeypatch, capsys):
    monkeypatch.chdir(model.parent)
    assert run(words[0], model, *words[1:]) == 2
    assert "needs a folder of images, and no such data is given" in capsys.readouterr().err


def test_shards_of_a_folder_merge_to_the_bytes_of_one_run(model, tmp_path):
    words = ("calibrate", model, "--calib-data", tmp_path / "photos", "--image-preset", "unit", "-q")
    assert run(*words, "-o", tmp_path / "whole.json") == 0
    for shard in (1, 2):
        assert run(*words, "--shard", f"{shard}/2", "-o", tmp_path / f"{shard}.json") == 0
    assert run("merge", tmp_path / "1.json", tmp_path / "2.json", "-o", tmp_path / "merged.json") == 0
    assert (tmp_path / "merged.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_images_give_the_same_model_as_an_npz_of_their_values(model, tmp_path):
    order = [*range(0, 20, 2), *range(1, 20, 2)]
    arrays = np.stack([np.moveaxis(picture(8, 8, number), -1, 0) for number in order]).astype(np.float32)
    for number in range(20):
        save_picture(tmp_path / "photos" / f"c{number % 2}" / f"{number}.png", picture(8, 8, number))
    np.savez(tmp_path / "data.npz", x=arrays)
    plain = ("--image-resize", "none", "--image-channels", "rgb", "--image-range", "0..255")
    assert run("quantize", model, "--calib-data", tmp_path / "photos", *plain, "-o", tmp_path / "a.onnx", "-q") == 0
    assert run("quantize", model, "--calib-data", tmp_path / "data.npz", "-o", tmp_path / "b.onnx", "-q") == 0
    of_images, of_arrays = onnx.load(tmp_path / "a.onnx"), onnx.load(tmp_path / "b.onnx")
    assert of_images.graph == of_arrays.graph
    assert len(of_images.graph.node) > 2


def test_check_and_sensitivity_take_the_same_folder(model, tmp_path, capsys):
    words = (tmp_path / "photos", "--image-preset", "yolo")
    assert run("check", model, "--data", *words, "--preview", tmp_path / "p.png") == 0
    assert "images: letterbox to 8x8, opencv-bilinear, rgb, nchw, 0..1" in capsys.readouterr().out
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert run("sensitivity", model, "--calib-data", *words, "-q") == 0


def test_labels_of_folders_and_of_a_csv_file_are_read_by_a_metric(tmp_path, capsys):
    net = Network()
    net.op("Flatten", [net.op("GlobalAveragePool", ["x"], "mean")], "y")
    onnx.save(net.model({"x": (1, 3, 8, 8)}), tmp_path / "net.onnx")
    for number, color in enumerate([(0, 0, 90), (90, 0, 0), (0, 90, 0), (80, 0, 0)]):
        pixels = np.full((8, 8, 3), color, np.uint8)
        # Classes 0, 1, 2 are the brightest channel; the image in c0 is blue, so the label 0 is wrong.
        save_picture(tmp_path / "photos" / f"c{(0, 0, 1, 2)[number]}" / f"{number}.png", pixels)
    words = ("check", tmp_path / "net.onnx", "--data", tmp_path / "photos", "--image-preset", "unit")
    words = (*words, "--metric", "top-1", "--allow-constant-data", "--output-format", "json")
    assert run(*words) == 0
    assert json.loads(capsys.readouterr().out)["metric"]["value"] == 50
    (tmp_path / "l.csv").write_text("file,label\nc0/0.png,2\nc0/1.png,0\nc1/2.png,1\nc2/3.png,0\n")
    assert run(*words, "--labels", tmp_path / "l.csv") == 0
    assert json.loads(capsys.readouterr().out)["metric"]["value"] == 100
