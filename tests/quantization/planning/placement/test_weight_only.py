"""Pairs of weight-only modes, with block sizes that fit; what stays float, and why."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto
from support.engine_models import Net

from qdqtool.errors import UsageError
from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.placement import PlacementProposal, Selection
from qdqtool.quantization.planning.placement.weight_only import WeightGoal, fitting_block, propose_weights

WHOLE = targets.get("tensorrt")
ANY = next(target for target in map(targets.get, targets.names()) if not target.whole_blocks)


@given(st.integers(1, 600), st.sampled_from([16, 32, 48, 64, 128, 256]))
def test_the_largest_half_of_the_asked_size_with_two_whole_blocks_is_taken(extent: int, asked: int) -> None:
    halves = [asked // 2**power for power in range(10) if asked // 2**power >= 16]
    fitting = [size for size in halves if extent % size == 0 and extent >= 2 * size]
    assert fitting_block(extent, asked, WHOLE) == max(fitting, default=None)


@given(st.integers(1, 600), st.sampled_from([16, 128]))
def test_a_target_that_takes_a_shorter_last_block_gets_the_asked_size(extent: int, asked: int) -> None:
    assert fitting_block(extent, asked, ANY) == asked


@pytest.mark.parametrize(("extent", "size"), [(32, 16), (16, None), (31, None), (48, 16), (64, 32), (256, 128)])
def test_examples_of_128(extent: int, size: int | None) -> None:
    assert fitting_block(extent, 128, WHOLE) == size


def proposed(
    model: onnx.ModelProto, mode: str = "int4", target: str = "tensorrt", **selection: Any
) -> PlacementProposal:
    chosen = modes.get(mode)
    goal = WeightGoal(chosen, chosen.block_size(None))
    return propose_weights(ModelIndex.of(Model(model)), targets.get(target), Selection(**selection), goal)


def reasons(model: onnx.ModelProto, mode: str = "int4", **selection: Any) -> dict[str, tuple[str, str]]:
    skipped = proposed(model, mode, **selection).skipped
    return {node.node: (node.reason.code, node.reason.text) for node in skipped}


def pairs(model: onnx.ModelProto, mode: str = "int4", **selection: Any) -> dict[str, tuple[str, str]]:
    slots = proposed(model, mode, **selection).slots
    return {each.slot.tensor: (str(each.scheme.granularity), each.reason) for each in slots}


def product(op: str, left: str, right: str, **attributes: Any) -> onnx.ModelProto:
    """Of activations ``x`` and ``i`` (integers) and constants, by name."""
    net = Net(21)
    net.float_weight("w", (64, 64))
    net.float_weight("deep", (2, 64, 64))
    net.float_weight("vector", (64,))
    net.float_weight("filter", (8, 64, 1, 1))
    net.constant("double", np.ones((64, 64)))
    net.constant("whole", np.ones((64, 64), np.int32))
    net.op("Cast", ["x"], "i", to=TensorProto.INT32)
    net.op("Relu", ["x"], "a")
    net.op("Transpose", [net.weight("q", (64, 64), axis=0)], "dq", perm=[1, 0])
    net.op(op, [left, right], "y", **attributes)
    return net.model({"x": (1, 64, 8, 8) if op == "Conv" else (64, 64)})


LEFT = "its constant is the left operand, but kernels take a quantized weight only as the right operand"


WIDE = "'double' is float64; TensorRT 11 quantizes bfloat16, float16, float32"


@pytest.mark.parametrize(
    ("op", "left", "right", "mode", "reason"),
    [
        ("MatMul", "x", "", "int4", ("missing-operand", "an operand is missing")),
        ("MatMul", "w", "x", "int4", ("constant-operand", LEFT)),
        ("MatMul", "", "x", "int4", ("no-weight", "it multiplies two activations: there is no weight to quantize")),
        ("MatMul", "x", "a", "int4", ("no-weight", "it multiplies two activations: there is no weight to quantize")),
        ("MatMul", "x", "dq", "int4", ("quantized-already", "it is quantized already")),
        ("MatMul", "x", "vector", "int4", ("vector-weight", "its weight is a vector")),
        ("Conv", "x", "filter", "int4", ("no-kernel", "no kernel takes int4 weights of Conv")),
        ("MatMul", "x", "double", "int8-weight-only", ("unsupported-type", WIDE)),
    ],
)
def test_a_product_without_a_weight_that_kernels_take_says_why(op, left, right, mode, reason):
    model = product(op, left, right)
    assert reasons(model, mode) == {f"y.{op}": reason}
    assert pairs(model, mode) == {}


@pytest.mark.parametrize(
    ("op", "left", "right", "attributes", "mode", "expected"),
    [
        ("MatMul", "x", "w", {}, "int4", {"w": ("blocks of 32 on axis 0", "weight of MatMul; 64 input channels need")}),
        ("Gemm", "x", "w", {"transB": 1}, "nvfp4", {"w": ("blocks of 16 on axis 1", "weight of Gemm")}),
        ("MatMul", "x", "deep", {}, "int8-weight-only", {"deep": ("per-axis 2", "weight of MatMul")}),
        ("Conv", "x", "filter", {}, "int8-weight-only", {"filter": ("per-axis 0", "weight of Conv")}),
    ],
)
def test_a_weight_has_the_scales_of_the_mode(op, left, right, attributes, mode, expected):
    found = pairs(product(op, left, right, **attributes), mode)
    assert {name: (where, why.partition(" blocks")[0]) for name, (where, why) in found.items()} == expected


def test_products_of_integers_are_no_question():
    model = product("MatMul", "i", "whole")
    assert (pairs(model), reasons(model)) == ({}, {})


def test_what_is_excluded_says_so_and_a_pattern_without_a_match_is_refused():
    model = product("MatMul", "x", "w")
    excluded = {"y.MatMul": ("excluded", "excluded by --op-types-to-exclude 'Mat*'")}
    assert reasons(model, op_types_to_exclude=("Mat*",)) == excluded
    with pytest.raises(UsageError, match="--nodes-to-quantize 'far' matches no node of the model"):
        proposed(model, nodes_to_quantize=("far",))


def test_of_other_operators_those_with_weights_that_take_no_pair_are_named():
    net = Net(21)
    net.op("Reshape", ["x", net.constant("shape", np.array([4, 2, 8]))], "steps")
    net.op("Add", ["x", "x"], "sum")
    net.op("Concat", ["x", "x"], "both", axis=0)
    net.op("Reshape", ["x", net.constant("square", np.array([1, 1, 8, 8]))], "image")
    net.op("GlobalAveragePool", ["image"], "pool")
    net.op(
        "LSTM", ["steps", net.float_weight("w", (1, 64, 8)), net.float_weight("r", (1, 64, 16))], "y", hidden_size=16
    )
    model = net.model({"x": (1, 64)})
    ((node, (code, text)),) = reasons(model).items()
    assert (node, code) == ("y.LSTM", "float-operator")
    assert text.startswith("TensorRT computes its steps in float, with and without pairs")
    excluded = {"y.LSTM": ("excluded", "excluded by --nodes-to-exclude 'y.LSTM'")}
    assert reasons(model, nodes_to_exclude=("y.LSTM", "sum.Add")) == excluded


LOOKUP = ("lookup-table", "it reads only a few rows of a table, so fewer bits would save no time")


@pytest.mark.parametrize(
    ("table", "named"), [("rows", True), ("row", False), ("deep", False), ("whole", False), ("x", False), ("", False)]
)
def test_a_lookup_in_a_stored_table_of_floats_is_named(table, named):
    net = Net(21)
    net.float_weight("rows", (8, 4))
    net.float_weight("row", (8,))
    net.float_weight("deep", (8, 4, 2))
    net.constant("whole", np.ones((8, 4), np.int32))
    net.op("Cast", ["x"], "index", to=TensorProto.INT64)
    net.op("Gather", [table, "index"], "y")
    model = net.model({"x": (2, 3)})
    assert reasons(model) == ({"y.Gather": LOOKUP} if named else {})
    excluded = ("excluded", "excluded by --op-types-to-exclude 'Gather'")
    assert reasons(model, op_types_to_exclude=("Gather",)) == ({"y.Gather": excluded} if named else {})


FUNCTION = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[4,4] x) => (float[4,4] y) { y = my.Layer (x, x) }
<domain: "my", opset_import: ["": 21]>
Layer (a, v) => (b) { r = Relu (a)  [inside] p = MatMul (r, r)  [argument] b = MatMul (p, v) }
"""


def test_in_a_function_the_right_operand_may_be_a_weight_of_the_caller():
    found = reasons(onnx.parser.parse_model(FUNCTION))
    assert found["inside"] == ("no-weight", "it multiplies two activations: there is no weight to quantize")
    told = "its weight may be an argument of the local function ('v'); inline the function to see"
    assert found["argument"] == ("function-argument", told)


@pytest.mark.parametrize("shape", [None, ("n", 3)])
def test_a_weight_that_cannot_be_computed_says_so(shape):
    """The Reshape does not fit its constant, so neither folding nor inference tells the shape."""
    net = Net(21)
    net.op("Reshape", [net.float_weight("k", (2, 4)), net.constant("wrong", np.array([-1, 3]))], "w")
    net.op("MatMul", ["x", "w"], "y")
    model = net.model({"x": (4, 64)})
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("w", TensorProto.FLOAT, shape))
    cause = "a shape does not fit, or it has more than 16,777,216 elements"
    text = f"its weight 'w' cannot be computed from its constants: {cause}"
    assert reasons(model) == {"y.MatMul": ("weight-not-computed", text)}
    model.graph.node[1].op_type = "Gather"
    model.graph.node[1].input[:] = ["w", "x"]
    assert reasons(model) == ({} if shape is None else {"y.MatMul": LOOKUP})
