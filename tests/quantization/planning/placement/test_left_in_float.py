"""Products that no kernel quantizes are named with a reason, in modes for activations and in modes for weights."""

from typing import Any

import onnx
import pytest
from onnx import helper
from support.engine_models import Net
from support.placed import proposal

from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.placement import PlacementProposal, Selection, WeightGoal, propose_weights

LEFT: dict[str, tuple[str, dict[str, Any], str]] = {
    "LSTM": ("", {"hidden_size": 16}, "computes its steps in float"),
    "GRU": ("", {"hidden_size": 16}, "computes its steps in float"),
    "Attention": ("", {"q_num_heads": 2, "kv_num_heads": 2}, "written as MatMul, Softmax, MatMul"),
    "Einsum": ("", {"equation": "abc,dec,dfc->bd"}, "no product of two matrices"),
    "DeformConv": ("", {}, "float plugin"),
    "FusedMatMul": ("com.microsoft", {}, "operator of ONNX Runtime"),
    "MultiHeadAttention": ("com.microsoft", {"num_heads": 2}, "the products around it are quantized"),
}
"""By operator: domain, attributes, and words of the reason."""


def model_with(op_type: str) -> onnx.ModelProto:
    """The operator between two MatMuls; it need not run."""
    domain, attributes, _ = LEFT[op_type]
    net = Net(23)
    net.op("MatMul", ["x", net.float_weight("w1", (64, 64))], "m")
    weights = [net.float_weight("w", (1, 64, 64)), net.float_weight("r", (1, 64, 16))]
    net.nodes.append(helper.make_node(op_type, ["m", *weights], ["l"], "left", domain=domain, **attributes))
    net.op("MatMul", ["m", net.float_weight("w2", (64, 64))], "y")
    model = net.model({"x": (4, 2, 64)})
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def weights_of(model: onnx.ModelProto) -> PlacementProposal:
    goal = WeightGoal(modes.get("int8-weight-only"), None)
    return propose_weights(ModelIndex.of(Model(model)), targets.get("tensorrt"), Selection(), goal)


@pytest.mark.parametrize("op_type", LEFT)
@pytest.mark.parametrize("propose", [proposal, weights_of])
def test_it_is_named_and_the_rest_is_quantized(propose, op_type):
    found = propose(model_with(op_type))
    assert [(node.node, node.op_type) for node in found.skipped] == [("left", op_type)]
    assert LEFT[op_type][2] in found.skipped[0].reason.text
    assert {slot.slot.tensor for slot in found.slots if slot.kind == "weight"} == {"w1", "w2"}


def test_a_function_that_is_called_with_different_weights_says_to_inline_it():
    text = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[2,4] x) => (float[2,4] y)
    <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4,4] v = {16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1}> {
        h = my.Layer (x, w)
        y = my.Layer (h, v)
    }
    <domain: "my", opset_import: ["": 17]>
    Layer (a, weight) => (b) { [inner] b = MatMul (a, weight) }
    """
    found = proposal(onnx.parser.parse_model(text))
    assert found.slots == ()
    (skip,) = found.skipped
    assert "inline the function" in skip.reason.text
