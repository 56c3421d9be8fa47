"""The largest magnitudes of tensors on data, against NumPy."""

import numpy as np
import onnx
import pytest

from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.high_precision import SAMPLES, magnitudes_in, measure_magnitudes
from qdqtool.quantization.ranges.types import UNSEEN, CalibrationRecord, Ranges, TensorRange
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription

TEXT = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
g (float[2,3] x, int64[2] i) => (float[2,3] y, int64[2] j) <float[3] w = {9,-8,7}, float two = {2}> {
    n = Neg (x)
    s = Mul (n, two)
    t = Transpose (s)
    v = Mul (w, two)
    a = Add (s, v)
    j = Add (i, i)
    y = my.Layer (a)
}
<domain: "my", opset_import: ["": 17]>
Layer (c) => (d) { e = Exp (c)  d = Neg (e) }
"""
RECORD = CalibrationRecord(method="max", samples=1, random=True, seed=0, data_sha256="", model_sha256="")


def feeds(*arrays: np.ndarray) -> Feeds:
    samples = [{"x": array.astype(np.float32), "i": np.array([10**6, 1])} for array in arrays]
    return Feeds(samples, DataDescription("test", len(samples), None, {}))


@pytest.fixture
def model() -> Model:
    return Model(onnx.parser.parse_model(TEXT))


def test_float_tensors_of_the_main_graph_that_no_constant_or_move_tells_are_measured(model):
    arrays = [np.array([[0.25, -0.5, 0.125], [0, 0, np.nan]]), np.array([[0.25, 0.5, -0.75], [np.inf, 0, 0]])]
    found = measure_magnitudes(model, feeds(*arrays))
    added = [np.abs(-2 * array + np.array([18, -16, 14])) for array in arrays]
    made = [-np.exp((-2 * array + np.array([18, -16, 14])).astype(np.float32)) for array in arrays]
    assert {name: found.pop(((), name)) for name in "xnsa"} == {
        "x": 0.75,
        "n": 0.75,
        "s": 1.5,
        "a": max(each[np.isfinite(each)].max() for each in added),
    }
    largest = max(np.abs(each[np.isfinite(each)]).max() for each in made)
    assert found == {((), "y"): pytest.approx(largest, rel=1e-5)}


def test_only_the_first_samples_are_run(model):
    arrays = [np.full((2, 3), 0.5)] * SAMPLES + [np.full((2, 3), 100.0)]
    assert measure_magnitudes(model, feeds(*arrays))[(), "x"] == 0.5


def test_ranges_tell_of_tensors_that_they_saw():
    seen = {"x": 0.25, "n": 3.0}
    ranges = Ranges(RECORD, {((), name): TensorRange(-amax, amax, amax, 1) for name, amax in seen.items()})
    assert magnitudes_in(ranges) == {((), name): amax for name, amax in seen.items()}
    assert magnitudes_in(Ranges(RECORD, {((), "x"): UNSEEN})) == {}
