"""Weight-only modes: what is quantized and what is not, that it is right, and what TensorRT for RTX makes of it."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, version_converter
from onnxruntime.quantization import QuantFormat
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from support.command import qdqtool
from support.paths import ROOT
from support.small import make_model, nodes_of

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.calibrate import calibrate
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.models.options import WeightStorage
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.planning.target_fit import taken_modes
from qdqtool.samples.request import FileData

SAMPLES = ROOT / "sample_models"
WEIGHT_ONLY = [name for name in taken_modes("tensorrt") if not modes.get(name).needs_ranges]


def quantize(model, folder, mode="int4", data=None, **recipe):
    options = QuantizeOptions(recipe=Recipe(quantize_mode=mode, **recipe))
    if isinstance(model, onnx.ModelProto):
        onnx.save(model, folder / "float.onnx")
        model = folder / "float.onnx"
    return quantize_model(model, data, folder / "q.onnx", options)


def in_half(path: Path, *, keep_io_types: bool = False) -> onnx.ModelProto:
    """A model with float16 inside, its inputs and outputs too unless they keep their types."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    half = convert_float_to_float16(onnx.load(path), keep_io_types=keep_io_types)
    assert isinstance(half, onnx.ModelProto)
    return half


def products(op_type="MatMul", shape=(256, 64), **attributes):
    """x -> product with a weight -> y, all float32."""
    rng = np.random.default_rng(0)
    node = helper.make_node(op_type, ["x", "w"], ["y"], name="product", **attributes)
    inner = shape[1] if attributes.get("transB") else shape[0]
    outer = shape[0] if attributes.get("transB") else shape[1]
    weights = {"w": (rng.normal(size=shape) * 0.05).astype(np.float32)}
    return make_model([node], {"x": (4, inner)}, {"y": (4, outer)}, weights)


LEAST_DB = {"int4": 25, "int8-weight-only": 48, "fp8-weight-only": 36, "nvfp4": 25}
"""Of digits_transformer in float32, which has 27.6, 51.4, 39.3 and 27.9 dB."""
LOSS_OF_HALF_DB = 1.0
"""What float16 around the products may cost; it costs 0.05 to 0.3 dB."""
GAIN_OF_DATA_DB = {"char_lm": 2.0, "digits_transformer": 7.0}
"""Over the nearest codes, and over ONNX Runtime; data gains 3.1 dB and more on char_lm, 9.3 on digits_transformer."""
BLOCK_QUANTIZER_DB = {
    ("char_lm", 128): 21.42,
    ("char_lm", 32): 22.59,
    ("digits_transformer", 128): 26.47,
    ("digits_transformer", 32): 26.14,
}
"""What ONNX Runtime's own quantizer to int4 reaches, without data."""

FEW_BITS_IN_THE_PRODUCT = {
    ("char_lm", True): {"int4": 21, "int8-weight-only": 21, "fp8-weight-only": 9},
    ("digits_transformer", False): {"int4": 12, "int8-weight-only": 12, "fp8-weight-only": 6},
    ("digits_transformer", True): {"int4": 10, "int8-weight-only": 10, "fp8-weight-only": 4},
}
"""Products that read codes themselves in TensorRT for RTX 1.7.1. The others have a kernel in front that dequantizes:
projections behind attention in float16, those in front of it in fp8, and everything in fp4."""


@pytest.mark.slow(reason="quantizes and builds every mode")
@pytest.mark.builder
@pytest.mark.parametrize("mode", WEIGHT_ONLY)
@pytest.mark.parametrize(("sample", "half"), FEW_BITS_IN_THE_PRODUCT)
def test_products_of_samples_read_quantized_weights_in_the_engine(sample, mode, half, tmp_path):
    source = in_half(SAMPLES / sample / "model.onnx") if half else onnx.load(SAMPLES / sample / "model.onnx")
    quantize(source, tmp_path, mode)
    quantized = onnx.load(tmp_path / "q.onnx")
    names = ("weight_scale", "weight_scale_scale")  # the second in nvfp4: block scales are codes, with a float32 scale
    scales = {tensor.data_type for tensor in quantized.graph.initializer if tensor.name.endswith(names)}
    assert scales == {TensorProto.FLOAT16 if half and mode != "nvfp4" else TensorProto.FLOAT}
    casts = {name for node in quantized.graph.node if node.op_type == "Cast" for name in node.input}
    assert not [name for name in casts if "DequantizeLinear" in name]
    built = build_engine(tmp_path / "q.onnx", tmp_path / "engine", backend="tensorrt-rtx")
    (kind,) = built.planned
    assert built.achieved[kind] == FEW_BITS_IN_THE_PRODUCT[sample, half].get(mode, 0)
    reasons = {node.reason for node in built.nodes if node.actual != kind}
    assert reasons <= {"its weight is dequantized by a kernel of its own, and the product is computed in float"}


def sqnr(folder: Path, quantized: Path) -> float:
    """Decibels of the first output on test data, with the float32 sample as the signal."""
    return check_model(quantized, baseline=folder / "model.onnx", data=folder / "test.npz").outputs[0].sqnr_db


@pytest.mark.slow(reason="quantizes twice")
@pytest.mark.parametrize("mode", ["int4", "int8-weight-only", "fp8-weight-only", "nvfp4"])
def test_half_precision_samples_keep_their_accuracy_and_every_dq_is_exact(mode, tmp_path):
    folder = SAMPLES / "digits_transformer"
    quantize(folder / "model.onnx", tmp_path, mode)
    of_float32 = sqnr(folder, tmp_path / "q.onnx")
    onnx.save(in_half(folder / "model.onnx", keep_io_types=True), tmp_path / "float.onnx")
    quantize(tmp_path / "float.onnx", tmp_path, mode)
    report = check_model(tmp_path / "q.onnx", baseline=folder / "model.onnx", data=folder / "test.npz")
    assert report.qdq.checked + report.qdq.own == report.qdq.total >= 12
    assert report.outputs[0].sqnr_db > of_float32 - LOSS_OF_HALF_DB
    assert of_float32 > LEAST_DB[mode]


@pytest.mark.slow(reason="rounds a language model by data")
@pytest.mark.parametrize("size", [128, 32])
@pytest.mark.parametrize(("sample", "gain"), GAIN_OF_DATA_DB.items())
def test_data_that_codes_are_rounded_by_gains_several_decibels(sample, gain, size, tmp_path):
    folder = SAMPLES / sample
    quantize(folder / "model.onnx", tmp_path, block_size=size)
    of_nearest = sqnr(folder, tmp_path / "q.onnx")
    report = quantize(folder / "model.onnx", tmp_path, block_size=size, data=folder / "calibration.npz")
    assert report.calibration.method == "gptq"
    assert {"codes chosen with the calibration data" in entry.reason for entry in report.quantized} == {True}
    of_data = sqnr(folder, tmp_path / "q.onnx")
    assert of_data > of_nearest + gain
    assert of_data > BLOCK_QUANTIZER_DB[sample, size] + gain


@pytest.mark.parametrize(("sample", "size"), BLOCK_QUANTIZER_DB)
def test_onnx_runtime_s_block_quantizer_is_as_good_as_we_say(sample, size, tmp_path):
    config = DefaultWeightOnlyQuantConfig(
        block_size=size, is_symmetric=True, quant_format=QuantFormat.QDQ, op_types_to_quantize=("MatMul",)
    )
    model = version_converter.convert_version(onnx.load(SAMPLES / sample / "model.onnx"), 21)
    theirs = MatMulNBitsQuantizer(model, algo_config=config)
    theirs.process()
    onnx.save(theirs.model.model, tmp_path / "theirs.onnx")
    assert sqnr(SAMPLES / sample, tmp_path / "theirs.onnx") == pytest.approx(BLOCK_QUANTIZER_DB[sample, size], abs=0.1)


def test_weights_that_stay_float_behind_a_q_are_not_rounded_by_data(tmp_path):
    folder = SAMPLES / "digits_transformer"
    options = QuantizeOptions(recipe=Recipe(quantize_mode="int4"), weights=WeightStorage.QDQ)
    report = quantize_model(folder / "model.onnx", folder / "calibration.npz", tmp_path / "q.onnx", options)
    assert {"codes chosen" in entry.reason for entry in report.quantized} == {False}


@pytest.mark.parametrize(
    ("inner", "asked", "block"), [(512, 128, 128), (128, 128, 64), (96, 128, 32), (160, 64, 32), (48, 32, 16)]
)
def test_input_channels_that_do_not_fit_get_a_smaller_block_that_does(inner, asked, block, tmp_path):
    report = quantize(products(shape=(inner, 40)), tmp_path, block_size=asked)
    assert [entry.granularity for entry in report.quantized] == [f"blocks of {block} on axis 0"]
    assert ("need blocks of" in report.quantized[0].reason) == (block != asked)


def test_a_target_that_takes_a_short_last_block_gets_the_block_that_is_asked_for(tmp_path):
    report = quantize(products(shape=(100, 40)), tmp_path, block_size=32, target="ort-cpu")
    assert report.quantized[0].granularity == "blocks of 32 on axis 0"


@pytest.mark.builder
@pytest.mark.parametrize("mode", WEIGHT_ONLY)
@pytest.mark.parametrize("form", ["Gemm", "Gemm transB", "Transpose", "batched"])
def test_every_form_of_a_product_is_quantized_along_its_input_channels(form, mode, oracle, tmp_path):
    if form == "Transpose":
        model = products(shape=(256, 64))
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((64, 256), np.float32) * 0.1, "stored"))
        model.graph.node.insert(0, helper.make_node("Transpose", ["stored"], ["w"], name="t"))
    elif form == "batched":
        weights = {"w": np.random.default_rng(1).normal(size=(2, 256, 64)).astype(np.float32)}
        node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
        model = make_model([node], {"x": (2, 4, 256)}, {"y": (2, 4, 64)}, weights)
    else:
        model = products("Gemm", (64, 256), transB=1) if form.endswith("transB") else products("Gemm")
    report = quantize(model, tmp_path, mode)
    along, kept = {"batched": (1, 2), "Gemm": (0, 1)}.get(form, (1, 0))
    granularity = report.quantized[0].granularity
    assert granularity.endswith(f" on axis {along}" if modes.get(mode).blocks else f"per-axis {kept}")
    verdict = oracle.judge(onnx.load(tmp_path / "q.onnx"))
    assert verdict.accepted, verdict.message


def test_what_stays_float_is_named_with_its_reason(tmp_path):
    rng = np.random.default_rng(2)

    def weight(*shape):
        return rng.normal(size=shape).astype(np.float32)

    nodes = nodes_of("""[left_constant] a = MatMul (left, x)  [vector] b = MatMul (a, vector)
        [two_activations] c = MatMul (x, x)  [odd] d = MatMul (x, odd)  [fine] e = MatMul (x, fine)
        [lookup] f = Gather (table, i)""")
    constants = {
        "left": weight(64, 64),
        "vector": weight(64),
        "odd": weight(64, 31),
        "fine": weight(64, 32),
        "table": weight(50, 64),
        "i": np.int64([1, 2]),
    }
    outputs = {"b": (64,), "c": (64, 64), "d": (64, 31), "e": (64, 32), "f": (2, 64)}
    model = make_model(nodes, {"x": (64, 64)}, outputs, constants)
    report = quantize(model, tmp_path)
    reasons = {entry.node: entry.reason for entry in report.skipped}
    assert "left operand" in reasons["left_constant"]
    assert "vector" in reasons["vector"]
    assert "two activations" in reasons["two_activations"]
    assert "only a few rows of a table" in reasons["lookup"]
    assert {entry.tensor for entry in report.quantized} == {"fine", "odd"}


def test_no_two_whole_blocks_is_a_reason(tmp_path):
    with pytest.raises(UsageError, match="do not divide into two or more blocks of 16 or more"):
        quantize(products(shape=(50, 40)), tmp_path)


def test_a_shared_weight_is_stored_once(tmp_path):
    nodes = nodes_of("[first] a = MatMul (x, w)  [second] y = MatMul (a, w)")
    w = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    report = quantize(make_model(nodes, {"x": (4, 64)}, {"y": (4, 64)}, {"w": w}), tmp_path)
    assert [entry.consumers for entry in report.quantized] == [("first", "second")]
    stored = onnx.load(tmp_path / "q.onnx").graph.initializer
    assert [t.data_type for t in stored if len(t.dims) == 2 and t.dims[0] == 64] == [TensorProto.INT4]


def test_calibration_ranges_and_activations_are_refused_where_there_are_none(tmp_path):
    model = SAMPLES / "digits_transformer" / "model.onnx"
    with pytest.raises(UsageError, match="quantizes weights only: there are no ranges to find"):
        calibrate(
            model, FileData(path=SAMPLES / "digits_transformer" / "calibration.npz"), Recipe(quantize_mode="int4")
        )
    (tmp_path / "r.json").write_text('{"schema_version": 2}')
    with pytest.raises(UsageError, match="does not use ranges"):
        quantize(model, tmp_path, data=CachedRanges(path=tmp_path / "r.json"))
    with pytest.raises(UsageError, match="needs calibration data"):
        quantize(model, tmp_path, "int8")
    options = QuantizeOptions(recipe=Recipe(quantize_mode="int4"), ranges_file=tmp_path / "r.json")
    with pytest.raises(UsageError, match="no ranges to write"):
        quantize_model(model, None, tmp_path / "q.onnx", options)


def test_mxfp8_is_refused_for_tensorrt_before_anything_is_read_and_written_for_onnx(tmp_path):
    with pytest.raises(UsageError, match="'mxfp8': tensorrt takes no scales in float8e8m0") as caught:
        Recipe(quantize_mode="mxfp8")
    assert "--quantize-mode fp8-weight-only" in str(caught.value.hint)
    report = quantize(products(), tmp_path, "mxfp8", target="onnx")
    assert report.quantized[0].granularity == "blocks of 32 on axis 0"


@pytest.mark.parametrize(
    ("mode", "size", "message"),
    [("int4", 48, "legal for this mode: 32, 64, 128"), ("int8", 32, "one scale for each output channel")],
)
def test_block_sizes_that_a_mode_does_not_have_are_refused(mode, size, message):
    with pytest.raises(ArgumentError, match=message):
        Recipe(quantize_mode=mode, block_size=size)


@pytest.mark.parametrize("name", modes.names())
def test_every_mode_says_what_it_does_and_what_its_formats_are(name):
    mode = modes.get(name)
    assert mode.summary
    assert mode.weight_format.low < 0
    assert mode.needs_ranges == (mode.activations is not None)
    assert mode.block_size(None) == (mode.blocks[0] if mode.blocks else None)


def test_branches_and_functions_are_quantized_like_the_main_graph(tmp_path):
    """A weight of a branch, one that a branch takes from outside, and a constant of a local function."""
    rng = np.random.default_rng(4)

    def tensor(name):
        return numpy_helper.from_array(rng.normal(size=(64, 64)).astype(np.float32), name)

    def body(name, node, weights=()):
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 64))
        return helper.make_graph([node], name, [], [output], list(weights))

    own = body("a", helper.make_node("MatMul", ["x", "own"], ["a"], name="in_branch"), [tensor("own")])
    outer = body("b", helper.make_node("MatMul", ["x", "outer"], ["b"], name="captured"))
    nodes = [
        helper.make_node("If", ["flag"], ["c"], name="if", then_branch=own, else_branch=outer),
        helper.make_node("layer", ["c"], ["y"], name="call", domain="local"),
    ]
    model = make_model(nodes, {"x": (4, 64)}, {"y": (4, 64)}, {})
    model.graph.initializer.append(tensor("outer"))
    model.graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    inner = [
        helper.make_node("Constant", [], ["w"], value=tensor("w")),
        helper.make_node("MatMul", ["i", "w"], ["o"], name="in_function"),
    ]
    imports = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("local", "layer", ["i"], ["o"], inner, imports))
    model.opset_import.append(helper.make_opsetid("local", 1))
    report = quantize(model, tmp_path)
    assert {entry.consumers for entry in report.quantized} == {("in_branch",), ("captured",), ("in_function",)}
    assert {entry.granularity for entry in report.quantized} == {"blocks of 32 on axis 0"}
    checked = check_model(tmp_path / "q.onnx", baseline=tmp_path / "float.onnx")
    assert checked.outputs[0].sqnr_db > 10


@pytest.mark.slow(reason="rounds a language model by data")
def test_the_command_needs_no_data_and_says_what_it_did(tmp_path):
    model = SAMPLES / "digits_transformer" / "model.onnx"
    arguments = ("quantize", str(model), "--quantize-mode", "int4", "--block-size", "32", "-o", "q.onnx")
    done = qdqtool(*arguments, cwd=tmp_path)
    assert done.code == 0
    assert "calibrated" not in done.out
    report = json.loads(qdqtool(*arguments, "--output-format", "json", cwd=tmp_path).out)
    assert report["mode"] == "int4"
    assert report["calibration"] is None
    refused = qdqtool("quantize", str(model), "--quantize-mode", "mxfp8", "-o", "r.onnx", cwd=tmp_path)
    assert refused.code == 2
    assert "fp8-weight-only" in refused.err
