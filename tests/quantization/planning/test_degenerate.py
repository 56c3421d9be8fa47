"""Tensors that no scale serves well are named, with what was done, and take no model down."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.magnitudes import counted, pieces
from support.small import make_model, nodes_of, run

from qdqtool.accuracy.checking.accuracy import ZEROED
from qdqtool.accuracy.report import Accuracy
from qdqtool.accuracy.search.steps import with_measured
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.validate import validate_model
from qdqtool.models.plan import Slot
from qdqtool.numerics import formats
from qdqtool.numerics.derive import SCALE_RANGE, ScaleRule
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32
from qdqtool.numerics.granularity import PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning.degenerate import degenerate_scales, degenerate_values
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.calibrators import Threshold
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import TensorRange
from qdqtool.quantization.report import DegenerateTensor, ZeroedTensor
from qdqtool.samples.request import FileData

METHODS = ["max", "auto", "mse", "entropy", "percentile"]
SLOW = pytest.mark.slow(reason="quantizes with each method")


def on_methods(*quick: str) -> pytest.MarkDecorator:
    """Run a test with each method; `make test` does so with some."""
    return pytest.mark.parametrize(
        "method", [name if name in quick else pytest.param(name, marks=SLOW) for name in METHODS]
    )


def network(weight: np.ndarray) -> onnx.ModelProto:
    """x -> MatMul(w) -> Add(b) -> MatMul(v)."""
    rng = np.random.default_rng(1)
    stored = {"w": weight, "b": rng.normal(size=64), "v": rng.normal(size=(64, 32))}
    nodes = nodes_of("[first] m = MatMul (x, w)  a = Add (m, b)  [second] y = MatMul (a, v)")
    weights = {name: np.asarray(array, np.float32) for name, array in stored.items()}
    return make_model(nodes, {"x": ("N", 64)}, {"y": ("N", 32)}, weights)


def quantized(weight: np.ndarray, x: np.ndarray, folder: Path, method: str = "auto", *, constant: bool = False):
    onnx.save(network(weight), folder / "m.onnx")
    np.savez(folder / "data.npz", x=x.astype(np.float32))
    options = QuantizeOptions(recipe=Recipe(method=method))
    data = FileData(path=folder / "data.npz", allow_constant=constant)
    return quantize_model(folder / "m.onnx", data, folder / "q.onnx", options)


def sqnr(folder: Path, x: np.ndarray) -> float:
    feeds = {"x": x.astype(np.float32)}
    (before,), (after,) = (run(str(folder / name), feeds) for name in ("m.onnx", "q.onnx"))
    assert np.isfinite(after).all()
    noise = np.sum((before.astype(np.float64) - after) ** 2)
    return float(10 * np.log10(np.sum(before.astype(np.float64) ** 2) / noise)) if noise else np.inf


@pytest.fixture
def weight() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(64, 64))


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(256, 64))


def named(report) -> dict[str, DegenerateTensor]:
    return {entry.tensor: entry for entry in report.degenerate}


@on_methods("auto", "percentile")
def test_usual_values_are_not_reported(method, weight, x, tmp_path):
    assert quantized(weight, x, tmp_path, method).degenerate == ()
    assert sqnr(tmp_path, x[:8]) > 30


def test_one_huge_outlier_is_named_clipped_and_costs_little(weight, x, tmp_path):
    x[100, 7] = 1e4
    weight[7] *= 1e-4  # else the outlier makes more of them further on
    found = named(quantized(weight, x, tmp_path))
    assert found["x"].condition == "strays"
    assert "clipped at " in found["x"].action
    assert "up to 10000" in found["x"].action
    assert sqnr(tmp_path, x[:8]) > 25


@pytest.mark.parametrize("row", [3, 100])
@on_methods("auto", "percentile")
def test_whatever_the_method_a_tensor_of_which_nothing_else_is_left_is_named(method, row, weight, x, tmp_path):
    """In the samples that are measured, where its own energy hides the loss, and in one behind them."""
    x[row, 7] = 1e7
    found = named(quantized(weight, x, tmp_path, method))
    assert found["x"].condition == "strays"
    assert "of the nonzero values become 0" in found["x"].action
    if method == "max":
        assert "on 32 samples; look at it with method auto" in found["x"].action
    if (method, row) == ("auto", 100):
        assert found["x"].action.startswith("NOT clipped: 99.9939% of the nonzero values become 0")


def test_what_an_outlier_makes_of_other_tensors_is_named_too(weight, x, tmp_path, monkeypatch):
    """One row of 256 is all outliers behind the first layer: too many to be clipped, so most others become 0."""
    # Entropy, which the outputs of the other rows gain 0.3 dB by, clips them: fewer of the others become 0.
    monkeypatch.setattr("qdqtool.jobs.quantize.try_methods", lambda *_: None)
    x[100, 7] = 1e4
    report = quantized(weight, x, tmp_path)
    assert named(report)["a"].condition == "strays"
    assert named(report)["a"].action.startswith("NOT clipped: 99.6")
    # The clipped input cannot fill the range behind it: an error for validate, which the report has too.
    assert [(each.code, each.tensor) for each in report.findings if each.severity == "error"] == [("QN504", "a")]
    assert any(each.severity == "error" for each in validate_model(tmp_path / "q.onnx", ["tensorrt"]).findings)


@on_methods("mse", "entropy")
def test_an_input_that_is_always_zero_is_named(method, weight, x, tmp_path):
    report = quantized(weight, np.zeros_like(x), tmp_path, method, constant=True)
    assert named(report)["x"].condition == "zeros"
    assert sqnr(tmp_path, np.zeros((4, 64))) > 30


@on_methods("max", "auto")
def test_a_constant_tensor_is_named_and_keeps_its_value(method, weight, x, tmp_path):
    report = quantized(weight, np.full_like(x, -0.37), tmp_path, method, constant=True)
    assert named(report)["x"].condition == "constant"
    graph = onnx.load(tmp_path / "q.onnx").graph
    (quantize,) = (node for node in graph.node if node.input[0] == "x")
    step = float(onnx.numpy_helper.to_array(next(t for t in graph.initializer if t.name == quantize.input[1])))
    assert np.rint(-0.37 / step) * step == pytest.approx(-0.37, rel=1e-6)


def test_dead_channels_of_a_weight_are_named_and_stay_dead(weight, x, tmp_path):
    weight[:, [5, 9]] = 0
    report = quantized(weight, x, tmp_path)
    (dead,) = report.degenerate
    assert dead.tensor.startswith("w")
    assert (dead.kind, dead.condition, dead.scales, dead.of) == ("weight", "zeros", 2, 64)
    assert sqnr(tmp_path, x[:8]) > 30


def test_one_huge_weight_costs_its_own_channel_only(weight, x, tmp_path):
    weight[3, 3] = 1e4
    quantized(weight, x, tmp_path)
    stored = onnx.load(tmp_path / "q.onnx").graph.initializer
    arrays = [onnx.numpy_helper.to_array(tensor) for tensor in stored if tensor.name.startswith("w")]
    (scales,) = (array for array in arrays if array.shape == (64,) and array.dtype == np.float32)
    assert np.argmax(scales) == 3
    assert scales[3] > 50 * np.median(scales)


@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32])
def test_groups_below_the_smallest_scale_are_counted_apart_from_zeros(dtype):
    entry = ProposedSlot(Slot(("f",), "w"), "weight", QuantScheme(formats.get("int8"), PerAxis(0)), "")
    smallest = SCALE_RANGE[dtype][0]
    edge = smallest * 127
    amax = np.array([0.0, edge, edge * 0.99, edge * 0.5, 0.0, 0.0, 1.0], np.float64)
    found = list(degenerate_scales(entry, amax, ScaleRule(dtype=dtype)))
    assert [(each.condition, each.scales, each.of, each.scale) for each in found] == [
        ("zeros", 3, 7, 1.0),
        ("tiny", 2, 7, smallest),
    ]
    assert [each.action for each in found] == ["scale 1", f"scale {smallest:.3g}"]
    assert {(each.tensor, each.graph, each.kind) for each in found} == {("w", "f", "weight")}
    assert list(degenerate_scales(entry, np.array([edge, 1.0]), ScaleRule(dtype=dtype))) == []


ACTIVATION = ProposedSlot(Slot((), "t"), "activation", QuantScheme(formats.get("int8"), PerTensor()), "")


def activation(scale: float, action: str, condition: str = "strays", tensor: str = "t") -> DegenerateTensor:
    found = {"tensor": tensor, "graph": "", "kind": "activation", "condition": condition}
    return DegenerateTensor(**found, scales=1, of=1, scale=scale, action=action)


@pytest.mark.parametrize(
    ("low", "high", "count", "constant"),
    [(2.0, 2.0, 2, True), (2.0, 2.0, 1, False), (0.0, 0.0, 9, False), (1.0, 2.0, 9, False), (-3.0, -3.0, 5, True)],
)
def test_a_value_that_never_changes_is_named(low, high, count, constant):
    amax = max(abs(low), abs(high))
    seen = TensorRange(low, high, amax, count)
    found = list(degenerate_values(ACTIVATION, seen, Threshold(amax, "max", "")))
    assert [(each.condition, each.scale, each.action) for each in found] == (
        [("constant", amax / 127, f"always {low:g}, which one code stores exactly")] if constant else []
    )


@given(
    st.dictionaries(st.integers(0, 12), st.sampled_from([1, 10, 10**3, 10**5]), min_size=1),
    st.integers(-2, 2),
    st.integers(1, 12),
)
def test_values_that_a_scale_rounds_to_0_are_counted_by_whole_bins(counts, exponent, scale):
    found = counted(counts, exponent, zeros=7)
    below = sum(count for _, high, count in pieces(found) if high <= Fraction(scale, 2))
    share = Fraction(below, sum(counts.values()))
    seen = TensorRange(-1.0, 1.0, 1.0, 9, found)
    told = f"NOT clipped: {float(share):.4%} of the nonzero values become 0; exclude its readers, or change the model"
    expected = [activation(float(scale), told)] if share > ZEROED else []
    assert list(degenerate_values(ACTIVATION, seen, Threshold(scale * 127.0, "max", ""))) == expected


def test_a_share_of_just_the_limit_is_usual_and_zeros_do_not_count():
    seen = TensorRange(-8.0, 8.0, 8.0, 200, counted({0: 99, 7: 1}, 0, zeros=100))
    assert list(degenerate_values(ACTIVATION, seen, Threshold(8.0 * 127, "max", ""))) == []
    only_zeros = TensorRange(0.0, 0.0, 0.0, 9, Histogram.empty())
    assert list(degenerate_values(ACTIVATION, only_zeros, Threshold(0.0, "max", ""))) == []


@pytest.mark.parametrize("kind", ["mask", "strays"])
def test_values_apart_that_are_clipped_are_named_with_the_method_s_reason(kind):
    seen = TensorRange(-1016.0, 1016.0, 1016.0, 101, counted({0: 100, 508: 1}))
    found = list(degenerate_values(ACTIVATION, seen, Threshold(254.0, "auto", "because", kind)))
    assert found == [activation(2.0, "clipped at 254: because", kind)]


def test_what_a_measurement_shows_is_added_once():
    known = tuple(degenerate_scales(ACTIVATION, np.zeros(()), ScaleRule(dtype=FLOAT32)))
    places = [("t", ""), ("u", ""), ("t", "f")]
    zeroed = tuple(ZeroedTensor(tensor=name, graph=graph, share=0.995, scale=0.5) for name, graph in places)
    assert with_measured(known, None) == known
    found = with_measured(known, Accuracy(samples=3, zeroed=zeroed))
    assert found[:1] == known
    assert [(each.tensor, each.graph) for each in found] == places
    told = (
        "NOT clipped: 99.5000% of the nonzero values become 0 on 3 samples; look at it with method auto, which "
        "counts values and can clip outliers, or exclude the nodes that read it"
    )
    assert found[1] == activation(0.5, told, tensor="u")
