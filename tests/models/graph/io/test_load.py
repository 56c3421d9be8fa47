"""Reading models: every wrong file gets its own message."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.errors import ModelError
from qdqtool.models.graph.io.load import check_text, load_model
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


# Strings that are not UTF-8 are found wherever protobuf has a string that is of use to us.


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
    "initializer note": lambda model: model.graph.initializer[0].metadata_props.add(key="a", value="PLACE"),
    "value note": lambda model: model.graph.input[0].metadata_props.add(key="PLACE"),
    "sparse": lambda model: setattr(model.graph.sparse_initializer.add().values, "name", "PLACE"),
    "annotation": lambda model: model.graph.quantization_annotation.add(tensor_name="PLACE"),
    "training": lambda model: model.training_info.add().algorithm.node.add(name="PLACE"),
    "reference to an attribute": lambda model: model.graph.node[0].attribute.add(ref_attr_name="PLACE"),
    "note of a graph": lambda model: model.graph.metadata_props.add(key="PLACE"),
    "value of a function": lambda model: model.functions.add().value_info.add(name="PLACE"),
    "note of a function": lambda model: model.functions.add().metadata_props.add(key="PLACE"),
    "producer": lambda model: setattr(model, "producer_name", "PLACE"),
    "input of a function": lambda model: model.functions.add().input.append("PLACE"),
    "import of a function": lambda model: model.functions.add().opset_import.add(domain="PLACE"),
    "output of a node": lambda model: model.graph.node[0].output.append("PLACE"),
    "denotation": lambda model: setattr(model.graph.input[0].type, "denotation", "PLACE"),
}


def broken(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with bytes that are not UTF-8 in the place of PLACE, as protobuf reads them from a file."""
    data = model.SerializeToString()
    assert data.count(b"PLACE") == 1
    return onnx.ModelProto.FromString(data.replace(b"PLACE", b"P\xff\xfeCE"))


@pytest.mark.parametrize("place", PLACES)
def test_text_that_is_not_utf_8_is_refused(place: str):
    model = conv_model()
    PLACES[place](model)
    check_text(model)
    with pytest.raises(ModelError, match=r".* has a name or note that is not UTF-8: b'P\\xff\\xfeCE'") as caught:
        check_text(broken(model))
    assert "the file is damaged" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("place", "where"),
    [
        ("producer", "the model has"),
        ("graph name", "the main graph has"),
        ("node name", "node 0 of the main graph has"),
        ("body", "node 0 of the body of node 0 of the main graph has"),
        ("training", "node 0 of a training graph has"),
        ("node of a function", "node 0 of a local function has"),
    ],
)
def test_the_message_says_where(place: str, where: str):
    model = conv_model()
    PLACES[place](model)
    with pytest.raises(ModelError, match=f"^{where}"):
        check_text(broken(model))


def test_a_model_in_any_script_is_fine():
    model = rich_model(sparse=True)
    model.graph.node[0].name = "Schicht 1 \N{SNOWMAN} \N{CJK UNIFIED IDEOGRAPH-5C42}"
    check_text(model)
