"""What check catches, what it lets through, and that its numbers are those of plain runs."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.command import qdqtool
from support.page_folders import conv_net
from support.pictures import picture, save_picture
from support.qdq import LOOP_AND_BRANCHES, constant, pair_model, text_model
from support.small import make_model, run

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.qdq_reference import NodeCheck, compare
from qdqtool.accuracy.checking.report import BoundaryResult, CheckReport
from qdqtool.errors import CapabilityError, UsageError
from qdqtool.jobs.check import check_model
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.tensors import pending_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import Payload
from qdqtool.samples.request import DataRequest

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


def test_copies_of_a_sample_are_counted_once(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.float32([[1, 2], [3, 4], [1, 2], [1, 2]]))
    request = DataRequest(path=tmp_path / "d.npz", input_shapes={"x": (2,)})
    data = check_model(pair_model(T.INT8), data=request).data
    assert (data.samples, data.repeated, data.distinct) == (4, 2, 2)


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
    # Such a scale fits no value that float16 has.
    assert [each.name for each in report.gates if not each.passed] == ["activations"]
    assert any("2^31" in fault.fault for fault in report.known_faults)


def test_operators_of_tensorrt_are_evaluated_and_counted_apart() -> None:
    model = text_model(
        """
        <ir_version: 11, opset_import: ["": 23, "trt": 1]>
        g (float[4,32] x) => (float[4,32] y)
        {
          p, e = trt.TRT_MXFP8DynamicQuantize (x)
          d = trt.TRT_MXFP8DequantizeLinear (p, e)
          q = trt.TRT_FP8QuantizeLinear (d, s)
          r = trt.TRT_FP8DequantizeLinear (q, s)
          y = Relu (r)
        }
        """,
        constant("s", 0.01),
    )
    report = check_model(model, data=DataRequest(samples=2))
    assert report.passed, report.failures
    assert (report.qdq.total, report.qdq.checked, report.qdq.own) == (2, 0, 2)
    assert {node.evaluated_by for node in report.evaluated} == {"qdqtool"}
    assert {node.node for node in report.evaluated} == {
        "TRT_MXFP8DynamicQuantize -> p",
        "TRT_MXFP8DequantizeLinear -> d",
        "TRT_FP8QuantizeLinear -> q",
        "TRT_FP8DequantizeLinear -> r",
    }


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
    np.savez(tmp_path / "d.npz", x=np.float32([[1, 1, 2]]), c=np.array([branch]), n=np.array([2], np.int64))
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
    index = ModelIndex.of(pair_model(T.INT8, scale=0.5))
    entry = next(entry for entry in index.qdq.nodes if entry.node.op_type == op)
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
    nodes = [
        helper.make_node("Log", ["x"], ["l"], name="the_log"),
        helper.make_node("Mul", ["l", "l"], ["y"], name="later"),
    ]
    report = check_model(Model(make_model(nodes, {"x": (8,)}, {"y": (8,)}, {})))
    assert not report.passed
    assert not gate(report, "finite")
    assert "the_log" in report.failures[0]
    assert "later" not in report.failures[0]


def test_infinities_that_the_baseline_has_too_are_a_warning() -> None:
    nodes = [helper.make_node("Div", ["x", "zero"], ["y"])]
    model = Model(make_model(nodes, {"x": (8,)}, {"y": (8,)}, {"zero": np.zeros(8, np.float32)}))
    (failure,) = check_model(model).failures
    assert failure.startswith("output 'y' has 32 NaN or infinite elements")
    report = check_model(model, baseline=model)
    assert report.passed
    assert any("as in the baseline" in warning for warning in report.warnings)
    # Of such an output nothing was compared, which real data would not excuse.
    assert any("nothing was compared" in warning for warning in report.warnings)


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
    report = check_model(with_own_dq_scale(pair_model(T.INT8), 0.2), data=tmp_path / "d.npz")
    (failure,) = report.failures
    assert "'dequant' does not undo 'quant': its scale is 0.2" in failure


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


def test_what_nothing_here_can_run_is_a_missing_capability() -> None:
    model = text_model("""
        <ir_version: 8, opset_import: ["": 17, "far.away": 1]>
        g (float[3] x) => (float[3] y) { y = far.away.Op (x) }
    """)
    with pytest.raises(CapabilityError, match="does not know operator"):
        check_model(model)


def test_a_model_that_fails_on_random_data_says_so() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")]
    model = make_model(nodes, {"x": ("n", 4)}, {"y": (3, 5)}, {"shape": np.array([3, 5], np.int64)})
    with pytest.raises(UsageError, match="Reshape node 'reshape' failed") as caught:
        check_model(Model(model))
    assert "random" in (caught.value.hint or "")


def test_a_baseline_with_other_names_is_paired_by_position_and_its_data_serve(tmp_path):
    header = '<ir_version: 8, opset_import: ["": 17]>\n'
    (quantized, baseline) = (
        onnx.parser.parse_model(
            f"""{header} agraph (float[4] x) => (float[4] out) <float s = {{0.01}}, int8 z = {{0}}> {{
                q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) out = Neg (d) }}"""
        ),
        onnx.parser.parse_model(f"{header} agraph (float[4] image) => (float[4] y) {{ y = Neg (image) }}"),
    )
    np.savez(tmp_path / "d.npz", image=np.random.default_rng(0).uniform(-1, 1, (8, 4)).astype(np.float32))
    report = check_model(Model(quantized), baseline=Model(baseline), data=tmp_path / "d.npz")

    assert report.passed
    assert report.outputs[0].sqnr_db > 30
    assert [warning.split(" in the baseline")[0] for warning in report.warnings[:2]] == [
        "input 'x' is called 'image'",
        "output 'out' is called 'y'",
    ]


# --- single samples ---


def _worst_of_runs(models: tuple[Model, Model], inputs: list[np.ndarray]) -> list[tuple[int, float, float]]:
    """Number, SQNR and largest difference of every sample by plain runs, the lowest SQNR first."""
    found: list[tuple[int, float, float]] = []
    for number, x in enumerate(inputs):
        actual, expected = (np.float64(run(model.proto, {"x": x})[0]) for model in models)
        error = expected - actual
        ratio = 10 * np.log10(np.sum(expected**2) / np.sum(error**2))
        found.append((number, float(ratio), float(np.max(np.abs(error)))))
    return sorted(found, key=lambda each: each[1])


@pytest.mark.parametrize("in_files", [True, False])
def test_the_worst_samples_are_those_of_plain_runs_with_their_files(in_files: bool, tmp_path: Path) -> None:
    inputs = [np.random.default_rng(number).uniform(-1, 1, 16).astype(np.float32) for number in range(24)]
    inputs[17] *= 0.01  # most of it is rounded to 0
    model = pair_model(T.INT8, scale=0.02)
    baseline = text_model('<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[n] y) { y = Identity (x) }')
    data = tmp_path / ("d" if in_files else "d.npz")
    if in_files:
        data.mkdir()
        for number, x in enumerate(inputs):
            np.savez(data / f"{number}.npz", x=x[None])
    else:
        np.savez(data, x=np.stack(inputs))
    expected = _worst_of_runs((model, baseline), inputs)
    (output,) = check_model(model, baseline=baseline, data=data).outputs

    assert [sample.number for sample in output.worst_samples] == [number for number, *_ in expected[:10]]
    assert output.worst_samples[0].number == 17
    assert [sample.sqnr_db for sample in output.worst_samples] == pytest.approx([db for _, db, _ in expected[:10]])
    assert [sample.max_abs for sample in output.worst_samples] == pytest.approx([off for *_, off in expected[:10]])
    assert [sample.files for sample in output.worst_samples] == [
        (f"{number}.npz",) if in_files else () for number, *_ in expected[:10]
    ]
    told = output.sample_sqnr
    assert (told.samples, told.exact, told.zero_reference, told.nonfinite) == (24, 0, 0, 0)
    figures = [told.min_db, told.lower_quartile_db, told.median_db, told.upper_quartile_db, told.max_db]
    assert figures == pytest.approx(np.percentile([db for _, db, _ in expected], (0, 25, 50, 75, 100)))


def test_held_back_samples_keep_their_numbers_in_the_data(tmp_path: Path) -> None:
    inputs = np.random.default_rng(3).uniform(-1, 1, (20, 16)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=inputs)
    model = pair_model(T.INT8, scale=0.02)
    baseline = text_model('<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[n] y) { y = Identity (x) }')
    report = check_model(model, baseline=baseline, data=DataRequest(path=tmp_path / "d.npz", held_back=True))
    expected = {number: db for number, db, _ in _worst_of_runs((model, baseline), list(inputs))}
    (output,) = report.outputs

    assert report.data.samples == len(output.worst_samples) == 4
    assert max(sample.number for sample in output.worst_samples) > 4
    for sample in output.worst_samples:
        assert sample.sqnr_db == pytest.approx(expected[sample.number])


def test_without_a_baseline_no_sample_is_worst() -> None:
    (output,) = check_model(pair_model(T.INT8), data=DataRequest(samples=2, input_shapes={"x": (4,)})).outputs

    assert (output.worst_samples, output.sample_sqnr) == ((), None)


def test_a_model_and_a_baseline_that_are_swapped_are_refused() -> None:
    quantized, model = (
        pair_model(TensorProto.INT8),
        text_model('<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Identity (x) }'),
    )
    assert check_model(quantized, baseline=model).baseline_qdq == 0
    with pytest.raises(UsageError, match="the two are swapped") as refused:
        check_model(model, baseline=quantized)
    assert refused.value.hint == "`qdqtool check FLOAT.onnx --baseline FLOAT.onnx`"


def test_images_become_samples_as_the_model_records(tmp_path: Path) -> None:
    for number in range(4):
        save_picture(tmp_path / f"photos/{number}.png", picture(80, 90, number))
    onnx.save(conv_net("x", 64), tmp_path / "float.onnx")
    words = ("--calib-data", "photos", "--image-preset", "imagenet", "-o", "int8.onnx")
    assert qdqtool("quantize", "float.onnx", *words, cwd=tmp_path).code == 0
    check = ("check", "int8.onnx", "--baseline", "float.onnx", "--data", "photos")
    told, other = (qdqtool(*check, *more, cwd=tmp_path) for more in ((), ("--image-preset", "yolo")))
    assert (told.code, other.code) == (0, 0)
    assert "images: crop to 64x64, bilinear, rgb" in told.out
    warning = "the model was calibrated on other preprocessing"
    assert (warning in told.out, warning in other.out) == (False, True)


# --- what no sample reaches ---


def test_a_quantized_branch_that_no_sample_takes_is_a_reason_for_a_warning(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[4] x, bool c) => (float[4] y) <float s = {1000.0}, int8 z = {0}> {
        p = QuantizeLinear (x, s, z)
        u = DequantizeLinear (p, s, z)
        y = If (c) <
            then_branch = t () => (float[4] d) { q = QuantizeLinear (u, s, z)  d = DequantizeLinear (q, s, z) },
            else_branch = e () => (float[4] n) { n = Neg (u) }
        >
    }"""
    model, plain = text_model(text), text_model(re.sub(r"\w+Linear \((\w+), s, z\)", r"Identity (\1)", text))
    found = {}
    for name, taken in (("one", [False, False]), ("both", [False, True])):
        np.savez(tmp_path / f"{name}.npz", x=1000 * np.arange(8, dtype=np.float32).reshape(2, 4), c=np.array(taken))
        limits = CheckOptions(gates=Gates(min_sqnr=30, max_steps=1))
        report = check_model(model, baseline=plain, data=tmp_path / f"{name}.npz", options=limits)
        found[name] = (report.verdict, [reason.detail for reason in report.reasons])
    unseen = "no sample ran 2 Q/DQ nodes, such as 'QuantizeLinear -> q': nothing was measured there"
    assert found == {"one": ("warning", [unseen]), "both": ("passed", [])}
