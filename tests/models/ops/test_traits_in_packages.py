"""An operator that only moves values is treated as one in every package, for every such operator that there is.

Adding one is a module of ``qdqtool/models/ops``: these tests then run for it as well.
"""

import functools

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from support.onnx_cases import IR_VERSION, OPSET, Array, OnnxCase, floats, node_cases
from support.placed import proposal

from qdqtool.engines.tensorrt.planned_types import planned_nodes
from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.fixes.code_group import CodeGroup
from qdqtool.linting.rules.index_path import IndexPath
from qdqtool.linting.rules.unpaired import Unpaired
from qdqtool.models import ops, targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.ops.support.imposed_bounds import absorbs_relu
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half.magnitudes import Magnitudes, find_infinity_constants
from qdqtool.models.transforms.rescaling_points import PointKind, find_rescaling_points
from qdqtool.models.transforms.taps import tensor_key
from qdqtool.quantization.planning.high_precision import measure_magnitudes
from qdqtool.quantization.planning.placement.propose import origin
from qdqtool.samples.noise import random_feeds
from qdqtool.samples.signature import input_specs

MOVING = [op_type for op_type, known in ops.all_traits().items() if known.moves_values]
SCALE = {"s": np.float32(0.1), "z": np.int8(0)}


def stated(name: str) -> list[str]:
    return [op_type for op_type in MOVING if getattr(ops.all_traits()[op_type], name)]


@functools.cache
def example(op_type: str) -> OnnxCase:
    """The first example that makes one matrix, or more, of what it reads."""
    cases = node_cases(op_type)
    return next(case for case in cases if case.run(case.x)[0].ndim > 1 and case.run(case.x)[0].size)


def network(
    case: OnnxCase, before: list[NodeProto], behind: list[NodeProto], stored: dict[str, Array], output: str
) -> Model:
    """Nodes that make ``moved`` of ``x``, the node of the example, which makes ``y0`` of it, and nodes behind."""
    node = NodeProto.FromString(case.proto.SerializeToString())
    node.input[0] = "moved"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, case.x.shape)
    made = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph([*before, node, *behind], "net", [x], [made], [*constants, *case.model.graph.initializer])
    opsets = [helper.make_opsetid("", OPSET)]
    return Model(
        onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION))
    )


def weight(case: OnnxCase) -> Array:
    return floats(case.run(case.x)[0].shape[-1], 32)


def pair(source: str, made: str) -> list[NodeProto]:
    codes = f"{made}_codes"
    return [
        helper.make_node("QuantizeLinear", [source, "s", "z"], [codes]),
        helper.make_node("DequantizeLinear", [codes, "s", "z"], [made]),
    ]


@pytest.mark.parametrize("op_type", MOVING)
def test_placement_gives_it_no_pair_and_no_reason(op_type: str):
    case = example(op_type)
    relu, product = helper.make_node("Relu", ["x"], ["moved"]), helper.make_node("MatMul", ["y0", "w"], ["y"])
    model = network(case, [relu], [product], {"w": weight(case)}, "y")
    found = proposal(model)
    assert {slot.slot.tensor for slot in found.slots} == {"y0", "w"}
    assert found.skipped == ()
    values = ModelIndex.of(model).view.main.values
    assert origin(values["y0"]) is values["moved"]


@pytest.mark.parametrize("op_type", MOVING)
def test_rules_and_reports_find_the_pair_in_front_of_it(op_type: str):
    case = example(op_type)
    weights = helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"])
    product = helper.make_node("MatMul", ["y0", "wd"], ["y"])
    codes = np.rint(20 * weight(case)).astype(np.int8)
    model = network(case, pair("x", "moved"), [weights, product], {"w": codes, **SCALE}, "y")
    (left, _), *_ = [(found.left, found.right) for found in RuleContext(model).products]
    assert left is not None
    assert left.dequantize.output.name == "moved"
    assert [planned.planned for planned in planned_nodes(model)] == ["int8"]


@pytest.mark.parametrize("op_type", MOVING)
def test_codes_may_go_through_it(op_type: str):
    case = example(op_type)
    quantize = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["moved"])
    dequantize = helper.make_node("DequantizeLinear", ["y0", "s", "z"], ["y"])
    context = RuleContext(network(case, [quantize], [dequantize], SCALE, "y"))
    assert list(Unpaired().check(context, targets.get("tensorrt"))) == []
    assert len(CodeGroup.of(context, context.qdq.nodes[0]).entries) == 2


@pytest.mark.parametrize(
    ("op_type", "index"), [(op_type, index) for op_type in MOVING for index in ops.all_traits()[op_type].index_inputs]
)
def test_a_pair_on_its_indices_is_reported(op_type: str, index: int):
    case = next((case for case in node_cases(op_type) if index < len(case.inputs)), None)
    assert case is not None
    name, indices = case.proto.input[index], case.inputs[index]
    cast = helper.make_node("Cast", ["indices"], [name], to=helper.np_dtype_to_tensor_dtype(indices.dtype))
    before = [helper.make_node("Relu", ["x"], ["moved"]), *pair("given", "indices"), cast]
    model = network(case, before, [], {"given": indices.astype(np.float32), **SCALE}, "y0")
    kept = [tensor for tensor in model.proto.graph.initializer if tensor.name != name]
    del model.proto.graph.initializer[:]
    model.proto.graph.initializer.extend(kept)
    (fault,) = IndexPath().check(RuleContext(Model(model.proto)), targets.get("onnx"))
    assert fault.tensor.name == "indices"


@pytest.mark.parametrize("op_type", stated("keeps_magnitude"))
def test_its_output_is_not_measured_and_known_all_the_same(op_type: str):
    case = example(op_type)
    model = network(case, [helper.make_node("Neg", ["x"], ["moved"])], [], {}, "y0")
    index = ModelIndex.of(model)
    measured = measure_magnitudes(model, random_feeds(index, input_specs(model), seed=1, samples=1))
    values = index.view.main.values
    assert tensor_key(values["y0"]) not in measured
    assert Magnitudes(measured, index).of(values["y0"]) == measured[tensor_key(values["moved"])]


@pytest.mark.parametrize("op_type", stated("keeps_sign"))
def test_a_relu_in_front_of_it_does_what_a_pair_behind_would(op_type: str):
    case = example(op_type)
    relu = helper.make_node("Relu", ["x"], ["moved"])
    unsigned = {"s": np.float32(0.1), "z": np.uint8(0)}
    index = ModelIndex.of(network(case, [relu], pair("y0", "y"), unsigned, "y"))
    assert not absorbs_relu(index.qdq.nodes[0], index)
    index = ModelIndex.of(network(case, [helper.make_node("Neg", ["x"], ["moved"])], pair("y0", "y"), unsigned, "y"))
    assert absorbs_relu(index.qdq.nodes[0], index)


@pytest.mark.parametrize("op_type", stated("carries_infinity"))
def test_what_stands_for_infinity_is_found_in_front_of_it(op_type: str):
    case = example(op_type)
    mask = {"moved": np.full_like(case.x, -1e9)}
    behind = [helper.make_node("Add", ["x", "y0"], ["scores"]), helper.make_node("Softmax", ["scores"], ["y"])]
    index = ModelIndex.of(network(case, [], behind, mask, "y"))
    assert index.view.main.values["moved"] in find_infinity_constants(index, HalfType.FP16.largest).roots


@pytest.mark.parametrize("op_type", stated("carries_indices"))
def test_random_indices_behind_it_stay_inside_their_table(op_type: str):
    case = example(op_type)
    behind = [helper.make_node("Gather", ["table", "y0"], ["y"])]
    model = network(case, [helper.make_node("Identity", ["x"], ["moved"])], behind, {"table": floats(3, 2)}, "y")
    model.proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    feeds = random_feeds(ModelIndex.of(model), input_specs(model), seed=1)
    assert max(int(sample["x"].max()) for sample in feeds) == 2


@pytest.mark.parametrize("op_type", [each for each in MOVING if ops.all_traits()[each].factor_rule is None])
def test_a_joint_ends_at_it_unless_a_rule_says_where_channels_go(op_type: str):
    case = example(op_type)
    columns = floats(case.x.shape[-1], case.x.shape[-1])
    before, behind = helper.make_node("MatMul", ["x", "v"], ["moved"]), helper.make_node("MatMul", ["y0", "w"], ["y"])
    index = ModelIndex.of(network(case, [before], [behind], {"v": columns, "w": weight(case)}, "y"))
    points, alone = find_rescaling_points(index, PointKind.PRODUCT)
    assert points == ()
    assert f"{op_type} " in alone[0].reason
