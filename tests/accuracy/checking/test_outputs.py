"""What is counted at an output: non-finite and equal elements, steps of its DQ, other shapes, how much it varies."""

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.qdq import pair_model, text_model
from support.small import make_model

from qdqtool.accuracy.checking.outputs import (
    Agreement,
    Deviation,
    OutputCheck,
    Variation,
    nonfinite_count,
    output_checks,
)
from qdqtool.accuracy.checking.sample_errors import SampleOrigin
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model

SAMPLE = SampleOrigin(0)
LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)


def check_of(shape: tuple[int | str | None, ...] | None = (None,), *, with_baseline: bool = True) -> OutputCheck:
    """The empty check of one output that a Neg makes."""
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": shape or ("N",)}, {"y": shape or ("N",)}, {})
    if shape is None:
        model.graph.output[0].type.tensor_type.ClearField("shape")
        model.graph.input[0].type.tensor_type.ClearField("shape")
    index = ModelIndex.of(Model(model))
    (check,) = output_checks(index, index if with_baseline else None)
    return check


@given(st.lists(LABELS, min_size=1, max_size=3))
def test_agreement_and_chance_are_those_of_counting(samples: list[list[tuple[int, int]]]) -> None:
    agreement = Agreement()
    for sample in samples:
        expected, found = np.array(sample).T
        agreement.add(expected[None], found[None])
    pairs = [pair for sample in samples for pair in sample]
    assert agreement.share == sum(a == b for a, b in pairs) / len(pairs)
    chance = sum(a == b for a, _ in pairs for _, b in pairs) / len(pairs) ** 2
    assert agreement.chance == pytest.approx(chance)


def test_nothing_agrees_in_no_elements() -> None:
    assert (Agreement().share, Agreement().chance) == (None, 0)
    none = Agreement()
    none.add(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert (none.share, none.chance, none.expected) == (None, 0, Counter())


@pytest.mark.parametrize(
    ("array", "count"),
    [
        (np.float32([1, np.nan, -np.inf]), 2),
        (np.float16([np.inf]), 1),
        (np.array([np.nan, 1], ml_dtypes.bfloat16), 1),
        (np.complex64([complex(1, np.nan), 1]), 1),
        (np.array([1, 2]), 0),
        (np.array(["a"], object), 0),
        (np.array([True]), 0),
    ],
)
def test_only_floats_are_not_finite(array: np.ndarray, count: int) -> None:
    assert nonfinite_count(array) == count


@pytest.mark.parametrize("with_baseline", [True, False])
def test_elements_that_are_not_finite_add_up_over_the_samples(with_baseline: bool) -> None:
    check = check_of(with_baseline=with_baseline)
    for found in ([1, np.nan], [np.inf, np.inf], [1, 1]):
        check.add(np.float32(found), np.float32(found) if with_baseline else None, SAMPLE)
    assert check.nonfinite == check.result().nonfinite == 3
    assert check.nonfinite_as_in_baseline is with_baseline
    assert check.result().exact is (True if with_baseline else None)


@pytest.mark.parametrize(("found", "as_there"), [([np.nan, 2], True), ([np.nan, np.nan], False), ([2, 2], False)])
def test_new_nan_is_not_as_in_the_baseline(found: list[float], as_there: bool) -> None:
    check = check_of()
    check.add(np.float32(found), np.float32([np.nan, 2]), SAMPLE)
    assert check.nonfinite_as_in_baseline is as_there


def test_an_output_that_could_not_be_read_is_not_counted() -> None:
    check = check_of()
    check.add(None, np.zeros(2, np.float32), SAMPLE)
    check.add(np.array([1], "datetime64[s]"), np.zeros(2, np.float32), SAMPLE)
    check.add(np.float32([np.nan]), None, SAMPLE)
    assert check.nonfinite == 1
    assert (check.result().name, check.result().exact, check.result().other_shapes) == ("y", None, 0)


def test_floats_have_distances_and_integers_agree() -> None:
    floats, labels = check_of(), check_of()
    floats.add(np.float32([3, 4]), np.float32([3, 3]), SAMPLE)
    labels.add(np.int64([3, 4]), np.int64([3, 3]), SAMPLE)
    told = floats.result()
    assert (told.agreement, told.exact, told.max_abs, told.zero_reference) == (None, False, 1, False)
    assert told.sqnr_db == pytest.approx(10 * np.log10(18))
    assert told.cosine == pytest.approx(21 / np.sqrt(18 * 25))
    assert floats.deviation.variation.samples == 1
    told = labels.result()
    assert (told.agreement, told.exact, told.zero_reference, told.max_abs) == (0.5, False, False, 1)
    assert labels.deviation.variation.samples == 0


def test_a_float_reference_of_zeros_is_told_and_one_of_integers_is_not() -> None:
    floats, labels = check_of(), check_of()
    floats.add(np.float32([0, 4]), np.float32([0, 0]), SAMPLE)
    labels.add(np.int64([0, 4]), np.int64([0, 0]), SAMPLE)
    assert (floats.result().zero_reference, labels.result().zero_reference) == (True, False)


@pytest.mark.parametrize(("found", "exact"), [(["a", "b"], True), (["a", "c"], False)])
def test_strings_agree_or_not(found: list[str], exact: bool) -> None:
    check = check_of()
    check.add(np.array(found, object), np.array(["a", "b"], object), SAMPLE)
    assert (check.result().exact, check.result().agreement) == (exact, 1.0 if exact else 0.5)
    assert check.deviation.error.elements == 0
    check.add(np.array(found, object), np.array(["a", "b", "c"], object), SAMPLE)
    assert (check.result().other_shapes, check.result().differing_shapes) == (1, ((2,), (3,)))
    assert check.result().exact is False


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.bool_])
def test_a_sample_of_another_shape_is_counted_and_left_out(kind: type) -> None:
    check = check_of()
    check.add(np.ones(2, kind), np.ones(3, kind), SAMPLE)
    assert (check.result().exact, check.result().other_shapes) == (None, 1)
    check.add(np.ones(5, kind), np.ones(4, kind), SAMPLE)
    assert check.result().differing_shapes == ((2,), (3,))
    check = check_of()
    check.add(np.ones(2, kind), np.ones(3, kind), SAMPLE)
    check.add(np.ones(2, kind), np.ones(2, kind), SAMPLE)
    told = check.result()
    assert (told.exact, told.other_shapes) == (False, 1)
    assert told.agreement == (None if kind is np.float32 else 1.0)


@pytest.mark.parametrize(
    ("shape", "found", "expected", "legal"),
    [
        ((None,), (2,), (3,), True),
        (("N", 4), (2, 4), (3, 4), True),
        ((None, 4), (2, 4), (2, 5), False),
        ((2, "N"), (2, 3), (2, 7), True),
        ((2, "N"), (2, 3), (3, 3), False),
        ((None, None), (2, 3), (2, 3, 1), False),
        ((None,), (2, 3), (2, 4), False),
        (None, (2, 3), (7, 8), True),
        (None, (2, 3), (2, 3, 1), False),
    ],
)
def test_shapes_may_differ_in_open_dimensions_alone(
    shape: tuple[int | str | None, ...] | None, found: tuple[int, ...], expected: tuple[int, ...], legal: bool
) -> None:
    check = check_of(shape)
    arrays = np.zeros(found, np.float32), np.zeros(expected, np.float32)
    if legal:
        check.add(*arrays, SAMPLE)
        assert check.deviation.error.other_shapes == int(found != expected)
        return
    with pytest.raises(UsageError) as refused:
        check.add(*arrays, SAMPLE)
    assert refused.value.message == f"output 'y' has shape {list(found)}, in the baseline {list(expected)}"
    assert refused.value.hint == "the baseline must be the float model that was quantized"


def test_equal_shapes_pass_whatever_the_model_declares() -> None:
    check = check_of((4,))
    check.add(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32), SAMPLE)
    assert check.result().exact


def check_behind(model: Model) -> OutputCheck:
    """The check of the one output of a model against itself."""
    index = ModelIndex.of(model)
    (check,) = output_checks(index, index)
    return check


def test_the_distance_of_an_output_that_a_dq_makes_is_told_in_its_steps() -> None:
    check = check_behind(pair_model(TensorProto.INT8, scale=0.5))
    assert check.result().max_steps is None
    check.add(np.float32([1.0, 2.0]), np.float32([1.0, 2.0]), SAMPLE)
    assert check.result().max_steps == 0
    check.add(np.float32([1.0, 2.0]), np.float32([1.0]), SAMPLE)
    assert check.result().max_steps == 0
    for found in ([1.0, 3.5], [1.5, 2.0]):
        check.add(np.float32(found), np.float32([1.0, 2.0]), SAMPLE)
    assert check.result().max_steps == 3
    other = check_of()
    other.add(np.float32([1]), np.float32([2]), SAMPLE)
    assert other.result().max_steps is None


@pytest.mark.parametrize("scale", ["s", ""])
def test_a_dq_without_a_scale_or_whose_scale_is_not_constant_has_no_steps(scale: str) -> None:
    model = text_model("""
        <ir_version: 10, opset_import: ["": 21]>
        g (float[N] x, float s) => (float[N] y)
        {
          q = QuantizeLinear (x, s)
          y = DequantizeLinear (q, s)
        }""")
    model.proto.graph.node[1].input[1] = scale
    check = check_behind(model)
    check.add(np.float32([1]), np.float32([2]), SAMPLE)
    assert (check.deviation.maker is not None, check.deviation.scale, check.result().max_steps) == (True, None, None)


def test_models_of_other_outputs_are_refused_and_an_order_is_not() -> None:
    def model(*names: str) -> ModelIndex:
        nodes = [helper.make_node("Neg", ["x"], [name]) for name in names]
        return ModelIndex.of(Model(make_model(nodes, {"x": (1,)}, dict.fromkeys(names, (1,)), {})))

    checks = output_checks(model("a", "b"), model("b", "a"))
    assert [(each.value.name, each.baseline.name) for each in checks if each.baseline] == [("a", "a"), ("b", "b")]
    with pytest.raises(UsageError, match="model and baseline have different outputs: a, b against a"):
        output_checks(model("a", "b"), model("a"))


def test_a_deviation_of_nothing_was_not_compared() -> None:
    deviation = Deviation(None, None)
    assert (deviation.was_compared, deviation.exact) == (False, True)
    assert deviation.result("y", 3).nonfinite == 3
    assert deviation.result("y", 3).exact is None


X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def measured(reference: np.ndarray, found: np.ndarray) -> Variation:
    variation = Variation()
    for a, x in zip(reference, found, strict=True):
        variation.add(a, x)
    return variation


def test_no_constant_comes_closer_than_the_mean() -> None:
    reference = X + 1000
    least = float(np.sum((reference - np.mean(reference, 0, dtype=np.float64)) ** 2))
    variation = measured(reference, reference)
    assert variation.reference == pytest.approx(least)
    assert variation.reference_db == pytest.approx(60, abs=0.5)
    assert not variation.is_constant


def test_a_constant_is_one_bit_for_bit() -> None:
    found = np.ones_like(X)
    assert measured(X, found).is_constant
    found[7, 2] = np.nextafter(np.float32(1), np.float32(2))
    assert not measured(X, found).is_constant


@pytest.mark.parametrize("reference", [X[:1], np.where(X > 2, np.nan, X)])
def test_one_sample_and_nan_tell_nothing(reference: np.ndarray) -> None:
    variation = measured(reference, np.zeros_like(reference))
    assert variation.reference is None
    assert variation.is_zero


def test_shapes_that_differ_tell_nothing() -> None:
    variation = Variation()
    for rows in (2, 3):
        variation.add(X[:rows], X[:rows])
    assert variation.reference is None
    assert not variation.is_constant
