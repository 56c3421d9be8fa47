"""Refusals get the node of the model: by name, number, tensor, or by the rules that find it."""

import onnx
import pytest
from onnx import TensorProto, helper
from support.engine_models import Net, crashing, matmul, refused

from qdqtool.engines.build.refusal import FaultLocator
from qdqtool.engines.report import Refusal
from qdqtool.engines.tensorrt.known_refusals.types import UNHELD_INPUT
from qdqtool.models.graph.model import Model

TARGET = "tensorrt-rtx"


def nodes() -> onnx.ModelProto:
    """x -> Relu -> y, y -> Abs -> y_2, y_2 -> Neg called n -> z; only the last node has a name."""
    net = Net()
    net.op("Relu", ["x"], "y")
    net.op("Abs", ["y"], "y_2")
    net.op("Neg", ["y_2"], "z")
    for node in net.nodes:
        node.name = "n" if node.op_type == "Neg" else ""
    return net.model({"x": (1, 4)}, "z")


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ({"node": "n"}, ("n", "Neg")),
        ({"node": "number 1", "op_type": "Abs"}, ("Abs -> y_2", "Abs")),
        ({"node": "number 0", "op_type": "Abs"}, ("number 0", "Abs")),
        ({"node": "number 7", "op_type": "Abs"}, ("number 7", "Abs")),
        ({"node": "node_of_y"}, ("Relu -> y", "Relu")),
        ({"node": "node_of_y_2"}, ("Abs -> y_2", "Abs")),
        ({"node": "node_of_y_2_elu"}, ("Abs -> y_2", "Abs")),
        ({"node": "node_of_y_3"}, ("Relu -> y", "Relu")),
        ({"node": "elsewhere"}, ("elsewhere", None)),
        ({"tensor": "y_2"}, ("Abs -> y_2", "Abs")),
        ({"tensor": "x"}, ("Relu -> y", "Relu")),
        ({"tensor": "elsewhere"}, (None, None)),
        ({"op_type": "Abs"}, ("Abs -> y_2", "Abs")),
        ({"op_type": "Conv"}, (None, "Conv")),
        ({}, (None, None)),
    ],
)
def test_the_node_that_a_message_names(named: dict[str, str], found: tuple[str | None, str | None]):
    located, finding = FaultLocator(Model(nodes()), TARGET).locate(Refusal(reason="why", **named))
    assert (located.node, located.op_type) == found
    assert finding is None


def test_the_rules_find_a_node_that_no_message_names():
    located, finding = FaultLocator(Model(crashing()), TARGET).locate(Refusal(reason="why", rules=("QT405", "QT406")))
    assert (located.node, located.op_type, located.code) == ("y.MatMul", "MatMul", "QT406")
    assert finding.node == "y.MatMul"


def test_a_rule_that_finds_another_node_is_not_the_reason():
    model = Model(refused())
    refusal = Refusal(reason="why", node="c_d.DequantizeLinear", rules=("QL301", "QP102"))
    located, _ = FaultLocator(model, TARGET).locate(refusal)
    assert (located.node, located.code) == ("c_d.DequantizeLinear", "QP102")
    located, finding = FaultLocator(model, TARGET).locate(Refusal(reason="why", node="u.Unheard", rules=("QP102",)))
    assert (located.code, finding) == (None, None)


def test_a_good_model_has_no_findings():
    found = [list(FaultLocator(Model(make()), TARGET).all_findings()) for make in (matmul, crashing)]
    assert [[each.code for each in findings] for findings in found] == [[], ["QT406"]]


def test_the_input_whose_type_tensorrt_does_not_hold():
    model = nodes()
    model.graph.input.append(helper.make_tensor_value_info("k", TensorProto.INT64, [1]))
    model.graph.input.append(helper.make_tensor_value_info("d", TensorProto.DOUBLE, [1]))
    refusal = Refusal(reason="why", message=f"{UNHELD_INPUT} to TensorRT data type.")
    located, _ = FaultLocator(Model(model), TARGET).locate(refusal)
    assert (located.tensor, located.reason) == ("d", "input 'd' is float64, which TensorRT does not support")
    assert FaultLocator(Model(nodes()), TARGET).locate(refusal) == (refusal, None)
