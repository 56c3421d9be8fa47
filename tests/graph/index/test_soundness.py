"""What is no graph is told before anything edits or runs it; what is one, however unusual, is let pass."""

from pathlib import Path

import onnx
import pytest
from onnx import helper
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.errors import ModelError
from qdqtool.graph.index.soundness import require_sound
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.io.load import load_model
from qdqtool.graph.model import Model


def check(model: onnx.ModelProto) -> None:
    require_sound(GraphView(Model(model)))


def undefined(model: onnx.ModelProto) -> None:
    model.graph.node[1].input[0] = "nowhere"


def defined_twice(model: onnx.ModelProto) -> None:
    model.graph.node[2].output[0] = "r"


def input_is_made(model: onnx.ModelProto) -> None:
    model.graph.node[0].output[0] = "x"


def initializer_twice(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "y"


def cycle_through_a_body(model: onnx.ModelProto) -> None:
    info = helper.make_empty_tensor_value_info("t")
    body = helper.make_graph([helper.make_node("Neg", ["y"], ["t"])], "b", [], [info])
    model.graph.node.append(helper.make_node("If", ["flag"], ["branched"], then_branch=body, else_branch=body))
    model.graph.input.append(helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []))
    model.graph.node[0].input[0] = "branched"


def no_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = "never"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (undefined, "tensor 'nowhere' is read by relu1 and defined nowhere"),
        (defined_twice, "tensor 'r' is defined more than once"),
        (input_is_made, "tensor 'x' is defined more than once"),
        (initializer_twice, "tensor 'w' is defined more than once"),
        (cycle, "tensor 'c' depends on itself"),
        (cycle_through_a_body, "tensor 'c' depends on itself"),
        (no_output, "tensor 'never' is an output that nothing makes"),
    ],
)
def test_each_fault_is_named(spoil, message: str) -> None:
    model = conv_model()
    spoil(model)
    with pytest.raises(ModelError, match=message):
        check(model)


def test_order_and_old_habits_are_no_faults() -> None:
    model = conv_model(ir_version=3)
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    check(model)
    check(rich_model())
    check(rich_model(sparse=True))


def test_real_models_are_sound(real_model: Path) -> None:
    require_sound(GraphView(load_model(real_model)))
