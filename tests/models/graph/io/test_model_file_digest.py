"""The digest of a model: blind to where weights are stored and to notes, and to nothing else."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.small import conv_model

from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import model_digest
from qdqtool.models.graph.model import Model


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
