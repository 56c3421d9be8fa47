"""Zero points of int32 codes are subtracted from the codes, where the difference is an int32."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, tensor
from support.corpus._case import node as made
from support.fixing import assert_same_bits, carried_out, constant, located, node, read, refusal

from qdqtool.linting.rules import RuleContext

CODE = "QS006"
LOW, HIGH = -(2**31), 2**31 - 1


def bias(codes: list[int], zeros: int | list[int], kind: int = T.INT32) -> RuleContext:
    """Stored codes with one scale, or one for each code."""
    count = [len(zeros)] if isinstance(zeros, list) else []
    stored = np.reshape(codes, [len(codes)])
    constants = [tensor("b", stored, kind), tensor("s", np.ones(count)), tensor("z", zeros, kind)]
    nodes = [made("DequantizeLinear", ["b", "s", "z"], "d", axis=0), made("Neg", ["d"], "y")]
    return read(graph_model(nodes, [], [("y", T.FLOAT, [len(codes)])], constants, 23, 11))


@pytest.mark.parametrize(
    ("zeros", "kind", "found"),
    [
        (5, T.INT32, "5"),
        (-7, T.INT32, "-7"),
        ([0, 5, -3], T.INT32, "5"),
        (0, T.INT32, None),
        ([0, 0, 0], T.INT32, None),
        (5, T.INT8, None),
    ],
    ids=str,
)
def test_which_zero_points_are_reported(zeros: int | list[int], kind: int, found: str | None):
    reported = [
        (finding.message, finding.found, finding.expected, finding.tensor)
        for finding, _ in located(CODE, bias([1, 2, 3], zeros, kind), "onnx")
    ]
    message = f"zero point 'z' of int32 codes is {found}"
    assert reported == ([(message, found, "0, or no zero point", "z")] if found else [])


@pytest.mark.parametrize("zero", ["", "z"])
def test_without_a_constant_zero_point_nothing_is_reported(zero: str):
    proto = bias([1, 2, 3], 5).model.proto
    if zero:
        (given,) = [each for each in proto.graph.initializer if each.name == zero]
        proto.graph.initializer.remove(given)
        proto.graph.input.append(onnx.helper.make_tensor_value_info(zero, T.INT32, []))
    else:
        del proto.graph.node[0].input[2]

    assert located(CODE, read(proto), "onnx") == []


@pytest.mark.parametrize(
    ("codes", "zeros", "fits"),
    [
        ([1, 2, 3], 5, True),
        ([1, 2, 3], [0, 5, -3], True),
        ([HIGH - 1, 0], -1, True),
        ([LOW + 1, 0], 1, True),
        ([HIGH, 0], -1, False),
        ([0, HIGH], -1, False),
        ([LOW, 0], 1, False),
        ([0, LOW], 1, False),
        ([LOW, HIGH], [-1, 1], True),
        ([0, 0], LOW, False),
        ([], 5, True),
    ],
    ids=str,
)
def test_codes_are_shifted_where_the_difference_is_in_range(codes: list[int], zeros: int | list[int], *, fits: bool):
    context = bias(codes, zeros)
    ((_, fault),) = located(CODE, context, "onnx")
    (fix,) = fault.fixes
    if not fits:
        assert refusal(context, fix) == "codes minus zero point are outside int32"
        return
    fixed = carried_out(context, fix)
    assert constant(fixed, "d", 0).tolist() == (np.array(codes, np.int64) - np.array(zeros)).tolist()
    assert constant(fixed, "d", 0).dtype == np.int32
    assert list(node(fixed, "d").input)[2:] in ([], [""])
    assert_same_bits(context, fixed)
