"""What quantize says that it cost, against ONNX Runtime and plain NumPy."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.printed import printed
from support.small import conv_model, make_model, run

from qdqtool.accuracy.checking import accuracy
from qdqtool.accuracy.checking.accuracy import SLICE, MeasuredModel, measure_accuracy
from qdqtool.accuracy.report import Accuracy, OutputAccuracy
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan, Slot
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.report import TensorAccuracy, ZeroedTensor
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.reports.text.quantize import print_accuracy
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription
from qdqtool.samples.split import MeasuringData

INT8 = QuantScheme(formats.get("int8"), PerTensor())


def images(count: int = 40, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=images())
    return tmp_path / "data.npz"


def other(folder: Path) -> Path:
    """Save samples that are no calibration data."""
    np.savez(folder / "other.npz", x=images(seed=3))
    return folder / "other.npz"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(conv_model(), tmp_path / "float.onnx")
    return tmp_path / "float.onnx"


def decibels(reference: np.ndarray, found: np.ndarray) -> float:
    reference, found = reference.astype(np.float64), found.astype(np.float64)
    return float(10 * np.log10(np.sum(reference**2) / np.sum((reference - found) ** 2)))


def rounded(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x / scale), -128, 127).astype(np.float32) * scale


def test_the_sqnr_of_an_output_is_that_of_both_models_in_onnx_runtime(model, data, tmp_path):
    report = quantize_model(model, data, tmp_path / "q.onnx", QuantizeOptions(validation_data=other(tmp_path)))
    few = images(seed=3)[:SLICE]
    expected = np.concatenate([run(str(model), {"x": image[None]})[0] for image in few])
    found = np.concatenate([run(str(tmp_path / "q.onnx"), {"x": image[None]})[0] for image in few])
    (output,) = report.accuracy.outputs
    assert (report.accuracy.samples, output.name, output.exact, output.finite) == (SLICE, "y", False, True)
    assert output.sqnr_db == pytest.approx(decibels(expected, found), abs=2e-3)  # default session against reference


def test_an_output_whose_shape_depends_on_the_values_is_compared_where_it_can_be(tmp_path):
    """The values of x W above 0.5, where int8 rounds some of the second sample to the other side."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Greater", ["b", "half"], ["keep"]),
        helper.make_node("Reshape", ["keep", "flat"], ["keeps"]),
        helper.make_node("Compress", ["b", "keeps"], ["y"]),
    ]
    weights = {"w": np.eye(16, dtype=np.float32), "half": np.float32(0.5), "flat": np.array([-1])}
    onnx.save(make_model(nodes, {"x": (1, 16)}, {"y": ("kept",)}, weights), tmp_path / "kept.onnx")
    x = np.stack([np.r_[np.full(8, 1), np.full(8, -1)], np.linspace(0.4999, 0.5001, 16)]).astype(np.float32)
    np.savez(tmp_path / "kept.npz", x=x)
    report = quantize_model(tmp_path / "kept.onnx", tmp_path / "kept.npz", tmp_path / "q.onnx")
    (output,) = report.accuracy.outputs
    assert (output.other_shapes, output.exact) == (1, False)
    assert "; the shape differs from the float model's in 1 sample" in printed(print_accuracy, report.accuracy)
    kept = tmp_path / "kept.onnx"
    checked = check_model(tmp_path / "q.onnx", baseline=kept, data=tmp_path / "kept.npz")
    assert [each.tensor for each in checked.not_observed] == ["y"]
    assert "its shape differs for 1 of the samples" in checked.not_observed[0].reason


def test_a_model_of_integer_outputs_says_that_there_is_nothing_to_compare(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("ArgMax", ["a"], ["y"], axis=1)]
    proto = make_model(nodes, {"x": (1, 16)}, {"y": (1, 1)}, {"w": np.eye(16, dtype=np.float32)})
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(proto, tmp_path / "label.onnx")
    np.savez(tmp_path / "label.npz", x=np.random.default_rng(3).normal(size=(2, 16)).astype(np.float32))
    report = quantize_model(tmp_path / "label.onnx", tmp_path / "label.npz", tmp_path / "q.onnx")
    assert "no output has float values to compare" in printed(print_accuracy, report.accuracy)


def test_what_is_nan_in_the_float_model_is_counted_and_told(tmp_path):
    """log(x W) beside x W: NaN where x W is negative, in both models alike but near 0."""
    eye = np.eye(16, dtype=np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Log", ["a"], ["logs"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    proto = make_model(nodes, {"x": (1, 16)}, {"y": (1, 16), "logs": (1, 16)}, {"w": eye})
    onnx.save(proto, tmp_path / "logs.onnx")
    x = np.tile(np.where(np.arange(16) < 4, -1, 1).astype(np.float32), (3, 1))
    np.savez(tmp_path / "logs.npz", x=x)
    report = quantize_model(tmp_path / "logs.onnx", tmp_path / "logs.npz", tmp_path / "q.onnx")
    found = {output.name: (output.finite, output.float_nonfinite) for output in report.accuracy.outputs}
    assert found == {"y": (True, 0), "logs": (True, 12)}
    assert "; NaN or infinite in the float model: 12 elements" in printed(print_accuracy, report.accuracy)


def test_the_worst_pairs_come_first_each_with_its_own_loss(model, data, tmp_path):
    report = quantize_model(model, data, tmp_path / "q.onnx", QuantizeOptions(validation_data=other(tmp_path)))
    scales = {pair.tensor: np.float32(pair.scale_max) for pair in report.quantized if pair.scales == 1}
    few, weights = (
        images(seed=3)[:SLICE],
        {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model).graph.initializer},
    )
    inner = onnx.load(model)
    inner.graph.output.append(onnx.ValueInfoProto(name="r"))
    relu = np.concatenate([run(inner, {"x": image[None]})[1] for image in few])
    expected = {"x": decibels(few, rounded(few, scales["x"])), "r": decibels(relu, rounded(relu, scales["r"]))}
    for name in ("w", "v"):
        step = np.abs(weights[name]).max(axis=(1, 2, 3), keepdims=True) / np.float32(127)
        expected[name] = decibels(weights[name], rounded(weights[name], step))
    found = {tensor.tensor: tensor.sqnr_db for tensor in report.accuracy.worst}
    assert found == pytest.approx(expected, abs=2e-3)
    assert list(found.values()) == sorted(found.values())


def test_without_data_nothing_is_measured_and_the_report_says_so(model, data, tmp_path):
    calibrate_to_file(model, data, tmp_path / "ranges.json")
    report = quantize_model(model, CachedRanges(path=tmp_path / "ranges.json"), tmp_path / "q.onnx")
    assert report.accuracy is None


def test_an_output_that_is_ruined_is_shown_as_such(tmp_path):
    """Adding and taking away a large number leaves nothing of small values but rounding."""
    weights = {"w": np.full((16, 16), 1e4, np.float32), "minus": np.full((16, 16), -1e4, np.float32)}
    weights["minus"][0, 0] += 1
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["x", "minus"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    onnx.save(make_model(nodes, {"x": (4, 16)}, {"y": (4, 16)}, weights), tmp_path / "float.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).normal(size=(4, 4, 16)).astype(np.float32))
    report = quantize_model(tmp_path / "float.onnx", tmp_path / "data.npz", tmp_path / "q.onnx")
    sqnr = report.accuracy.outputs[0].sqnr_db
    assert sqnr is not None
    assert sqnr < 3


def test_formats_that_onnx_runtime_lacks_are_measured_by_our_own_core(model, data, tmp_path):
    options = QuantizeOptions(recipe=Recipe(quantize_mode="float4e2m1", target="onnx"))
    report = quantize_model(model, data, tmp_path / "q.onnx", options)
    assert not report.accuracy.problem
    assert 0 < dataclasses.asdict(report.accuracy.outputs[0])["sqnr_db"] < 30


# --- measured directly, on models of few values ---


def int8(tensor: str, scale: object, axis: int | None = None) -> Placement:
    step = np.asarray(scale, np.float32)
    scheme = QuantScheme(formats.get("int8"), PerAxis(axis)) if axis is not None else INT8
    return Placement(Slot((), tensor), QuantParams(scheme, step), "a test")


def fed(samples: Sequence[np.ndarray]) -> Feeds:
    return Feeds([{"x": sample} for sample in samples], DataDescription("a test", len(samples), None, {}))


def measured(
    before: onnx.ModelProto, samples: Sequence[np.ndarray], *placements: Placement, after: onnx.ModelProto | None = None
) -> Accuracy:
    model, plan = Model(before), QuantPlan(placements)
    quantized = Model(after) if after is not None else apply_plan(model, plan).model
    with FloatRuns() as runs:
        after = MeasuredModel(make=lambda: [quantized], plan=plan)
        return measure_accuracy(model, after, MeasuringData(feeds=fed(samples), held_back=True), runs)


def chain(count: int, size: int = 4) -> onnx.ModelProto:
    """x through so many Neg nodes: t1, t2 and so on, the last one y."""
    names = ["x", *(f"t{number}" for number in range(1, count)), "y"]
    nodes = [helper.make_node("Neg", [read], [made]) for read, made in itertools.pairwise(names)]
    return make_model(nodes, {"x": (size,)}, {"y": (size,)}, {}, opset=21, ir_version=10)


def values(count: int, size: int = 4) -> list[np.ndarray]:
    return list(np.random.default_rng(5).uniform(-9, 9, (count, size)).astype(np.float32))


def test_beside_each_output_is_its_accuracy_in_the_second_model() -> None:
    model, plans = Model(chain(1)), [QuantPlan((int8("x", step),)) for step in (0.5, 0.25)]
    with FloatRuns() as runs:
        after = MeasuredModel(make=lambda: [apply_plan(model, plan).model for plan in plans], plan=plans[0])
        found = measure_accuracy(model, after, MeasuringData(feeds=fed(values(3)), held_back=True), runs)
    one, two = (measured(chain(1), values(3), *plan).outputs[0] for plan in plans)
    assert found.outputs == (dataclasses.replace(one, float32_db=two.sqnr_db),)
    assert (one.float32_db, two.sqnr_db) == (None, pytest.approx(one.sqnr_db + 6, abs=2))


def test_the_outputs_and_pairs_of_few_samples_are_told_with_four_decimals() -> None:
    samples = values(3)
    found = measured(chain(2), samples, int8("x", 0.25), int8("t1", 0.75))
    one = [rounded(x, np.float32(0.25)) for x in samples]
    both = [rounded(x, np.float32(0.75)) for x in one]
    ends = [round(decibels(np.array(samples), np.array(made)), 4) for made in (both, one)]
    second = round(decibels(np.array(samples), rounded(np.array(samples), np.float32(0.75))), 4)
    without = [decibels(np.delete(np.array(samples), left, 0), np.delete(np.array(both), left, 0)) for left in range(3)]
    # The jackknife: sqrt(2 / 3 * sum((x - mean)**2)), which is sqrt(2) deviations of the three.
    doubt = round(float(np.sqrt(2) * np.std(without)), 2)
    assert found == Accuracy(
        samples=3,
        held_back=True,
        outputs=(OutputAccuracy(name="y", sqnr_db=ends[0], exact=False, finite=True, standard_error_db=doubt),),
        worst=(
            TensorAccuracy(tensor="t1", graph="", kind="activation", sqnr_db=second),
            TensorAccuracy(tensor="x", graph="", kind="activation", sqnr_db=ends[1]),
        ),
    )


def test_at_most_five_pairs_and_32_samples_are_told() -> None:
    steps = {"x": 0.1} | {f"t{number}": 0.1 * (number * 3 % 7 + 1) + 0.05 for number in range(1, 7)}
    found = measured(chain(7), values(40), *(int8(name, step) for name, step in steps.items()))
    run = np.array(values(40)[:32])
    lowest = sorted((round(decibels(run, rounded(run, np.float32(step))), 4), name) for name, step in steps.items())
    assert found.samples == 32
    assert [(pair.sqnr_db, pair.tensor) for pair in found.worst] == lowest[:5]


@pytest.mark.parametrize("enough", [1, 23, 24, 25, 48, 49, 71, 72, 73, 96, 97, 500])
def test_samples_are_run_until_enough_values_of_pairs_and_outputs_were_used(
    enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample uses 4 values of x, 4 of the output, and the 16 weights."""
    monkeypatch.setattr(accuracy, "ENOUGH", enough)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    proto = make_model(nodes, {"x": (1, 4)}, {"y": (1, 4)}, {"w": np.eye(4, dtype=np.float32) * 3}, opset=21)
    samples = [x[None] for x in values(5)]
    found = measured(proto, samples, int8("x", 0.25), int8("w", 0.7))
    wanted = math.ceil(enough / 24)
    assert found.samples == min(5, max(2, wanted))
    errors = {pair.tensor: pair.sqnr_db for pair in found.worst}
    counted = np.concatenate(samples[:wanted])
    assert errors["x"] == round(decibels(counted, rounded(counted, np.float32(0.25))), 4)
    assert [pair.kind for pair in found.worst if pair.tensor == "w"] == ["weight"]


def test_no_sample_is_read_after_the_last_one_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "ENOUGH", 1)
    read: list[int] = []

    class Recorded:
        def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
            for number, sample in enumerate(values(9)):
                read.append(number)
                yield {"x": sample}

    model, plan = Model(chain(1)), QuantPlan((int8("x", 0.25),))
    feeds = Feeds(Recorded(), DataDescription("a test", 9, None, {}))
    with FloatRuns() as runs:
        after = MeasuredModel(make=lambda: [apply_plan(model, plan).model], plan=plan)
        found = measure_accuracy(model, after, MeasuringData(feeds=feeds, held_back=True), runs)
        assert runs.index_of(model) is not runs.index_of(model), "the session of the float model is still open"
    assert (found.samples, max(read)) == (2, 2)


@pytest.mark.parametrize(
    ("zeros", "ones", "share"),
    [(99, 1, None), (100, 1, 1 - 1 / 101), (5, 0, 1.0), (0, 0, None), (0, 3, None), (1, 1, None)],
)
@pytest.mark.parametrize("axis", [None, 0])
def test_activations_of_which_more_than_99_of_100_become_0_are_told(
    zeros: int, ones: int, share: float | None, axis: int | None
) -> None:
    """Values that were 0 before do not count. A scale for one channel is one scale."""
    small = np.r_[np.full(zeros, 0.25), np.full(ones, 3.0), np.zeros(7)].astype(np.float32)
    scale = 1.0 if axis is None else [1.0]
    found = measured(
        make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (1, "n")}, {"y": (1, "n")}, {}, opset=21),
        [small[None]] * 2,
        int8("x", scale, axis),
    )
    told = () if share is None else (ZeroedTensor(tensor="x", graph="", share=share, scale=1.0),)
    assert found.zeroed == told


def test_weights_and_tensors_of_several_scales_are_not_told_as_zeroed() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    proto = make_model(nodes, {"x": (2, 2)}, {"y": (2, 2)}, {"w": np.full((2, 2), 0.25, np.float32)}, opset=21)
    few = [np.full((2, 2), 0.25, np.float32)]
    assert measured(proto, few, int8("w", 1.0)).zeroed == ()
    assert measured(proto, few, int8("x", [1.0, 1.0], 0)).zeroed == ()


def test_a_tensor_that_the_float_model_lacks_is_not_measured() -> None:
    samples = values(2)
    found = measured(chain(1), samples, int8("added_by_the_upgrade", 1.0), int8("x", 0.25), after=chain(1))
    assert [pair.tensor for pair in found.worst] == ["x"]
    assert found.outputs == (OutputAccuracy(name="y", sqnr_db=None, exact=True, finite=True),)


def test_an_output_that_never_has_the_shape_of_the_float_model_is_told() -> None:
    shorter = chain(1)
    shorter.graph.node[0].CopyFrom(helper.make_node("Slice", ["x", "start", "end"], ["y"]))
    shorter.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array([n]), at) for at, n in [("start", 0), ("end", 2)]
    )
    shorter.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 2
    found = measured(chain(1), values(3), after=shorter)
    assert found.outputs == (OutputAccuracy(name="y", sqnr_db=None, exact=False, finite=True, other_shapes=3),)


def test_one_sample_shows_that_a_model_draws_random_numbers() -> None:
    noisy = chain(1)
    noisy.graph.node[0].CopyFrom(helper.make_node("RandomNormalLike", ["x"], ["y"], name="noisy"))
    assert measured(noisy, values(1), after=chain(1)) == Accuracy(
        samples=0,
        problem="the float model gives another output 'y' in a second run of the same sample: node 'noisy' "
        "(RandomNormalLike) draws random numbers",
    )
