"""Cast: half precision where the values fit, Q/DQ unchanged, and a reason for each node that stays float32."""

import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from support.command import qdqtool
from support.engine_models import ROWS, Net, save
from support.half import outputs_of, types_of
from support.metrics import sqnr_db
from support.small import conv_model, matmul_model

from qdqtool import build_engine, calibrate_to_file, cast_model, check_model, quantize_model
from qdqtool.engines.tensorrt.planned_types import work_of
from qdqtool.errors import GateError, UsageError
from qdqtool.jobs.cast import CastReport
from qdqtool.models.graph.io.load import load_model

RNG = np.random.default_rng(5)
SAMPLES = [{"x": RNG.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(8)]
LARGE = """<ir_version: 10, opset_import: ["": 17]>
g (float[n, 8] x) => (float[n, 8] y) <float gain = {100000.0}> {
  a = MatMul (x, w) [grow] b = Mul (a, gain) [shrink] c = Div (b, gain) d = Sigmoid (c) y = MatMul (d, w) }"""


def large() -> onnx.ModelProto:
    model = parser.parse_model(LARGE)
    model.graph.initializer.append(numpy_helper.from_array(RNG.normal(size=(8, 8)).astype(np.float32), "w"))
    return model


def rows(count: int) -> list[dict[str, np.ndarray]]:
    return [{"x": RNG.normal(size=(2, 8)).astype(np.float32)} for _ in range(count)]


def made(report: CastReport) -> onnx.ModelProto:
    assert report.output_model is not None
    proto = report.output_model.proto
    onnx.checker.check_model(proto, full_check=True)
    return proto


def test_values_beyond_float16_stay_float32_and_the_rest_does_not() -> None:
    model, data = large(), rows(8)
    report = cast_model(model, data)
    assert {each.node for each in report.high_precision.kept} == {"grow", "shrink"}
    types = types_of(made(report))
    assert (types["x"], types["y"], types["d"], types["b"]) == ("FLOAT", "FLOAT", "FLOAT16", "FLOAT")
    (new,) = rows(1)
    assert sqnr_db(outputs_of(model, new)["y"], outputs_of(made(report), new)["y"]) > 40
    assert (report.accuracy.held_back, report.accuracy.samples, report.min_sqnr_db) == (True, 4, 40.0)
    assert report.output_model is not None
    assert work_of(report.output_model).converted_to == "fp16"


def test_a_limit_decides_and_one_that_nothing_keeps_writes_nothing(tmp_path: Path) -> None:
    assert cast_model(conv_model(), SAMPLES, min_sqnr=45).high_precision.nodes == 3
    with pytest.raises(GateError, match="no node can compute in float16 such that every output keeps 200 dB"):
        cast_model(conv_model(), SAMPLES, tmp_path / "o.onnx", min_sqnr=200)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="--min-sqnr nan is no accuracy"):
        cast_model(conv_model(), SAMPLES, min_sqnr=float("nan"))
    some = cast_model(conv_model(), SAMPLES, min_sqnr=68)
    assert some.high_precision.nodes == 2
    assert "float16 it would make an output miss the limit of 68 dB" in str(some.high_precision.kept)


def test_random_inputs_set_no_limit() -> None:
    report = cast_model(conv_model())
    assert (report.min_sqnr_db, report.high_precision.nodes, report.data.seed) == (None, 3, 0)


def test_the_command_that_inspect_advises_leaves_no_float32_work(tmp_path: Path) -> None:
    net = Net()
    quantized = net.op("MatMul", [net.activation("x"), net.weight("w", (64, 64))], "h")
    net.op("MatMul", [quantized, net.float_weight("v", (64, 64))], "y")
    save(net.model(ROWS), tmp_path)
    (advised,) = re.findall(r"`qdqtool (cast [^`]*)`", qdqtool("inspect", "m.onnx", cwd=tmp_path).out)
    assert qdqtool(*shlex.split(advised), cwd=tmp_path).code == 0
    macs = 8 * 64 * 64
    assert work_of(load_model(tmp_path / "OUT.onnx")).by_type == {"int8": macs, "float16": macs}


def test_bfloat16_raises_the_opset_and_is_judged_with_its_rounding() -> None:
    report = cast_model(conv_model(), SAMPLES, to="bf16")
    assert (report.opset_before, report.opset_after, report.min_sqnr_db) == (17, 22, 25.0)
    assert {types_of(made(report))[name] for name in convolved(made(report))} == {"BFLOAT16"}
    (output,) = report.accuracy.outputs
    assert output.sqnr_db is not None
    assert 45 < output.sqnr_db < 55


def test_ranges_of_a_calibration_tell_of_larger_values(tmp_path: Path) -> None:
    onnx.save(large(), tmp_path / "m.onnx")
    calibrate_to_file(tmp_path / "m.onnx", [{"x": 3e4 * each["x"]} for each in rows(4)], tmp_path / "r.json")
    report = cast_model(tmp_path / "m.onnx", rows(8), tmp_path / "h.onnx", calibration_cache=tmp_path / "r.json")
    assert "MatMul" in {each.op_type for each in report.high_precision.kept}
    assert "MatMul" not in {each.op_type for each in cast_model(large(), rows(8)).high_precision.kept}
    other = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[4] u) => (float[4] v) { v = Sigmoid (u) }'
    )
    with pytest.raises(UsageError, match="of another model: it has none of their 2 tensors"):
        cast_model(other, calibration_cache=tmp_path / "r.json")


def test_what_the_user_names_stays_float32() -> None:
    report = cast_model(conv_model(), SAMPLES, nodes_to_exclude=["conv1"], op_types_to_exclude=["Relu"])
    assert [(each.node, each.reason) for each in report.high_precision.kept] == [
        ("conv1", "excluded by --nodes-to-exclude 'conv1'"),
        ("relu1", "excluded by --op-types-to-exclude 'Relu'"),
    ]
    with pytest.raises(UsageError, match="'cnov1' matches no node of the model; did you mean 'conv1'"):
        cast_model(conv_model(), SAMPLES, nodes_to_exclude=["cnov1"])


def test_a_model_that_is_half_already_is_refused_in_one_line() -> None:
    half = made(cast_model(conv_model(), SAMPLES))
    with pytest.raises(UsageError, match="no node that computes in float32, the constants are float16"):
        cast_model(half, SAMPLES)


class Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self.left = iter(SAMPLES)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def test_pairs_of_onnx_runtime_keep_scales_and_codes(tmp_path: Path) -> None:
    onnx.save(conv_model(21, 10), tmp_path / "f.onnx")
    quantize_static(tmp_path / "f.onnx", tmp_path / "q.onnx", Reader(), QuantFormat.QDQ)
    quantized = onnx.load(tmp_path / "q.onnx")
    report = cast_model(quantized, SAMPLES)
    written = made(report)
    assert report.high_precision.nodes == 2
    assert pairs(written) == pairs(quantized)
    assert {types_of(written)[name] for name in convolved(written)} == {"FLOAT16"}
    assert report.before_db is not None
    assert report.accuracy.outputs[0].sqnr_db is not None
    assert report.accuracy.outputs[0].sqnr_db > report.before_db - 0.5
    with pytest.raises(GateError, match="every output keeps 60 dB"):
        cast_model(quantized, SAMPLES, min_sqnr=60)


@pytest.mark.parametrize(("outer", "is_rounded"), [(0.03, True), (5e-5, False)])
def test_scales_of_packed_weights_are_rounded_unless_they_are_tiny(outer: float, is_rounded: bool) -> None:
    """TensorRT fuses int4 weights with scales of the type of the data."""
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2, 4] x) => (float[2, 2] y)
      <int4[4, 2] w = {1, 2, 3, 4}, float[2, 2] s = {S, S, S, S}> {
        d = DequantizeLinear <axis = 0, block_size = 2> (w, s) m = MatMul (x, d) y = Tanh (m) }"""
    model = parser.parse_model(text.replace("S,", f"{outer},").replace("S}", f"{outer}}}"))
    written = made(cast_model(model, [{"x": RNG.normal(size=(2, 4)).astype(np.float32)} for _ in range(8)]))
    casts = [node.input[0] for node in written.graph.node if node.op_type == "Cast"]
    assert ("d" not in casts, types_of(written)["d"] == "FLOAT16") == (is_rounded, is_rounded)


def test_a_model_whose_codes_were_chosen_with_data_passes_check_after_the_cast(tmp_path: Path) -> None:
    onnx.save(matmul_model(21, 64), tmp_path / "f.onnx")
    data = [{"x": RNG.normal(size=(8, 64)).astype(np.float32)} for _ in range(8)]
    quantize_model(
        tmp_path / "f.onnx", data, tmp_path / "q.onnx", quantize_mode="int4", block_size=32, high_precision_dtype="fp32"
    )
    cast_model(tmp_path / "q.onnx", data, tmp_path / "h.onnx")
    judged = {}
    for name in ("q", "h"):
        report = check_model(tmp_path / f"{name}.onnx", baseline=tmp_path / "f.onnx", data=data)
        judged[name] = {gate.name: gate.passed for gate in report.gates}
    assert judged["h"] == judged["q"]
    assert judged["h"]["weights"]


def pairs(model: onnx.ModelProto) -> list[tuple[str, list[float], list[float]]]:
    """Operator, scales and zero points of every Q and DQ, in the order of the graph."""
    stored = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type in {"QuantizeLinear", "DequantizeLinear"}]
    return [(n.op_type, *(stored[name].astype(float).ravel().tolist() for name in n.input[1:3])) for n in nodes]


def convolved(model: onnx.ModelProto) -> list[str]:
    return [name for node in model.graph.node if node.op_type == "Conv" for name in (*node.input, *node.output)]


def test_inputs_and_outputs_get_the_type_that_is_asked_for(tmp_path: Path) -> None:
    report = cast_model(conv_model(), SAMPLES, io_types="fp16")
    written = made(report)
    assert {value.type.tensor_type.elem_type for value in (*written.graph.input, *written.graph.output)} == {10}
    assert "Cast" not in {node.op_type for node in written.graph.node}
    assert [str(each) for each in report.interface] == [
        "input 'x' is float16 instead of float32",
        "output 'y' is float16 instead of float32",
    ]
    onnx.save(conv_model(), tmp_path / "m.onnx")
    done = qdqtool("cast", "m.onnx", "--io-types", "quantized", "-o", "h.onnx", cwd=tmp_path)
    assert "input 'x' stays float32: " in done.out


def test_functions_are_inlined_so_that_their_nodes_can_change() -> None:
    text = """<ir_version: 10, opset_import: ["": 17, "own": 1]> g (float[4] x) => (float[4] y) {
        a = own.twice (x) y = own.twice (a) }
      <domain: "own", opset_import: ["": 17]> twice (u) => (v) { w = Sigmoid (u) v = Add (w, w) }"""
    report = cast_model(
        parser.parse_model(text), [{"x": np.ones(4, np.float32) * k} for k in range(4)], allow_constant_data=True
    )
    assert (report.high_precision.nodes, report.high_precision.kept) == (4, ())


def test_the_command_prints_reasons_accuracy_and_file(tmp_path: Path) -> None:
    onnx.save(large(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=np.concatenate([each["x"] for each in rows(8)])[:8])
    done = qdqtool("cast", "m.onnx", "--data", "d.npz", "-o", "h.onnx", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "3 of 5 float nodes in float16, 4 Casts added" in done.out
    assert "float32 Div shrink: 'b' reaches " in done.out
    assert "wrote h.onnx" in done.out
    assert onnx.load(tmp_path / "h.onnx").graph.node
    random = qdqtool("cast", "m.onnx", "-o", "r.onnx", "--input-shapes", "x:1x8", cwd=tmp_path)
    assert "random inputs" in random.out
    wrong = qdqtool("cast", "m.onnx", "--to", "fp8", "-o", "w.onnx", cwd=tmp_path)
    assert (wrong.code, "'fp8' is not one of 'fp16', 'bf16'" in wrong.err) == (2, True)


SHAPES = {
    "yunet_n_dynamic": {"input": (1, 3, 160, 160)},
    "silero_vad_16k_op15": {"input": (1, 576), "state": (2, 1, 128)},
}


def test_a_real_network_computes_in_half_precision_and_is_built(real_model: Path, tmp_path: Path) -> None:
    shapes = SHAPES.get(real_model.stem, {})
    values = {"sr": 16000} if real_model.stem.startswith("silero") else {}
    report = cast_model(real_model, None, tmp_path / "h.onnx", input_shapes=shapes, input_values=values)
    given_reasons = ("of what float16 holds", "fewer bits", "bodies of If", "between nodes that stay float32")
    assert all(any(words in each.reason for words in given_reasons) for each in report.high_precision.kept)
    assert report.high_precision.nodes > 5 * len(report.high_precision.kept)
    assert min(each.sqnr_db or 99 for each in report.accuracy.outputs) > (25 if values or shapes else 55)
    if real_model.stem != "silero_vad_16k_op15":
        build_engine(tmp_path / "h.onnx", tmp_path / "h.engine", input_shapes=shapes, backend="tensorrt-rtx")
