"""Ranges of other tools from their files into models, and ours into theirs."""

import json
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.paths import ROOT
from support.small import conv_model, make_model

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.jobs.calibrate import CalibrationPlace, calibrate_to_file
from qdqtool.jobs.convert_ranges import convert_ranges
from qdqtool.jobs.insert import InsertOptions, insert_encodings
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.given_ranges import GivenRanges, match_ranges, nearest_mode
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges import encodings
from qdqtool.quantization.ranges.encodings import ConstantScales, Encodings, ReadEncodings
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import TensorRange

AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False)
SCALE = np.float32(0.0123456789)


def cache(folder: Path, **scales: np.float32) -> Path:
    lines = [f"{name}: {struct.pack('>f', scale).hex()}" for name, scale in scales.items()]
    (folder / "calibration.cache").write_text("\n".join(["TRT-8601-EntropyCalibration2", *lines]) + "\n")
    return folder / "calibration.cache"


def scales(path: Path) -> dict[str, np.ndarray]:
    """By the tensor that is quantized, or the codes that are dequantized."""
    graph = onnx.load(path).graph
    stored = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    made = {output for node in graph.node for output in node.output}
    pairs = [node for node in graph.node if node.op_type == "QuantizeLinear"]
    pairs += [node for node in graph.node if node.op_type == "DequantizeLinear" and node.input[0] not in made]
    return {node.input[0].removesuffix("_quantized"): stored[node.input[1]] for node in pairs}


@pytest.mark.parametrize("job", ["quantize", "insert"])
def test_the_scales_of_a_tensorrt_cache_are_those_of_the_pairs_bit_for_bit(job, model, tmp_path):
    path, output = cache(tmp_path, x=SCALE, r=np.float32(0.5), far=np.float32(1)), tmp_path / "q.onnx"
    if job == "quantize":
        report = quantize_model(model, CachedRanges(path=path), output).calibration.given
    else:
        report = insert_encodings(model, path, output).given
    found = scales(output)
    assert (found["x"], found["r"]) == (SCALE, np.float32(0.5))
    assert (report.format, report.tensors, report.unknown) == ("tensorrt-cache", 3, ("far",))


@pytest.mark.parametrize("name", encodings.writable())
def test_exported_ranges_give_the_same_scales_as_our_own(name, model, data, tmp_path):
    recipe = Recipe(preparation=AS_IT_IS, method="max")
    options = QuantizeOptions(recipe=recipe)
    calibrate_to_file(model, data, tmp_path / "ranges.json", recipe)
    report = convert_ranges(tmp_path / "ranges.json", tmp_path / "theirs", name)
    assert (report.read_as, report.written_as, report.method, report.tensors) == ("qdqtool", name, "max", 2)
    for source in ("ranges.json", "theirs"):
        quantize_model(model, CachedRanges(path=tmp_path / source), tmp_path / f"{source}.onnx", options)
    ours, theirs = (scales(tmp_path / f"{source}.onnx") for source in ("ranges.json", "theirs"))
    assert ours.keys() == theirs.keys() == {"x", "r", "w", "v"}
    assert all(np.array_equal(ours[tensor], theirs[tensor]) for tensor in ours)


def test_what_is_exported_is_the_threshold_of_the_method(model, data, tmp_path):
    calibrate_to_file(
        model, data, tmp_path / "r.json", Recipe(preparation=AS_IT_IS, method="percentile", percentile=90)
    )
    convert_ranges(tmp_path / "r.json", tmp_path / "r.npz", "npz")
    with np.load(data) as stored:
        expected = np.percentile(np.abs(stored["x"]), 90)
    with np.load(tmp_path / "r.npz") as found:
        assert np.abs(found["x"]).max() == pytest.approx(expected, rel=1e-2)  # 768 values: two of them are so far apart


def test_ranges_of_an_equalized_model_are_not_exported(tmp_path, data):
    proto = conv_model()
    weights = numpy_helper.to_array(proto.graph.initializer[0]) * np.float32([[[[64]]], [[[1]]], [[[0.1]]], [[[8]]]])
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
    onnx.save(proto, tmp_path / "uneven.onnx")
    calibrate_to_file(tmp_path / "uneven.onnx", data, tmp_path / "r.json")
    with pytest.raises(
        UsageError, match="were found after equalization, which rescaled channels: they do not fit the original model"
    ) as caught:
        convert_ranges(tmp_path / "r.json", tmp_path / "r.npz", "npz")
    assert caught.value.hint == "calibrate again with `--no-equalize --smoothquant off --awq off`, then convert"
    assert not (tmp_path / "r.npz").exists()
    calibrate_to_file(tmp_path / "uneven.onnx", data, tmp_path / "r.json", Recipe(preparation=AS_IT_IS))
    assert convert_ranges(tmp_path / "r.json", tmp_path / "r.npz", "npz").tensors == 2


def test_a_format_that_is_not_written_is_named_with_those_that_are(tmp_path):
    with pytest.raises(ArgumentError, match="format 'aimet' cannot be written; legal: npz, ort-json, tensorrt-cache"):
        convert_ranges(tmp_path / "absent", tmp_path / "out", "aimet")


def test_an_operator_whose_input_has_no_range_stays_float_with_the_reason(model, tmp_path):
    report = insert_encodings(model, cache(tmp_path, x=SCALE), tmp_path / "q.onnx")
    assert set(scales(tmp_path / "q.onnx")) == {"x", "w"}
    assert [(node.node, node.reason) for node in report.skipped] == [
        ("conv2", "input 'r': the given file has no range for it")
    ]


def test_names_of_another_model_are_an_error_with_the_nearest(model, tmp_path):
    with pytest.raises(UsageError, match="names no tensor to quantize; the model has no 'r1'") as caught:
        insert_encodings(model, cache(tmp_path, r1=SCALE), tmp_path / "q.onnx")
    assert "a tensor to quantize is 'x'" in caught.value.hint
    assert not (tmp_path / "q.onnx").exists()


def test_scales_of_constants_are_taken_from_aimet(model, tmp_path):
    given = np.float32([0.5, 0.25, 0.125, 2])
    entry = {"dtype": "INT", "bw": 8, "enc_type": "PER_TENSOR", "is_sym": True, "scale": [0.5], "offset": [-128]}
    document = {
        "version": "1.0.0",
        "activation_encodings": [{**entry, "name": "x"}, {**entry, "name": "r"}],
        "param_encodings": [{**entry, "name": "w", "scale": given.tolist(), "offset": [-128] * 4}],
    }
    (tmp_path / "e.json").write_text(json.dumps(document))
    insert_encodings(model, tmp_path / "e.json", tmp_path / "q.onnx")
    found = scales(tmp_path / "q.onnx")
    assert np.array_equal(found["w"], given)
    assert found["x"] == np.float32(0.5)


def test_insert_places_for_one_target_only(model, tmp_path):
    options = InsertOptions(targets=("tensorrt", "onnx"))
    with pytest.raises(UsageError, match="one target"):
        insert_encodings(model, cache(tmp_path, x=SCALE), tmp_path / "q.onnx", options)


def test_there_are_no_ranges_of_ours_to_save_from_another_tool(model, tmp_path):
    options = QuantizeOptions(ranges_file=tmp_path / "ours.json")
    with pytest.raises(UsageError, match="cannot write ranges of another tool"):
        quantize_model(model, CachedRanges(path=cache(tmp_path, x=SCALE)), tmp_path / "q.onnx", options)


def test_ranges_of_a_shard_are_not_converted_and_the_hint_names_what_can_be_done(model, tmp_path):
    np.savez(tmp_path / "many.npz", x=np.linspace(0, 1, 32 * 192, dtype=np.float32).reshape(32, 3, 8, 8))
    calibrate_to_file(
        model, tmp_path / "many.npz", tmp_path / "s.json", Recipe(), place=CalibrationPlace(shard=Shard(1, 2))
    )
    with pytest.raises(UsageError, match="come from a shard, with 16 of 32 samples") as caught:
        convert_ranges(tmp_path / "s.json", tmp_path / "r.npz", "npz")
    join, force = "`qdqtool merge SHARD... -o RANGES`", "quantizing with `--force` uses them anyway"
    assert caught.value.hint == f"join all shards: {join}; {force}"


def test_a_file_without_ranges_is_not_converted(tmp_path):
    with pytest.raises(UsageError, match="has no range of any tensor"):
        convert_ranges(cache(tmp_path), tmp_path / "r.npz", "npz")
    assert not (tmp_path / "r.npz").exists()


def test_what_a_converted_file_does_not_say_is_noted(tmp_path):
    golden = ROOT / "tests" / "golden" / "aimet"
    report = convert_ranges(golden / "int8-2.0.0.encodings", tmp_path / "r.cache", "tensorrt-cache")
    assert report.tensors == 6
    assert report.notes == (
        "6 activations asymmetric in the file: range made symmetric, such as 'x'",
        "6 tensors without a range of their own are left out, such as 'w'",
    )
    assert (tmp_path / "r.cache").read_text().count("\n") == 7
    whole = convert_ranges(golden / "int8-2.0.0.encodings", tmp_path / "r.npz", "npz")
    assert whole.notes == report.notes[1:]  # both ends are kept


def matched(model: onnx.ModelProto, found: Encodings, **recipe: object) -> GivenRanges:
    return match_ranges(Model(model), ReadEncodings("npz", found), Path("file"), Recipe(**recipe))


def seen(*names: str) -> dict[str, TensorRange]:
    return {name: TensorRange(-1.0, 1.0, 1.0, 1) for name in names}


@pytest.mark.parametrize(
    ("names", "message", "hint"),
    [
        ("y", "file has no range of any tensor to quantize, such as 'x'", None),
        ("ay", "the model has no 'a'", "a tensor to quantize is 'x'"),
        ("ade", "the model has no 'a', 'd', 'e'", "a tensor to quantize is 'x'"),
        ("adef", "the model has no 'a', 'd', 'e' and 1 more", "a tensor to quantize is 'x'"),
        ("adefghi", "the model has no 'a', 'd', 'e' and 4 more", "a tensor to quantize is 'x'"),
    ],
)
def test_a_file_without_a_tensor_that_is_wanted_is_refused_with_what_it_has(names, message, hint):
    with pytest.raises(UsageError) as caught:
        matched(conv_model(), Encodings(seen(*names)))
    assert caught.value.message.partition("; did you mean")[0].endswith(message)
    assert (caught.value.hint or "").endswith(hint or "")


def test_a_model_with_nothing_to_quantize_takes_any_file():
    model = conv_model()
    del model.graph.node[2], model.graph.node[0]
    model.graph.node[0].input[0], model.graph.node[0].output[0] = "x", "y"
    found = matched(model, Encodings(seen("far")))
    assert (found.ranges.tensors, found.scales, found.report.unknown) == ({}, {}, ("far",))


def test_the_record_says_that_no_samples_were_run():
    found = matched(conv_model(), Encodings(seen("x", "r")))
    record = found.ranges.record
    assert (record.method, record.samples, record.random, record.seed) == ("npz", 0, False, None)
    assert found.report.weights == 0


@pytest.mark.parametrize(("moves", "known"), [(0, True), (1, True), (64, True), (65, False)])
@pytest.mark.parametrize("stated", ["range", "float"])
def test_a_moved_tensor_has_the_range_of_its_source(moves, known, stated):
    """So has one that the file leaves in float: it has none, and the file says why."""
    nodes = [helper.make_node("Identity", [f"t{i}" if i else "x"], [f"t{i + 1}"]) for i in range(moves)]
    nodes += [
        helper.make_node("MatMul", [f"t{moves}" if moves else "x", "w"], ["y"]),
        helper.make_node("Relu", ["y"], ["r"]),
    ]
    nodes.append(helper.make_node("MatMul", ["r", "w"], ["z"]))
    weights = {"w": np.eye(16, dtype=np.float32)}
    model = make_model(nodes, {"x": (4, 16)}, {"z": (4, 16)}, weights)
    ranges = seen("r", *(["x"] if stated == "range" else []))
    left = {} if stated == "range" else {"x": "float"}
    found = matched(model, Encodings(ranges, formats=left, remarks=dict.fromkeys(left, "float in the file")))
    wanted = ((), f"t{moves}" if moves else "x")
    assert bool(found.ranges.tensors[wanted].count) == (known and stated == "range")
    assert found.report.notes == (("1 activation float in the file, such as 'x'",) if known and left else ())


@pytest.mark.parametrize("mode", ["int8", "int8-weight-only"])
def test_ranges_of_activations_that_a_mode_leaves_in_float_are_counted(mode):
    scales = {name: ConstantScales("int8", np.ones(1)) for name in "wvx"}
    found = matched(conv_model(), Encodings(seen("x", "r", "w"), scales), quantize_mode=mode)
    left = f"mode '{mode}' leaves activations in float: 2 ranges in the file are unused"
    assert found.report.notes == ((left,) if mode != "int8" else ())
    assert {key[0] for key, _ in found.scales.items()} == {((), "w"), ((), "v")}


@pytest.mark.parametrize(
    ("formats", "mode"),
    [
        ({}, "int8"),
        ({"x": "uint8"}, "int8"),
        ({"x": "int16", "w": "int4"}, "int4"),
        ({"x": "float8e4m3fn"}, "fp8"),
        ({"w": "int8"}, "int8-weight-only"),
        ({"w": "int8", "v": "int4"}, "int4"),
        ({"w": "int4", "x": "int8"}, "int8"),
        ({"w": "int2", "x": "float"}, "int8"),
    ],
)
def test_the_nearest_mode_follows_activations_of_8_bits_then_the_weights_of_fewest_bits(formats, mode):
    assert nearest_mode(Model(conv_model()), Encodings({}, formats=formats)) == mode


def test_a_file_without_constants_is_of_no_use_to_a_mode_of_weights():
    with pytest.raises(UsageError) as caught:
        matched(conv_model(), Encodings(seen("x", "r")), quantize_mode="int4")
    told = "quantize mode 'int4' quantizes weights only: it does not use file, which has ranges of activations only"
    assert caught.value.message == told
