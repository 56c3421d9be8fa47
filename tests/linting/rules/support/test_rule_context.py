"""What rules ask about a model: constants, types, shapes and axes, through local functions and in damaged models."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper
from support.corpus._case import graph_model, node, tensor

from qdqtool.errors import ModelError
from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.rule_context import Memo
from qdqtool.models import targets
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.model import Model
from qdqtool.models.targets import Target

STORED = (
    tensor("s", 0.5),
    tensor("half", 0.5, T.FLOAT16),
    tensor("w", [[1, 2, 3]], T.INT8),
    tensor("z", 0, T.INT8),
    tensor("three", [1, 2, 3]),
    helper.make_tensor("words", T.STRING, [1], ["a"]),
)


def context_of(*nodes: onnx.NodeProto, elem_type: int = T.FLOAT, shape: list[int] | None = None) -> RuleContext:
    """A context of a graph with the input ``x`` and, not declared, the output ``y``."""
    model = graph_model(nodes, [("x", elem_type, shape)], [], STORED)
    model.graph.output.add(name="y")
    return RuleContext(Model(model))


def value(context: RuleContext, name: str) -> Value:
    return context.view.scopes[0].values[name]


def entry(context: RuleContext, index: int = 0) -> QdqNode:
    return context.qdq.nodes[index]


def test_names_of_a_model_without_a_file_are_checked():
    model = graph_model([node("Relu", ["x"], "y")], [("x", T.FLOAT, [1])], [("y", T.FLOAT, [1])], [])
    broken = onnx.ModelProto.FromString(model.SerializeToString().replace(b"Relu", b"\xffelu"))

    with pytest.raises(ModelError):
        RuleContext(Model(broken))
    # load_model checks those that have one.
    assert RuleContext(Model(broken, path=Path("model.onnx"))).nodes


def test_an_absent_tensor_has_nothing():
    context = context_of(node("Relu", ["x"], "y"))

    assert [context.array(None), context.elem_type(None), context.shape(None)] == [None, None, None]


def test_scales_are_read_where_they_are_numbers():
    context = context_of(node("Add", ["x", "three"], "y"), node("Identity", ["words"], "other"))

    found = context.array(value(context, "three"))

    assert found is not None
    assert found.tolist() == [1, 2, 3]
    assert context.array(value(context, "words")) is None
    assert context.array(value(context, "x")) is None
    assert context.array(value(context, "y")) is None
    assert context.unreadable == {}


def test_why_a_scale_cannot_be_read_is_kept():
    short = onnx.TensorProto(name="short", dims=[4], data_type=T.FLOAT, raw_data=b"\0" * 8)
    model = graph_model([node("DequantizeLinear", ["x", "short"], "y")], [("x", T.INT8, [4])], [], [short])
    context = RuleContext(Model(model))
    scale = value(context, "short")

    assert context.array(scale) is None
    assert "short" in context.unreadable[scale]


@pytest.mark.parametrize(
    ("array", "low", "high"),
    [
        (np.float32(0.5), 0.5, 0.5),
        (np.array([-2.0], np.float32), -2, -2),
        (np.array([3.0, -1.0, 2.0], np.float32), -1, 3),
        (np.array([3.0, -1.0, 2.0]), -1, 3),
        (np.array(-7, np.int8), -7, -7),
        (np.array([[4, 5], [0, 1]], np.uint8), 0, 5),
        (np.array([0.5, np.nan], np.float32), np.nan, np.nan),
        (np.array([np.nan], np.float16), np.nan, np.nan),
        # Legal as a scale: that a constant is empty is reported by a rule of its own.
        (np.zeros(0, np.float32), 1, 1),
    ],
)
def test_bounds_are_the_least_and_the_greatest_value(array: np.ndarray, low: float, high: float):
    context = context_of(node("Add", ["x", "three"], "y"))

    found = context.bounds(value(context, "three"), np.asarray(array))

    np.testing.assert_equal((found.low, found.high), (low, high))


@pytest.mark.parametrize(
    ("nodes", "elem_type"),
    [
        ([node("QuantizeLinear", ["x", "s", "z"], "y")], T.INT8),
        ([node("QuantizeLinear", ["x", "s"], "y")], T.UINT8),
        ([node("QuantizeLinear", ["x", "s"], "y", output_dtype=T.INT4)], T.INT4),
        ([node("QuantizeLinear", ["x", "s", "nowhere"], "y")], T.UINT8),
        ([node("Unknown", ["x"], "zero"), node("QuantizeLinear", ["x", "s", "zero"], "y")], None),
        ([node("DequantizeLinear", ["w", "s"], "y")], T.FLOAT),
        ([node("DequantizeLinear", ["w", "half"], "y")], T.FLOAT16),
        ([node("DequantizeLinear", ["w", "half"], "y", output_dtype=T.FLOAT)], T.FLOAT),
        ([node("DequantizeLinear", ["w"], "y")], None),
        ([node("DequantizeLinear", ["w"], "y", output_dtype=T.FLOAT)], T.FLOAT),
        ([node("DequantizeLinear", ["w", "half"], "d"), node("DequantizeLinear", ["w", "d"], "y")], T.FLOAT16),
        ([node("QuantizeLinear", ["x", "s", "z"], "d"), node("DequantizeLinear", ["w", "d"], "y")], T.INT8),
        ([node("DequantizeLinear", ["w", "d"], "y"), node("DequantizeLinear", ["w", "y"], "d")], None),
        ([node("DequantizeLinear", ["w", "y"], "y")], None),
        ([node("Relu", ["x"], "y")], T.FLOAT),
        ([node("Unknown", ["x"], "y")], None),
    ],
)
def test_types_of_what_q_and_dq_make(nodes: list[onnx.NodeProto], elem_type: int | None):
    context = context_of(*nodes, shape=[1, 3])

    assert context.elem_type(value(context, "y")) == elem_type


def test_a_row_of_dqs_of_any_length_returns_the_type_of_the_last_scale():
    row = [node("DequantizeLinear", ["w", f"d{index + 1}"], f"d{index}") for index in range(100)]

    context = context_of(*row, node("DequantizeLinear", ["w", "half"], "d100"))

    assert context.elem_type(value(context, "d0")) == T.FLOAT16


def test_the_output_type_of_a_dq_is_given_or_that_of_its_scale():
    context = context_of(
        node("DequantizeLinear", ["w", "half"], "d0"),
        node("DequantizeLinear", ["w", "half"], "d1", output_dtype=T.FLOAT),
        node("DequantizeLinear", ["w", "nowhere"], "d2"),
    )

    assert [context.output_type(each) for each in context.qdq.nodes] == [T.FLOAT16, T.FLOAT, None]


def test_the_shape_of_data_is_that_of_the_output_where_the_input_has_none():
    nodes = [node("Unknown", ["x"], "data"), node("DequantizeLinear", ["data", "s"], "y")]
    context = context_of(*nodes)
    assert context.data_shape(entry(context)) is None

    model = context.model.proto
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", T.FLOAT, [2, "n"]))
    context = RuleContext(Model(model))
    assert context.data_shape(entry(context)) == (2, "n")


def test_the_shape_of_data_is_that_of_the_input_where_it_is_known():
    context = context_of(node("DequantizeLinear", ["w"], "y"))

    assert context.data_shape(entry(context)) == (1, 3)


@pytest.mark.parametrize(
    ("axis", "found"), [(0, 0), (1, 1), (2, 2), (3, None), (99, None), (-1, 2), (-3, 0), (-4, None)]
)
def test_an_axis_is_counted_from_the_front(axis: int, found: int | None):
    context = context_of(node("QuantizeLinear", ["x", "three", "z"], "y", axis=axis), shape=[3, 3, 3])

    assert context.axis(entry(context)) == found


def test_an_axis_of_a_scalar_or_of_an_unknown_rank_is_unknown():
    for shape in ([], None):
        context = context_of(node("QuantizeLinear", ["x", "three", "z"], "y", axis=0), shape=shape)
        assert context.axis(entry(context)) is None


HEADER = """
    <ir_version: 10, opset_import: ["": 21, "local": 1]>
    agraph (float[1,4] x, float t) => (float[1,4] y)
    <float s = {0.5}, float same = {0.5}, float other = {0.25}, float u = {2}>
"""
FUNCTION = """
    <domain: "local", opset_import: ["": 21, "local": 1]>
    quantized (a, scale) => (b) {
        twice = Add (scale, scale)
        q = QuantizeLinear (a, scale)
        b = DequantizeLinear (q, scale)
    }
"""
OUTER = """
    <domain: "local", opset_import: ["": 21, "local": 1]>
    outer (a, given) => (b) {
        b = local.quantized (a, given)
    }
"""
CYCLE = """
    <domain: "local", opset_import: ["": 21, "local": 1]>
    quantized (a, scale) => (b) {
        q = QuantizeLinear (a, scale)
        b = local.quantized (q, scale)
    }
"""


def in_function(body: str, *functions: str) -> tuple[RuleContext, Value]:
    """A model whose main graph is ``body``, and the formal input of its function ``quantized``."""
    text = "".join(inspect.cleandoc(part) + "\n" for part in (HEADER + body, *functions))
    context = RuleContext(Model(onnx.parser.parse_model(text)))
    (scope,) = (scope for (_, name, _), scope in context.functions.items() if name == "quantized")
    return context, scope.values["scale"]


@pytest.mark.parametrize(
    ("body", "functions", "scale", "is_constant"),
    [
        ("{ y = local.quantized (x, s) }", [FUNCTION], 0.5, True),
        ("{ m = local.quantized (x, s)  y = local.quantized (m, s) }", [FUNCTION], 0.5, True),
        ("{ m = local.quantized (x, s)  y = local.quantized (m, same) }", [FUNCTION], 0.5, True),
        ("{ m = local.quantized (x, s)  y = local.quantized (m, other) }", [FUNCTION], None, True),
        ("{ m = local.quantized (x, s)  y = local.quantized (m) }", [FUNCTION], None, True),
        ("{ m = local.quantized (x)  y = local.quantized (m) }", [FUNCTION], None, True),
        ("{ m = local.quantized (x, s)  y = local.quantized (m, t) }", [FUNCTION], None, False),
        ("{ m = local.quantized (x, t)  y = local.quantized (m, s) }", [FUNCTION], None, False),
        (
            "{ m = local.quantized (x, t)  n = local.quantized (m, s)  y = local.quantized (n, s) }",
            [FUNCTION],
            None,
            False,
        ),
        ("{ y = local.quantized (x, t) }", [FUNCTION], None, False),
        ("{ v = Add (t, s)  y = local.quantized (x, v) }", [FUNCTION], None, False),
        ("{ v = Add (s, s)  y = local.quantized (x, v) }", [FUNCTION], 1, True),
        ("{ v = Identity (s)  y = local.quantized (x, v) }", [FUNCTION], 0.5, True),
        ("{ y = Relu (x) }", [FUNCTION], None, True),
        ("{ y = local.outer (x, s) }", [FUNCTION, OUTER], 0.5, True),
        ("{ y = local.outer (x, t) }", [FUNCTION, OUTER], None, False),
        ("{ m = local.outer (x, s)  y = local.quantized (m, s) }", [FUNCTION, OUTER], None, True),
        ("{ y = local.quantized (x, s) }", [CYCLE], None, True),
        ("{ y = local.quantized (x, t) }", [CYCLE], None, False),
        ("{ y = Relu (x) }", [CYCLE], None, True),
    ],
)
def test_an_input_of_a_function_is_what_every_call_passes(
    body: str, functions: list[str], scale: float | None, is_constant: bool
):
    context, formal = in_function(body, *functions)

    found = context.array(formal)

    assert (found.tolist() if found is not None else None) == scale
    assert context.is_constant(formal) == is_constant


def test_what_a_function_computes_is_not_what_is_passed():
    context, formal = in_function("{ y = local.quantized (x, s) }", FUNCTION)
    twice = formal.scope.values["twice"]

    assert context.argument(twice) is twice
    assert context.array(twice) is None
    assert not context.is_constant(twice)


def test_an_input_of_the_main_graph_is_no_formal_input():
    context, _ = in_function("{ y = local.quantized (x, s) }", FUNCTION)
    x = value(context, "x")

    assert context.argument(x) is x
    assert not context.is_constant(x)
    assert context.is_constant(value(context, "s"))


def test_what_reads_no_target_runs_once():
    runs: list[str] = []

    def check(_target: Target) -> Iterator[str]:
        runs.append("run")
        yield "fault"

    memo: Memo[str] = Memo()
    found = [memo.recall(targets.get(name), check) for name in targets.names()]

    assert found == [("fault",)] * len(targets.names())
    assert len(runs) == 1


def test_what_reads_the_family_runs_for_each_family():
    memo: Memo[str] = Memo()
    found = {name: memo.recall(targets.get(name), lambda target: iter([target.family])) for name in targets.names()}

    assert found == {name: (targets.get(name).family,) for name in targets.names()}


def test_a_field_that_is_read_only_for_some_targets_counts_for_them():
    def check(target: Target) -> Iterator[str]:
        yield target.id if target.family == "tensorrt" else "other"

    memo: Memo[str] = Memo()
    found = [memo.recall(targets.get(name), check)[0] for name in ("onnx", "tensorrt", "ort-cpu", "tensorrt-rtx")]

    assert found == ["other", "tensorrt", "other", "tensorrt-rtx"]
