"""Check against a float baseline: outputs, activations and packed weights, in decibels and in steps."""

import json
import math
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import TensorProto, helper
from support.metrics import cosine, sqnr_db
from support.qdq import constant, pair_model, text_model
from support.small import conv_model, make_model, matmul_model, run

from qdqtool.accuracy.checking.boundaries import Boundary, find_boundaries
from qdqtool.accuracy.checking.gptq_check import GptqCheck, NotedRounding
from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.pair_error import PairError
from qdqtool.accuracy.checking.report import BoundaryResult, CheckReport
from qdqtool.accuracy.layers.baseline_matcher import BaselineMatcher
from qdqtool.errors import UsageError
from qdqtool.jobs.check import check_model
from qdqtool.jobs.insert import insert_plan
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.metadata import ROUNDING_KEY
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.options import Profile
from qdqtool.models.running.accumulated_error import max_steps
from qdqtool.numerics import formats

T = TensorProto


def gate(report: CheckReport, name: str) -> bool:
    return next(found.passed for found in report.gates if found.name == name)


def boundary(report: CheckReport, tensor: str) -> BoundaryResult:
    return next(found for found in report.boundaries if found.tensor == tensor)


# --- weights against the baseline ---


def packed_conv(codes_from: float = 127.0, scale_factor: float = 1.0, channel: int = 2) -> Model:
    """The conv model with ``w`` packed per channel; one channel's scale multiplied after the codes were made."""
    proto = conv_model(opset=21, ir_version=10)
    w = onnx.numpy_helper.to_array(proto.graph.initializer[0])
    scale = (np.abs(w).max(axis=(1, 2, 3)) / codes_from).astype(np.float32)
    codes = np.clip(np.rint(w / scale[:, None, None, None]), -127, 127).astype(np.int8)
    scale[channel] *= np.float32(scale_factor)
    del proto.graph.initializer[0]
    proto.graph.initializer.extend([make_tensor("w_quantized", codes, T.INT8), make_tensor("w_s", scale, T.FLOAT)])
    proto.graph.node.insert(0, helper.make_node("DequantizeLinear", ["w_quantized", "w_s"], ["w_dq"], "dq_w", axis=0))
    next(node for node in proto.graph.node if node.name == "conv1").input[1] = "w_dq"
    return Model(proto)


def test_a_well_packed_weight_is_within_half_a_step() -> None:
    report = check_model(packed_conv(), baseline=Model(conv_model()))
    assert report.passed, report.failures
    found = boundary(report, "w")
    assert (found.kind, found.format, found.node) == ("weight", "int8", "dq_w")
    assert 0.45 < found.max_steps <= 0.5 + 1e-4
    assert found.clipped == 0


@pytest.mark.parametrize("factor", [1.02, 0.98])
def test_a_weight_scale_changed_in_one_channel_fails_and_names_the_channel(factor: float) -> None:
    report = check_model(packed_conv(scale_factor=factor), baseline=Model(conv_model()))
    assert not gate(report, "weights")
    assert "weight 'w', packed at 'dq_w'" in report.failures[0]
    assert " at [2, " in report.failures[0]
    assert boundary(report, "w").index[0] == 2


def test_clipped_weights_are_counted_and_fail_unless_weights_may_differ() -> None:
    report = check_model(packed_conv(codes_from=300.0), baseline=Model(conv_model()))
    assert boundary(report, "w").clipped > 0
    assert boundary(report, "w").max_steps > 100
    (failure,) = report.failures
    assert "more error than with scales that just hold the values" in failure
    options = CheckOptions(gates=Gates(max_weight_steps=float("inf")))
    assert check_model(packed_conv(codes_from=300.0), baseline=Model(conv_model()), options=options).passed


def test_the_weight_gate_can_be_widened_for_weights_that_were_not_rounded_to_nearest() -> None:
    moved = packed_conv(scale_factor=1.02)
    assert check_model(
        moved, baseline=Model(conv_model()), options=CheckOptions(gates=Gates(max_weight_steps=5))
    ).passed


def packed_matmul(weight: np.ndarray, codes: np.ndarray, onnx_type: int, scale: object) -> tuple[Model, Model]:
    """A product with these stored codes, and its float baseline."""
    baseline, packed = matmul_model(), matmul_model(opset=21)
    packed.ir_version = 10
    baseline.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w"))
    packed.graph.initializer[0].CopyFrom(make_tensor("w_codes", codes, onnx_type))
    packed.graph.initializer.append(make_tensor("s", np.float32(scale), T.FLOAT))
    packed.graph.node.insert(0, helper.make_node("DequantizeLinear", ["w_codes", "s"], ["wd"]))
    packed.graph.node[1].input[1] = "wd"
    return Model(packed), Model(baseline)


@pytest.mark.parametrize(("onnx_type", "told"), [(T.INT8, False), (T.INT4, True)])
def test_codes_of_few_bits_that_are_not_the_nearest_may_have_been_chosen_by_data(onnx_type: int, told: bool) -> None:
    nearest = np.zeros((8, 6), np.int8)
    chosen = nearest.copy()
    chosen[3, 4] = 2
    packed, baseline = packed_matmul(nearest.astype(np.float32), chosen, onnx_type, 0.5)
    (failure,) = check_model(packed, baseline=baseline).failures
    assert ("(GPTQ) and the model does not note it, give --max-weight-steps inf" in failure) is told


def test_codes_made_with_a_rounded_reciprocal_pass() -> None:
    w = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    scale = np.float32(np.abs(w).max() / 127)
    codes = np.rint(w * (np.float32(1) / scale)).astype(np.int8)  # as PyTorch does
    packed, baseline = packed_matmul(w, codes, T.INT8, scale)
    assert check_model(packed, baseline=baseline).passed


def test_a_step_of_fp8_is_the_gap_between_its_values() -> None:
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(8, 6)) * 2.0 ** rng.integers(-9, 3, (8, 6))).astype(np.float32)
    scale = np.float32(np.abs(w).max() / 448)
    codes = (w / scale).astype(ml_dtypes.float8_e4m3fn)
    packed, baseline = packed_matmul(w, codes, T.FLOAT8E4M3FN, scale)
    report = check_model(packed, baseline=baseline)
    assert report.passed, report.failures
    assert 0.4 < boundary(report, "w").max_steps <= 0.5 + 1e-4
    wrong, _ = packed_matmul(w, codes, T.FLOAT8E4M3FN, scale * np.float32(1.1))
    assert not check_model(wrong, baseline=baseline).passed


# --- outputs and boundaries ---


def quantized_matmul(scale: float = 0.05) -> Model:
    """x -> Q -> DQ -> MatMul(float weight behind Q and DQ) -> Q -> DQ -> y."""
    proto = matmul_model(opset=21)
    proto.ir_version = 10
    proto.graph.node[0].input[:] = ["xd", "wd"]
    proto.graph.node[0].output[0] = "y_float"
    proto.graph.initializer.extend(
        [constant("xs", scale), constant("z", 0, T.INT8), constant("ws", 0.027), constant("ys", 0.1)]
    )
    for node in (
        helper.make_node("QuantizeLinear", ["x", "xs", "z"], ["xq"], "quant_x"),
        helper.make_node("DequantizeLinear", ["xq", "xs", "z"], ["xd"], "dequant_x"),
        helper.make_node("QuantizeLinear", ["w", "ws", "z"], ["wq"], "quant_w"),
        helper.make_node("DequantizeLinear", ["wq", "ws", "z"], ["wd"], "dequant_w"),
    ):
        proto.graph.node.insert(len(proto.graph.node) - 1, node)
    proto.graph.node.extend(
        [
            helper.make_node("QuantizeLinear", ["y_float", "ys", "z"], ["yq"], "quant_y"),
            helper.make_node("DequantizeLinear", ["yq", "ys", "z"], ["y"], "dequant_y"),
        ]
    )
    return Model(proto)


def test_output_metrics_are_those_of_two_plain_runs(tmp_path: Path) -> None:
    data = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=data)
    model, baseline = quantized_matmul(), Model(matmul_model())
    report = check_model(model, baseline=baseline, data=tmp_path / "d.npz")
    assert report.passed, report.failures
    expected = np.concatenate([run(baseline.proto, {"x": row[None]})[0] for row in data])
    actual = np.concatenate([run(model.proto, {"x": row[None]})[0] for row in data])
    (output,) = report.outputs
    assert output.sqnr_db == pytest.approx(sqnr_db(expected, actual), rel=1e-12)
    assert output.cosine == pytest.approx(cosine(expected, actual), rel=1e-12)
    assert output.max_abs == float(np.abs(expected.astype(np.float64) - actual).max())
    assert output.max_steps == pytest.approx(max_steps(expected, actual, np.float32(0.1)))
    assert output.exact is False


def test_boundaries_are_found_by_name_by_place_and_behind_the_output_worst_first(tmp_path: Path) -> None:
    data = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=data)
    report = check_model(quantized_matmul(), baseline=Model(matmul_model()), data=tmp_path / "d.npz")
    assert {found.tensor: found.kind for found in report.boundaries} == {
        "x": "activation",
        "w": "weight",
        "y": "activation",
    }
    steps = [found.max_steps for found in report.boundaries]
    assert steps == sorted(steps, reverse=True)
    scale = np.float32(0.05).astype(np.float64)
    codes = np.clip(np.rint(data / np.float32(0.05)), -128, 127)
    exact = np.abs(data.astype(np.float64) / scale - codes)
    found = boundary(report, "x")
    assert found.max_steps == pytest.approx(exact.max(), abs=1e-4)
    assert found.mean_steps == pytest.approx(exact.mean(), abs=1e-5)
    assert (found.elements, found.node) == (40, "quant_x")


def test_clipped_activations_are_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.float32([[3, 3, 3, 3, 3, 3, 3, 2]]))
    report = check_model(quantized_matmul(scale=0.01), baseline=Model(matmul_model()), data=tmp_path / "d.npz")
    assert boundary(report, "x").clipped == 8
    assert boundary(report, "x").max_steps == pytest.approx(300 - 127, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "loose", "tight"), [("min_sqnr", 5.0, 200.0), ("min_cosine", 0.5, 0.9999999), ("max_steps", 100.0, 0.01)]
)
def test_gates_on_request_pass_and_fail_and_are_listed(name: str, loose: float, tight: float) -> None:
    for limit, passed in ((loose, True), (tight, False)):
        report = check_model(
            quantized_matmul(),
            baseline=Model(matmul_model()),
            options=CheckOptions(gates=replace(Gates(), **{name: limit})),
        )
        assert gate(report, name.replace("_", "-")) is passed
        assert report.passed is passed
        assert bool(report.failures) is not passed


def test_a_model_against_itself_is_exact_and_keeps_every_gate() -> None:
    model = Model(conv_model())
    report = check_model(model, baseline=model, options=CheckOptions(gates=Gates(min_sqnr=300, min_cosine=1)))
    assert report.passed, report.failures
    assert report.outputs[0].exact
    assert report.outputs[0].sqnr_db is None


def test_a_baseline_of_another_network_is_refused() -> None:
    with pytest.raises(UsageError, match="different inputs"):
        check_model(Model(conv_model()), baseline=pair_model(T.INT8))
    other = matmul_model()
    other.graph.output.add().CopyFrom(other.graph.output[0])
    other.graph.output[1].name = other.graph.input[0].name
    with pytest.raises(UsageError, match="different outputs"):
        check_model(Model(matmul_model()), baseline=Model(other))


def test_the_deployed_profile_shows_what_default_optimizations_do() -> None:
    rng = np.random.default_rng(2)
    weights = rng.normal(size=(64, 32)).astype(np.float32)
    scale = (np.abs(weights.reshape(2, 32, 32)).max(axis=1) / 7).astype(np.float32)
    codes = np.clip(np.rint(weights / np.repeat(scale, 32, axis=0)), -8, 7)
    nodes = [
        helper.make_node("DequantizeLinear", ["wq", "ws"], ["wd"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "wd"], ["y"]),
    ]
    model = Model(make_model(nodes, {"x": (4, 64)}, {"y": (4, 32)}, {"ws": scale}, opset=21, ir_version=10))
    model.proto.graph.initializer.append(make_tensor("wq", codes, T.INT4))
    same = check_model(model, baseline=model)
    assert same.outputs[0].exact
    fused = check_model(model, baseline=model, options=CheckOptions(profile=Profile.DEPLOYED))
    assert fused.reference.profile == "deployed"
    # MatMulNBits at its default accuracy quantizes the activations to int8
    assert fused.outputs[0].sqnr_db is not None
    assert 30 < fused.outputs[0].sqnr_db < 70


SCOPES = """
<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[2,2] x, bool c, int64 n) => (float[2,2] y, float[2,2] z)
<float[2,2] w = {0.1, 0.2, -0.5, 1.0}>
{
  y = If (c) <
    then_branch = t () => (float[2,2] yt) { th = Relu (x) yt = MatMul (th, w) },
    else_branch = e () => (float[2,2] ye) { neg = Neg (x) ye = MatMul (neg, w) }
  >
  none = Constant <value = bool {1}> ()
  z = Loop (n, none, x) <
    body = b (int64 i, bool ci, float[2,2] v) => (bool co, float[2,2] vo) {
      co = Identity (ci)
      r = Relu (v)
      vo = my.F (r)
    }
  >
}
<domain: "my", opset_import: ["": 21]>
F (a) => (b)
{
  k = Constant <value = float[2,2] {0.3, -0.2, 0.5, 0.7}> ()
  s = Tanh (a)
  b = MatMul (s, k)
}
"""


def test_branches_loops_and_functions_have_counterparts_though_insert_renamed_their_owner(tmp_path: Path) -> None:
    onnx.save(text_model(SCOPES).proto, tmp_path / "float.onnx")
    tensors = [
        {"tensor": name, "format": "int8", "scale": 0.02} for name in ("x", "w", "th", "neg", "r", "s", "k", "y")
    ]
    (tmp_path / "plan.json").write_text(json.dumps({"schema_version": 1, "tensors": tensors}))
    insert_plan(tmp_path / "float.onnx", tmp_path / "plan.json", tmp_path / "q.onnx")
    x = np.random.default_rng(0).uniform(-1, 1, (4, 2, 2)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, c=np.array([True, False, True, False]), n=np.array([3, 0, 1, 2]))
    report = check_model(tmp_path / "q.onnx", baseline=tmp_path / "float.onnx", data=tmp_path / "d.npz")
    assert report.passed, report.failures
    assert report.not_observed == ()
    assert {found.tensor for found in report.boundaries} == {"x", "w", "th", "neg", "r", "s", "k", "y"}
    assert boundary(report, "r").elements == boundary(report, "s").elements == 6 * 4  # six iterations of four
    assert boundary(report, "th").elements == boundary(report, "neg").elements == 2 * 4
    # Relu and Neg of x = DQ(Q(x)) are on the grid already, so only the error of x itself is left
    assert boundary(report, "neg").max_steps <= 0.5 + 1e-4


# --- one array at a time, against a reading of every element by plain Python ---


def boundary_of(kind: str, *, packed: bool = True, axis: int | None = None) -> Boundary:
    """The boundary of a stored weight, or of an activation, before any array."""
    model = pair_model(formats.get(kind).onnx_type)
    for node in model.proto.graph.node if axis is not None else ():
        node.attribute.append(helper.make_attribute("axis", axis))
    quantize, dequantize = ModelIndex.of(Model(model.proto)).qdq.nodes
    assert quantize.output is not None
    assert quantize.data is not None
    entry = dequantize if packed else quantize
    return Boundary(entry, quantize.output, quantize.data, formats.get(kind), is_weight=packed)


@st.composite
def rounded(draw: st.DrawFn) -> tuple[str, np.ndarray, int | None, int | None, list[tuple[np.ndarray, np.ndarray]]]:
    """Format, scale, zero point, axis and samples of values with their codes, all in eighths of a step."""
    kind, axis = draw(st.sampled_from(["int8", "uint8", "int4"])), draw(st.sampled_from([None, 0, 1]))
    fmt, zero = formats.get(kind), draw(st.sampled_from([None, 0, 3]))
    powers = draw(arrays(np.int64, () if axis is None else (2 + axis,), elements=st.integers(-2, 2)))
    samples = []
    for _ in range(draw(st.integers(1, 3))):
        # Values lie near their codes, or beyond the range.
        codes = draw(arrays(np.int64, (2, 3), elements=st.integers(int(fmt.low), int(fmt.high))))
        off = draw(arrays(np.int64, (2, 3), elements=st.sampled_from([0, 1, 3, 4, 5, 8, -4, -5, -12, 40])))
        spread = 2.0**powers if axis != 0 else 2.0 ** powers[:, None]
        x = (codes - (zero or 0) + off / 8) * spread
        samples.append((x.astype(np.float32), codes.astype(fmt.dtype)))
    return kind, (2.0**powers).astype(np.float32), zero, axis, samples


@settings(max_examples=150, deadline=None)
@given(rounded(), st.booleans(), st.sampled_from([None, 0.5, 0.6, 2.0]))
def test_every_distance_is_that_of_a_loop_over_the_elements(drawn: tuple, packed: bool, limit: float | None) -> None:
    kind, scale, zero, axis, samples = drawn
    fmt, found = formats.get(kind), boundary_of(kind, packed=packed, axis=axis)
    zero_point = None if zero is None else np.full(scale.shape, zero, fmt.dtype)
    steps: list[tuple[float, tuple[int, ...]]] = []
    bad: list[list[tuple[float, tuple[int, ...]]]] = []
    clipped = 0
    for x, codes in samples:
        found.add(codes, scale, zero_point, x, limit)
        bad.append([])
        for place in np.ndindex(2, 3):
            step = float(scale if axis is None else scale[place[axis]])
            code, position = int(codes[place]), float(x[place]) / step + (zero or 0)
            steps.append((abs(position - code), place))
            clipped += not fmt.low - 0.5 <= position <= fmt.high + 0.5
            lowest = max(fmt.low, -fmt.high)
            at_end = (code >= fmt.high and position > code) or (code <= lowest and position < code)
            if packed and limit is not None and abs(position - code) > limit + 1e-3 and not at_end:
                bad[-1].append((abs(position - code), place))
    furthest = max(distance for distance, _ in steps)
    result = found.result()
    assert result.max_steps == furthest
    assert result.index == (next(place for distance, place in steps if distance == furthest) if furthest else ())
    assert result.mean_steps == pytest.approx(sum(distance for distance, _ in steps) / len(steps))
    assert (result.clipped, result.elements) == (clipped, len(steps))
    assert (result.kind, result.format, result.tensor) == ("weight" if packed else "activation", kind, "x")
    assert found.bad_weights == sum(map(len, bad))
    first = next((each for each in bad if each), None)
    if first is None:
        assert found.worst_weight == ""
    else:
        worst = max(distance for distance, _ in first)
        place = next(place for distance, place in first if distance == worst)
        assert found.worst_weight == f"{worst:.3g} steps at {list(place)}"
    assert found.is_unexplained is bool(found.bad_weights)
    assert (found.is_judged_by_data, found.problem, found.data_fault) == (False, "", "")


@pytest.mark.parametrize(
    ("x_type", "x", "is_bad"),
    [
        (np.float32, 100.625, True),
        (np.float16, 100.625, False),
        (np.float16, 100.75, True),
        (np.float16, 1.50390625, False),
        (np.float16, 1.505859375, True),
        (np.float32, 1.50390625, True),
        (np.float32, 1.5, False),
    ],
)
def test_a_distance_that_four_roundings_of_the_coarser_type_explain_is_no_fault(
    x_type: type, x: float, is_bad: bool
) -> None:
    for sign in (1, -1):
        found = boundary_of("int8")
        code = np.int8([sign * int(x)])
        found.add(code, np.float32(1), None, np.array([sign * x], x_type), 0.5)
        assert bool(found.bad_weights) is is_bad


def test_a_coarse_scale_rounds_as_a_coarse_weight_does() -> None:
    found = boundary_of("int8")
    found.add(np.int8([100]), np.float16(1), None, np.float32([100.625]), 0.5)
    assert found.bad_weights == 0


@pytest.mark.parametrize("x", [0.6, 440.0, -440.0, 463.0])
def test_steps_of_a_float_format_are_as_wide_as_the_format_is_there(x: float) -> None:
    found = boundary_of("float8e4m3fn")
    code = ml_dtypes.float8_e4m3fn(np.float32(np.clip(x, -448, 448)))
    found.add(np.array([code]), np.float32(1), None, np.float32([x]), 0.5)
    width = 32 if abs(x) > 256 else 0.0625
    assert found.max_steps == pytest.approx(abs(x - float(code)) / width)
    assert (found.clipped, found.bad_weights) == (0, 0)
    found.add(np.array([code]), np.float32(1), None, np.float32([np.sign(x) * 464.5]), 0.5)
    assert found.clipped == 1


def test_what_is_not_finite_is_no_distance() -> None:
    found = boundary_of("int8")
    found.add(np.int8([1, 2, 3]), np.float32(1), None, np.float32([np.nan, np.inf, 3.25]), 0.5)
    assert (found.max_steps, found.sum_steps, found.index) == (0.25, 0.25, (2,))


def test_arrays_that_do_not_fit_are_told_and_not_counted() -> None:
    found = boundary_of("int8", axis=0)
    found.add(np.zeros((2, 3), np.int8), np.float32(1), None, np.zeros((3, 2), np.float32), 0.5)
    assert found.problem == "its shape is [2, 3], the baseline's is [3, 2]"
    found.add(np.zeros((2, 3), np.int8), np.ones(5, np.float32), None, np.zeros((2, 3), np.float32), 0.5)
    assert "5" in found.problem
    assert (found.error.elements, found.result().mean_steps) == (0, 0)


def test_codes_that_data_chose_are_judged_by_the_note() -> None:
    x, codes = np.float32([[0.2, 1.0, 1.6]]), np.int8([[1, 1, 2]])
    noise = float(np.mean((x - codes) ** 2, dtype=np.float64))
    for noted, fault in ((noise, ""), (2 * noise, "its mean squared error is ")):
        found = boundary_of("int8")
        found.by_data = GptqCheck(NotedRounding(tensor="w", scope=(), type="float32", error=noted))
        found.add(codes, np.float32(1), None, x, 0.5)
        assert (found.bad_weights, found.worst_weight) == (1, "0.8 steps at [0, 0]")
        assert found.is_judged_by_data
        assert found.result().judged_by_data
        assert found.is_unexplained is bool(fault)
        assert found.data_fault.startswith(fault)
        assert bool(found.data_fault) is bool(fault)
        assert found.by_data.rms_steps == pytest.approx(math.sqrt(3 * noise / 3))
        assert (found.by_data.float_type, found.by_data.scale_type) == ("float32", "float32")
    nearest = boundary_of("int8")
    nearest.by_data = GptqCheck(NotedRounding(tensor="w", scope=(), type="float32", error=1e9))
    nearest.add(np.int8([[0, 1, 2]]), np.float32(1), None, x, 0.5)
    assert (nearest.is_judged_by_data, nearest.is_unexplained) == (False, False)


def test_the_error_of_a_packed_weight_on_its_scale_is_kept() -> None:
    found = boundary_of("int8")
    found.fit = PairError(found.entry, found.fmt)
    found.add(np.int8([1, 0]), np.float32(2), np.int8(0), np.float32([2.5, 0.5]), None)
    assert (found.fit.elements, found.fit.vanished, float(found.fit.noise[0])) == (2, 1, 0.5)
    assert (found.bad_weights, found.is_packed) == (0, True)


def test_a_few_elements_have_their_own_mean_and_none_have_zero() -> None:
    found = boundary_of("int8")
    found.add(np.zeros(0, np.int8), np.float32(1), None, np.zeros(0, np.float32), 0.5)
    assert (found.result().mean_steps, found.result().elements) == (0, 0)
    found.add(np.int8([1]), np.float32(1), None, np.float32([1.25]), 0.5)
    assert (found.result().mean_steps, found.result().elements) == (0.25, 1)


def test_distances_of_wide_steps_are_held_to_roundings_of_steps() -> None:
    found = boundary_of("float8e4m3fn")
    found.by_data = GptqCheck(NotedRounding(tensor="w", scope=(), type="float16", error=1.0))
    found.add(np.array([416]).astype(found.fmt.dtype), np.float32(0.5), None, np.float16([182.0]), 0.5)
    assert (found.max_steps, found.bad_weights) == (pytest.approx(52 / 32), 1)
    assert found.by_data.rms_steps == pytest.approx(52 / 32)


@pytest.mark.parametrize(("scale_shape", "told"), [((), "per-tensor"), (None, "")])
def test_the_granularity_is_told_where_it_is_known(scale_shape: tuple[int, ...] | None, told: str) -> None:
    found = boundary_of("int8")
    found.entry = replace(found.entry, scale_shape=scale_shape)
    assert found.result().granularity == told


MANY = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2,2] x) => (float[2,2] y)
<float s = {1.0}, int8[2,2] extra = {1, 2, 3, 4}, int8[2,2] codes = {1, 2, 3, 4}, float[2,2] v = {1, 2, 3, 4},
 int8[2,1] small = {1, 2}>
{
  e = DequantizeLinear (extra, s)
  ee = Sin (e)
  q = QuantizeLinear (x, s)
  a = DequantizeLinear (q, s)
  scales = DequantizeLinear (small, s)
  t = DequantizeLinear <axis = 1, block_size = 2> (codes, scales)
  m = MatMul (a, t)
  vq = QuantizeLinear (v, s)
  vd = DequantizeLinear (vq, s)
  n = MatMul (m, vd)
  y = Add (n, ee)
}
"""
FLOAT = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2,2] x) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}, float[2,2] v = {1, 2, 3, 4}>
{
  m = MatMul (x, w)
  n = MatMul (m, v)
  y = Identity (n)
}
"""


def found_in(text: str) -> tuple[list[Boundary], list[str]]:
    model, baseline = (ModelIndex.of(text_model(each)) for each in (text, FLOAT))
    found, lonely = find_boundaries(model, BaselineMatcher(baseline.view, model.view), judges_scales=True)
    return found, [entry.node.proto.output[0] for entry in lonely]


def test_what_is_quantized_has_its_counterpart_or_is_lonely() -> None:
    found, lonely = found_in(MANY)
    assert lonely == ["e"]
    told = [(each.entry.node.proto.output[0], each.codes.name, each.baseline.name, each.is_weight) for each in found]
    assert told == [("q", "q", "x", False), ("t", "codes", "w", True), ("vq", "vq", "v", True)]
    assert [each.is_packed for each in found] == [False, True, False]
    assert [each.fit is not None for each in found] == [False, True, False]
    assert [each.by_data for each in found] == [None, None, None]


def test_only_packed_weights_carry_the_note() -> None:
    notes = [{"tensor": name, "scope": [], "type": "float32", "error": 0.5} for name in ("w", "v", "x")]
    model = text_model(MANY)
    model.proto.metadata_props.add(key=ROUNDING_KEY, value=json.dumps(notes))
    index, baseline = ModelIndex.of(model), ModelIndex.of(text_model(FLOAT))
    found, _ = find_boundaries(index, BaselineMatcher(baseline.view, index.view), judges_scales=True)
    assert [each.by_data.noted.error if each.by_data else None for each in found] == [None, 0.5, None]


BIASED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[1,2] x) => (float[1,2] y)
<float s = {0.5}, int8 z = {0}, int8[2,2] w = {127, -127, 60, 127}, float ws = {0.02}, int32[2] b = {0, 1},
 float bs = {%s}>
{
  q = QuantizeLinear (x, s, z)
  d = DequantizeLinear (q, s, z)
  wd = DequantizeLinear (w, ws)
  bd = DequantizeLinear (b, bs)
  y = Gemm (d, wd, bd)
}
"""
BIASED_FLOAT = """
<ir_version: 10, opset_import: ["": 21]>
g (float[1,2] x) => (float[1,2] y) <float[2,2] wf = {2.54, -2.54, 1.2, 2.54}, float[2] bf = {%s}>
{ y = Gemm (x, wf, bf) }
"""


@pytest.mark.parametrize(
    ("scale", "bias", "kind", "passed"),
    [("0.01", "0.0000001, 0.0104", "bias", True), ("0.04", "0.0001, 0.02", "weight", False)],
)
def test_a_bias_in_the_steps_of_its_layer_cannot_fit_better(scale: str, bias: str, kind: str, passed: bool) -> None:
    report = check_model(text_model(BIASED % scale), baseline=text_model(BIASED_FLOAT % bias))
    assert {each.tensor: each.kind for each in report.boundaries} == {"x": "activation", "wf": "weight", "bf": kind}
    assert gate(report, "weights") is passed


def test_what_a_q_does_in_place_of_a_relu_is_no_distance(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[1,4] x) => (float[1,4] y) <float s = {0.1}, uint8 z = {0}, float[1,4] w = {0,0,0,0}> {
        m = Add (x, w)
        %s
    }"""
    model = text_model(text % "q = QuantizeLinear (m, s, z) y = DequantizeLinear (q, s, z)")
    np.savez(tmp_path / "d.npz", x=np.float32([[-5, -1, 1, 2]]))
    report = check_model(model, baseline=text_model(text % "y = Relu (m)"), data=tmp_path / "d.npz")
    (found,) = report.boundaries
    assert (found.clipped, round(found.max_steps, 3)) == (0, 0)
