"""The gate on activations: a scale that does not fit fails, at whatever pair and without any baseline."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.paths import ROOT
from support.qdq import LOOP_AND_BRANCHES, pair_model, text_model

from qdqtool.accuracy.checking.gates import activations as gate
from qdqtool.accuracy.checking.gates.activations import bound_of
from qdqtool.accuracy.checking.pair_error import PairError
from qdqtool.accuracy.checking.report import CheckReport, GateResult
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import quantize_model
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.numerics import formats
from qdqtool.samples.request import DataRequest

T = onnx.TensorProto
SAMPLE = ROOT / "sample_models" / "digits_cnn"


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("activations") / "q.onnx"
    quantize_model(SAMPLE / "model.onnx", SAMPLE / "calibration.npz", path)
    return path


def activation_quantizers(model: onnx.ModelProto) -> list[str]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] not in stored]


def with_scale(path: Path, codes: str, factor: float) -> Model:
    """The model with the scale of one pair, of the Q and of its DQs alike, multiplied."""
    model = onnx.load(path)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    (scale,) = (node.input[1] for node in model.graph.node if codes in node.output)
    scaled = numpy_helper.to_array(stored[scale]) * np.float32(factor)
    model.graph.initializer.append(numpy_helper.from_array(scaled.astype(np.float32), "seeded"))
    for node in model.graph.node:
        if codes in node.output or (node.op_type == "DequantizeLinear" and node.input[0] == codes):
            node.input[1] = "seeded"
    return Model(model)


def activations(report: CheckReport) -> GateResult:
    return next(gate for gate in report.gates if gate.name == "activations")


def test_a_model_as_quantize_writes_it_passes_far_above_the_limit(quantized: Path) -> None:
    for data in (DataRequest(path=SAMPLE / "test.npz", samples=128), None):
        gate = activations(check_model(quantized, data=data))
        assert (gate.passed, gate.warnings) == (True, ())
        assert float(gate.detail.split("worst ")[1].split(" dB")[0]) > 25


@pytest.mark.parametrize("factor", [1000, 1e-3])
def test_every_scale_that_does_not_fit_is_found_with_the_tensor_and_a_scale_that_would(
    quantized: Path, factor: float
) -> None:
    for codes in activation_quantizers(onnx.load(quantized)):
        model = with_scale(quantized, codes, factor)
        report = check_model(model, data=DataRequest(path=SAMPLE / "test.npz", samples=4))
        gate = activations(report)
        assert not report.passed
        (tensor,) = (node.input[0] for node in model.proto.graph.node if codes in node.output)
        line = next(line for line in gate.failures if f"on '{tensor}'" in line)
        shown = float(line.split("the scale is ")[1].split(",")[0])
        fits = float(line.split(" and ")[1].split(" would")[0])
        assert shown / fits == pytest.approx(factor, rel=0.7), line


def test_with_random_inputs_only_a_destroyed_tensor_fails(tmp_path: Path) -> None:
    model = text_model(NORMALIZED)
    gate = activations(check_model(model))
    assert gate.passed
    (warning,) = gate.warnings
    assert "the inputs were random" in warning
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(size=(4, 200)).astype(np.float32))
    (failure,) = activations(check_model(model, data=tmp_path / "d.npz")).failures
    assert "on 'n': 1.9 dB SQNR: 82.0% of the values are clipped, 0.0% become 0" in failure
    assert failure.endswith("the scale is 0.002, and 0.0307 would fit")


NORMALIZED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[1,200] x) => (float[1,200] y)
<float s = {0.002}, int8 zp = {0}>
{
  n = Neg (x)
  q = QuantizeLinear (n, s, zp)
  y = DequantizeLinear (q, s, zp)
}
"""
"""Its pair ends at 0.25 deviations of its input: 2.1 dB."""


SCORES = """
<ir_version: 10, opset_import: ["": 21]>
g (float[1,200] x) => (float[1,200] y)
<float s = {{{scale}}}, uint8 zp = {{0}}, float twenty = {{20.0}}>
{{
  low = Sub (x, twenty)
  p = {op} (low)
  q = QuantizeLinear (p, s, zp)
  y = DequantizeLinear (q, s, zp)
}}
"""


@pytest.mark.parametrize(
    ("op", "scale", "become_zero"), [("Sigmoid", 1 / 255, None), ("Sigmoid", 4.0, "1.2%"), ("Exp", 1 / 255, "100.0%")]
)
def test_scores_near_zero_are_no_fault_of_the_scale_that_the_operator_gives(
    op: str, scale: float, become_zero: str | None
) -> None:
    gate = activations(check_model(text_model(SCORES.format(op=op, scale=scale))))
    assert gate.passed is (become_zero is None)
    for failure in gate.failures:
        assert f"on 'p': 0.0 dB SQNR: 0.0% of the values are clipped, {become_zero} become 0" in failure


def test_zeros_prove_nothing_and_fail_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 50), np.float32))
    gate = activations(check_model(pair_model(T.INT8), data=DataRequest(path=tmp_path / "d.npz", allow_constant=True)))
    assert (gate.passed, gate.detail) == (True, "1 pair, all exact")


@pytest.mark.parametrize(
    ("op", "scale", "fits"),
    [
        ("Sigmoid", 0.26 / 255, True),
        ("Sigmoid", 0.24 / 255, False),
        ("Tanh", 0.24 / 255, False),
        ("Softmax", 0.0157 / 255, True),
        ("Softmax", 0.0156 / 255, False),
        ("Exp", 0.0156 / 255, True),
    ],
)
def test_a_range_that_clips_what_an_operator_implies_fails_on_any_data(op: str, scale: float, fits: bool) -> None:
    # All values are near 0, so the samples do not show it.
    gate = activations(check_model(text_model(SCORES.format(op=op, scale=scale))))
    line = f"' on 'p': its codes end at {255 * scale:.3g}, and {op} '{op} -> p' reaches 1"
    assert any(failure.endswith(line) for failure in gate.failures) is not fits
    assert len(gate.failures) <= 1


FUSED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[1,200] x) => (float[1,200] y)
<float s = {{{scale}}}, uint8 zp = {{0}}>
{{
  n = Neg (x)
  q = QuantizeLinear (n, s, zp)
  y = DequantizeLinear (q, s, zp)
}}
"""


@pytest.mark.parametrize(
    ("scale", "fault"),
    [(3 / 255, ""), (30.0, "0.0% of the values are clipped"), (3e-5, "51.5% of the values are clipped")],
)
def test_a_q_that_does_the_work_of_a_relu_is_judged_by_what_it_keeps(scale: float, fault: str, tmp_path: Path) -> None:
    """ONNX Runtime's quantizer removes a Relu in front of a Q whose zero point is the lowest code."""
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(size=(4, 200)).astype(np.float32))
    gate = activations(check_model(text_model(FUSED.format(scale=scale)), data=tmp_path / "d.npz"))
    assert gate.passed is (not fault)
    for failure in gate.failures:
        assert f"on 'n': 0.{int(scale < 1)} dB SQNR: {fault}" in failure
        assert f"the values lie in [0, 3.899], the scale is {scale:.4g}, and 0.01529 would fit" in failure


@pytest.mark.parametrize(
    ("nodes", "passed"),
    [
        ("y = Neg (x)", False),
        ("t = Neg (x)  y = Relu (t)", True),
        ("t = Neg (x)  r = Relu (t)  y = Identity (r)", True),
        ("t = Neg (x)  y = Clip (t, low)", True),
        ("t = Neg (x)  y = LeakyRelu (t)", False),
    ],
)
def test_a_q_does_the_work_of_a_relu_only_where_the_baseline_has_one(nodes: str, passed: bool, tmp_path: Path) -> None:
    """Half of the values become 0."""
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(size=(4, 200)).astype(np.float32))
    model = FUSED.format(scale=3.9 / 255)
    baseline = f'<ir_version: 10, opset_import: ["": 21]> g (float[1,200] x) => (float[1,200] y) {LOW} {{ {nodes} }}'
    report = check_model(text_model(model), baseline=text_model(baseline), data=tmp_path / "d.npz")
    assert activations(report).passed is passed
    assert passed or "48.0% of the values are clipped" in activations(report).failures[0]


LOW = "<float low = {0.0}>"


RAMP = """
<ir_version: 10, opset_import: ["": 21]>
g (float[1,200] x) => (float[1,200] y)
<float s = {{39.0}}, int8 zp = {{0}}>
{{
  q = QuantizeLinear (x, s, zp)
  d = DequantizeLinear (q, s, zp)
  y = {op} (d)
}}
"""


@pytest.mark.parametrize(("op", "passed"), [("Relu", False), ("Softmax", True)])
def test_large_negative_values_are_masks_only_before_a_softmax(op: str, passed: bool, tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(-32768, 4096, size=(4, 200)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x)
    report = check_model(text_model(RAMP.format(op=op)), data=tmp_path / "d.npz")
    assert activations(report).passed is passed


@pytest.mark.parametrize(("kind", "passed"), [(T.INT8, False), (T.FLOAT8E4M3FN, True)])
def test_a_nan_that_becomes_a_code_fails(kind: int, passed: bool, tmp_path: Path) -> None:
    """fp8 has NaN itself, and shows it at the output."""
    model = pair_model(kind)
    model.proto.graph.node.insert(0, onnx.helper.make_node("Sqrt", ["x"], ["r"]))
    model.proto.graph.node[1].input[0] = "r"
    np.savez(tmp_path / "d.npz", x=np.float32([[1.0, 4.0, 9.0, -1.0]]))
    gate = activations(check_model(model, data=tmp_path / "d.npz"))
    assert gate.passed is passed
    if not passed:
        assert "25.0% of the values are NaN" in gate.failures[0]
    random = activations(check_model(model, data=DataRequest(input_shapes={"x": (50,)})))
    assert random.passed
    assert any("NaN" in warning for warning in random.warnings) is not passed


MOVED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[4] x) => (float[4] y)
<float s = {{1.0}}, {kind} z = {{0}}, float[4] w = {{1, 2, 3, 4}}>
{{
  t = {op} (x)
  q = QuantizeLinear (t, s, z)
  y = DequantizeLinear (q, s, z)
  u = QuantizeLinear (w, s, z)
  v = DequantizeLinear (u, s, z)
}}
"""


def errors_of(op: str = "Neg", kind: str = "int8") -> tuple[ModelIndex, PairError, PairError]:
    """An activation's and a weight's error, both without data."""
    index = ModelIndex.of(text_model(MOVED.format(op=op, kind=kind)))
    fmt = formats.get(kind)
    of_data, of_weight = (PairError(entry, fmt) for entry in index.qdq.nodes if entry.is_quantize)
    return index, of_data, of_weight


def judged(index: ModelIndex, *errors: PairError, is_random: bool = False) -> list[GateResult]:
    job = SimpleNamespace(index=index, pair_errors=dict(enumerate(errors)))
    return list(gate.results(SimpleNamespace(job=job, is_random=is_random)))


def counted(error: PairError, db: float, **more: object) -> PairError:
    """The error with one value and this SQNR."""
    return replace(error, elements=1, signal=np.float64([10 ** (db / 10)]), noise=np.ones(1), **more)


def test_pairs_that_did_not_run_and_weights_have_no_gate() -> None:
    index, of_data, of_weight = errors_of()
    assert judged(index, of_data, counted(of_weight, 0.0)) == []
    (found,) = judged(index, counted(of_data, 40.0), counted(of_weight, 0.0))
    assert (found.passed, found.detail) == (True, "1 pair, worst 40.0 dB at 't'")


def test_a_tensor_of_nan_alone_is_judged() -> None:
    index, of_data, _ = errors_of()
    (found,) = judged(index, replace(of_data, nans=4))
    assert found.failures == (
        "QuantizeLinear 'QuantizeLinear -> q' on 't': 100.0% of the values are NaN, and become codes like any other",
    )


@pytest.mark.parametrize("is_random", [True, False])
def test_the_condition_names_the_limit_that_applies(is_random: bool) -> None:
    index, of_data, _ = errors_of()
    (found,) = judged(index, counted(of_data, 3.0), is_random=is_random)
    told = "every scale fits its values: at least 6 dB SQNR, 3 dB for 4-bit codes"
    assert found.requires == (f"{told}; 1 dB on random inputs" if is_random else told)
    assert found.passed is is_random
    assert len(found.warnings) == is_random
    assert found.detail == ("1 pair, worst 3.0 dB at 't'" if is_random else "1 of 1 pairs do not fit")


def test_a_scale_far_from_the_best_is_a_miss_at_any_sqnr() -> None:
    _, of_data, _ = errors_of()
    good = counted(of_data, 40.0)
    assert not gate.misses(good)
    assert gate.misses(replace(good, excess="9 dB more error"))


def test_a_pair_that_reaches_a_limit_exactly_is_above_it() -> None:
    _, of_data, _ = errors_of()
    error = counted(of_data, 12.5)
    assert error.lowest_db is not None
    assert gate.above(error, error.lowest_db)
    assert not gate.above(error, math.nextafter(error.lowest_db, math.inf))
    assert gate.above(of_data, 1e9)
    assert not gate.above(counted(of_data, math.nan), 0.0)


def test_the_worst_pair_is_told() -> None:
    index, of_data, _ = errors_of()
    entries = [of_data, replace(of_data), replace(of_data)]
    errors = [counted(error, db) for error, db in zip(entries, (30.0, 12.0, 50.0), strict=True)]
    assert judged(index, *errors)[0].detail == "3 pairs, worst 12.0 dB at 't'"


@pytest.mark.parametrize(
    ("kind", "symmetric", "steps"),
    [("int8", True, 127), ("int8", False, 255), ("uint8", False, 255), ("int4", True, 7)],
)
@pytest.mark.parametrize(("bound", "fits"), [(0.499, False), (0.5, True), (1.0, True), (2.0, True), (2.01, False)])
def test_a_range_of_half_to_twice_what_a_sigmoid_gives_fits_it(
    kind: str, symmetric: bool, steps: int, bound: float, fits: bool
) -> None:
    index, of_data, _ = errors_of("Sigmoid", kind)
    scale = np.float64([bound / steps])
    assert float(scale[0]) * steps == pytest.approx(bound, rel=1e-15)
    error = counted(of_data, 0.0, scale=scale, is_symmetric=symmetric)
    assert judged(index, error)[0].passed is fits
    assert not judged(index, replace(error, clipped=1))[0].passed
    other, unbound, _ = errors_of("Exp", kind)
    assert not judged(other, counted(unbound, 0.0, scale=scale, is_symmetric=symmetric))[0].passed


def test_the_largest_scale_of_the_channels_is_the_range() -> None:
    index, of_data, _ = errors_of("Sigmoid", "uint8")
    error = counted(of_data, 0.0, scale=np.float64([1e-3, 1]) / 255, is_symmetric=False)
    assert judged(index, error)[0].passed


def test_a_pair_in_a_body_is_named_with_its_graph() -> None:
    index = ModelIndex.of(text_model(LOOP_AND_BRANCHES))
    entry = next(each for each in index.qdq.nodes if each.node.scope.path)
    (found,) = judged(index, counted(PairError(entry, formats.get("int8")), 0.0))
    assert found.failures[0].startswith("QuantizeLinear 'QuantizeLinear -> tq' in y.then_branch on 'x': 0.0 dB SQNR: ")


CHAIN = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2,3] x) => (float[3,2] y)
<float s = {{0.5}}, int8 zp = {{0}}>
{{
  {op}
  t = Transpose <perm = [1, 0]> (a)
  q = QuantizeLinear (t, s, zp)
  y = DequantizeLinear (q, s, zp)
}}
"""


@pytest.mark.parametrize(
    ("op", "bound"),
    [
        ("a = Sigmoid (x)", 1.0),
        ("a = Softmax (x)", 1.0),
        ("a = Tanh (x)", 1.0),
        ("a = Relu (x)", None),
        ("a = Mul (x, x)", None),
        ("p = Sigmoid (x)  a = Add (p, p)", None),
        ("p = Sigmoid (x)  a = Cast <to = 1> (p)", 1.0),
    ],
)
def test_the_bound_is_that_of_the_operator_in_front(op: str, bound: float | None) -> None:
    index = ModelIndex.of(text_model(CHAIN.format(op=op)))
    assert bound_of(index, index.view.main.values["y"]) == bound


def test_an_input_has_no_bound() -> None:
    index = ModelIndex.of(text_model(CHAIN.format(op="a = Relu (x)")))
    assert bound_of(index, index.view.main.values["x"]) is None
    assert bound_of(index, None) is None
