"""Constants are read as real numbers, through Q, DQ and Transpose, in damaged and in very deep models too."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx.reference import ReferenceEvaluator
from support.corpus._case import graph_model, node, tensor

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.spans import StoredValues
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.model import Model

STORED = (tensor("w", [[1, 2, 3], [4, 5, 6]], T.INT8), tensor("f", [[1, 2, 3], [4, 5, 6]]), tensor("s", 0.5))


def read(nodes: list[onnx.NodeProto], name: str, *more: onnx.TensorProto) -> np.ndarray | None:
    """Read the tensor of that name."""
    model = graph_model(nodes, [("x", T.FLOAT, [2, 3])], [("y", T.FLOAT, None)], [*STORED, *more])
    context = RuleContext(Model(model))
    return StoredValues(context).array(context.view.scopes[0].values[name])


@pytest.mark.parametrize(
    ("nodes", "factor", "turned"),
    [
        ([node("DequantizeLinear", ["w", "s"], "y")], 0.5, False),
        ([node("DequantizeLinear", ["w", "s"], "d"), node("Transpose", ["d"], "y")], 0.5, True),
        ([node("Transpose", ["w"], "t"), node("DequantizeLinear", ["t", "s"], "y")], 0.5, True),
        ([node("QuantizeLinear", ["f", "s"], "q"), node("DequantizeLinear", ["q", "s"], "y")], 1, False),
        (
            [
                node("QuantizeLinear", ["f", "s"], "q"),
                node("Transpose", ["q"], "t"),
                node("DequantizeLinear", ["t", "s"], "y"),
            ],
            1,
            True,
        ),
    ],
)
def test_codes_are_multiplied_with_their_scale_once(nodes: list[onnx.NodeProto], factor: float, turned: bool):
    expected = factor * np.array([[1, 2, 3], [4, 5, 6]])

    found = read(nodes, "y")

    assert found is not None
    np.testing.assert_array_equal(found, expected.T if turned else expected)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("DequantizeLinear", ["y", "s"], "y")],
        [node("Transpose", ["y"], "y")],
        [
            node("QuantizeLinear", ["y", "s"], "q"),
            node("Transpose", ["q"], "t"),
            node("DequantizeLinear", ["t", "s"], "y"),
        ],
    ],
)
def test_a_cycle_is_no_constant(nodes: list[onnx.NodeProto]):
    assert read(nodes, "y") is None


@pytest.mark.parametrize("op_type", ["Transpose", "DequantizeLinear", "QuantizeLinear"])
def test_a_chain_of_any_length_is_followed_without_recursion(op_type: str):
    more = ["s"] if "Linear" in op_type else []
    nodes = [node(op_type, [f"t{index}" if index else "w", *more], f"t{index + 1}") for index in range(3_000)]

    assert read(nodes, "t3000") is None


@pytest.mark.parametrize(("length", "known"), [(8, True), (9, False)])
def test_8_nodes_are_followed(length: int, known: bool):
    types = ("QuantizeLinear", "DequantizeLinear")
    nodes = [node(types[index % 2], [f"t{index}" if index else "f", "s"], f"t{index + 1}") for index in range(length)]

    assert (read(nodes, f"t{length}") is not None) == known


@pytest.mark.parametrize(
    ("shape", "scale"), [([1, 3], [4]), ([3, 1], [1, 1]), ([1, 1], [4]), ([2, 3], [4]), ([2, 3], [2, 3])]
)
def test_a_scale_that_does_not_fit_is_not_multiplied(shape: list[int], scale: list[int]):
    stored = tensor("codes", np.ones(shape), T.INT8), tensor("many", np.ones(scale))

    assert read([node("DequantizeLinear", ["codes", "many"], "y", axis=0)], "y", *stored) is None


CODES = np.arange(-12, 12).reshape(4, 6)
FITTING = {
    "one scale": (CODES, T.INT8, 0.5, None, {}),
    "one scale of rank 1": (CODES, T.INT8, [0.5], None, {}),
    "a scale for each row": (CODES, T.INT8, [1, 2, 3, 4], None, {"axis": 0}),
    "a scale for each column": (CODES, T.INT8, [1, 2, 3, 4, 5, 6], None, {"axis": 1}),
    "a scale for each column, from the end": (CODES, T.INT8, [1, 2, 3, 4, 5, 6], None, {"axis": -1}),
    "a scale for each column, as ONNX takes it": (CODES, T.INT8, [1, 2, 3, 4, 5, 6], None, {}),
    "one row": (CODES[:1], T.INT8, [1, 2, 3, 4, 5, 6], None, {}),
    "a zero point": (CODES, T.INT8, 0.5, 3, {}),
    "a zero point of 0": (CODES, T.INT8, 0.5, 0, {}),
    "some zero points": (CODES, T.INT8, [1, 2, 3, 4], [0, 3, 0, -2], {"axis": 0}),
    "unsigned": (CODES + 12, T.UINT8, 0.5, 128, {}),
    "4 bits": (CODES % 8, T.INT4, 0.5, None, {}),
    "16 bits": (CODES * 1000, T.INT16, 0.5, None, {}),
    "fp8": (CODES, T.FLOAT8E4M3FN, 0.5, None, {}),
    "blocks of columns": (CODES, T.INT8, np.arange(1, 9).reshape(4, 2), None, {"axis": 1, "block_size": 3}),
    "blocks of rows": (CODES, T.INT8, np.arange(1, 13).reshape(2, 6), None, {"axis": 0, "block_size": 2}),
    # As many scales as rows, of which each is for a block.
    "square blocks": (CODES[:, :4], T.INT8, [[1, 2, 3, 4]], None, {"axis": 0, "block_size": 4}),
    "a bias": (CODES[0], T.INT32, 0.5, None, {}),
    "a bias with a scale for each channel": (CODES[0], T.INT32, [1, 2, 3, 4, 5, 6], None, {"axis": 0}),
    "a scalar": (np.array(7), T.INT8, 0.5, None, {}),
}


@pytest.mark.parametrize("name", FITTING)
@pytest.mark.parametrize("turned", [False, True])
def test_codes_stand_for_what_the_reference_computes(name: str, turned: bool):
    codes, elem_type, scale, zero, attributes = FITTING[name]
    stored = [tensor("codes", codes, elem_type), tensor("steps", scale)]
    stored += [tensor("zeros", zero, elem_type)] if zero is not None else []
    names = ["codes", "steps", *(["zeros"] if zero is not None else [])]
    nodes = [
        node("DequantizeLinear", names, "d", **attributes),
        node("Transpose" if turned else "Identity", ["d"], "y"),
    ]
    expected = ReferenceEvaluator(graph_model(nodes, [], [("y", T.FLOAT, None)], stored)).run(None, {})[0]

    np.testing.assert_array_equal(read(nodes, "y", *stored), expected)


def test_zero_points_of_0_move_nothing_whatever_their_shape():
    found = read([node("DequantizeLinear", ["w", "s", "zeros"], "y")], "y", tensor("zeros", [0, 0, 0], T.INT8))

    np.testing.assert_array_equal(found, [[0.5, 1, 1.5], [2, 2.5, 3]])


@pytest.mark.parametrize(
    "inputs",
    [
        [],
        ["w"],
        ["", "s"],
        ["nowhere", "s"],
        ["x", "s"],
        ["w", "computed"],
        ["w", "s", "computed_zero"],
        ["f", "s"],
        ["w", "rows"],
        ["text", "s"],
    ],
)
def test_a_damaged_or_computed_dq_gives_no_constant(inputs: list[str]):
    stored = tensor("rows", [[0.5, 0.5, 0.5]] * 2), onnx.helper.make_tensor("text", T.STRING, [1], [b"a"])
    model = graph_model(
        [node("DequantizeLinear", inputs, "y")],
        [("x", T.INT8, [2, 3]), ("computed", T.FLOAT, []), ("computed_zero", T.INT8, [])],
        [("y", T.FLOAT, None)],
        [*STORED, *stored],
    )
    context = RuleContext(Model(model))
    values = StoredValues(context)

    assert values.array(context.view.main.values["y"]) is None
    assert values.is_constant(context.view.main.values["y"]) == (bool(inputs) and inputs[0] in {"w", "f", "text"})


@pytest.mark.parametrize("name", ["text", "flags"])
def test_constants_of_no_numbers_are_not_read(name: str):
    text, flags = onnx.helper.make_tensor("text", T.STRING, [1], [b"a"]), tensor("flags", [True], T.BOOL)

    assert read([node("Identity", [name], "y")], name, text, flags) is None


def reader(*stored: onnx.TensorProto) -> tuple[StoredValues, Mapping[str, Value]]:
    """Read tensors of a model of its own, which also has the constant ``folded`` that is made by a Neg."""
    nodes = [*(node("Identity", [each.name], f"y{each.name}") for each in stored), node("Neg", ["one"], "folded")]
    model = graph_model(nodes, [], [("folded", T.FLOAT, None)], [*stored, tensor("one", 1.0)])
    context = RuleContext(Model(model))
    return StoredValues(context), context.view.main.values


def of_size(name: str, size: int) -> onnx.TensorProto:
    return onnx.TensorProto(name=name, data_type=T.INT8, dims=[size], raw_data=bytes(size))


def test_constants_of_up_to_2_to_the_23_elements_are_read_and_4_times_as_many_together():
    values, named = reader(of_size("most", 1 << 23), of_size("more", (1 << 23) + 1))

    assert values.array(named["more"]) is None
    for _ in range(4):
        assert values.array(named["most"]) is not None
    assert values.array(named["most"]) is None
    assert values.array(named["one"]) is None
    # A folded constant is small, and takes nothing of the limit.
    assert values.array(named["folded"]) == -1


@pytest.mark.parametrize(("size", "kept"), [(1 << 16, True), ((1 << 16) + 1, False)])
def test_small_constants_are_kept(size: int, kept: bool):
    values, named = reader(of_size("w", size))

    assert (values.array(named["w"]) is values.array(named["w"])) == kept
