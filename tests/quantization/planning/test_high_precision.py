"""Quantized models whose float part is float16: right, reported, and accepted by linter, check and builder."""

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.command import qdqtool
from support.half import casts_behind_a_dq, require_valid, types_of
from support.layer_dump import output_types
from support.paths import ROOT
from support.qdq import text_model
from support.small import F32, make_model, matmul_model, nodes_of

from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.check import check_model
from qdqtool.jobs.insert import insert_plan
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.strip import strip_model
from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.io.metadata import HIGH_PRECISION_KEY
from qdqtool.models.graph.model import Model
from qdqtool.models.options import HalfType, WeightStorage
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.existing_pairs import settle_model
from qdqtool.quantization.planning.high_precision import (
    as_stored,
    high_precision_note,
    known_magnitudes,
    lower,
    measure_magnitudes,
    ready_for,
    resolved,
    round_given,
    rule_for,
)
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.planning.target_fit import taken_modes
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.ranges.types import CalibrationRecord, Ranges, TensorRange
from qdqtool.quantization.report import HighPrecisionReport
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription
from qdqtool.samples.request import DataRequest, FileData, RandomData

SAMPLES = ROOT / "sample_models"
TRANSFORMER = SAMPLES / "digits_transformer"
AUTO = Recipe(high_precision=HighPrecision.AUTO)
MODES = taken_modes("tensorrt")
TESTED = DataRequest(path=TRANSFORMER / "test.npz", samples=24)
CHANCE_DB = 3.0
"""How far the outputs of two models may differ whose tensors are equally good: rounding to float16 decides anew which
way values between two codes go. On three samples in fp8 tensors agreed to 0.15 dB, and outputs to 2.6 either way."""


def quantize(source, folder, name="q.onnx", data=None, **recipe):
    storage = {"weights": recipe.pop("weights")} if "weights" in recipe else {}
    options = QuantizeOptions(recipe=Recipe(**{"high_precision": HighPrecision.FP16, **recipe}), **storage)
    return quantize_model(source, data, folder / name, options)


def of_sample(folder, name="q.onnx", sample=TRANSFORMER, **recipe):
    return quantize(
        sample / "model.onnx", folder, name, FileData(path=sample / "calibration.npz", samples=16), **recipe
    )


@pytest.mark.slow(reason="quantizes and builds every mode")
@pytest.mark.parametrize(
    ("mode", "weights"),
    [*((mode, WeightStorage.PACKED) for mode in MODES), ("int8", WeightStorage.QDQ), ("nvfp4", WeightStorage.QDQ)],
)
def test_every_mode_leaves_nothing_in_float32_but_the_interface(mode, weights, tmp_path):
    report = of_sample(tmp_path, quantize_mode=mode, weights=weights)
    written = onnx.load(tmp_path / "q.onnx")
    require_valid(written)
    assert report.high_precision.kept == ()
    assert report.high_precision.nodes > 60
    full = {name for name, kind in types_of(written).items() if kind == "FLOAT"}
    scales_of_scales = {name for name in full if name.endswith("scale_scale")}
    inputs_of_a_q = {name for node in written.graph.node if node.op_type == "QuantizeLinear" for name in node.input}
    assert full - scales_of_scales <= {"image", "logits"} | inputs_of_a_q
    assert not [finding for finding in report.findings if finding.severity != "info"]


@pytest.mark.slow(reason="quantizes and builds every mode")
@pytest.mark.parametrize("mode", ["int8", "fp8", "int8-weight-only"])
def test_accuracy_is_that_of_a_float32_rest(mode, tmp_path):
    for name, dtype in (("full.onnx", HighPrecision.FP32), ("half.onnx", HighPrecision.FP16)):
        of_sample(tmp_path, name, quantize_mode=mode, high_precision=dtype)
    full, half = (
        check_model(tmp_path / name, baseline=TRANSFORMER / "model.onnx", data=TESTED)
        for name in ("full.onnx", "half.onnx")
    )
    assert half.passed, half.failures
    assert mean_sqnr(half, "weight") == pytest.approx(mean_sqnr(full, "weight"), abs=0.05)
    if mode != "int8-weight-only":
        assert mean_sqnr(half, "activation") == pytest.approx(mean_sqnr(full, "activation"), abs=0.3)
    assert half.outputs[0].sqnr_db > full.outputs[0].sqnr_db - CHANCE_DB
    assert (tmp_path / "half.onnx").stat().st_size < (tmp_path / "full.onnx").stat().st_size


def mean_sqnr(report, kind):
    return np.mean([place.sqnr_db for place in report.boundaries if place.kind == kind])


@pytest.mark.slow(reason="quantizes twice")
def test_weights_are_quantized_from_what_was_given_and_not_from_a_rounding_of_it(tmp_path):
    """Behind a Q they stay float32 for that, and every packed code is within half a step of the given weight."""
    for storage in WeightStorage:
        of_sample(tmp_path, weights=storage)
        report = check_model(tmp_path / "q.onnx", baseline=TRANSFORMER / "model.onnx", data=DataRequest(samples=1))
        weights = [place for place in report.boundaries if place.kind == "weight"]
        assert weights
        assert max(place.max_steps for place in weights) <= 0.5


def test_scales_are_values_of_float16_and_normal_ones(tmp_path):
    """One channel of the weight is so small that its scale would have three bits in float16."""
    weight = np.random.default_rng(5).standard_normal((32, 32)).astype(np.float32)
    weight[:, 3] *= 1e-4
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (4, 32)}, {"y": (4, 32)}, {"w": weight})
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(6).standard_normal((8, 4, 32)).astype(np.float32))
    onnx.save(model, tmp_path / "m.onnx")
    report = quantize(tmp_path / "m.onnx", tmp_path, data=tmp_path / "d.npz")
    written = onnx.load(tmp_path / "q.onnx")
    (scales,) = [numpy_helper.to_array(t) for t in written.graph.initializer if t.name.startswith("w_scale")]
    assert scales.dtype == np.float16
    assert scales.min() == np.float16(2**-14)
    assert "QP105" not in {finding.code for finding in report.findings}
    assert [found.condition for found in report.degenerate] == ["tiny"]


def overflowing(folder, width=32):
    """Products that reach some 3e5, and come back to 1 behind a Mul."""
    random = np.random.default_rng(7)
    nodes = nodes_of(
        "[first] a = MatMul (x, w)  [larger] b = Mul (a, c)  [smaller] e = Mul (b, d)  [second] y = MatMul (e, v)"
    )
    weights = {name: random.standard_normal((32, 32)).astype(np.float32) for name in "wv"}
    constants = {"c": np.float32(2e4), "d": np.float32(5e-5)}
    model = make_model(nodes, {"x": (4, width)}, {"y": (4, 32)}, weights | constants)
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "d.npz", x=random.standard_normal((40, 4, 32)).astype(np.float32))
    return folder / "m.onnx"


def test_calibration_finds_what_float16_does_not_hold(tmp_path):
    source = overflowing(tmp_path)
    report = quantize(source, tmp_path, data=tmp_path / "d.npz")
    assert {each.node for each in report.high_precision.kept} == {"larger", "smaller"}
    (output,) = report.accuracy.outputs
    assert output.finite
    assert output.sqnr_db > 30
    assert report.high_precision.measured == 5


@pytest.mark.parametrize(("offset", "kept"), [(1, []), (2000, ["up", "down"])])
@pytest.mark.parametrize("seen", ["data", "random"])
def test_nodes_that_cost_an_output_in_half_precision_stay_float32(offset, kept, seen, tmp_path):
    """Between 1024 and 2048, float16 has integers only. Random inputs judge no output."""
    random = np.random.default_rng(7)
    nodes = nodes_of(
        "[first] a = MatMul (x, w)  [up] b = Add (a, c)  [down] e = Sub (b, c)  [second] y = MatMul (e, v)"
    )
    weights = {name: random.standard_normal((32, 32)).astype(np.float32) for name in "wv"}
    onnx.save(
        make_model(nodes, {"x": (4, 32)}, {"y": (4, 32)}, weights | {"c": np.float32(offset)}), tmp_path / "m.onnx"
    )
    np.savez(tmp_path / "d.npz", x=random.standard_normal((20, 4, 32)).astype(np.float32))
    report = quantize(
        tmp_path / "m.onnx", tmp_path, data=tmp_path / "d.npz" if seen == "data" else RandomData(samples=20)
    )
    (output,) = report.accuracy.outputs
    found = report.high_precision.kept
    assert [each.node for each in found] == (kept if seen == "data" else [])
    assert {each.reason for each in found} <= {"in float16 it would make an output miss the limit of 40 dB"}
    assert (output.float32_db - output.sqnr_db > 3) is (offset == 2000 and not found)


def test_ranges_from_a_file_tell_of_the_tensors_that_they_have(tmp_path):
    source = overflowing(tmp_path, "N")
    calibrate_to_file(source, tmp_path / "d.npz", tmp_path / "r.json", Recipe())
    report = quantize(source, tmp_path, data=CachedRanges(path=tmp_path / "r.json"))
    assert report.high_precision.measured == 2
    assert report.high_precision.kept == ()


@pytest.mark.slow(reason="quantizes and builds every mode")
def test_ranges_are_the_same_for_either_type(tmp_path):
    options = {
        dtype: QuantizeOptions(recipe=Recipe(high_precision=dtype), ranges_file=tmp_path / dtype.value)
        for dtype in HighPrecision
    }
    for dtype, chosen in options.items():
        quantize_model(
            TRANSFORMER / "model.onnx", TRANSFORMER / "calibration.npz", tmp_path / f"{dtype.value}.onnx", chosen
        )
    assert (tmp_path / "fp16").read_bytes() == (tmp_path / "fp32").read_bytes()


@pytest.mark.slow(reason="quantizes twice")
def test_the_same_input_gives_the_same_bytes(tmp_path):
    of_sample(tmp_path, "one.onnx")
    of_sample(tmp_path, "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_a_saved_plan_fits_the_float32_model(tmp_path):
    """Its scales are those of float16, so that a conversion by other tools changes no code."""
    options = QuantizeOptions(
        recipe=Recipe(quantize_mode="int8-weight-only", high_precision=HighPrecision.FP16),
        plan_file=tmp_path / "plan.json",
    )
    quantize_model(TRANSFORMER / "model.onnx", None, tmp_path / "q.onnx", options)
    insert_plan(TRANSFORMER / "model.onnx", tmp_path / "plan.json", tmp_path / "i.onnx")
    stored = [
        {t.name: t.raw_data for t in onnx.load(tmp_path / name).graph.initializer if t.data_type == TensorProto.INT8}
        for name in ("q.onnx", "i.onnx")
    ]
    assert stored[0] == stored[1]


def test_strip_gives_a_float16_model_with_a_float32_interface(tmp_path):
    of_sample(tmp_path)
    strip_model(tmp_path / "q.onnx", tmp_path / "s.onnx")
    stripped = onnx.load(tmp_path / "s.onnx")
    require_valid(stripped)
    assert not [node for node in stripped.graph.node if "Linear" in node.op_type]
    assert {name for name, kind in types_of(stripped).items() if kind == "FLOAT"} == {"image", "logits"}
    report = check_model(tmp_path / "s.onnx", baseline=TRANSFORMER / "model.onnx", data=TESTED)
    assert report.outputs[0].sqnr_db > 30


def test_a_float16_model_has_nothing_to_convert_and_says_so(tmp_path):
    source = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (4, 32)},
        {"y": (4, 32)},
        {"w": np.random.default_rng(5).standard_normal((32, 32)).astype(np.float16)},
        elem_type=TensorProto.FLOAT16,
    )
    onnx.save(source, tmp_path / "m.onnx")
    done = [
        qdqtool("quantize", tmp_path / "m.onnx", "--quantize-mode", "int8-weight-only", *options, "-o", tmp_path / name)
        for options, name in (((), "a.onnx"), (("--high-precision-dtype", "fp16"), "b.onnx"))
    ]
    assert [each.code for each in done] == [0, 0]
    assert "--high-precision-dtype fp16 changed nothing: nothing was float32, the constants are float16" in done[1].out
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_the_report_says_what_is_float16_and_what_is_not(tmp_path):
    source = overflowing(tmp_path)
    command = ("quantize", source, "--calib-data", tmp_path / "d.npz", "--high-precision-dtype", "fp16", "-o")
    text = qdqtool(*command, tmp_path / "a.onnx").out
    assert "2 of 4 float nodes in float16" in text
    assert "float32 Mul larger, Mul smaller: 'b' reaches" in text.replace("\n", " ")
    shown = json.loads(qdqtool(*command, tmp_path / "b.onnx", "--output-format", "json").out)["high_precision"]
    assert shown["dtype"] == "fp16"
    assert shown["nodes"] == 2
    assert [each["node"] for each in shown["kept"]] == ["larger", "smaller"]
    assert {entry.key: entry.value for entry in onnx.load(tmp_path / "a.onnx").metadata_props}[
        "qdqtool.high_precision_dtype"
    ] == "fp16"


@pytest.mark.parametrize(("width", "known"), [(32, "those of random inputs"), ("N", "unknown")])
def test_without_data_activations_have_the_values_of_random_inputs(width, known, tmp_path):
    """There are no random inputs for open dimensions."""
    source = overflowing(tmp_path, width)
    done = qdqtool(
        "quantize", source, "--quantize-mode", "int4", "--high-precision-dtype", "fp16", "-o", tmp_path / "q.onnx"
    )
    assert done.code == 0
    assert f"without data, the largest values of activations are {known}" in done.out.replace("\n", " ")
    assert ("float32 Mul larger, Mul smaller: 'b' reaches" in done.out.replace("\n", " ")) is (width == 32)


def test_another_type_is_a_wrong_usage(tmp_path):
    done = qdqtool("quantize", TRANSFORMER / "model.onnx", "--high-precision-dtype", "fp64", "-o", tmp_path / "q.onnx")
    assert done.code == 2
    assert "bf16" in done.err


@pytest.mark.slow(reason="quantizes and builds every mode")
@pytest.mark.builder
@pytest.mark.parametrize("mode", ["int8", "fp8"])
def test_what_stays_float_runs_in_half_in_the_engine(mode, tmp_path):
    of_sample(tmp_path, quantize_mode=mode)
    built = build_engine(
        tmp_path / "q.onnx",
        tmp_path / "engine",
        backend="tensorrt-rtx",
        options=BuildOptions(verbose_log=tmp_path / "log", compute_capabilities=("8.9",)),
    )
    assert built.achieved == built.planned
    assert built.findings.errors == 0
    layers = (tmp_path / "log").read_text()
    kinds = {kind for line in layers.splitlines() if "[ONNX Layer: " in line for kind in output_types(line)}
    assert "Half" in kinds
    rest = [line for line in layers.splitlines() if "[ONNX Layer: " in line and "Cast" not in line]
    full = [line for line in rest if "Float" in output_types(line)]
    assert not full, full[:2]


@pytest.mark.real
@pytest.mark.builder
def test_real_models_build_with_every_planned_node_in_its_type(real_model, tmp_path):
    shapes = {
        "yunet_n_dynamic": {"input": (1, 3, 320, 320)},
        "silero_vad_16k_op15": {"input": (1, 576), "state": (2, 1, 128)},
    }.get(real_model.stem, {})
    report = quantize(real_model, tmp_path, data=RandomData(samples=4), input_shapes=shapes)
    written = onnx.load(tmp_path / "q.onnx")
    onnx.checker.check_model(written, full_check=True)
    # A weight of yunet has tiny values, for which float16 has no scales.
    assert len(casts_behind_a_dq(written)) <= (real_model.stem == "yunet_n_dynamic")
    assert {finding.code for finding in report.findings} <= {"QN501"}
    assert validate_model(tmp_path / "q.onnx", ["tensorrt", "tensorrt-rtx", "onnx", "ort-cpu"]).summary.errors == 0
    total = report.high_precision.nodes + len(report.high_precision.kept)
    assert report.high_precision.nodes >= 0.95 * total
    built = build_engine(
        tmp_path / "q.onnx",
        tmp_path / "engine",
        backend="tensorrt-rtx",
        options=BuildOptions(compute_capabilities=("8.9",), shapes=ShapeOptions(fixed=shapes)),
    )
    assert built.achieved == built.planned


def test_a_model_for_float16_has_an_opset_whose_pairs_take_it_and_any_other_keeps_its_own():
    source = Model(matmul_model(opset=17))
    assert ready_for(source, HighPrecision.FP16).model.default_opset() == 19
    assert ready_for(source, HighPrecision.FP32).model is source
    newer = Model(matmul_model(opset=21))
    assert ready_for(newer, HighPrecision.FP16).model is newer


@pytest.mark.parametrize(
    ("target", "elem_type", "asked", "found"),
    [
        ("tensorrt", F32, "auto", "fp16"),
        ("tensorrt-rtx", F32, "auto", "fp16"),
        ("onnx", F32, "auto", "fp32"),
        ("ort-cpu", F32, "auto", "fp32"),
        ("tensorrt", TensorProto.FLOAT16, "auto", "fp32"),
        ("tensorrt", TensorProto.BFLOAT16, "auto", "fp32"),
        ("tensorrt", F32, "fp32", "fp32"),
        ("tensorrt", TensorProto.FLOAT16, "fp16", "fp16"),
        ("onnx", F32, "bf16", "bf16"),
    ],
)
def test_auto_is_half_precision_where_the_target_has_it_and_the_model_does_not(target, elem_type, asked, found):
    nodes = nodes_of("y = MatMul (x, x)")
    model = Model(make_model(nodes, {"x": (2, 2)}, {"y": (2, 2)}, {}, elem_type=elem_type))
    recipe = Recipe(target=target, high_precision=HighPrecision(asked))
    assert settle_model(model, recipe).recipe.high_precision is HighPrecision(found)


@pytest.mark.parametrize(("scale", "found"), [(0.1, "fp32"), (0.125, "fp16")])
def test_scales_of_kept_4_bit_codes_are_not_rounded_unasked(scale, found):
    model = text_model(f"""<ir_version: 10, opset_import: ["": 21]>
        agraph (float[2, 2] x) => (float[2, 2] y)
        <int4[2, 2] w = {{1, 2, 3, 4}}, float s = {{{scale}}}>
        {{ v = DequantizeLinear (w, s)  y = MatMul (x, v) }}""")
    assert resolved(model, AUTO).high_precision is HighPrecision(found)


def test_constants_in_half_precision_do_not_make_the_layers_half():
    nodes = nodes_of("v = Cast <to = 1> (w)  y = MatMul (x, v)")
    model = make_model(nodes, {"x": (2, 2)}, {"y": (2, 2)}, {"w": np.ones((2, 2), np.float16)})
    assert resolved(Model(model), AUTO).high_precision is HighPrecision.FP16


def test_a_model_whose_opset_cannot_be_raised_keeps_float32():
    """onnx's converter refuses sparse constants; opset 19 has the pairs that float16 needs."""
    for opset, found in ((18, HighPrecision.FP32), (19, HighPrecision.FP16)):
        proto = matmul_model(opset)
        proto.graph.sparse_initializer.add().values.name = "s"
        assert resolved(Model(proto), AUTO).high_precision is found


@pytest.mark.parametrize("half", list(HalfType))
def test_scales_are_values_of_the_half_type(half, tmp_path):
    onnx.save(matmul_model(inner=32), tmp_path / "m.onnx")
    recipe = {"high_precision": HighPrecision(half.value), "quantize_mode": "int8-weight-only"}
    report = quantize(tmp_path / "m.onnx", tmp_path, **recipe)
    written = onnx.load(tmp_path / "q.onnx")
    require_valid(written)
    assert report.high_precision.dtype == half.value
    assert {t.data_type for t in written.graph.initializer if "scale" in t.name} == {half.elem_type}
    assert report.quantized
    assert output_kinds(written, "MatMul") == [half.elem_type]


def output_kinds(model, op_type):
    kinds = types_of(model)
    return [getattr(TensorProto, kinds[node.output[0]]) for node in model.graph.node if node.op_type == op_type]


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([], ""),
        ([np.int64], ""),
        ([np.float16], ", the constants are float16"),
        ([np.float64, np.float16, np.float64], ", the constants are float64 and float16"),
    ],
)
def test_where_nothing_is_float32_the_types_of_the_constants_are_told(kinds, told):
    """Input and output are integers."""
    constants = {f"c{number}": np.ones(2, kind) for number, kind in enumerate(kinds)}
    nodes = [helper.make_node("Abs", ["x"], ["y"])]
    model = Model(make_model(nodes, {"x": (2,)}, {"y": (2,)}, constants, elem_type=TensorProto.INT32))
    done = lower(model, HalfType.FP16, {})
    assert done.model is model
    assert done.report == HighPrecisionReport(
        dtype="fp16", nodes=0, kept=(), casts=0, measured=0, note=f"nothing was float32{told}"
    )
    assert high_precision_note(done.report) == {}
    assert high_precision_note(None) == {}


@pytest.mark.parametrize("largest", [1.0, 1e6])
def test_what_float16_does_not_hold_stays_float32_and_is_no_reason_for_a_note(largest):
    done = lower(Model(matmul_model()), HalfType.FP16, {((), "y"): largest})
    fits = largest < 65504
    assert (done.report.nodes, [each.node for each in done.report.kept]) == ((1, []) if fits else (0, ["matmul"]))
    assert (done.report.measured, done.report.note, bool(done.report.casts)) == (1, "", fits)
    assert high_precision_note(done.report) == {HIGH_PRECISION_KEY: "fp16"}


def test_of_data_and_ranges_the_larger_magnitude_counts():
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Mul", ["n", "two"], ["y"])]
    model = Model(make_model(nodes, {"x": (2,)}, {"y": (2,)}, {"two": np.float32(2)}))
    data = Feeds([{"x": np.array([0.25, -0.5], np.float32)}], DataDescription("test", 1, None, {}))
    record = CalibrationRecord(method="max", samples=1, random=True, seed=0, data_sha256="", model_sha256="")
    seen = {"x": 0.25, "n": 3.0, "far": 0.125}
    ranges = Ranges(record, {((), name): TensorRange(-amax, amax, amax, 1) for name, amax in seen.items()})

    def found(feeds, given):
        measured = measure_magnitudes(model, feeds) if feeds is not None else {}
        return {name: largest for (_, name), largest in known_magnitudes(measured, given).items()}

    assert found(data, ranges) == {"x": 0.5, "n": 3.0, "y": 1.0, "far": 0.125}
    assert found(None, ranges) == seen
    assert found(data, None) == {"x": 0.5, "n": 0.5, "y": 1.0}
    assert found(None, None) == {}


FP16, FP32 = HighPrecision.FP16, HighPrecision.FP32
HALF, SINGLE, BRAIN = (np.dtype(each) for each in (np.float16, np.float32, ml_dtypes.bfloat16))
INT8 = QuantScheme(formats.get("int8"), PerTensor())


@pytest.mark.parametrize(
    ("elem_type", "of_fp32", "of_fp16", "of_bf16"),
    [
        (TensorProto.FLOAT, SINGLE, HALF, BRAIN),
        (TensorProto.FLOAT16, HALF, HALF, HALF),
        (TensorProto.BFLOAT16, BRAIN, BRAIN, BRAIN),
    ],
)
def test_scales_are_derived_in_the_type_that_will_be_written(elem_type, of_fp32, of_fp16, of_bf16):
    rules = [rule_for(elem_type, high_precision) for high_precision in (FP32, FP16, HighPrecision.BF16)]
    assert [rule.dtype for rule in rules] == [of_fp32, of_fp16, of_bf16]
    assert all(rule.narrow_range and not rule.either_sign for rule in rules)


@pytest.mark.parametrize(
    ("given", "elem_type", "dtype"),
    [
        (HALF, TensorProto.FLOAT, SINGLE),
        (BRAIN, TensorProto.FLOAT, SINGLE),
        (HALF, TensorProto.FLOAT16, HALF),
        (SINGLE, TensorProto.FLOAT, SINGLE),
        (SINGLE, TensorProto.FLOAT16, SINGLE),
    ],
)
def test_only_scales_in_half_precision_are_widened_to_the_type_of_the_tensor(given, elem_type, dtype):
    scale = np.array(0.1, given)
    found = as_stored(QuantParams(INT8, scale), elem_type)
    assert found.scale.dtype == dtype
    assert float(found.scale) == float(scale)


@given(st.floats(2.0**-14, 60000.0, width=32))
def test_given_scales_take_values_of_float16_where_nodes_become_float16(scale):
    given_scale = np.array([scale], np.float32)
    half = round_given(given_scale, SINGLE, FP16)
    assert half.dtype == SINGLE
    assert half.tolist() == given_scale.astype(np.float16).astype(np.float32).tolist()
    assert round_given(given_scale, SINGLE, FP32).tolist() == [scale]
    assert round_given(given_scale, HALF, FP16).dtype == HALF


def test_tensors_of_bfloat16_stay_what_they_are():
    small = np.array([1e-20, 0.1, 1e20], np.float32)
    assert round_given(small, BRAIN, FP16).tolist() == small.astype(ml_dtypes.bfloat16).tolist()
