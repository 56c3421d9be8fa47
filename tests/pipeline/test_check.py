"""What check catches, what it lets through, and that its numbers are those of plain runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.qdq import LOOP_AND_BRANCHES, constant, pair_model, text_model
from support.small import conv_model, make_model, matmul_model, run

from qdqtool.errors import CapabilityError, GateError, UsageError
from qdqtool.graph.model import Model, Payload
from qdqtool.graph.tensors import make_tensor, pending_tensor
from qdqtool.graph.view import GraphView
from qdqtool.numerics import metrics
from qdqtool.pipeline._observe import Facts
from qdqtool.pipeline._own_core import NodeCheck, compare
from qdqtool.pipeline.check import DataRequest, check_model
from qdqtool.pipeline.check_report import BoundaryResult, CheckReport, Gates
from qdqtool.backends.ort_cpu import Profile

T = TensorProto
LONG = DataRequest(input_shapes={"x": (4000,)}, samples=2)
UNROUNDABLE = 0.07367


def gate(report: CheckReport, name: str) -> bool:
    return next(found.passed for found in report.gates if found.name == name)


def boundary(report: CheckReport, tensor: str) -> BoundaryResult:
    return next(found for found in report.boundaries if found.tensor == tensor)


# --- our own core against the reference ---


@pytest.mark.parametrize(
    "quantized", ["INT8", "UINT8", "INT16", "UINT16", "INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2"]
)
@pytest.mark.parametrize("float_type", ["FLOAT", "FLOAT16"])
def test_every_format_that_onnxruntime_runs_agrees_bit_for_bit(quantized: str, float_type: str) -> None:
    model = pair_model(getattr(T, quantized), float_type=getattr(T, float_type), scale=UNROUNDABLE)
    report = check_model(model, data=LONG)
    assert report.passed, report.failures
    assert (report.qdq.total, report.qdq.checked) == (2, 2)
    assert report.not_observed == ()


def test_zero_points_agree() -> None:
    assert check_model(pair_model(T.UINT8, zero_point=128), data=LONG).passed
    assert check_model(pair_model(T.INT4, zero_point=-3), data=LONG).passed


def test_float16_division_is_named_as_a_known_fault_and_does_not_fail(tmp_path: Path) -> None:
    # 8.51 / 0.0736694 = 115.486: 115, but the float16 quotient that ONNX asks for is 115.5, which rounds to 116
    np.savez(tmp_path / "d.npz", x=np.array([8.51], np.float16))
    report = check_model(pair_model(T.INT8, float_type=T.FLOAT16, scale=UNROUNDABLE), data=tmp_path / "d.npz")
    assert report.passed
    (fault,) = report.known_faults
    assert fault.nodes == ("quant",)
    assert fault.elements == 1
    assert "float32" in fault.fault


def test_wrapped_infinite_quotients_of_float16_are_named_and_left_out(tmp_path: Path) -> None:
    # 60000 / 1e-3 is within float32, 60000 / 6e-8 is beyond 2^31
    np.savez(tmp_path / "d.npz", x=np.array([60000.0, 1.0], np.float16))
    report = check_model(pair_model(T.INT8, float_type=T.FLOAT16, scale=6e-8), data=tmp_path / "d.npz")
    assert report.passed
    assert any("2^31" in fault.fault for fault in report.known_faults)


BLOCKED_AND_PER_AXIS = """
<ir_version: 10, opset_import: ["": 21]>
g (float[4,6] x) => (float[4,3] y)
{
  xq = QuantizeLinear <axis = -1> (x, xs, xz)
  xd = DequantizeLinear <axis = 1> (xq, xs, xz)
  w = DequantizeLinear <axis = 0, block_size = 4> (wq, ws)
  y = MatMul (xd, w)
}
"""


def blocked_model() -> Model:
    rng = np.random.default_rng(5)
    return text_model(
        BLOCKED_AND_PER_AXIS,
        constant("xs", rng.uniform(0.01, 0.1, 6)),
        constant("xz", np.arange(6) - 3, T.INT8),
        constant("wq", rng.integers(-8, 8, (6, 3)), T.INT4),  # blocks of 4 and of 2
        constant("ws", rng.uniform(0.01, 0.1, (2, 3))),
    )


def test_per_axis_activations_and_partial_int4_blocks_agree() -> None:
    report = check_model(blocked_model())
    assert report.passed, report.failures
    assert report.qdq.checked == 3


@pytest.mark.parametrize("branch", [True, False])
def test_bodies_and_functions_are_checked_and_a_branch_that_did_not_run_is_named(branch: bool, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.ones(3, np.float32)[None], c=np.array([branch]), n=np.array([2], np.int64))
    report = check_model(text_model(LOOP_AND_BRANCHES), data=tmp_path / "d.npz")
    assert report.passed
    assert (report.qdq.total, report.qdq.checked) == (8, 6)
    idle = "y.else_branch" if branch else "y.then_branch"
    assert {(skipped.graph, skipped.reason) for skipped in report.not_observed} == {
        (idle, "it did not run on this data")
    }


GROWING = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2] x) => (float[m] y, float[2] z)
<int64 n = {3}, float s = {0.5}, int8 zp = {0}>
{
  none = Constant <value = bool {1}> ()
  y = Loop (n, none, x) <
    body = b (int64 i, bool ci, float[k] v) => (bool co, float[l] vo) {
      co = Identity (ci)
      q = QuantizeLinear (v, s, zp)
      d = DequantizeLinear (q, s, zp)
      vo = Concat <axis = 0> (d, d)
    }
  >
  zq = QuantizeLinear (x, s, zp)
  z = DequantizeLinear (zq, s, zp)
}
"""


def test_a_loop_that_changes_shape_is_skipped_with_the_reason_and_the_rest_is_checked() -> None:
    report = check_model(text_model(GROWING))
    assert report.passed
    assert report.qdq.checked == 2
    assert {skipped.node for skipped in report.not_observed} == {"QuantizeLinear -> q", "DequantizeLinear -> d"}
    assert all("shape changes" in skipped.reason for skipped in report.not_observed)


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_one_wrong_bit_in_the_reference_is_a_difference(op: str) -> None:
    facts = Facts.of(GraphView(pair_model(T.INT8, scale=0.5)))
    entry = next(entry for entry in facts.qdq.nodes if entry.node.op_type == op)
    x, q, y = np.array([0.6, -1.0], np.float32), np.array([1, -2], np.int8), np.array([0.5, -1.0], np.float32)
    values = {"x": x, "q": q, "s": np.float32(0.5), "z": np.int8(0)}
    good, bad = (q, np.array([2, -2], np.int8)) if op == "QuantizeLinear" else (y, np.nextafter(y, np.float32(9)))
    for actual, different in ((good, 0), (bad, np.count_nonzero(good != bad))):
        check = NodeCheck(entry)
        compare(check, actual, lambda value: np.asarray(values[value.name]), None)
        assert check.different == different
    assert check.example.startswith("at [0] the reference has")


def test_microsoft_nodes_are_checked_too() -> None:
    model = pair_model(T.UINT8, zero_point=3)
    for node in model.proto.graph.node:
        node.domain = "com.microsoft"
    model.proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    report = check_model(model, data=LONG)
    assert report.passed
    assert report.qdq.checked == 2


# --- finite outputs ---


def test_a_nan_output_fails_and_the_node_that_made_it_is_named() -> None:
    model = Model(
        make_model(
            [
                helper.make_node("Log", ["x"], ["l"], name="the_log"),
                helper.make_node("Mul", ["l", "l"], ["y"], name="later"),
            ],
            {"x": (8,)},
            {"y": (8,)},
            {},
        )
    )
    report = check_model(model)
    assert not report.passed
    assert not gate(report, "finite")
    assert "the_log" in report.failures[0]
    assert "later" not in report.failures[0]


def test_infinities_that_the_baseline_has_too_are_a_warning() -> None:
    model = Model(
        make_model(
            [helper.make_node("Div", ["x", "zero"], ["y"])], {"x": (8,)}, {"y": (8,)}, {"zero": np.zeros(8, np.float32)}
        )
    )
    assert not check_model(model).passed
    report = check_model(model, baseline=model)
    assert report.passed
    assert "as in the baseline" in report.warnings[-1]


# --- pairs ---


def with_own_dq_scale(model: Model, scale: object) -> Model:
    model.proto.graph.initializer.append(constant("s_by_hand", scale))
    dq = next(node for node in model.proto.graph.node if node.op_type == "DequantizeLinear")
    dq.input[1] = "s_by_hand"
    return model


def test_a_dq_scale_changed_by_hand_fails_with_and_without_a_baseline() -> None:
    model = with_own_dq_scale(pair_model(T.INT8, scale=0.1), 0.1001)
    baseline = Model(make_model([helper.make_node("Identity", ["x"], ["y"])], {"x": ("n",)}, {"y": ("n",)}, {}))
    for given in (None, baseline):
        report = check_model(model, baseline=given, data=LONG)
        assert not report.passed
        assert not gate(report, "pairs")
        assert gate(report, "own-core")
        (failure,) = report.failures
        assert "'dequant' does not undo 'quant'" in failure
        assert "0.1001" in failure


def test_a_changed_scale_is_found_even_where_the_data_hides_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros(5, np.float32))
    assert not check_model(with_own_dq_scale(pair_model(T.INT8), 0.2), data=tmp_path / "d.npz").passed


def test_a_changed_axis_is_found_by_its_results() -> None:
    model = text_model(
        """
        <ir_version: 10, opset_import: ["": 21]>
        g (float[3,3] x) => (float[3,3] y)
        {
          q = QuantizeLinear <axis = 0> (x, s, z)
          y = DequantizeLinear <axis = 1> (q, s, z)
        }
        """,
        constant("s", [0.1, 0.2, 0.3]),
        constant("z", [0, 0, 0], T.INT8),
    )
    report = check_model(model)
    assert not gate(report, "pairs")
    assert gate(report, "own-core")


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


def test_clipped_weights_are_counted_and_do_not_fail() -> None:
    report = check_model(packed_conv(codes_from=300.0), baseline=Model(conv_model()))
    assert report.passed
    assert boundary(report, "w").clipped > 0
    assert boundary(report, "w").max_steps > 100


def test_the_weight_gate_can_be_widened_for_weights_that_were_not_rounded_to_nearest() -> None:
    moved = packed_conv(scale_factor=1.02)
    assert check_model(moved, baseline=Model(conv_model()), gates=Gates(max_weight_steps=5)).passed


def test_codes_made_with_a_rounded_reciprocal_pass() -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(8, 6)).astype(np.float32)
    scale = np.float32(np.abs(w).max() / 127)
    codes = np.rint(w * (np.float32(1) / scale)).astype(np.int8)  # as PyTorch does
    baseline = matmul_model()
    baseline.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(w, "w"))
    packed = onnx.ModelProto()
    packed.CopyFrom(baseline)
    packed.graph.initializer[0].CopyFrom(make_tensor("w_int", codes, T.INT8))
    packed.graph.initializer.append(make_tensor("s", scale, T.FLOAT))
    packed.graph.node.insert(0, helper.make_node("DequantizeLinear", ["w_int", "s"], ["wd"]))
    packed.graph.node[1].input[1] = "wd"
    assert check_model(Model(packed), baseline=Model(baseline)).passed


# --- outputs and boundaries against the baseline ---


def quantized_matmul(scale: float = 0.05) -> Model:
    """x -> Q -> DQ -> MatMul(float weight behind Q and DQ) -> Q -> DQ -> y."""
    proto = matmul_model(opset=21)
    proto.ir_version = 10
    proto.graph.node[0].input[:] = ["xd", "wd"]
    proto.graph.node[0].output[0] = "y_float"
    proto.graph.initializer.extend(
        [constant("xs", scale), constant("z", 0, T.INT8), constant("ws", 0.02), constant("ys", 0.1)]
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
    assert output.sqnr_db == pytest.approx(metrics.sqnr_db(expected, actual), rel=1e-12)
    assert output.cosine == pytest.approx(metrics.cosine(expected, actual), rel=1e-12)
    assert output.max_abs == metrics.max_abs(expected, actual)
    assert output.max_steps == pytest.approx(metrics.max_steps(expected, actual, np.float32(0.1)))
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
    np.savez(tmp_path / "d.npz", x=np.full((1, 8), 3.0, np.float32))
    report = check_model(quantized_matmul(scale=0.01), baseline=Model(matmul_model()), data=tmp_path / "d.npz")
    assert boundary(report, "x").clipped == 8
    assert boundary(report, "x").max_steps == pytest.approx(300 - 127, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "loose", "tight"),
    [("min_sqnr", 5.0, 200.0), ("min_cosine", 0.5, 0.9999999), ("max_steps", 100.0, 0.01)],
)
def test_gates_on_request_pass_and_fail_and_are_listed(name: str, loose: float, tight: float) -> None:
    for limit, passed in ((loose, True), (tight, False)):
        report = check_model(
            quantized_matmul(), baseline=Model(matmul_model()), gates=replace(Gates(), **{name: limit})
        )
        assert gate(report, name.replace("_", "-")) is passed
        assert report.passed is passed
        assert bool(report.failures) is not passed


def test_a_model_against_itself_is_exact_and_keeps_every_gate() -> None:
    model = Model(conv_model())
    report = check_model(model, baseline=model, gates=Gates(min_sqnr=300, min_cosine=1, max_steps=0))
    assert report.passed, report.failures
    assert report.outputs[0].exact
    assert report.outputs[0].sqnr_db is None


def test_gates_that_compare_need_a_baseline() -> None:
    with pytest.raises(UsageError, match="baseline"):
        check_model(pair_model(T.INT8), gates=Gates(min_sqnr=30))


def test_a_baseline_of_another_network_is_refused() -> None:
    with pytest.raises(UsageError, match="different inputs"):
        check_model(Model(conv_model()), baseline=pair_model(T.INT8))
    other = matmul_model()
    other.graph.node[0].output[0] = other.graph.output[0].name = "other"
    with pytest.raises(UsageError, match="different outputs"):
        check_model(Model(matmul_model()), baseline=Model(other))


def test_the_deployed_profile_shows_what_default_optimizations_do() -> None:
    rng = np.random.default_rng(2)
    weights = rng.normal(size=(64, 32)).astype(np.float32)
    scale = (np.abs(weights.reshape(2, 32, 32)).max(axis=1) / 7).astype(np.float32)
    codes = np.clip(np.rint(weights / np.repeat(scale, 32, axis=0)), -8, 7)
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["wq", "ws"], ["wd"], axis=0, block_size=32),
            helper.make_node("MatMul", ["x", "wd"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, (4, 64))],
        [helper.make_tensor_value_info("y", T.FLOAT, (4, 32))],
        [make_tensor("wq", codes, T.INT4), make_tensor("ws", scale, T.FLOAT)],
    )
    model = Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    same = check_model(model, baseline=model)
    assert same.outputs[0].exact
    fused = check_model(model, baseline=model, profile=Profile.DEPLOYED)
    assert fused.reference.profile == "deployed"
    # MatMulNBits at its default accuracy quantizes the activations to int8
    assert fused.outputs[0].sqnr_db is not None
    assert 30 < fused.outputs[0].sqnr_db < 70


# --- where weights lie, and what cannot run ---


def test_external_and_pending_weights_are_found(tmp_path: Path) -> None:
    proto = blocked_model().proto
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert check_model(tmp_path / "m.onnx").passed
    pending = blocked_model()
    kept = next(tensor for tensor in pending.proto.graph.initializer if tensor.name == "xs")
    data = kept.raw_data
    tensor = pending_tensor(pending, "xs", (6,), T.FLOAT, Payload(len(data), lambda: data))
    kept.CopyFrom(tensor)
    assert check_model(pending).passed


@pytest.mark.parametrize("change", ["fp4", "opset"])
def test_what_onnxruntime_cannot_run_is_a_missing_capability(change: str) -> None:
    model = pair_model(T.FLOAT4E2M1 if change == "fp4" else T.INT8)
    model.proto.opset_import[0].version = 23 if change == "fp4" else 27
    model.proto.ir_version = 11
    with pytest.raises(CapabilityError) as caught:
        check_model(model, data=LONG)
    assert ("'quant'" if change == "fp4" else "up to 26") in caught.value.message


def test_a_model_that_fails_on_random_data_says_so() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")]
    model = make_model(nodes, {"x": ("n", 4)}, {"y": (3, 5)}, {"shape": np.array([3, 5], np.int64)})
    with pytest.raises(GateError, match="Reshape node 'reshape' failed") as caught:
        check_model(Model(model))
    assert "random" in (caught.value.hint or "")


def test_every_sample_counts(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((50, 8), np.float32))
    report = check_model(quantized_matmul(), baseline=Model(matmul_model()), data=tmp_path / "d.npz")
    assert report.data.samples == 50
    assert boundary(report, "x").elements == 400
