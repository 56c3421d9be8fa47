"""Sound and text on the command line: options become a request, and reports, ranges and models record it."""

import json

import numpy as np
import onnx
import pytest
from support.sounds import noise, save_sound, sound_net
from support.texts import save_lines, save_tokenizer, text_net

from qdqtool import __main__ as entry
from qdqtool.cli.commands import calibrate
from qdqtool.cli.declared import values_of
from qdqtool.models.graph.io.load import load_model
from qdqtool.options import build, declared
from qdqtool.samples.calibration_note import read_note
from qdqtool.samples.media_options import RANGES, SoundOptions, TextOptions
from qdqtool.samples.options import ReadOptions


def run(*words):
    return entry._run([str(word) for word in words])


@pytest.fixture
def listener(tmp_path):
    """A network of sound, and 20 sound files in ``sounds``, each with two windows."""
    for number in range(20):
        save_sound(tmp_path / "sounds" / f"{number}.wav", noise(140, seed=number))
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


def test_values_become_a_request(tmp_path):
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
