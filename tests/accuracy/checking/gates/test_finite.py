"""The gate on NaN and infinite outputs: only those that the baseline has at the same places are let through."""

import numpy as np
import onnx
import pytest
from onnx import helper
from support.evidence import evidence_of
from support.small import make_model

from qdqtool.accuracy.checking.gates.finite import results
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.jobs.check import check_model
from qdqtool.models.graph.model import Model


def shifted_log(shift: float) -> Model:
    """y = log(x + shift): infinite at ``x == -shift``, NaN below."""
    nodes = [helper.make_node("Add", ["x", "s"], ["a"]), helper.make_node("Log", ["a"], ["y"])]
    return Model(make_model(nodes, {"x": (4,)}, {"y": (4,)}, {"s": np.float32(shift)}))


@pytest.fixture
def data(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.array([[0.5, 1.0, 2.0, 3.0]], np.float32))
    return tmp_path / "d.npz"


def finite(model: Model, baseline: Model | None, data) -> GateResult:
    report = check_model(model, baseline=baseline, data=data)
    return next(gate for gate in report.gates if gate.name == "finite")


@pytest.mark.parametrize(
    ("shift", "baseline", "count"), [(0, None, 0), (-1, None, 2), (-1, -1, 0), (-2, -1, 3), (-1, 0, 2)]
)
def test_nan_and_infinity_fail_but_where_the_baseline_has_them(
    shift: float, baseline: float | None, count: int, data
) -> None:
    gate = finite(shifted_log(shift), None if baseline is None else shifted_log(baseline), data)
    assert gate.passed is not bool(count)
    assert gate.detail == ("1 of 1 outputs have them" if count else "1 output")
    for failure in gate.failures:
        assert failure.startswith(f"output 'y' has {count} NaN or infinite elements")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_scale_fails_though_a_relu_hides_what_it_makes(bad: float) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scales"], ["w"], name="dq", axis=1),
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Relu", ["t"], ["r"]),
        helper.make_node("IsNaN", ["r"], ["n"]),
        helper.make_node("Where", ["n", "zero", "r"], ["y"]),
    ]
    scales = np.array([0.5, bad, 0.5], np.float32)
    constants = {"codes": np.zeros((4, 3), np.int8), "scales": scales, "zero": np.zeros(1, np.float32)}
    report = check_model(Model(make_model(nodes, {"x": ("N", 4)}, {"y": ("N", 3)}, constants)))
    gate = next(gate for gate in report.gates if gate.name == "finite")
    assert gate.failures == ("DequantizeLinear 'dq': 1 of 3 scales are NaN or infinite",)


def both(found: list[float], expected: list[float] | None, *, origin: str = "") -> GateResult:
    """The gate on one sample of an output, and of the baseline's."""
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (2,)}, {"y": (2,)}, {})
    told = None if expected is None else {"y": np.float32(expected)}
    (gate,) = results(evidence_of(model, [({"y": np.float32(found)}, told)], nonfinite_origin=origin))
    return gate


@pytest.mark.parametrize("has_baseline", [True, False])
def test_the_condition_names_the_baseline_where_there_is_one(has_baseline: bool) -> None:
    gate = both([1, 2], [1, 2] if has_baseline else None)
    told = "no output has NaN or infinities"
    assert gate.requires == (f"{told} where the baseline has none" if has_baseline else told)
    assert (gate.passed, gate.detail) == (True, "1 output")


@pytest.mark.parametrize(
    ("found", "expected", "passed"),
    [
        ([np.nan, 1], [np.nan, 1], True),
        ([np.nan, 1], [1, np.nan], False),
        ([np.inf, 1], [-np.inf, 1], False),
        ([np.inf, 1], [np.nan, 1], False),
        ([np.nan, np.nan], [np.nan, 1], False),
        ([1, 1], [np.nan, 1], True),
    ],
)
def test_only_the_same_value_at_the_same_place_is_excused(
    found: list[float], expected: list[float], passed: bool
) -> None:
    gate = both(found, expected)
    count = np.count_nonzero(~np.isfinite(found))
    assert gate.failures == (() if passed else (f"output 'y' has {count} NaN or infinite elements",))


def test_the_origin_is_told_where_it_is_known() -> None:
    (failure,) = both([np.nan, 1], [1, 1], origin="the first is 'a'").failures
    assert failure == "output 'y' has 1 NaN or infinite elements; the first is 'a'"


@pytest.mark.parametrize("fixed", [0.5, np.inf])
def test_scales_are_judged_behind_one_that_is_not_constant(fixed: float) -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["s"]),
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["t"]),
        helper.make_node("QuantizeLinear", ["t", "fixed"], ["u"]),
        helper.make_node("DequantizeLinear", ["u", "fixed"], ["y"]),
    ]
    model = make_model(nodes, {"x": ()}, {"y": ()}, {"fixed": np.float32(fixed)})
    report = check_model(Model(model))
    gate = next(gate for gate in report.gates if gate.name == "finite")
    named = [failure for failure in gate.failures if failure.endswith(": 1 of 1 scales are NaN or infinite")]
    assert len(named) == (0 if np.isfinite(fixed) else 2)


def test_a_scale_in_a_body_is_named_with_its_graph() -> None:
    model = onnx.parser.parse_model(BODY)
    (scale,) = model.graph.node[0].attribute[0].g.initializer
    scale.CopyFrom(onnx.numpy_helper.from_array(np.float32(np.inf), "s"))
    gate = next(gate for gate in check_model(Model(model)).gates if gate.name == "finite")
    told = "QuantizeLinear 'QuantizeLinear -> q' in y.then_branch: 1 of 1 scales are NaN or infinite"
    assert told in gate.failures


BODY = """
<ir_version: 10, opset_import: ["": 21]>
g (bool c, float[2] x) => (float[2] y)
{
  y = If (c) <
    then_branch = then () => (float[2] a)
      <float s = {0.5}>
      {
        q = QuantizeLinear (x, s)
        a = DequantizeLinear (q, s)
      },
    else_branch = other () => (float[2] b) { b = Neg (x) }
  >
}
"""
