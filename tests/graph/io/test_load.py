"""Reading models: every wrong file gets its own message."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from support.small import conv_model

from qdqtool.errors import ModelError
from qdqtool.graph.io.load import load_model
from qdqtool.graph.io.tensors import is_external

LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LFS_POINTER, "Git LFS pointer"),
        ("<!DOCTYPE html>\n<html><body>Not Found</body></html>", "web page"),
        ("<html>\r\n", "web page"),
        ("layers:\n  - conv\n", "text file"),
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


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        load_model(tmp_path / "absent.onnx")
    with pytest.raises(ModelError, match="is a folder") as caught:
        load_model(tmp_path)
    assert caught.value.hint == "name the .onnx file in it"


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


def relocate(path: Path, location: str) -> None:
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(proto.SerializeToString())


def test_missing_external_data(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    (tmp_path / "m.data").unlink()
    with pytest.raises(ModelError, match=r"external data 'm\.data' of tensor 'w' is missing"):
        load_model(path)


def test_truncated_external_data(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    data = (tmp_path / "m.data").read_bytes()
    (tmp_path / "m.data").write_bytes(data[:100])
    with pytest.raises(ModelError, match="too short: tensor 'w' ends at byte 432, the file has 100"):
        load_model(path)


@pytest.mark.parametrize(
    "location", ["../m.data", "a/../../m.data", "/etc/passwd", "C:\\m.data", "..\\m.data", "", "m\0"]
)
def test_locations_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = save_external(folder)
    (tmp_path / "m.data").write_bytes(b"\0" * 10_000)
    relocate(path, location)
    with pytest.raises(ModelError, match="not a path inside"):
        load_model(path)


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = save_external(folder)
    real = (folder / "m.data").rename(folder / "real.data")
    (folder / "m.data").symlink_to(real)
    load_model(path)
    (folder / "m.data").unlink()
    (folder / "m.data").symlink_to(real.rename(tmp_path / "outside.data"))
    with pytest.raises(ModelError, match="link to a file outside"):
        load_model(path)


@pytest.mark.parametrize(
    ("key", "value"), [("offset", "-8"), ("offset", "8e3"), ("length", "9" * 40), ("length", "12")]
)
def test_lying_external_entries_are_refused(tmp_path: Path, key: str, value: str) -> None:
    path = save_external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    entries = proto.graph.initializer[0].external_data
    for entry in [entry for entry in entries if entry.key == key]:
        entries.remove(entry)
    entries.add(key=key, value=value)
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"external tensor 'w'"):
        load_model(path)


PLACES = {
    "node name": lambda model: setattr(model.graph.node[0], "name", "PLACE"),
    "operator": lambda model: setattr(model.graph.node[0], "op_type", "PLACE"),
    "node input": lambda model: model.graph.node[0].input.append("PLACE"),
    "node note": lambda model: model.graph.node[0].metadata_props.add(key="PLACE"),
    "attribute": lambda model: model.graph.node[0].attribute.add(name="PLACE"),
    "constant": lambda model: model.graph.node[0].attribute.add(type="TENSOR").t.MergeFrom(TensorProto(name="PLACE")),
    "body": lambda model: model.graph.node[0].attribute.add(type="GRAPH").g.node.add(name="PLACE"),
    "initializer": lambda model: setattr(model.graph.initializer[0], "name", "PLACE"),
    "location": lambda model: model.graph.initializer[0].external_data.add(key="location", value="PLACE"),
    "graph input": lambda model: setattr(model.graph.input[0], "name", "PLACE"),
    "dimension": lambda model: model.graph.input[0].type.tensor_type.shape.dim.add(dim_param="PLACE"),
    "graph name": lambda model: setattr(model.graph, "name", "PLACE"),
    "note": lambda model: model.metadata_props.add(key="a", value="PLACE"),
    "domain": lambda model: model.opset_import.add(domain="PLACE"),
    "function": lambda model: model.functions.add(name="PLACE"),
    "node of a function": lambda model: model.functions.add().node.add(name="PLACE"),
}


@pytest.mark.parametrize("place", PLACES)
def test_text_that_is_not_utf_8_is_refused(place: str, tmp_path: Path):
    model = conv_model()
    PLACES[place](model)
    path = write(tmp_path / "m.onnx", model.SerializeToString().replace(b"PLACE", b"P\xff\xfeCE"))

    with pytest.raises(ModelError, match=r"m.onnx: .* that is not UTF-8: b'P\\xff\\xfeCE'"):
        load_model(path)
