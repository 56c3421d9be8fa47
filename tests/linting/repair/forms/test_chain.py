"""Fake-quantization in single operators is told from what looks like it: read from the model, without a run."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from qdqtool.linting.repair.forms._chain import Chain, chains, common_axis, is_zero_point
from qdqtool.linting.rules import RuleContext, UnfitError
from qdqtool.models.graph.model import Model

F = np.float32
PLAIN = "a = Div (x, s) b = Round (a) c = Clip (b, lo, hi) y = Mul (c, s)"
MUL = PLAIN.replace("Div (x, s)", "Mul (x, i)")
SHIFTED = "a = Div (x, s) b = Round (a) m = Add (b, z) c = Clip (m, lo, hi) d = Sub (c, v) y = Mul (d, s)"
CAST = "a = Div (x, s) b = Round (a) c = Clip (b, lo, hi) k = {} <to = {}> (c) f = {} <to = {}> (k) y = Mul (f, s)"


def context(nodes: str, data: str = "float[2,3]", opset: int = 21, **constants: object) -> RuleContext:
    header = f'<ir_version: 10, opset_import: ["": {opset}, "my": 1]>'
    proto = onnx.parser.parse_model(f"{header} g ({data} x, bool p) => (float[] y) {{ {nodes} }}")
    for name, value in ({"s": F(0.25), "lo": F(0), "hi": F(255)} | constants).items():
        if value is not None:
            proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value, F), name))
    return RuleContext(Model(proto))


def found(nodes: str, data: str = "float[2,3]", **constants: object) -> list[Chain]:
    return list(chains(context(nodes, data, **constants)))


def limits(onnx_type: int) -> tuple[int, int]:
    """The least and the greatest code, by the number of bits."""
    name = TensorProto.DataType.Name(onnx_type)
    bits = int(name.lstrip("UINT"))
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TYPES = (
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT4,
    TensorProto.UINT4,
    TensorProto.INT16,
    TensorProto.UINT16,
)


@pytest.mark.parametrize("onnx_type", TYPES)
def test_only_the_range_of_an_integer_type_is_one_of_codes(onnx_type: int):
    """A range that is wider or narrower by one is none, but for the symmetric ranges of int8 and int4."""
    low, high = limits(onnx_type)
    given = context(PLAIN)
    tensors = {tensor.name: tensor for tensor in given.model.proto.graph.initializer}
    is_narrow = onnx_type in {TensorProto.INT8, TensorProto.INT4}
    for least in (low - 1, low, low + 1, -low):
        for most in (high - 1, high, high + 1):
            tensors["lo"].raw_data, tensors["hi"].raw_data = F(least).tobytes(), F(most).tobytes()
            there = [(each.format.onnx_type, each.narrow) for each in chains(RuleContext(given.model))]
            expected = {(low, high): [(onnx_type, False)]} | (
                {(low + 1, high): [(onnx_type, True)]} if is_narrow else {}
            )
            assert there == expected.get((least, most), []), (least, most)


def test_a_chain_says_what_it_reads_and_makes():
    (chain,) = found(SHIFTED, s=[[0.25], [0.5]], z=[[1], [2]], v=[[1], [2]])
    assert (chain.round.op_type, chain.source.name, chain.result.name, str(chain.format)) == (
        "Round",
        "x",
        "y",
        "uint8",
    )
    assert (chain.scale.tolist(), chain.zero_point.tolist(), chain.axis) == ([[0.25], [0.5]], [[1], [2]], 0)


def test_one_round_that_is_no_chain_hides_no_other():
    nodes = f"n = Round (x) {PLAIN} o = Round (n)"
    assert [chain.result.name for chain in found(nodes)] == ["y"]
    assert not found("n = Round (x) y = Neg (n)")


@pytest.mark.parametrize(
    "nodes",
    [MUL, MUL.replace("(x, i)", "(i, x)"), MUL.replace("(c, s)", "(s, c)"), SHIFTED.replace("(b, z)", "(z, b)")],
)
def test_factors_and_addends_stand_on_either_side(nodes: str):
    (chain,) = found(nodes, i=4, z=3, v=3)
    assert (chain.source.name, chain.result.name, chain.scale.tolist()) == ("x", "y", 0.25)


ADDED, TAKEN = SHIFTED.replace("d = Sub (c, v)", "d = Identity (c)"), SHIFTED.replace("m = Add (b, z)", "")
ADDED, TAKEN = ADDED.replace("d = Identity (c)", "").replace("(d, s)", "(c, s)"), TAKEN.replace("(m, lo", "(b, lo")
ROW = [0.25, 0.5, 2]


@pytest.mark.parametrize(
    ("zero", "one_sided", "both"),
    [
        (0, True, True),
        ([0, 0, 0], True, True),
        (3, False, True),
        ([0, 1, 2], False, True),
        ([1, 1, 1], False, True),
        ([1, 300, 2], False, False),
        ([1, 2.5, 2], False, False),
        ([-1, 2, 2], False, False),
        (256, False, False),
    ],
)
def test_a_zero_point_is_added_and_taken_away_again(zero: object, one_sided: bool, both: bool):
    assert len(found(ADDED, s=ROW, z=zero)) == one_sided
    assert len(found(TAKEN, s=ROW, v=zero)) == one_sided
    assert len(found(SHIFTED, s=ROW, z=zero, v=zero)) == both
    assert not found(SHIFTED, s=ROW, z=zero, v=np.asarray(zero) + 1)


@pytest.mark.parametrize(
    ("codes", "is_one"),
    [(0, True), (255, True), (256, False), (-1, False), (0.5, False), ([0, 255], True), ([0, 256], False), ([], True)],
)
def test_zero_points_are_codes_of_the_format(codes: object, is_one: bool):
    (chain,) = found(PLAIN)
    assert is_zero_point(np.asarray(codes, np.float64), chain.format) is is_one


@pytest.mark.parametrize(
    ("scale", "data", "axis"),
    [
        ([0.5], "float[]", None),
        ([[0.5]], "float[2,3]", None),
        ([[0.5]], "float[]", "a constant has a higher rank than the data"),
        ([[[0.5]]], "float[2,3]", "a constant has a higher rank than the data"),
        (ROW, "float[]", "the rank of the data is unknown"),
        ([ROW], "float[3]", "the rank of the data is unknown"),
        ([[ROW]], "float[3,3]", "the rank of the data is unknown"),
        (ROW, "float[2,3]", 1),
        ([ROW], "float[2,3]", 1),
        ([[0.5], [2]], "float[2,3]", 0),
        ([[0.5], [2]], "float[4,2,3]", 1),
        ([[0.5, 2], [1, 1]], "float[2,2]", "the scale has several axes"),
        ([[0.5, 2], [1, 1]], "float[4,2]", "the scale has several axes"),
        (ROW, "float[3,1]", "the number of scales does not fit the data"),
        (ROW, "float[3,N]", "the number of scales does not fit the data"),
    ],
)
def test_a_scale_has_the_axis_along_which_it_is_broadcast(scale: object, data: str, axis: int | str | None):
    given = context("y = Neg (x)", data)
    shape = given.shape(given.view.main.values["x"])
    if isinstance(axis, str):
        with pytest.raises(UnfitError, match=rf"^{axis}$"):
            common_axis(np.asarray(scale, F), [], shape)
    else:
        assert common_axis(np.asarray(scale, F), [], shape) == axis
    assert [chain.axis for chain in found(PLAIN, data, s=scale)] == ([] if isinstance(axis, str) else [axis])


@pytest.mark.parametrize("other", [[[1], [2]], [ROW, ROW], [[[1]]]])
def test_what_is_broadcast_otherwise_than_the_scale_is_refused(other: object):
    with pytest.raises(UnfitError):
        common_axis(np.asarray(ROW, F), [np.asarray(other, F)], (2, 3))
    assert common_axis(np.asarray(ROW, F), [np.asarray(1, F), np.asarray(ROW, F)], (2, 3)) == 1


NO_CHAINS = {
    "a cast of another domain": (CAST.format("my.Cast", 2, "Cast", 1), {}),
    "a cast back of another domain": (CAST.format("Cast", 2, "my.Cast", 1), {}),
    "a cast back to double": (CAST.format("Cast", 2, "Cast", 11), {}),
    "no cast back": (CAST.format("Cast", 2, "Cast", 1).replace("Cast <to = 1> (k)", "Abs (k)"), {}),
    "a clip of another domain": (PLAIN.replace("Clip", "my.Clip"), {}),
    "bounds of several elements": (PLAIN, {"lo": [0, 0]}),
    "nothing in front": (MUL.replace("(x, i)", "(, i)"), {"i": 4}),
    "a name that nothing defines": (MUL.replace("(x, i)", "(nothing, i)"), {"i": 4}),
    "constant data": (MUL.replace("(x, i)", "(k, i)"), {"i": 4, "k": [1, 2, 3]}),
    "one of several scales is negative": (PLAIN, {"s": [0.25, -0.5, 2]}),
    "one of several scales is 0": (MUL, {"s": [0.25, 0.5, 2], "i": [4, 0, 0.5]}),
    "scales along two axes": (MUL, {"s": [0.25, 0.25, 0.25], "i": [[4], [4]]}),
    "scales of two axes for one": (MUL, {"s": 0.25, "i": [[4], [4]]}),
    "a scale of 0": (PLAIN, {"s": 0}),
    "the scale is divided": (PLAIN.replace("(x, s)", "(s, x)"), {}),
    "the scale is subtracted": (PLAIN.replace("Div", "Sub"), {}),
    "codes are subtracted": (SHIFTED.replace("(c, v)", "(v, c)"), {"z": 0, "v": 0}),
    "a round in nothing": ("b = Round () c = Clip (b, lo, hi) y = Mul (c, s)", {}),
}


@pytest.mark.parametrize("name", NO_CHAINS)
def test_what_looks_like_a_chain_is_none(name: str):
    nodes, constants = NO_CHAINS[name]
    assert found(nodes, **constants) == []


@pytest.mark.parametrize(
    ("factor", "is_one"), [(1, True), (1 + 1e-6, True), (1 - 1e-6, True), (1 + 1e-4, False), (0.5, False), (1.5, False)]
)
def test_the_factor_in_front_is_the_reciprocal_of_the_scale(factor: float, is_one: bool):
    assert len(found(MUL, i=4 * factor)) == is_one
    assert len(found(MUL, s=ROW, i=[4, 2 * factor, 0.5])) == is_one
    assert len(found(MUL, s=1e-9, i=1e9 * factor)) == is_one
    assert len(found(MUL, s=1e9, i=1e-9 * factor)) == is_one


@pytest.mark.parametrize("name", ["a", "b", "c", "y"])
def test_only_the_result_of_a_chain_may_be_read_elsewhere(name: str):
    assert len(found(f"{PLAIN} other = Neg ({name})")) == (name == "y")
    given = context(PLAIN).model
    given.proto.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    assert len(list(chains(RuleContext(given)))) == (name == "y")


@pytest.mark.parametrize("number", range(1, 4))
def test_an_output_without_a_name_ends_the_search(number: int):
    given = context(PLAIN).model
    given.proto.graph.node[number].output[0] = ""
    assert list(chains(RuleContext(given))) == []


def test_a_chain_stands_in_one_graph():
    body = "c = Clip (b, lo, hi) u = Mul (c, s)"
    nodes = f"""a = Div (x, s) b = Round (a) y = If (p) <
        then_branch = t () => (float[] u) {{ {body} }}, else_branch = e () => (float[] w) {{ w = Neg (x) }}>"""
    assert found(nodes) == []
    inside = nodes.replace("a = Div (x, s) b = Round (a)", "").replace(body, f"a = Div (x, s) b = Round (a) {body}")
    assert [chain.round.scope.path for chain in found(inside)] == [("y.then_branch",)]


@pytest.mark.parametrize("clipped", TYPES)
@pytest.mark.parametrize("cast", [TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.BOOL])
def test_casts_between_change_nothing_where_the_type_has_all_codes(clipped: int, cast: int):
    low, high = limits(clipped)
    least, most = limits(cast) if cast != TensorProto.BOOL else (0, 1)
    nodes = CAST.format("Cast", cast, "Cast", 1)
    assert len(found(nodes, lo=low, hi=high)) == (least <= low and high <= most)


def test_the_narrow_range_is_cast_to_int8():
    assert [chain.narrow for chain in found(CAST.format("Cast", 3, "Cast", 1), lo=-127, hi=127)] == [True]


def test_context_has_no_constant_of_text():
    given = context(PLAIN.replace("(x, s)", "(x, t)"))
    given.model.proto.graph.initializer.append(helper.make_tensor("t", TensorProto.STRING, [], [b"4"]))
    assert list(chains(RuleContext(given.model))) == []
