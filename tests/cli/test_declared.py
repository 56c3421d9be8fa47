"""Options of the command line are those of their declarations; those of preparation mean and refuse what they say."""

import json
import re
from dataclasses import dataclass

import click
import msgspec
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from support.networks import Network
from support.pictures import picture, save_picture
from support.sounds import noise, save_sound, sound_net
from support.texts import save_lines, save_tokenizer, text_net

from qdqtool import __main__ as entry
from qdqtool.cli.commands import calibrate, quantize
from qdqtool.cli.declared import options_of, values_of
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.models.graph.io.load import load_model
from qdqtool.options import FLAG, SWITCH, build, choice, declared, integer, listed, number, option
from qdqtool.quantization.planning.options import Preparation
from qdqtool.samples.calibration_note import CalibrationNote, read_note
from qdqtool.samples.media.images.resolve import PRESETS
from qdqtool.samples.media_options import CHOICES, RANGES, ImageOptions, SoundOptions, TextOptions
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.preprocessing import ImagePreprocessing


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    limit: float | None = option(None, "A limit.", number("DB"), section="S")
    count: int | None = option(None, "A count.", integer(minimum=1), section="S")
    way: str = option("a", "A way.", choice("a", "b"), section="S")
    quick: bool = option(False, "Quickly.", FLAG, section="S")
    even: bool = option(True, "Evenly.", SWITCH, section="S")
    names: tuple[str, ...] = option((), "Names.", listed("NAME"), section="S")


def given(*words: str) -> dict[str, object]:
    found: dict[str, object] = {}

    @click.command
    @options_of(Options)
    def command(**values: object) -> None:
        found.update(values_of(Options, values))

    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    return found


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("--limit -1", {"limit": -1.0}),
        ("--limit=-0.5 --count 2", {"limit": -0.5, "count": 2}),
        ("--way b --quick --no-even", {"way": "b", "quick": True, "even": False}),
        ("--names x --names -y", {"names": ("x", "-y")}),
    ],
)
def test_words_become_values(words: str, values: dict[str, object]):
    assert given(*words.split()).items() >= values.items()


def test_what_is_left_out_has_its_default_or_no_value():
    assert given() == {"way": "a", "quick": False, "even": True}


DEFAULTS = {"equalize": True, "smoothquant": "auto", "bias_correction": True, "awq": "auto", "float_layer": True}


def made(**changes: object) -> Preparation:
    return build(Preparation, values_of(Preparation, DEFAULTS | changes))


def test_the_defaults_of_the_command_line_are_those_of_the_library():
    found = {option.name: option.default for option in quantize.command.params if option.name in DEFAULTS}
    assert found == DEFAULTS
    assert made() == Preparation()


def test_every_option_is_carried_over():
    assert made(equalize=False) == Preparation(equalize=False)
    assert made(bias_correction=False) == Preparation(bias_correction=False)
    assert made(awq="off") == Preparation(awq=False)
    assert made(smoothquant="off") == Preparation(smoothquant=None)
    assert made(smoothquant="0.25") == Preparation(smoothquant=0.25)


@pytest.mark.parametrize("text", ["", "on", "1.5", "-1", "nan", "inf"])
def test_an_alpha_that_is_none_is_refused(text):
    with pytest.raises(ArgumentError, match=r"smoothquant is .*; legal: "):
        made(smoothquant=text)


def test_the_values_are_taken_out():
    values = values_of(Preparation, DEFAULTS) | {"target": "tensorrt"}
    build(Preparation, values)
    assert values == {"target": "tensorrt"}


def request(words):
    """The request that words of the command line make."""
    return build(ReadOptions, values_of(ReadOptions, words))


@pytest.fixture
def model(tmp_path):
    """x[1,3,8,8] -> Conv, Relu -> y[1,16,8,8], and 20 images of two classes in ``photos``."""
    net = Network()
    net.relu(net.conv("x", "y", (16, 3, 3, 3)))
    onnx.save(net.model({"x": (1, 3, 8, 8)}), tmp_path / "net.onnx")
    for at in range(20):
        save_picture(tmp_path / "photos" / f"c{at % 2}" / f"{at}.png", picture(10, 12, at))
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
    for at in range(20):
        save_picture(tmp_path / "photos" / f"c{at % 2}" / f"{at}.png", picture(8, 8, at))
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
    for at, color in enumerate([(0, 0, 90), (90, 0, 0), (0, 90, 0), (80, 0, 0)]):
        pixels = np.full((8, 8, 3), color, np.uint8)
        # Classes 0, 1, 2 are the brightest channel; the image in c0 is blue, so the label 0 is wrong.
        save_picture(tmp_path / "photos" / f"c{(0, 0, 1, 2)[at]}" / f"{at}.png", pixels)
    words = ("check", tmp_path / "net.onnx", "--data", tmp_path / "photos", "--image-preset", "unit")
    words = (*words, "--metric", "top-1", "--allow-constant-data", "--output-format", "json")
    assert run(*words) == 0
    assert json.loads(capsys.readouterr().out)["metric"]["value"] == 50
    (tmp_path / "l.csv").write_text("file,label\nc0/0.png,2\nc0/1.png,0\nc1/2.png,1\nc2/3.png,0\n")
    assert run(*words, "--labels", tmp_path / "l.csv") == 0
    assert json.loads(capsys.readouterr().out)["metric"]["value"] == 100


@pytest.fixture
def listener(tmp_path):
    """A network of sound, and 20 sound files in ``sounds``, each with two windows."""
    for at in range(20):
        save_sound(tmp_path / "sounds" / f"{at}.wav", noise(140, seed=at))
    onnx.save(sound_net(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def reader(tmp_path):
    """A network of text, a tokenizer, and lines of text."""
    onnx.save(text_net(), tmp_path / "net.onnx")
    save_tokenizer(tmp_path / "tokenizer.json")
    save_lines(tmp_path / "lines.txt")
    return tmp_path / "net.onnx"


def test_the_help_names_every_range():
    (option,) = (each for each in calibrate.command.params if each.name == "sound_range")
    assert tuple(option.type.choices) == RANGES


def test_values_of_media_become_a_request(tmp_path):
    values = (8000, 400, 200, "int16", tmp_path / "t.json", 128, "[PAD]")
    names = [each.name for kind in (SoundOptions, TextOptions) for each in declared(kind)]
    found = build(ReadOptions, values_of(ReadOptions, dict(zip(names, values, strict=True))))
    sound, text = found.sound, found.text
    assert (sound.rate, sound.length, sound.hop, sound.sample_range) == values[:4]
    assert (text.tokenizer, text.length, text.pad_token) == values[4:]


def test_sound_is_recorded_and_another_rate_is_noticed(listener, tmp_path, capsys):
    ranges, out = tmp_path / "ranges.json", tmp_path / "out.onnx"
    words = ("--calib-data", tmp_path / "sounds", "--sound-rate", 16000)
    assert run("calibrate", listener, *words, "-o", ranges, "--output-format", "json") == 0
    expected = {"kind": "sound", "rate": 16000, "channels": 1, "length": 64, "hop": 64, "sample_range": "-1..1"}
    data = json.loads(capsys.readouterr().out)["data"]
    assert (data["samples"], data["preprocessing"]) == (40, expected)
    assert json.loads(ranges.read_text())["data"]["preprocessing"] == expected
    assert run("quantize", listener, *words, "--calibration-cache", ranges, "-o", out) == 0
    assert "sound: 16000 Hz, mono, windows of 64 every 64, -1..1" in capsys.readouterr().out
    assert str(read_note(load_model(out)).preprocessing) == "16000 Hz, mono, windows of 64 every 64, -1..1"
    again = ("--calib-data", tmp_path / "sounds", "--sound-rate", 16000, "--sound-range", "int16")
    assert run("quantize", listener, *again, "--calibration-cache", ranges, "-o", out) == 2
    assert "were found on sound with the preprocessing '16000 Hz, mono" in capsys.readouterr().err
    assert run("check", out, "--baseline", listener, "--data", *words[1:]) == 0


def test_sound_gives_the_graph_that_its_values_give(listener, tmp_path):
    rows = [noise(140, seed=number)[start : start + 64, 0] for number in range(20) for start in (0, 64)]
    np.savez(tmp_path / "data.npz", x=np.array(rows)[:, None, :])
    sounds, arrays = tmp_path / "a.onnx", tmp_path / "b.onnx"
    assert run("quantize", listener, "--calib-data", tmp_path / "sounds", "--sound-rate", 16000, "-o", sounds) == 0
    assert run("quantize", listener, "--calib-data", tmp_path / "data.npz", "-o", arrays) == 0
    assert onnx.load(sounds).graph == onnx.load(arrays).graph


def test_text_is_quantized_and_checked(reader, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    words = (tmp_path / "lines.txt", "--tokenizer", tmp_path / "tokenizer.json", "--text-length", 8)
    assert run("quantize", reader, "--calib-data", *words, "-o", out) == 0
    assert ", 8 tokens, filled with [PAD]" in capsys.readouterr().out
    assert read_note(load_model(out)).preprocessing.length == 8
    assert run("check", out, "--baseline", reader, "--data", *words) == 0


def test_a_vocabulary_that_the_model_lacks_is_told(reader, tmp_path, capsys):
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d", "e", "the", "cat")
    save_tokenizer(tmp_path / "tokenizer.json", words)
    data = ("--calib-data", tmp_path / "lines.txt", "--tokenizer", tmp_path / "tokenizer.json", "--text-length", 8)
    assert run("quantize", reader, *data, "-o", tmp_path / "out.onnx") != 0
    said = capsys.readouterr().err
    assert "indices element out of data bounds" in said
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("--sound-rate=16000", "a folder of sound files"),
        ("--tokenizer=t.json", "a text file"),
        ("--text-length=5", "a text file"),
        ("--preview=p.png", "a folder of images"),
    ],
)
def test_options_without_data_are_refused(option, kind, listener, tmp_path, capsys):
    assert run("quantize", listener, "--random-calibration", option, "-o", tmp_path / "out.onnx") == 2
    assert f"{option.partition('=')[0]} needs {kind}, and no such data is given" in capsys.readouterr().err
