"""The ranges that a report states: those of the written model, and of models that other methods make."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.magnitudes import counted, histogram, seen
from support.small import make_model, nodes_of

from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.convert_ranges import convert_ranges
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.models.plan import Slot
from qdqtool.numerics import formats
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.activation_ranges import (
    MOST_BINS,
    RangeChoice,
    bound_threshold,
    coarse_counts,
    final_thresholds,
)
from qdqtool.quantization.ranges.calibrators import RangeGoal
from qdqtool.quantization.ranges.histogram import decode_counts
from qdqtool.quantization.ranges.method_choice import encode_choice, threshold
from qdqtool.quantization.ranges.types import CalibrationRecord
from qdqtool.quantization.report import ActivationRange

AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False)
HIGH = {"int8": 127, "fp8": 448}


def images() -> np.ndarray:
    random = np.random.default_rng(2)
    return (random.standard_t(3, size=(6, 3, 8, 8)) * (random.random((6, 3, 8, 8)) > 0.3)).astype(np.float32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=images())
    return tmp_path / "data.npz"


def options(**recipe: object) -> QuantizeOptions:
    return QuantizeOptions(recipe=Recipe(preparation=AS_IT_IS, **recipe))


def written(path: Path) -> dict[str, float]:
    """The scale of each activation of a model."""
    graph = onnx.load(path).graph
    stored = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    return {node.input[0]: float(stored[node.input[1]]) for node in graph.node if node.op_type == "QuantizeLinear"}


def by_name(found: tuple[ActivationRange, ...]) -> dict[str, ActivationRange]:
    return {each.tensor: each for each in found}


@pytest.mark.parametrize("mode", HIGH)
def test_ranges_are_those_of_the_models_that_each_method_makes(mode, model, data, tmp_path):
    stated = quantize_model(model, data, tmp_path / "q.onnx", options(quantize_mode=mode)).activation_ranges
    chosen = written(tmp_path / "q.onnx")
    assert [each.tensor for each in stated] == list(chosen) == ["x", "r"]
    for each in stated:
        assert each.range == pytest.approx(HIGH[mode] * chosen[each.tensor], rel=2**-22)
        assert not each.shared
        assert [found.method for found in each.methods] == list(calibrators.names())
    for number, method in enumerate(calibrators.names()):
        quantize_model(model, data, tmp_path / "q.onnx", options(quantize_mode=mode, method=method))
        for tensor, scale in written(tmp_path / "q.onnx").items():
            found = by_name(stated)[tensor].methods[number].range
            assert found == pytest.approx(HIGH[mode] * scale, rel=2**-22), method


def test_counts_and_clipped_shares_are_those_of_the_values(model, data, tmp_path):
    report = quantize_model(model, data, tmp_path / "q.onnx", options(method="percentile", percentile=97.0))
    x, values = by_name(report.activation_ranges)["x"], np.abs(images().astype(np.float64)).ravel()

    assert (x.graph, x.format, x.method, x.values) == ("", "int8", "percentile", values.size)
    assert (x.min, x.max) == (images().min(), images().max())
    assert x.histogram.zeros == (values == 0).sum() > 0
    bins = np.floor(values[values > 0] / x.histogram.bin_width).astype(int)
    counts = decode_counts(x.histogram.counts)
    shown = int(np.flatnonzero(counts)[-1]) + 1
    assert counts[:shown].tolist() == np.bincount(bins, minlength=shown)[:shown].tolist()
    assert x.histogram.beyond == (bins >= shown).sum()
    assert x.clipped == pytest.approx(0.03, abs=2e-4)
    for found in x.methods:
        # Values of one of 2**13 bins are spread evenly.
        assert found.clipped == pytest.approx((values > found.range).mean(), abs=2 / values.size), found.method


def test_ranges_from_a_file_say_the_same(model, data, tmp_path):
    quantize_model(model, data, tmp_path / "q.onnx", options())
    calibrate_to_file(model, data, tmp_path / "ranges.json", Recipe(preparation=AS_IT_IS))
    first = quantize_model(model, data, tmp_path / "q.onnx", options())
    second = quantize_model(model, CachedRanges(path=tmp_path / "ranges.json"), tmp_path / "q.onnx", options())

    assert first.activation_ranges == second.activation_ranges


def test_without_counts_only_what_is_known_is_stated(model, data, tmp_path):
    found = quantize_model(model, data, tmp_path / "q.onnx", options(method="max")).activation_ranges

    for each in found:
        assert each.histogram is None
        assert [(other.method, other.range, other.clipped) for other in each.methods] == [("max", each.range, 0.0)]
        assert (each.clipped, each.method, each.range) == (0.0, "max", max(abs(each.min), abs(each.max)))


def test_ranges_of_another_tool_have_no_values(model, data, tmp_path):
    calibrate_to_file(model, data, tmp_path / "ranges.json", Recipe(preparation=AS_IT_IS, method="max"))
    convert_ranges(tmp_path / "ranges.json", tmp_path / "theirs.json", "ort-json")
    given = CachedRanges(path=tmp_path / "theirs.json")
    found = by_name(quantize_model(model, given, tmp_path / "q.onnx", options(method="max")).activation_ranges)

    assert found.keys() == {"x", "r"}
    for name, each in found.items():
        assert (each.method, each.values, each.clipped, each.methods, each.histogram) == ("given", None, None, (), None)
        assert each.range == pytest.approx(127 * written(tmp_path / "q.onnx")[name], rel=2**-22)


def test_what_an_operator_bounds_is_said(tmp_path):
    nodes = [helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])]
    proto = make_model(nodes, {"x": (4, 32)}, {"y": (4, 32)}, {"w": np.eye(32, dtype=np.float32)})
    onnx.save(proto, tmp_path / "float.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).normal(size=(3, 4, 32)).astype(np.float32))
    report = quantize_model(
        tmp_path / "float.onnx", tmp_path / "data.npz", tmp_path / "q.onnx", options(quantize_mode="fp8")
    )
    (s,) = report.activation_ranges

    assert (s.method, s.range, s.clipped, s.shared) == ("bound", 1.0, 0.0, False)
    assert {found.range for found in s.methods} == {1.0}


def test_tensors_with_one_scale_have_the_range_of_the_largest(tmp_path):
    weights = {name: np.random.default_rng(4).normal(size=(4, 8)).astype(np.float32) for name in "wv"}
    weights["v"] = np.random.default_rng(5).normal(size=(8, 8)).astype(np.float32)
    nodes = nodes_of("""r = Relu (x)  p = MatMul (r, w)  t = Mul (r, ten)  [join] both = Concat <axis = 1> (r, t)
        q = MatMul (both, v)  y = Add (p, q)""")
    constants = {**weights, "ten": np.float32([10])}
    onnx.save(make_model(nodes, {"x": ("n", 4)}, {"y": ("n", 8)}, constants), tmp_path / "float.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(6).normal(size=(50, 4)).astype(np.float32))
    asked = Selection(op_types_to_quantize=("*", "Concat"))
    paths = tmp_path / "float.onnx", tmp_path / "data.npz"
    stated = by_name(quantize_model(*paths, tmp_path / "q.onnx", options(selection=asked)).activation_ranges)

    assert {name: each.shared for name, each in stated.items()} == {"r": True, "both": False}
    assert stated["r"].range == stated["both"].range
    assert stated["r"].clipped == 0.0
    for number, method in enumerate(calibrators.names()):
        quantize_model(*paths, tmp_path / "q.onnx", options(selection=asked, method=method))
        scales = written(tmp_path / "q.onnx")
        assert scales["r"] == scales["both"]
        for each in stated.values():
            assert each.methods[number].range == pytest.approx(127 * scales[each.tensor], rel=2**-22), method


def test_weights_alone_have_no_ranges(model, tmp_path):
    report = quantize_model(model, None, tmp_path / "q.onnx", options(quantize_mode="int8-weight-only"))
    assert report.activation_ranges == ()


VALUES = {
    "normal": np.random.default_rng(0).normal(size=5000),
    "tiny": np.random.default_rng(1).normal(size=500) * 2.0**-120,
    "powers of two": np.array([0.25, 0.5, 1.0, 2.0, 2.0]),
    "one value": np.array([-6.0]),
    "with zeros": np.array([0.0, 0.0, 3.0, -1.5]),
    "far apart": np.append(np.random.default_rng(2).normal(size=5000), [-1e4, 0.0]),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("upto", [np.inf, 4.0, 2.0**-119])
def test_counts_are_those_of_the_values(name: str, upto: float):
    values = VALUES[name].astype(np.float32)
    found = coarse_counts(histogram(values), upto)

    assert np.frexp(found.bin_width)[0] == 0.5
    assert 0 < len(found.counts) <= MOST_BINS
    bins = np.floor(np.abs(values.astype(np.float64)) / found.bin_width)[values != 0]
    expected = [int((bins == number).sum()) for number in range(len(found.counts))]
    assert found.counts.tolist() == expected
    assert found.beyond == (bins >= len(found.counts)).sum()


@pytest.mark.parametrize("name", VALUES)
def test_all_values_are_shown_in_more_than_half_of_the_bins(name: str):
    found = coarse_counts(histogram(VALUES[name].astype(np.float32)))

    assert found.beyond == 0
    assert len(found.counts) > MOST_BINS / 2
    assert found.counts[-1] > 0


def test_values_up_to_a_magnitude_are_seen_apart_from_far_ones():
    values = VALUES["far apart"].astype(np.float32)
    found = coarse_counts(histogram(values), 4.0)

    assert (found.bin_width, found.beyond) == (1.0, 1)  # the histogram itself has no narrower ones
    near = np.abs(values[np.abs(values) < 100])
    assert found.counts.tolist() == [int(((near >= low) & (near < low + 1) & (near > 0)).sum()) for low in range(4)]


def test_bins_without_a_value_are_one_empty_bin():
    found = coarse_counts(counted({500: 2, 16000: 1}, exponent=0), 0.5)

    assert (found.bin_width, found.counts.tolist(), found.beyond) == (1.0, [0], 3)


def test_zeros_alone_have_no_bins():
    assert coarse_counts(histogram(np.zeros(3))) is None


RECORD = CalibrationRecord(method="auto", samples=1, random=False, seed=None, data_sha256="", model_sha256="")
CHOICES = {
    "normal": np.random.default_rng(0).standard_t(3, 5000).astype(np.float32),
    "strays": np.append(np.random.default_rng(1).normal(size=50_000), 1e3).astype(np.float32),
    "uniform": np.random.default_rng(2).uniform(-1, 1, 5000).astype(np.float32),
}


def choice(values: np.ndarray, method: str = "auto", group: int | None = None, *, peaked: bool = False) -> RangeChoice:
    goal, found = RangeGoal(format=formats.get("int8"), peaked=peaked), seen(values)
    own = threshold(method, found, goal, automatic=method == "auto")
    return RangeChoice(Slot((), "x"), found, goal, own, group)


def test_auto_clips_what_lies_far_apart_and_mse_does_not():
    made = choice(CHOICES["strays"])

    assert made.own.apart == "strays"
    assert made.by("mse", RECORD).own.amax == 1000 > made.own.amax


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("peaked", [False, True])
@pytest.mark.parametrize("first", calibrators.names())
@pytest.mark.parametrize("second", calibrators.names())
def test_it_is_the_threshold_of_the_method(name: str, peaked: bool, first: str, second: str):
    made = choice(CHOICES[name], first, peaked=peaked)
    expected = calibrators.get(second).threshold(made.seen, made.goal)

    found = made.by(second, RECORD).own
    # A method that `auto` called has the reason of `auto`.
    assert (found.amax, found.method, found.apart) == (expected.amax, expected.method, expected.apart)


def test_auto_is_the_method_that_was_chosen_for_the_model():
    made = choice(CHOICES["normal"], "max")
    recorded = replace(RECORD, preparation=(encode_choice("entropy"),))

    assert made.by("auto", recorded).own == calibrators.get("entropy").threshold(made.seen, made.goal)
    assert made.by("mse", recorded).own == calibrators.get("mse").threshold(made.seen, made.goal)


def test_a_bound_counts_whatever_the_method():
    made = replace(choice(CHOICES["uniform"]), own=bound_threshold(2.0))

    assert made.is_bound
    assert {made.by(name, RECORD).own.amax for name in calibrators.names()} == {2.0}


def test_a_group_has_the_largest_range_of_its_members():
    sizes = {0: [1.0, 3.0, 3.0], 1: [2.0], None: [9.0, 0.5]}
    members = [(group, amax) for group, found in sizes.items() for amax in found]
    choices = [choice(np.float32([amax]), "max", group) for group, amax in members]
    found = final_thresholds(choices)

    assert [each.amax for each in found] == [3.0, 3.0, 3.0, 2.0, 9.0, 0.5]
    assert found[0] is found[2] is choices[1].own
