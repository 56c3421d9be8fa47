"""The JSON files of trtexec, against excerpts of published files; every wrong input ends in one line."""

import json
import time
from pathlib import Path

import pytest
from support.paths import ROOT

from qdqtool.engines.build.layer_files import is_json, read_layer_file, read_profile
from qdqtool.engines.tensorrt.inspector import read_layers
from qdqtool.engines.tensorrt.kernels import Kernel, encode_layers
from qdqtool.errors import ModelError

DATA = ROOT / "tests" / "engines" / "build" / "data" / "trtexec"
DUMPS = ROOT / "tests" / "engines" / "tensorrt" / "data"
LAYERS, PROFILE = (DATA.joinpath(f"10.{kind}.json").read_text(encoding="utf-8") for kind in ("layers", "profile"))
ENTRY = {"name": "a", "timeMs": 3.0, "averageMs": 1.5, "percentage": 100}


def written(folder: Path, content: str | bytes, name: str = "file.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("release", "evidence", "kernels", "runs"), [("8", "inspector", 5, 4216), ("10", "inspector", 5, 21071)]
)
def test_published_files(release: str, evidence: str, kernels: int, runs: int):
    layers = read_layer_file(DATA / f"{release}.layers.json")
    profile = read_profile(DATA / f"{release}.profile.json")
    assert (layers.evidence, len(layers.kernels), profile.runs) == (evidence, kernels, runs)
    assert all(kernel.layer_type for kernel in layers.kernels)


def test_layers_that_are_only_names():
    found = read_layer_file(DATA / "names.layers.json")
    assert found.evidence == "none"
    assert found.kernels[3] == Kernel(name="/backbone/maxpool/MaxPool", layer_type="")
    assert [time for _, time in read_profile(DATA / "names.profile.json").times[:2]] == [1.52, 4.19536]


def test_the_own_layer_file_keeps_everything_that_the_builder_printed(tmp_path: Path):
    dump = (DUMPS / "digits_cnn.txt").read_text(encoding="utf-8")
    found = read_layer_file(written(tmp_path, encode_layers([], dump)))
    assert (found.evidence, found.kernels[0].inputs[0].name) == ("aot-dump", "image")
    of_inspector = read_layer_file(written(tmp_path, encode_layers([], LAYERS)))
    assert (of_inspector.evidence, of_inspector.kernels) == ("inspector", read_layers(LAYERS))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_files_as_powershell_writes_them(encoding: str, tmp_path: Path):
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    layers = written(tmp_path, (mark + LAYERS).encode(encoding))
    assert is_json(layers)
    assert read_layer_file(layers).kernels == read_layers(LAYERS)
    assert read_profile(written(tmp_path, (mark + PROFILE).encode(encoding))).runs == 21071


def test_names_are_read_as_trtexec_writes_them(tmp_path: Path):
    raw = r'say "hi\there", C:\new'
    line = f', {{ "name" : "{raw}", "timeMs" : 3, "averageMs" : 1.5, "percentage" : 100 }}'
    assert read_profile(written(tmp_path, f'[\n  {{ "count" : 2 }}\n{line}\n]\n')).times == ((raw, 1.5),)


WRONG_LAYERS = {
    "[]": "is a list, not the layers of an engine",
    PROFILE: "is a profile of trtexec, not the layers of an engine",
    "{}": "Object missing required field `Layers`",
    '{"Layers": []}': "lists no layers",
    '{"Layers": [3]}': "neither an ONNX model nor layers of an engine",
    '{"Layers":' * 100_000: "neither an ONNX model nor layers of an engine",
    b'{"Layers": ["\xff\xfe"]}': "is not text in UTF-8 or UTF-16",
    b"\xff\xfe{": "is not text in UTF-8 or UTF-16",
    encode_layers([], ""): "lists no layers",
    encode_layers([], "{}"): "neither an ONNX model nor layers of an engine",
    encode_layers([], "no layers"): "lists no layers",
}
WRONG_PROFILES = {
    "": "is no profile of trtexec",
    "[]": "it has no count, or no layers",
    '[{"count": 5}]': "it has no count, or no layers",
    json.dumps([ENTRY, ENTRY]): "it has no count, or no layers",
    LAYERS: "is no profile of trtexec: Expected `array`, got `object`",
    "[" * 100_000: "is no profile of trtexec",
    "[" + '{"name":' * 100_000: "is no profile of trtexec",
    PROFILE.replace("62.62", "x").replace('"percentage" : 0 }', '"percentage" : -nan }'): "times that are no numbers",
    '[{"count" : 1}, {"name" : "a", "timeMs" : nan, "averageMs" : nan}]': "times that are no numbers (nan)",
    json.dumps([{"count": 1}, ENTRY | {"averageMs": -0.5}]): "averageMs of 'a' is -0.5; expected 0 or more",
    '[{"count": 1}, {"name": "a", "averageMs": 1e999}]': "is no profile of trtexec: Number out of range",
    json.dumps([{"count": 1}, {"name": "a", "timeMs": 1}]): "entry 1 has no averageMs",
    json.dumps([{"count": 1}, ENTRY, {"averageMs": 1}]): "entry 2 has no name",
    json.dumps([{"count": 5}, ENTRY | {"averageMs": 0}]): "has no times: 5 inferences were timed",
    json.dumps([{"count": 0}, ENTRY]): "has no times: 0 inferences were timed",
    b'[{"count": 1}, {"name": "\xff"}]': "is not text in UTF-8 or UTF-16",
}


@pytest.mark.parametrize(("content", "message"), WRONG_LAYERS.items(), ids=range(len(WRONG_LAYERS)))
def test_wrong_layers(content: str | bytes, message: str, tmp_path: Path):
    with pytest.raises(ModelError) as caught:
        read_layer_file(written(tmp_path, content))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("content", "message"), WRONG_PROFILES.items(), ids=range(len(WRONG_PROFILES)))
def test_wrong_profiles(content: str | bytes, message: str, tmp_path: Path):
    with pytest.raises(ModelError) as caught:
        read_profile(written(tmp_path, content))
    assert message in str(caught.value)


def test_absent_files(tmp_path: Path):
    assert not is_json(tmp_path / "none.json")
    assert not is_json(tmp_path)
    for read in (read_layer_file, read_profile):
        with pytest.raises(ModelError, match="cannot be read: No such file"):
            read(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("start", "found"), [(b"{", True), (b" \r\n[", True), (b"\x08\x0a", False), (b"vtrt", False), (b"", False)]
)
def test_models_and_engines_are_no_json(start: bytes, found: bool, tmp_path: Path):
    assert is_json(written(tmp_path, start)) == found


def test_a_hostile_profile_costs_no_time(tmp_path: Path):
    start = time.process_time()
    with pytest.raises(ModelError, match="is no profile of trtexec"):
        read_profile(written(tmp_path, '[{"count" : 1}, ' + '{"name" : "x' * 200_000 + '", "timeMs" '))
    assert time.process_time() - start < 1
