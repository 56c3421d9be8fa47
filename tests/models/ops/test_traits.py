"""What is stated of operators holds for what ONNX Runtime makes of them, on ONNX's own examples with other values.

The laws run over every operator that states a property: nobody has to list a new one here.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.onnx_cases import Array, OnnxCase, floats, integers, make_case, node_cases, random_like
from support.paths import ROOT

from qdqtool.models import ops
from qdqtool.models.ops import ChannelLayout, CodePath, ProductOp, Span, Traits, constant_span
from qdqtool.registry import load_unit, unit_names

WRITTEN = (
    make_case("Cast", [floats(2, 3)], {"to": 11}),
    make_case("Flatten", [floats(2, 3, 4, 5)], {}),
    make_case("Pad", [floats(1, 2, 3, 4), integers(0, 0, 1, 2, 0, 0, 1, 0)], {}),
    make_case("ReduceMax", [floats(2, 3, 4, 5), integers(2, 3)], {}),
    make_case("ReduceMean", [floats(2, 3, 4, 5), integers(2, 3)], {}),
    make_case("Reshape", [floats(2, 3, 4, 5), integers(0, -1)], {}),
    make_case("Squeeze", [floats(2, 3, 1, 1), integers(2, 3)], {}),
)
"""What ONNX has no example of: a Cast that keeps every value, and rules for channels on axis 1."""

FROM_MOVING = ("keeps_sign", "keeps_magnitude", "carries_infinity", "carries_indices")
"""Properties that follow from moving values."""

NOT_RELIED_ON = {
    "DepthToSpace": {"carries_infinity", "carries_indices"},
    "Expand": {"keeps_sign", "carries_indices"},
    "Flatten": {"carries_infinity"},
    "Gather": {"keeps_sign", "carries_indices"},
    "GatherElements": {"keeps_sign", "carries_infinity", "carries_indices"},
    "GatherND": {"keeps_sign", "carries_infinity", "carries_indices"},
    "GlobalMaxPool": {"keeps_magnitude", "carries_infinity", "carries_indices"},
    "MaxPool": {"carries_infinity", "carries_indices"},
    "Slice": {"carries_indices"},
    "SpaceToDepth": {"keeps_sign", "carries_infinity", "carries_indices"},
    "Split": {"keeps_sign", "carries_infinity", "carries_indices"},
    "Tile": {"keeps_sign", "carries_indices"},
}
"""Which of these hold for an operator and are not stated: relying on them would change what is made of models."""


def examples(op_type: str) -> list[OnnxCase]:
    """The examples of an operator, for inference: at least one."""
    found = [*node_cases(op_type), *(case for case in WRITTEN if case.proto.op_type == op_type)]
    assert found, f"no example of {op_type}"
    return [case for case in found if not (op_type == "Dropout" and len(case.inputs) > 2)]


def stating(states: Callable[[Traits], object]) -> list[str]:
    return [op_type for op_type, known in ops.all_traits().items() if states(known)]


def float_outputs(case: OnnxCase, x: Array) -> list[Array]:
    outputs = [made for made in case.run(x) if made.dtype.kind == "f"]
    assert outputs
    return outputs


@pytest.mark.parametrize("op_type", stating(lambda known: known.moves_values))
def test_what_moves_values_makes_no_new_ones(op_type: str):
    for case in examples(op_type):
        x = random_like(case.x)
        for made in float_outputs(case, x):
            assert np.isin(made, x).all(), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.moves_values or known.moves_values_if))
def test_quantizing_may_be_done_on_either_side_of_what_moves_values(op_type: str):
    def fake_quantize(x: Array) -> Array:
        return np.clip(np.rint(x / np.float32(0.25)), -128, 127) * np.float32(0.25)

    found = [case for case in examples(op_type) if ops.moves_codes(case.node)]
    assert found
    for case in found:
        x = random_like(case.x)
        in_front, behind = float_outputs(case, fake_quantize(x)), [fake_quantize(y) for y in float_outputs(case, x)]
        assert all(map(np.array_equal, in_front, behind)), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.passes_values))
def test_what_passes_values_leaves_each_in_its_place(op_type: str):
    for case in examples(op_type):
        x = random_like(case.x)
        assert np.array_equal(case.run(x)[0], x), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.keeps_sign))
def test_what_keeps_signs_makes_nothing_negative_of_what_is_not(op_type: str):
    for case in examples(op_type):
        assert all((made >= 0).all() for made in float_outputs(case, np.abs(random_like(case.x)))), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.nonnegative))
def test_what_is_nonnegative_makes_nothing_negative_of_anything(op_type: str):
    for case in examples(op_type):
        assert not any((made < 0).any() for made in float_outputs(case, 5 * random_like(case.x))), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.keeps_sign_of_all))
def test_what_keeps_the_sign_of_all_inputs_makes_nothing_negative_of_what_is_not(op_type: str):
    for case in examples(op_type):
        rest = {i: np.abs(array) for i, array in enumerate(case.inputs) if i and array is not None}
        made = case.run(np.abs(random_like(case.x)), rest)
        assert all((each >= 0).all() for each in made if each.dtype.kind == "f"), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.nonnegative_if))
def test_what_is_nonnegative_by_its_attributes_is_so(op_type: str):
    rule = ops.all_traits()[op_type].nonnegative_if
    assert rule is not None
    found = [case for case in examples(op_type) if rule(case.node, case.index.constants)]
    for case in found:
        assert not any((made < 0).any() for made in float_outputs(case, 5 * random_like(case.x))), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.keeps_magnitude))
def test_what_keeps_magnitudes_makes_nothing_larger(op_type: str):
    for case in examples(op_type):
        x = random_like(case.x)
        assert all(np.abs(made).max(initial=0) <= np.abs(x).max() for made in float_outputs(case, x)), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.bound is not None))
def test_what_has_a_bound_never_exceeds_it(op_type: str):
    bound = ops.all_traits()[op_type].bound
    for case in examples(op_type):
        for factor in (1, 1000):
            made = float_outputs(case, factor * random_like(case.x))
            assert all(np.abs(each).max(initial=0) <= bound * (1 + 1e-6) for each in made), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.carries_infinity))
def test_what_carries_infinity_makes_zeros_at_most_besides(op_type: str):
    for case in examples(op_type):
        x = random_like(case.x)
        assert np.isin(case.run(x)[0], [*x.flat, 0]).all(), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.carries_indices))
def test_what_carries_indices_makes_no_other_integers(op_type: str):
    for case in examples(op_type):
        x = np.floor(50 * random_like(case.x))
        assert np.isin(case.run(x)[0], x).all(), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.keeps_order_only))
def test_what_asks_for_the_order_makes_the_same_of_codes(op_type: str):
    for case in examples(op_type):
        codes = np.rint(20 * random_like(case.x))
        of_codes, of_values = case.run(codes), case.run((codes - 3) * np.float32(0.5))
        for from_codes, from_values in zip(of_codes, of_values, strict=True):
            picked = from_codes.dtype.kind == "f"
            assert np.array_equal((from_codes - 3) * np.float32(0.5) if picked else from_codes, from_values), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.softmax))
def test_a_softmax_ignores_what_is_far_below(op_type: str):
    for case in examples(op_type):
        x = random_like(case.x)
        first = (0,) * x.ndim
        made = []
        for stand_in in (-1e4, -1e9):
            x[first] = stand_in
            made.append(case.run(x)[0].copy())
            made[-1][first] = 0
        assert np.array_equal(*made), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.codes is not None))
def test_what_carries_codes_multiplies_with_their_scale(op_type: str):
    """A product behind it reads codes and multiplies its result with their scale, as if the scale stood behind."""
    scale = np.float32(0.5)
    found = [case for case in examples(op_type) if not pads_with_a_number(case)]
    assert found
    for case in found:
        joined = range(1, len(case.inputs)) if ops.traits(case.node).codes is CodePath.JOINED else ()
        codes = {position: np.rint(20 * random_like(case.inputs[position], seed=position)) for position in [0, *joined]}
        values = {position: scale * array for position, array in codes.items()}
        of_codes, of_values = (case.run(fed.pop(0), fed)[0] for fed in (codes, values))
        assert np.array_equal(scale * of_codes, of_values, equal_nan=True), case


def pads_with_a_number(case: OnnxCase) -> bool:
    """Whether it fills with anything but 0, which codes do not go through."""
    fill = case.inputs[2] if case.proto.op_type == "Pad" and len(case.inputs) > 2 else None
    return fill is not None and bool(fill.any())


@pytest.mark.parametrize("op_type", stating(lambda known: known.reorders_axes))
def test_axes_come_from_where_the_rule_says(op_type: str):
    for case in examples(op_type):
        x, rank = random_like(case.x), case.x.ndim
        order = [ops.source_axis(case.node, axis, rank) for axis in range(rank)]
        assert np.array_equal(case.run(x)[0], np.transpose(x, order)), case
        assert [ops.axis_behind(case.node, axis, rank) for axis in order] == list(range(rank)), case


def channel_factors(x: Array, layout: ChannelLayout) -> Array:
    """Positive powers of two, shaped to be multiplied with ``x`` where its channels lie."""
    shape = [1] * x.ndim
    shape[layout.axis] = x.shape[layout.axis]
    return (2.0 ** np.arange(x.shape[layout.axis])).astype(np.float32).reshape(shape)


def factored(op_type: str) -> Iterator[tuple[OnnxCase, ChannelLayout, ChannelLayout]]:
    """Examples that positive factors may be moved past, with the place of the channels in front and behind."""
    rule = ops.all_traits()[op_type].factor_rule
    assert rule is not None
    for case in examples(op_type):
        for layout in ChannelLayout if case.x.ndim > 1 else ():
            behind = rule(case.node, layout, case.index)
            if behind is not None:
                yield case, layout, behind


@pytest.mark.parametrize("op_type", stating(lambda known: known.factor_rule))
def test_positive_factors_of_channels_may_be_applied_on_either_side(op_type: str):
    found = list(factored(op_type))
    assert found
    for case, layout, behind in found:
        x = random_like(case.x)
        factors, plain = channel_factors(x, layout), case.run(x)[0]
        flat = np.repeat(factors.reshape(-1), plain.shape[behind.axis] // factors.size)
        shape = [1] * plain.ndim
        shape[behind.axis] = flat.size
        assert np.allclose(case.run(x * factors)[0], plain * flat.reshape(shape), rtol=1e-5), (case, layout)


@pytest.mark.parametrize("op_type", stating(lambda known: known.normalizes))
def test_a_normalization_multiplies_channels_where_it_says(op_type: str):
    layout = ops.all_traits()[op_type].normalizes
    assert layout is not None
    found = [case for case in examples(op_type) if case.node.attribute("axis", -1) in {-1, case.x.ndim - 1}]
    assert found
    for case in found:
        x = random_like(case.x)
        factors = channel_factors(x, layout)
        vectors = {i: case.inputs[i] for i in (1, 2) if i < len(case.inputs) and case.inputs[i] is not None}
        scaled = {i: vector * factors.reshape(vector.shape) for i, vector in vectors.items()}
        assert np.allclose(case.run(x, scaled)[0], case.run(x, vectors)[0] * factors, rtol=1e-4, atol=1e-6), case


@pytest.mark.parametrize("op_type", stating(lambda known: known.looks_up))
def test_a_table_ends_where_its_axis_does(op_type: str):
    for case in examples(op_type):
        indices, extent = case.inputs[1], case.x.shape[case.node.attribute("axis", 0)]
        assert indices is not None
        case.run(case.x, {1: np.full_like(indices, extent - 1)})
        with pytest.raises(Exception, match=r"(?i)out of"):
            case.run(case.x, {1: np.full_like(indices, extent)})


def test_what_follows_from_moving_values_is_stated_of_every_operator_that_does():
    missing = {
        op_type: {name for name in FROM_MOVING if not getattr(known, name)}
        for op_type, known in ops.all_traits().items()
        if known.moves_values
    }
    assert {op_type: names for op_type, names in missing.items() if names} == NOT_RELIED_ON
    assert all(known.codes is not None for known in ops.all_traits().values() if known.moves_values)


def test_traits_are_of_operators_of_onnx():
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    assert ops.all_traits().keys() - known == set()


def test_no_operator_is_described_twice():
    units = [load_unit(ops, name) for name in unit_names(ops)]
    described = Counter(op_type for unit in units for op_type in getattr(unit, "TRAITS", {}))
    assert [op_type for op_type, count in described.items() if count > 1] == []
    assert all(hasattr(unit, "TRAITS") or hasattr(unit, "OP") for unit in units)


@pytest.mark.parametrize("op_type", stating(lambda known: known.index_inputs or known.float32_inputs))
def test_inputs_that_are_indices_may_be_integers_or_conditions(op_type: str):
    known, formal = ops.all_traits()[op_type], newest(op_type).inputs
    for position in known.index_inputs:
        legal = formal[position].types
        assert {"tensor(int64)", "tensor(bool)"} & legal or position in known.float32_inputs
    assert all("tensor(float)" in formal[position].types for position in known.float32_inputs)


def newest(op_type: str) -> onnx.defs.OpSchema:
    found = [each for each in onnx.defs.get_all_schemas_with_history() if each.name == op_type and not each.domain]
    return max((each for each in found if each.inputs), key=lambda schema: schema.since_version)


def test_nothing_is_known_of_an_operator_of_another_domain():
    case = make_case("Transpose", [floats(2, 3)], {})
    case.proto.domain = "com.example"
    assert ops.traits(case.node) == Traits()


NO_SPAN_EXAMPLE = {"Upsample", "Where"}
"""ONNX has no example of the first in a version in force; the first input of the second is a condition."""


@pytest.mark.parametrize("op_type", [each for each in stating(lambda known: known.span) if each not in NO_SPAN_EXAMPLE])
def test_values_stay_where_the_rule_says(op_type: str):
    cases = examples(op_type)
    judged = [judge_span(case, axis) for case in cases for axis in (None, ChannelLayout.FIRST, ChannelLayout.LAST)]

    assert any(judged), "the rule says nothing of any example"


def judge_span(case: OnnxCase, axis: ChannelLayout | None) -> bool:
    """Whether the rule says something; what it says must be true of a first input whose channels lie apart."""
    if case.x.dtype.kind != "f" or (axis is not None and case.x.ndim < 2):
        return False
    x = 3 * random_like(case.x)
    if axis is not None:
        extent = [1] * x.ndim
        extent[axis.axis] = x.shape[axis.axis]
        x = (x / 10 + 9 * random_like(np.zeros(extent, x.dtype))).astype(x.dtype)
    spans = [None if each is None else constant_span(each) for each in case.inputs]
    spans[0] = Span(float(x.min()), float(x.max()), apart(x, axis), axis)
    said = ops.traits(case.node).span(case.node, spans, lambda index: case.inputs[index])
    if said is None:
        return False
    made = case.run(x)[0].astype(np.float64)
    slack = 1e-4 * (1 + said.most) if np.isfinite(said.most) else 0.0
    assert said.low - slack <= made.min(), case
    assert made.max() <= said.high + slack, case
    # Some keep the channels elsewhere, or nowhere: code that follows them asks the rule of factors.
    if made.shape == x.shape:
        assert apart(made, said.axis) <= said.width + slack, case
    return True


def apart(x: Array, axis: ChannelLayout | None) -> float:
    """How far two values of one channel are apart at most."""
    if axis is None:
        return float(np.ptp(x))
    others = tuple(each for each in range(x.ndim) if each != axis.axis % x.ndim)
    return float(np.max(np.ptp(x, axis=others)))


NAMED_ELSEWHERE = {
    "engines/tensorrt/precision": "a fact of ConvTranspose",
    "engines/tensorrt/shape_values": "where a value is a shape",
    "jobs/reduction/reducer": "writes such a node",
    "jobs/reduction/steps/bodies": "writes such a node",
    "linting/repair/forms/_dynamic": "one form",
    "linting/repair/forms/contrib_operators": "one form each, and writes such nodes",
    "linting/repair/forms/dynamic_product": "one form",
    "linting/repair/forms/gather_block_quantized": "one form, and writes such a node",
    "linting/repair/forms/grouped_weight": "one form",
    "linting/repair/forms/matmul_nbits": "one form, and writes such a node",
    "linting/repair/forms/qlinear_conv": "one form",
    "linting/repair/forms/qlinear_matmul": "one form",
    "linting/repair/forms/qlinear_operator": "one form each",
    "linting/repair/forms/scaled_product": "one form",
    "linting/rules/attention": "the pattern that TensorRT fuses",
    "linting/rules/block_product": "a fact of MatMul and Gemm",
    "linting/rules/contrib_operator": "names that the parser knows",
    "linting/rules/constant_indirect": "what parsers follow to a zero point",
    "linting/rules/conv_transpose": "the rule about it",
    "linting/rules/one_element_scale": "a fact of Conv",
    "linting/rules/operand_formats": "a fact of ConvTranspose",
    "linting/rules/operand_shape": "what each operator demands of its operands",
    "linting/rules/support/layer_names": "operators that TensorRT stores weights in",
    "linting/rules/tied_weight": "a table of embeddings",
    "linting/rules/weight_axis": "what ONNX Runtime's optimizer replaces",
    "linting/rules/zero_point_constant": "what parsers follow to a zero point",
    "models/graph/index/folders": "what operators make of constants",
    "models/graph/index/growth": "how operators grow tensors",
    "models/graph/index/inference": "what onnx's data propagation follows",
    "models/graph/index/signature": "writes such nodes, for shape inference",
    "models/graph/index/weight_folders": "what operators make of stored weights",
    "models/transforms/half/operands": "a product that adds up nothing",
    "models/transforms/interface": "writes such a node",
    "models/transforms/io_types": "writes such a node",
    "models/transforms/specialize_branches": "writes such a node",
    "models/transforms/strip_edits": "writes such a node",
    "models/transforms/taps": "writes such a node",
    "quantization/insertion/split_qkv": "how exporters cut a projection in three",
    "quantization/planning/placement/weight_only": "a table of embeddings",
    "samples/noise": "which dimensions a model computes",
}
"""Modules that name operators that only move values, or multiply with weights, and why each does."""


def test_other_packages_ask_instead_of_naming_operators():
    """Adding such an operator is one module: no list of names elsewhere has to be found."""
    known = {op_type for op in ops.families() if isinstance(op, ProductOp) for op_type in op.op_types}
    known |= {op_type for op_type, each in ops.all_traits().items() if each.moves_values}
    package = ROOT / "qdqtool"
    modules = {path.relative_to(package).with_suffix("").as_posix(): path for path in package.rglob("*.py")}
    naming = {name for name, path in modules.items() if not name.startswith("models/ops/") and known & words(path)}
    assert naming == NAMED_ELSEWHERE.keys()


def words(path: Path) -> set[str]:
    """Every string in a module."""
    constants = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return {node.value for node in constants if isinstance(node.value, str)}
