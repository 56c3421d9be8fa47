"""Digests of a model file and its external data, with Python's hashlib as the oracle."""

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.small import conv_model

from qdqtool.errors import ModelError
from qdqtool.jobs.check import check_model
from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import describe_file, describe_path, described_beside, model_digest
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import DataFile
from qdqtool.models.options import ExternalData


def saved(folder: Path) -> Path:
    """A model whose weights are in ``m.data``."""
    onnx.save(conv_model(), folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    return folder / "m.onnx"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_model_and_its_external_data(tmp_path: Path):
    path, data = saved(tmp_path), tmp_path / "m.data"
    expected = DataFile(name="m.data", bytes=data.stat().st_size, sha256=sha256(data))
    for found in (describe_file(load_model(path)), describe_path(path)):
        assert (found.bytes, found.sha256) == (path.stat().st_size, sha256(path))
        assert found.external_data == (expected,)


def test_large_external_data_is_named_without_a_digest(tmp_path: Path):
    model = load_model(saved(tmp_path))
    size = (tmp_path / "m.data").stat().st_size
    (less,) = describe_file(model, most_data=size - 1).external_data
    (enough,) = describe_file(model, most_data=size).external_data
    assert (less.bytes, less.sha256) == (size, None)
    assert enough.sha256 is not None


def test_a_changed_weight_is_another_model(tmp_path: Path):
    before = describe_path(saved(tmp_path))
    data = np.fromfile(tmp_path / "m.data", np.uint8)
    data[0] ^= 1
    data.tofile(tmp_path / "m.data")
    after = describe_path(tmp_path / "m.onnx")
    assert after.sha256 == before.sha256
    assert after.external_data != before.external_data


def test_what_has_no_file(tmp_path: Path):
    assert describe_file(Model(conv_model())) is None
    assert describe_path(tmp_path / "none.onnx") is None
    model = load_model(saved(tmp_path))
    (tmp_path / "m.onnx").unlink()
    assert describe_file(model) is None


def test_a_model_is_described_while_something_else_is_done(tmp_path: Path):
    model = load_model(saved(tmp_path))
    with described_beside(model) as description:
        found = description()
    assert found == describe_file(model)


def test_a_description_that_is_not_wanted_any_more_ends_with_the_block(tmp_path: Path):
    path = saved(tmp_path)
    with (tmp_path / "m.data").open("ab") as data:
        data.truncate(1 << 40)
    with pytest.raises(ZeroDivisionError), described_beside(load_model(path)):
        raise ZeroDivisionError


# The digest of a model: blind to where weights are stored and to notes, and to nothing else.


def digest(proto: onnx.ModelProto) -> str:
    return model_digest(Model(proto))


def test_the_digest_is_the_same_however_weights_are_stored(tmp_path: Path):
    proto = conv_model()
    typed = conv_model()
    for tensor in typed.graph.initializer:
        values = numpy_helper.to_array(tensor).ravel()
        tensor.ClearField("raw_data")
        tensor.float_data.extend(values)
    onnx.save(conv_model(), tmp_path / "e.onnx", save_as_external_data=True, location="e.bin", size_threshold=0)
    assert digest(typed) == digest(proto) == model_digest(load_model(tmp_path / "e.onnx"))


def test_notes_at_the_top_do_not_count():
    proto = conv_model()
    proto.doc_string, proto.producer_name, proto.model_version = "text", "me", 4
    proto.metadata_props.add(key="k", value="v")
    assert digest(proto) == digest(conv_model())


def change_weight(proto: onnx.ModelProto) -> None:
    weights = numpy_helper.to_array(proto.graph.initializer[0]).copy()
    weights.flat[-1] = np.nextafter(weights.flat[-1], np.float32(9))
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))


def change_attribute(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].attribute[0].ints[0] = 2


def change_operator(proto: onnx.ModelProto) -> None:
    proto.graph.node[1].op_type = "Sigmoid"


def change_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import[0].version = 18


def change_text(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(helper.make_node("Constant", [], ["t"], value_strings=["a"]))


@pytest.mark.parametrize("change", [change_weight, change_attribute, change_operator, change_opset, change_text])
def test_everything_else_counts(change):
    proto = conv_model()
    change(proto)
    assert digest(proto) != digest(conv_model())


def test_a_data_file_that_was_changed_after_it_was_written_is_refused(tmp_path: Path):
    """Two weights of one size in each other's place: every name and shape in the model still fits."""
    saved_model = save_model(load_model(saved(tmp_path)), tmp_path / "q.onnx", external_data=ExternalData.ALWAYS)
    model, data = load_model(tmp_path / "q.onnx"), saved_model.data
    assert describe_file(model) is not None
    content = data.read_bytes()
    half = len(content) // 2
    data.write_bytes(content[half:] + content[:half])
    with pytest.raises(ModelError, match=f"{data.name} was changed after it was written") as refused:
        describe_file(model)
    assert refused.value.hint == "write the model again, or restore its data file"
    for command in (check_model, validate_model):
        with pytest.raises(ModelError, match="was changed"):
            command(tmp_path / "q.onnx")
    assert describe_path(tmp_path / "q.onnx") is None
