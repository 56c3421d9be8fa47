"""Reading models: every wrong file gets its own message."""

import os
import sys
from pathlib import Path

import onnx
import pytest
from support.explosions import functions
from support.small import conv_model

from qdqtool.errors import ModelError
from qdqtool.models.graph.io.load import LONGEST_NAME, load_model
from qdqtool.models.graph.io.tensors import is_external

LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture(params=["read", "mapped"], autouse=True)
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are read, large ones mapped."""
    if request.param == "mapped":
        monkeypatch.setattr("qdqtool.models.graph.io.load.LARGE", 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LFS_POINTER, "Git LFS pointer"),
        ("<!DOCTYPE html>\n<html><body>Not Found</body></html>", "web page"),
        ("<html>\r\n", "web page"),
        ("layers:\n  - conv\n", "text file"),
        (b"vtrt\x00\x00", "an engine of TensorRT, not an ONNX model"),
        (b"\x1c\x00\x00\x00TFL3", "a TensorFlow Lite model"),
        (b"PK\x03\x04\x00", "an archive, as PyTorch saves models"),
        (b"\x80\x02\x8a", "a pickle, as PyTorch saves weights"),
        (b"\x89HDF\r\n", "an HDF5 file, as Keras saves models"),
        (b"", "is empty"),
        (b"\x00\x01\x02\xff" * 50, "truncated or damaged"),
        (b"\x08\x08", "decodes without a graph"),
    ],
)
def test_wrong_files_are_named_for_what_they_are(tmp_path: Path, content: bytes | str, message: str) -> None:
    path = write(tmp_path / "m.onnx", content)
    with pytest.raises(ModelError, match=message):
        load_model(path)


def test_a_truncated_model_says_so(tmp_path: Path) -> None:
    data = conv_model().SerializeToString()
    path = write(tmp_path / "m.onnx", data[: len(data) // 2])
    with pytest.raises(ModelError, match="truncated or damaged"):
        load_model(path)


def test_a_file_on_a_file_system_that_maps_none_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr("qdqtool.models.graph.io.load.mmap.mmap", refused)
    path = write(tmp_path / "m.onnx", conv_model().SerializeToString())
    assert load_model(path).proto == conv_model()


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        load_model(tmp_path / "absent.onnx")
    with pytest.raises(ModelError, match="is a folder") as caught:
        load_model(tmp_path)
    assert caught.value.hint == "name the .onnx file in it"


@pytest.mark.skipif(sys.platform == "win32", reason="devices are files")
def test_a_device_is_not_read_and_a_pipe_is(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").symlink_to("/dev/zero")
    with pytest.raises(ModelError, match="is a device, not a file"):
        load_model(tmp_path / "m.onnx")
    end, start = os.pipe()
    os.write(start, conv_model().SerializeToString())
    os.close(start)
    assert load_model(f"/dev/fd/{end}").proto == conv_model()
    os.close(end)


def test_external_weights_stay_on_disk(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    model = load_model(path)
    weight = next(tensor for tensor in model.proto.graph.initializer if tensor.name == "w")
    assert is_external(weight)
    assert not weight.raw_data


def save_external(folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(conv_model(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    return path


def test_text_that_is_not_utf_8_and_weights_that_are_missing_are_refused_with_the_name_of_the_file(tmp_path: Path):
    model = conv_model()
    model.graph.name = "PLACE"
    broken = model.SerializeToString().replace(b"PLACE", b"P\xff\xfeCE")
    with pytest.raises(ModelError, match=r"m.onnx: the main graph has a name or note that is not UTF-8") as caught:
        load_model(write(tmp_path / "m.onnx", broken))
    assert "the file is damaged" in (caught.value.hint or "")
    path = save_external(tmp_path)
    (tmp_path / "m.data").unlink()
    with pytest.raises(ModelError, match=r"external data 'm\.data' of tensor 'w' is missing"):
        load_model(path)


def test_a_model_that_is_only_looked_at_may_lack_its_weights(tmp_path: Path):
    path = save_external(tmp_path)
    assert load_model(path, needs_data=False).missing_data == frozenset()
    (tmp_path / "m.data").unlink()
    model = load_model(path, needs_data=False)
    assert model.missing_data == model.fork().missing_data == {"m.data"}
    assert model.stored_outside


@pytest.mark.parametrize("outside", [False, True])
def test_the_model_says_whether_it_keeps_weights_outside(tmp_path: Path, outside: bool) -> None:
    onnx.save(conv_model(), tmp_path / "m.onnx", save_as_external_data=outside, location="m.data", size_threshold=0)
    assert load_model(tmp_path / "m.onnx").stored_outside is outside


def test_functions_that_explode_are_refused_before_they_are_inlined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path / "m.onnx", functions(40).SerializeToString())
    with pytest.raises(
        ModelError, match=r"m\.onnx: function 'local::F0' calls others .* nodes: 1,649,267,441,663;"
    ) as caught:
        load_model(path)
    assert caught.value.hint is not None
    factor = caught.value.hint.split("QDQTOOL_BOUNDS=")[1].split(",")[0]
    monkeypatch.setenv("QDQTOOL_BOUNDS", factor)
    load_model(path)


def test_many_calls_and_deep_calls_are_no_explosion(tmp_path: Path) -> None:
    model = functions(6)
    model.graph.node.extend(onnx.helper.make_node("F0", ["x"], [f"y{index}"], domain="local") for index in range(2000))
    assert load_model(write(tmp_path / "m.onnx", model.SerializeToString())).proto == model
    chain = functions(2000)
    for function in chain.functions[:-1]:
        del function.node[1:]
    assert load_model(write(tmp_path / "m.onnx", chain.SerializeToString())).proto == chain


@pytest.mark.parametrize("place", ["node", "output", "input", "initializer", "function"])
def test_an_endless_name_is_refused_with_its_place_and_a_long_note_is_not(tmp_path: Path, place: str) -> None:
    model = functions(1)
    model.doc_string = model.graph.node[0].doc_string = "n" * LONGEST_NAME * 2
    model.metadata_props.add(key="k", value="n" * LONGEST_NAME * 2)
    named = {
        "node": model.graph.node[0],
        "output": model.graph.output[0],
        "input": model.graph.input[0],
        "initializer": model.graph.initializer.add(),
        "function": model.functions[0],
    }[place]
    named.name = "n" * LONGEST_NAME
    load_model(write(tmp_path / "m.onnx", model.SerializeToString()))
    named.name += "n"
    with pytest.raises(ModelError, match=r"has a name of too many characters, 'n{20}…': 65,537; the limit is 65,536"):
        load_model(write(tmp_path / "m.onnx", model.SerializeToString()))
