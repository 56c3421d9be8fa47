"""The codes of a weight are those that ONNX reads, element by element; what is said of them is counted one by one."""

import itertools
import math

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto as T
from onnx import helper
from support.corpus._case import graph_model, node, tensor

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.weight_codes import MOST_UNPACKED, WeightCodes, weight_codes
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from qdqtool.numerics import formats

KINDS = {T.INT8: (-128, 127), T.UINT8: (0, 255), T.INT4: (-8, 7), T.UINT4: (0, 15), T.INT16: (-32768, 32767)}


def one_weight(stored: list[onnx.TensorProto], *, is_quantize: bool = False, **attributes: object) -> onnx.ModelProto:
    """A Q or DQ that reads the weight ``w`` with the scale ``s`` and, where it is stored, the zero point ``z``."""
    inputs = ["w", "s", *(each.name for each in stored if each.name == "z")]
    op_type = "QuantizeLinear" if is_quantize else "DequantizeLinear"
    return graph_model([node(op_type, inputs, "y", **attributes)], [], [("y", T.UNDEFINED, None)], stored)


def computed(model: onnx.ModelProto, name: str, shape: list[int] | None, elem_type: int = T.FLOAT) -> onnx.ModelProto:
    """The model with an input in place of a constant."""
    (stored,) = (each for each in model.graph.initializer if each.name == name)
    model.graph.initializer.remove(stored)
    model.graph.input.append(helper.make_tensor_value_info(name, elem_type, shape))
    return model


def read(model: onnx.ModelProto) -> WeightCodes | None:
    context = RuleContext(Model(model))
    return weight_codes(context, context.qdq.nodes[0])


@st.composite
def weights(draw: st.DrawFn) -> tuple[onnx.ModelProto, list[tuple[float, float]], int]:
    """A model, the code and zero point of each element of its weight, and the number of its scales."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    shape = tuple(draw(st.lists(st.integers(2, 5), min_size=1, max_size=3)))
    axis, kind, is_quantize = (
        draw(st.integers(0, len(shape) - 1)),
        draw(st.sampled_from(list(KINDS))),
        draw(st.booleans()),
    )
    block = draw(st.integers(0, 3))
    granularity = draw(st.sampled_from(["tensor", "one", "axis", *(["blocks"] if block else [])]))
    counts = {
        "tensor": (),
        "one": (1,),
        "axis": (shape[axis],),
        "blocks": (*shape[:axis], math.ceil(shape[axis] / max(block, 1)), *shape[axis + 1 :]),
    }[granularity]
    low, high = KINDS[kind]
    scale, zero = rng.choice([0.25, 0.5, 2.0, 4.0], counts), rng.integers(low, high, counts, endpoint=True)
    if not draw(st.booleans()):
        zero = np.zeros(counts)
    values = rng.integers(-100, 100, shape) / 8.0 if is_quantize else rng.integers(low, high, shape, endpoint=True)

    def place(at: tuple[int, ...]) -> tuple[int, ...]:
        if granularity == "blocks":
            return (*at[:axis], at[axis] // block, *at[axis + 1 :])
        return {"tensor": (), "one": (0,), "axis": (at[axis],)}[granularity]

    expected = []
    for at in itertools.product(*map(range, shape)):
        own = zero[place(at)]
        expected.append((values[at] / scale[place(at)] + own if is_quantize else values[at], own))
    stored = [tensor("w", values, T.FLOAT if is_quantize else kind), tensor("s", scale)]
    if zero.any() or is_quantize or draw(st.booleans()):
        stored.append(tensor("z", zero, kind))
    attributes = {"axis": draw(st.sampled_from([axis, axis - len(shape)]))}
    if granularity == "blocks" or (len(shape) > 1 and block):
        attributes["block_size"] = block
    return one_weight(stored, is_quantize=is_quantize, **attributes), expected, scale.size


@given(weights())
def test_codes_and_zero_points_are_those_of_each_element(case: tuple[onnx.ModelProto, list[tuple[float, float]], int]):
    model, expected, scales = case

    found = read(model)

    assert found is not None
    zero_points = np.broadcast_to(found.zero_point, found.codes.shape)
    assert list(zip(found.codes.tolist(), zero_points.tolist(), strict=True)) == expected
    assert found.groups == scales
    assert found.is_whole
    assert found.is_symmetric == (found.format.low < 0 and not any(zero for _, zero in expected))


CODES = np.arange(12).reshape(3, 4)


def coded(scale: object, zero_point: object = None, **attributes: object) -> onnx.ModelProto:
    """A DQ of these codes."""
    zeros = [] if zero_point is None else [tensor("z", zero_point, T.INT8)]
    return one_weight([tensor("w", CODES, T.INT8), tensor("s", scale), *zeros], **attributes)


def rounded(scale: object, values: object = CODES, **attributes: object) -> onnx.ModelProto:
    """A Q of float values."""
    return one_weight([tensor("w", values), tensor("s", scale)], is_quantize=True, **attributes)


ROWS, BY_ROW = [1, 1, 1], [1, 0, 2]


@pytest.mark.parametrize(
    ("model", "zero_points"),
    [
        pytest.param(coded(0.5), [0], id="none"),
        pytest.param(coded(0.5, [0, 0]), [0], id="zeros of another shape"),
        pytest.param(coded(0.5, [1, 2]), None, id="numbers of another shape"),
        pytest.param(coded(ROWS, BY_ROW, axis=0), [1] * 4 + [0] * 4 + [2] * 4, id="of rows"),
        pytest.param(coded(ROWS, BY_ROW, axis=1), None, id="of rows on the axis of columns"),
        pytest.param(coded(ROWS, BY_ROW, axis=2), None, id="axis out of range"),
        pytest.param(computed(coded(0.5, 1), "z", [], T.INT8), None, id="computed"),
        pytest.param(
            computed(coded(ROWS, BY_ROW, axis=0), "s", None), None, id="constant next to a scale that nobody knows"
        ),
    ],
)
def test_zero_points_fit_the_scale_or_the_weight_is_not_read(model: onnx.ModelProto, zero_points: list[int] | None):
    found = read(model)

    assert (found.zero_point.tolist() if found is not None else None) == zero_points


@pytest.mark.parametrize("shape", [[3], None])
def test_stored_codes_are_read_where_the_scale_is_computed(shape: list[int] | None):
    found = read(computed(coded(ROWS, axis=0), "s", shape))

    assert found is not None
    assert (found.codes.tolist(), found.scale, found.groups) == (list(range(12)), None, 1)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(computed(rounded(1.0), "s", []), id="scale computed"),
        pytest.param(rounded([1, 1], axis=0), id="2 scales of 3 rows"),
        pytest.param(rounded([1, 1, 1, 1], axis=0), id="4 scales of 3 rows"),
        pytest.param(rounded(np.ones((3, 2)), axis=1), id="a scale of 2 axes"),
        pytest.param(rounded(np.ones((2, 2)), axis=1, block_size=2), id="blocks of another number of rows"),
        pytest.param(rounded(1.0, np.zeros((0, 4))), id="no values"),
        pytest.param(one_weight([tensor("w", np.zeros((0, 4)), T.INT8), tensor("s", 1.0)]), id="no codes"),
        pytest.param(one_weight([tensor("w", CODES, T.INT32), tensor("s", 1.0)]), id="int32"),
        pytest.param(one_weight([tensor("w", CODES), tensor("s", 1.0)]), id="a DQ of floats"),
        pytest.param(computed(coded(1.0), "w", [3, 4], T.INT8), id="no weight"),
        pytest.param(
            graph_model([node("DequantizeLinear", ["", "s"], "y")], [], [], [tensor("s", 1.0)]), id="no input"
        ),
    ],
)
def test_what_is_not_read(model: onnx.ModelProto):
    assert read(model) is None


@pytest.mark.parametrize(
    ("kind", "count", "is_quantize", "is_read"),
    [
        (T.INT4, MOST_UNPACKED, False, True),
        (T.INT4, MOST_UNPACKED + 1, False, False),
        (T.INT8, MOST_UNPACKED + 1, False, True),
        (T.INT4, MOST_UNPACKED + 1, True, True),
    ],
)
def test_small_codes_of_a_large_weight_are_not_unpacked(kind: int, count: int, is_quantize: bool, is_read: bool):
    assert MOST_UNPACKED == 1024**2
    bits = 32 if is_quantize else {T.INT4: 4, T.INT8: 8}[kind]
    weight = onnx.TensorProto(name="w", dims=[count], data_type=T.FLOAT if is_quantize else kind)
    weight.raw_data = bytes(math.ceil(count * bits / 8))
    model = one_weight([weight, tensor("s", 1.0), tensor("z", 0, kind)], is_quantize=is_quantize)

    assert (read(model) is not None) == is_read


def test_a_large_weight_is_read_in_part_and_stands_for_part_of_its_groups():
    codes = np.resize([1, 2, 3], (1000, 131))
    model = one_weight([make_tensor("w", codes, T.INT8), tensor("s", np.ones(1000))], axis=0)

    found = read(model)

    assert found is not None
    assert (found.codes.size, found.is_whole) == (65536, False)
    assert found.groups == pytest.approx(1000 * 65536 / 131_000)


def some(codes: object, kind: str = "int8", zero_point: object = 0, groups: float = 1) -> WeightCodes:
    return WeightCodes(
        format=formats.get(kind),
        codes=np.asarray(codes, np.float64),
        values=None,
        zero_point=np.atleast_1d(np.asarray(zero_point, np.float64)),
        scale=None,
        groups=groups,
        is_whole=True,
    )


@pytest.mark.parametrize(
    ("kind", "zero_point", "symmetric"),
    [("int8", 0, True), ("int8", [0, 3], False), ("uint8", 0, False), ("uint8", 128, False), ("float8e4m3fn", 0, True)],
)
def test_codes_are_symmetric_where_0_stands_for_0_and_the_range_goes_below(
    kind: str, zero_point: object, symmetric: bool
):
    assert some([1, 2], kind, zero_point).is_symmetric == symmetric


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        ("int8", 127.5),
        ("int8", -128.5),
        ("uint8", -0.5),
        ("uint8", 255.5),
        ("int4", 7.5),
        ("int4", -8.5),
        ("float8e4m3fn", 462),
        ("float8e4m3fn", -462),
        ("float8e5m2", 57344 * 33 / 32),
        ("float4e2m1", 6.1875),
    ],
)
def test_codes_are_clipped_beyond_half_a_step(kind: str, last: float):
    beyond = last + math.copysign(0.001, last)

    assert some([last, 1], kind).clipped == 0
    assert some([beyond, 1], kind).clipped == 0.5


@pytest.mark.parametrize(
    ("codes", "lost"),
    [
        ([0, 0], 0),
        ([127, -128], 0),
        ([254, 0], 0.5),
        ([0, -256], 0.5),
        ([127 + 300, 0], 300 / 427),
        ([130, 131, 0], 5 / math.hypot(130, 131)),
        ([np.finfo(np.float64).max, -np.finfo(np.float64).max], 1),
    ],
)
def test_what_clipping_loses_is_a_part_of_the_whole(codes: list[float], lost: float):
    assert some(codes).lost == pytest.approx(lost)


@pytest.mark.parametrize(
    ("codes", "zero_point", "kind", "groups", "share"),
    [
        ([127], 0, "int8", 1, 0),
        ([127, 127], 0, "int8", 1, 1),
        ([127, 127, 5], 0, "int8", 1, 1 / 2),
        ([127, 5, 5], 0, "int8", 2, 0),
        ([-127, -128, 5, 5], 0, "int8", 1, 1 / 3),
        ([-126, 126, 5, 5], 0, "int8", 1, 0),
        ([-127, -127, -127, 5, 5], 1, "int8", 1, 0),
        ([-128, -128, -128, 5, 5], 1, "int8", 1, 1 / 3),
        ([-128, 127, 127, 5, 5, 5], 1, "int8", 1, 1 / 4),
        ([0, 0, 255, 255, 9, 9, 9], 7, "uint8", 1, 2 / 5),
        ([0, 0, 255, 255, 9, 9, 9, 9], 7, "uint8", 1.5, 1 / 5),
        ([0, 0, 0, 255, 255, 9], 0, "uint8", 0.5, 1 / 2),
        ([0, 255, 255, 255], 255, "uint8", 0.25, 1),
        ([0, 0, 127, 127, 127, 9, 9], 0, "int8", 1, 1 / 2),
        ([448, 448, -448, 1, 1], 0, "float8e4m3fn", 1, 1 / 2),
    ],
)
def test_codes_at_the_ends_are_counted_beyond_those_of_the_greatest_values(
    codes: list[float], zero_point: int, kind: str, groups: float, share: float
):
    assert some(codes, kind, zero_point, groups).at_the_ends == pytest.approx(share)


def test_levels_are_magnitudes_from_the_zero_point():
    found = some([3, 5, 1, 7, 3, -1], zero_point=3)

    assert found.distances.tolist() == [2, 2, 4, 4]
    assert found.levels == 2
    assert found.used == 7 / 127
