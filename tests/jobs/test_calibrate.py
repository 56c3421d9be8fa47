"""Calibration: the ranges are those of the float model, of every tensor that is to be quantized and of no other."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.paths import ROOT
from support.qdq import text_model
from support.small import conv_model, make_model, run

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.jobs.calibrate import calibrate, calibrate_to_file
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.file import read_ranges
from qdqtool.quantization.ranges.types import Ranges, TensorRange
from qdqtool.samples.request import FileData, RandomData

SAMPLES = ROOT / "sample_models"


def npz(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def images(count: int = 5) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(count, 3, 8, 8)).astype(np.float32)


def of(values: np.ndarray) -> TensorRange:
    return TensorRange(float(values.min()), float(values.max()), float(np.abs(values).max()), values.size)


def near(found: TensorRange, expected: TensorRange) -> bool:
    """ONNX Runtime's optimized kernels sum in another order: 64 roundings of float32 on sums that do not cancel."""
    bounds = [found.min, found.max, found.amax]
    return found.count == expected.count and bounds == pytest.approx(
        [expected.min, expected.max, expected.amax], rel=64 * 2**-24
    )


def tensors(ranges: Ranges) -> dict[str, TensorRange]:
    """Extremes and counts; histograms have tests of their own."""
    return {name: replace(found, histogram=None) for (_, name), found in ranges.tensors.items()}


def every_tensor(proto: onnx.ModelProto, data: dict[str, np.ndarray]) -> dict[str, TensorRange]:
    """An oracle: ONNX Runtime with every tensor as an output, all samples kept, optimizations off."""
    tapped = onnx.ModelProto()
    tapped.CopyFrom(proto)
    inner = [output for node in proto.graph.node for output in node.output]
    del tapped.graph.output[:]
    tapped.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner)
    count = len(next(iter(data.values())))
    kept: dict[str, list[np.ndarray]] = {name: [] for name in inner}
    for index in range(count):
        feeds = {name: array[index : index + 1] for name, array in data.items()}
        for name, value in zip(inner, run(tapped, feeds), strict=True):
            kept[name].append(value.ravel())
    return {name: of(np.concatenate(values)) for name, values in kept.items()} | {k: of(v) for k, v in data.items()}


def test_ranges_are_those_of_a_run_that_keeps_every_activation(tmp_path):
    data = images()
    found = tensors(calibrate(Model(conv_model()), npz(tmp_path, x=data)))
    expected = every_tensor(conv_model(), {"x": data})
    assert list(found) == ["x", "r"]
    assert all(near(found[name], expected[name]) for name in found)


def test_ranges_of_all_tensors_include_those_that_stay_float(tmp_path):
    data, proto = npz(tmp_path, x=images()), conv_model()
    proto.graph.node.append(helper.make_node("Shape", ["y"], ["extents"]))
    proto.graph.output.append(helper.make_tensor_value_info("extents", TensorProto.INT64, [4]))
    off = Preparation(equalize=False, smoothquant=None)
    some, found = (
        tensors(calibrate(Model(proto), data, Recipe(preparation=off, all_tensors=all_))) for all_ in (False, True)
    )
    expected = every_tensor(conv_model(), {"x": images()})

    assert found.keys() == expected.keys() == {"x", "c", "r", "y"}, "no constants, and no shapes"
    assert all(near(found[name], expected[name]) for name in found)
    assert {name: found[name] for name in some} == some


@pytest.mark.parametrize("sample", ["digits_cnn", "digits_transformer"])
def test_ranges_of_the_trained_samples_are_those_of_a_run_that_keeps_every_activation(sample, tmp_path):
    proto = onnx.load(SAMPLES / sample / "model.onnx")
    with np.load(SAMPLES / sample / "calibration.npz") as stored:
        data = {name: array[:16] for name, array in stored.items()}
    as_given = Recipe(preparation=Preparation(equalize=False, smoothquant=None))
    found = tensors(calibrate(SAMPLES / sample / "model.onnx", npz(tmp_path, **data), as_given))
    expected = every_tensor(proto, data)
    assert len(found) >= 8
    assert [name for name in found if not near(found[name], expected[name])] == []


def test_only_as_many_samples_as_asked_for_are_run(tmp_path):
    data = npz(tmp_path, x=images(5))
    three = calibrate(Model(conv_model()), FileData(path=data, samples=3))
    assert tensors(three)["x"] == of(images(5)[:3])
    assert three.record.samples == 3


def test_several_inputs_of_different_types_and_dynamic_shapes(tmp_path):
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Add", ["rows", "offset"], ["sum"]),
        helper.make_node("MatMul", ["sum", "w"], ["y"], name="matmul"),
    ]
    rng = np.random.default_rng(4)
    weights = {name: rng.normal(size=(8, 8)).astype(np.float32) for name in ("table", "w")}
    proto = make_model(nodes, {"offset": (1, "length", 8)}, {"y": (1, "length", 8)}, weights)
    proto.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, (1, "length")))
    folder = tmp_path / "data"
    folder.mkdir()
    sums = []
    for length in (3, 9, 1):
        ids, offset = rng.integers(0, 8, (1, length)), rng.normal(size=(1, length, 8)).astype(np.float32)
        np.savez(folder / f"{length}.npz", ids=ids, offset=offset)
        sums.append((weights["table"][ids] + offset).ravel())
    found = tensors(calibrate(Model(proto), folder))
    assert found == {"sum": of(np.concatenate(sums))}


def test_a_last_partial_batch_of_a_fixed_batch_adds_no_values_that_are_not_in_the_data(tmp_path):
    proto = conv_model()
    for info in (*proto.graph.input, *proto.graph.output):
        info.type.tensor_type.shape.dim[0].dim_value = 4
    data = images(6)
    found = tensors(calibrate(Model(proto), npz(tmp_path, x=data)))["x"]
    assert (found.min, found.max, found.count) == (float(data.min()), float(data.max()), 8 * 3 * 8 * 8)


def branching_model() -> onnx.ModelProto:
    """y = flag ? (2x) W : (2x) V, the two products inside the branches."""
    weight = np.random.default_rng(5).normal(size=(4, 4)).astype(np.float32)
    proto = text_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[1,4] x, bool flag) => (float[1,4] y) <float two = {2}> {
            y = If (flag) <
                then_branch = yes () => (float[1,4] yes_y) { yes_a = Mul (x, two)  yes_y = MatMul (yes_a, yes_w) },
                else_branch = no () => (float[1,4] no_y) { no_a = Mul (x, two)  no_y = MatMul (no_a, no_w) }
            >
        }
    """).proto
    stored = {"yes_w": weight, "no_w": -weight}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in stored.items())
    return proto


def test_tensors_inside_the_branches_that_ran_have_ranges_and_the_others_are_unseen(tmp_path):
    x = np.float32([[1, -3, 2, 0.5]])
    model = tmp_path / "m.onnx"
    onnx.save(branching_model(), model)
    report = calibrate_to_file(model, npz(tmp_path, x=x, flag=np.array(True)), tmp_path / "r.json")
    found = tensors(read_ranges(tmp_path / "r.json"))
    assert found["yes_a"] == of(2 * x)
    assert found["no_a"].count == 0
    assert [entry.tensor for entry in report.unseen] == ["no_a"]
    assert "never computed" in report.unseen[0].reason


def test_both_branches_are_seen_when_the_data_takes_both(tmp_path):
    samples = tmp_path / "data"
    samples.mkdir()
    for index, flag in enumerate((True, False)):
        np.savez(samples / f"{index}.npz", x=np.float32([[0, 0, 0, index + 1]]), flag=np.array(flag))
    found = tensors(calibrate(Model(branching_model()), samples))
    assert (found["yes_a"].max, found["no_a"].max) == (2.0, 4.0)


LOOP = """
<ir_version: 8, opset_import: ["": 17]>
g (float[1,4] x) => (float[rows,4] y)
<int64 times = {3}, bool yes = {1}, float[4,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}> {
    y = Loop (times, yes, x) <body = body (int64 i, bool go, float[n,4] state) => (bool still, float[m,4] next) {
        product = MatMul (state, w)
        next = %s
        still = Identity (go)
    }>
}
"""


def test_a_tensor_inside_a_loop_has_the_range_of_all_iterations(tmp_path):
    """x is squared and multiplied by the identity three times: 2, 4, 16 enter the product, and 1 beside them."""
    model = text_model(LOOP % "Mul (product, product)")
    found = tensors(calibrate(model, npz(tmp_path, x=np.float32([[2, 1, 1, 1]]))))
    assert found == {"state": TensorRange(1.0, 16.0, 16.0, 12)}


def test_a_tensor_that_changes_its_shape_in_a_loop_counts_as_unseen_with_the_reason(tmp_path):
    """Each turn appends a row, so what enters the product has 1, 2 and 3 rows and cannot be stacked."""
    onnx.save(text_model(LOOP % "Concat <axis = 0> (product, x)").proto, tmp_path / "m.onnx")
    data = npz(tmp_path, x=np.float32([[1, 2, 3, 4]]))
    report = calibrate_to_file(tmp_path / "m.onnx", data, tmp_path / "r.json")
    assert report.tensors == 0
    (unseen,) = report.unseen
    assert (unseen.tensor, unseen.graph) == ("state", "y.body")
    assert "shape changes between iterations" in unseen.reason


def overflowing_model() -> onnx.ModelProto:
    """y = exp(x) W: exp overflows beyond 88.7."""
    nodes = [helper.make_node("Exp", ["x"], ["e"], name="exp"), helper.make_node("MatMul", ["e", "w"], ["y"])]
    return make_model(nodes, {"x": ("n", 4)}, {"y": ("n", 4)}, {"w": np.eye(4, dtype=np.float32)})


def test_infinity_in_an_activation_names_the_tensor_the_sample_and_the_node(tmp_path):
    data = np.tile(np.arange(4, dtype=np.float32), (4, 1))
    data[2, 1] = 100
    with pytest.raises(UsageError, match=r"tensor 'e' is inf on sample 2, in 1 of \d+ elements; .* Exp 'exp'"):
        calibrate(Model(overflowing_model()), npz(tmp_path, x=data))


def test_a_sample_that_the_model_fails_on_is_named(tmp_path):
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="lookup"),
        helper.make_node("MatMul", ["rows", "w"], ["y"]),
    ]
    weights = {name: np.eye(4, dtype=np.float32) for name in ("table", "w")}
    proto = make_model(nodes, {}, {"y": ("n", 4)}, weights)
    proto.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, ("n",)))
    with pytest.raises(UsageError, match=r"the model does not run on sample 1: .*lookup"):
        calibrate(Model(proto), npz(tmp_path, ids=np.array([1, 9, 2])))


def test_nothing_runs_before_every_sample_was_checked(tmp_path):
    data = images()
    data[4, 0, 0, 0] = np.nan
    seen: list[int] = []
    with pytest.raises(UsageError, match="sample 4: input 'x' is nan"):
        calibrate(Model(conv_model()), npz(tmp_path, x=data), progress=lambda done, _: seen.append(done))
    assert seen == []


def test_random_data_is_on_record_with_its_seed_and_repeats():
    first, again, other = (calibrate(Model(conv_model()), RandomData(seed=seed)) for seed in (7, 7, 8))
    assert first == again
    assert (first.record.random, first.record.seed) == (True, 7)
    assert first.record.data_sha256 != other.record.data_sha256


def test_real_data_is_on_record_as_such(tmp_path):
    record = calibrate(Model(conv_model()), npz(tmp_path, x=images())).record
    assert (record.random, record.seed, record.samples, record.method) == (False, None, 5, "auto")


def test_an_unknown_target_method_or_mode_is_refused():
    for words in ({"target": "tensort"}, {"method": "maxx"}, {"quantize_mode": "int9"}):
        with pytest.raises(ArgumentError, match="is unknown; legal: "):
            Recipe(**words)


PEAK = """
import sys
from pathlib import Path
from qdqtool.jobs.calibrate import calibrate
calibrate(sys.argv[1], sys.argv[2])
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""


def peak_kilobytes(model: Path, data: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(model), str(data)], capture_output=True, check=True, text=True, timeout=120
    )
    return int(done.stdout)


@pytest.mark.slow(reason="models of hundreds of megabytes")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_peak_memory_does_not_grow_with_the_number_of_samples(tmp_path):
    """240 samples more would take 47 MB as inputs alone and 315 MB with the activations that are quantized."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["y"]),
    ]
    weights = {"w": np.full((16, 3, 3, 3), 0.1, np.float32), "v": np.full((1, 16, 1, 1), 0.1, np.float32)}
    model = tmp_path / "m.onnx"
    onnx.save(make_model(nodes, {"x": ("n", 3, 128, 128)}, {"y": ("n", 1, 128, 128)}, weights), model)
    peaks = {}
    for count in (16, 256):
        path = tmp_path / f"{count}.npz"
        np.savez(path, x=np.random.default_rng(0).random((count, 3, 128, 128), np.float32))
        peaks[count] = peak_kilobytes(model, path)
    assert peaks[256] <= 1.1 * peaks[16], peaks
