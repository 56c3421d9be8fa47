"""Blocks that do not divide an axis: what is offered for which extents, and that exact fixes change no bit."""

from math import prod

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, tensor
from support.corpus._case import node as made
from support.fixing import assert_same_bits, attributes, carried_out, constant, descriptions, read, refusal
from support.ort_verdict import ort_outputs

from qdqtool.linting.rules import Fix, RuleContext
from qdqtool.linting.rules.fixes.reblock import reblock_fixes
from qdqtool.linting.rules.support.blocks import blocks

Shape = tuple[int, ...]
ALONE = "the scale fits no other axis"


def weight(shape: Shape, scale: Shape, axis: int, size: int, *, zero_point: bool = True) -> RuleContext:
    """Codes and block scales, all different, behind a DQ; zero points too where they are asked for."""
    codes = np.arange(prod(shape)).reshape(shape) * 7 % 31 - 15
    numbers = np.arange(prod(scale)).reshape(scale)
    constants = [tensor("w", codes, T.INT8), tensor("s", (1 + numbers) / 8), tensor("z", numbers, T.INT8)]
    sized = {"block_size": size} if size else {}
    names = ["w", "s", "z"] if zero_point else ["w", "s"]
    nodes = [made("DequantizeLinear", names, "d", axis=axis, **sized)]
    return read(graph_model(nodes, [], [("d", T.FLOAT, list(shape))], constants))


def fixes(context: RuleContext) -> tuple[Fix, ...]:
    (found,) = blocks(context)
    return reblock_fixes(found)


@pytest.mark.parametrize(
    ("shape", "scale", "axis", "size", "offered"),
    [
        ((4, 2), (2, 2), 0, 0, ["writes block_size = 2"]),
        ((3, 6), (3, 2), 1, 0, ["writes block_size = 3"]),
        ((5, 2), (2, 2), 0, 0, []),
        ((5, 2), (2, 2), 0, 3, ["quantizes again in blocks of 5"]),
        ((6, 2), (2, 2), 0, 4, ["splits blocks of 4 into blocks of 2", "quantizes again in blocks of 3"]),
        ((6, 2), (2, 2), -2, 4, ["splits blocks of 4 into blocks of 2", "quantizes again in blocks of 3"]),
        ((6, 2), (2, 2), 0, 5, ["quantizes again in blocks of 3"]),
        ((9, 2), (2, 2), 0, 6, ["splits blocks of 6 into blocks of 3", "quantizes again in blocks of 3"]),
        ((6, 2), (2, 2), 0, 6, []),
        ((6, 2), (2, 2), 0, 2, []),
        ((6, 2), (2, 2), 1, 4, [f"writes axis = 0 and block_size = 4: {ALONE}"]),
        ((6, 2), (2, 2), -1, 0, [f"writes axis = 0 and block_size = 3: {ALONE}"]),
        ((2, 6), (2, 2), 0, 3, [f"writes axis = 1 and block_size = 3: {ALONE}"]),
        ((2, 6), (2, 2), 0, 6, [f"writes axis = 1 and block_size = 3: {ALONE}"]),
        ((5, 2), (2, 2), 1, 0, []),
        ((6, 2, 2), (3, 2, 2), 1, 2, []),
        ((4, 2), (1, 2), 0, 4, ["writes the one block as scales on axis 1"]),
        ((4, 2), (4, 1), 1, 2, ["writes the one block as scales on axis 0"]),
        ((4, 2), (1, 2), 0, 0, ["writes the one block as scales on axis 1"]),
        ((2, 4, 2), (2, 1, 2), 1, 0, ["writes block_size = 4"]),
        ((2, 4, 2), (2, 2, 2), 1, 0, ["writes block_size = 2"]),
        ((4, 2, 2), (2, 2, 2), 0, 0, []),
        ((4, 4), (2, 2), 0, 2, []),
        ((4, 2), (4, 2), 0, 1, []),
    ],
)
def test_what_is_offered(shape: Shape, scale: Shape, axis: int, size: int, offered: list[str]):
    assert descriptions(fixes(weight(shape, scale, axis, size))) == offered


@pytest.mark.parametrize("zero_point", [True, False])
@pytest.mark.parametrize(
    ("shape", "scale", "axis", "size", "written"),
    [
        ((6, 2), (2, 2), 0, 4, {"axis": 0, "block_size": 2}),
        ((2, 6), (2, 2), 1, 4, {"axis": 1, "block_size": 2}),
        ((9, 2), (2, 2), 0, 6, {"axis": 0, "block_size": 3}),
        ((2, 3, 10), (2, 3, 3), 2, 4, {"axis": 2, "block_size": 2}),
        ((4, 2), (1, 2), 0, 4, {"axis": 1}),
        ((4, 2), (4, 1), 1, 2, {"axis": 0}),
    ],
)
def test_an_exact_fix_changes_no_bit(
    shape: Shape, scale: Shape, axis: int, size: int, written: dict[str, int], *, zero_point: bool
):
    context = weight(shape, scale, axis, size, zero_point=zero_point)
    fixed = carried_out(context, fixes(context)[0])

    assert attributes(fixed, "d") == written
    assert_same_bits(context, fixed)
    onnx.checker.check_model(fixed, full_check=True)
    counts = {constant(fixed, "d", index).shape for index in ((1, 2) if zero_point else (1,))}
    assert len(counts) == 1


def test_a_size_that_the_extents_tell_is_written():
    context = weight((4, 2), (2, 2), 0, 0)

    assert attributes(carried_out(context, fixes(context)[0]), "d") == {"axis": 0, "block_size": 2}


@pytest.mark.parametrize(("shape", "scale", "size", "blocks_of"), [((6, 2), (2, 2), 4, 3), ((5, 2), (2, 2), 3, 5)])
def test_other_blocks_get_the_scales_that_hold_them(shape: Shape, scale: Shape, size: int, blocks_of: int):
    context = weight(shape, scale, 0, size, zero_point=False)
    fixed = carried_out(context, fixes(context)[-1])
    codes = np.arange(prod(shape)).reshape(shape) * 7 % 31 - 15
    values = codes * np.repeat(np.arange(1, 5).reshape(scale) / 8, size, axis=0)[: shape[0]]

    grouped = values.reshape(-1, blocks_of, shape[1])
    np.testing.assert_allclose(constant(fixed, "d", 1), np.abs(grouped).max(axis=1) / 127, rtol=1e-6)
    assert attributes(fixed, "d") == {"axis": 0, "block_size": blocks_of}
    spread = np.repeat(constant(fixed, "d", 1), blocks_of, axis=0)
    assert np.all(np.abs(constant(fixed, "d", 0) * spread - values) <= spread * 0.5001)


@pytest.mark.parametrize(("shape", "scale", "size"), [((6, 2), (2, 2), 4), ((4, 2), (1, 2), 4)])
@pytest.mark.parametrize("name", ["s", "z"])
def test_scales_that_a_caller_gives_are_not_split(name: str, shape: Shape, scale: Shape, size: int):
    proto = weight(shape, scale, 0, size).model.proto
    (given,) = [each for each in proto.graph.initializer if each.name == name]
    proto.graph.initializer.remove(given)
    proto.graph.input.append(onnx.helper.make_tensor_value_info(name, given.data_type, list(scale)))
    context = read(proto)

    assert refusal(context, fixes(context)[0]) == f"'{name}' is not constant"


@pytest.mark.parametrize(("axis", "size"), [(1, 0), (1, 2), (-1, 128)])
def test_the_axis_that_the_scales_divide_is_written(axis: int, size: int):
    context = weight((4, 2), (2, 2), axis, size)
    (fix,) = fixes(context)
    fixed = carried_out(context, fix)

    assert attributes(fixed, "d") == {"axis": 0, "block_size": 2}
    codes, scale, zero = (
        onnx.numpy_helper.to_array(each).astype(np.float64) for each in context.model.proto.graph.initializer
    )
    (found,) = ort_outputs(fixed, {}).values()
    np.testing.assert_array_equal(found, (codes - zero.repeat(2, 0)) * scale.repeat(2, 0))
