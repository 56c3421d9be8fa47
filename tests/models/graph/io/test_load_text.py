"""Strings that are not UTF-8 are found wherever protobuf has a string that is of use to us."""

import onnx
import pytest
from onnx import TensorProto
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.errors import ModelError
from qdqtool.models.graph.io.load import check_text

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
