"""A small layer that makes most of the noise stays in float, in every way to quantize; a large one does not."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.small import make_model, run

from qdqtool.accuracy.layers import dominant_layer
from qdqtool.accuracy.layers.dominant_layer import find_dominant_layer, with_dominant_in_float
from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.masked_model import Setting
from qdqtool.jobs.calibrate import CalibrationPlace, calibrate_to_file
from qdqtool.jobs.merge import merge_to_file
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.numerics.noise import Noise
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.file import read_ranges
from qdqtool.quantization.ranges.method_choice import DOMINANT_LAYER
from qdqtool.quantization.ranges.shard import Shard

CHANNELS = 64
"""With so many, the last layer has 0.1 % of the multiply-accumulates; with 4, it has 20 %."""


def distances(channels: int = CHANNELS) -> onnx.ModelProto:
    """Return a head as YOLO has it: the expectation of 16 probabilities, by a Conv with the weights 0, 1, .., 15."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]) / 2)).astype(np.float32)

    weights = {
        "w1": normal(channels, 3, 3, 3),
        "w2": normal(channels, channels, 3, 3),
        "w3": normal(64, channels, 1, 1),
        "ramp": np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1),
        "shape": np.array([0, 4, 16, -1]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "w3"], ["e"]),
        helper.make_node("Reshape", ["e", "shape"], ["f"]),
        helper.make_node("Transpose", ["f"], ["g"], perm=[0, 2, 1, 3]),
        helper.make_node("Softmax", ["g"], ["p"], axis=1),
        helper.make_node("Conv", ["p", "ramp"], ["boxes"], name="dfl"),
    ]
    return make_model(nodes, {"x": ("N", 3, 12, 12)}, {"boxes": ("N", 1, 4, 144)}, weights)


def written(folder: Path, channels: int = CHANNELS) -> tuple[Path, Path]:
    onnx.save(distances(channels), folder / "m.onnx")
    np.savez(folder / "d.npz", x=np.random.default_rng(1).normal(size=(32, 3, 12, 12)).astype(np.float32))
    return folder / "m.onnx", folder / "d.npz"


def quantized(folder: Path, source: object, name: str = "q", *, float_layer: bool = True) -> QuantizeReport:
    options = QuantizeOptions(recipe=Recipe(preparation=Preparation(float_layer=float_layer)))
    return quantize_model(folder / "m.onnx", source, folder / f"{name}.onnx", options)


def noise_on_new_data(folder: Path, name: str) -> float:
    x = np.random.default_rng(2).normal(size=(16, 3, 12, 12)).astype(np.float32)
    (expected,), (found,) = (run(onnx.load(folder / f"{file}.onnx"), {"x": x}) for file in ("m", name))
    return float(np.square(expected - found).sum())


def reasons(report: QuantizeReport) -> dict[str, str]:
    return {entry.node: entry.reason for entry in report.skipped}


@pytest.mark.slow(reason="a search")
def test_the_small_layer_stays_in_float_and_new_data_gains(tmp_path):
    _, data = written(tmp_path)
    left, kept = quantized(tmp_path, data, "left"), quantized(tmp_path, data, "kept", float_layer=False)
    assert reasons(left)["dfl"].startswith("stays in float: makes ")
    assert reasons(left)["dfl"].endswith("of the noise, 0.1 % of the multiply-accumulates")
    assert reasons(kept) == {}
    assert len(kept.quantized) == len(left.quantized) + 2
    assert noise_on_new_data(tmp_path, "left") < noise_on_new_data(tmp_path, "kept") / 2


def test_a_large_layer_that_makes_most_of_the_noise_is_named_and_quantized(tmp_path):
    _, data = written(tmp_path, channels=4)
    report = quantized(tmp_path, data)
    assert "dfl" not in reasons(report)
    assert [(layer.node, layer.dominant) for layer in report.blame.layers][:1] == [("dfl", True)]


@pytest.mark.slow(reason="quantizes from shards and from a cache")
def test_cached_and_sharded_ranges_give_the_same_model(tmp_path):
    model, data = written(tmp_path)
    quantized(tmp_path, data, "fresh")
    calibrate_to_file(model, data, tmp_path / "whole")
    shards = [tmp_path / "1", tmp_path / "2"]
    for number, path in enumerate(shards, 1):
        calibrate_to_file(model, data, path, place=CalibrationPlace(shard=Shard(number, 2)))
    merge_to_file(shards, tmp_path / "merged")
    for name in ("whole", "merged"):
        assert DOMINANT_LAYER in {step.step for step in read_ranges(tmp_path / name).record.preparation}
        report = quantized(tmp_path, CachedRanges(path=tmp_path / name), name)
        assert "dfl" in reasons(report)
        assert (tmp_path / f"{name}.onnx").read_bytes() == (tmp_path / "fresh.onnx").read_bytes()
    assert reasons(quantized(tmp_path, CachedRanges(path=tmp_path / "whole"), "all", float_layer=False)) == {}


def network() -> tuple[ModelIndex, list[Layer]]:
    """The four Convs as session with one pair each: the first and the last are small."""
    index = ModelIndex.of(Model(distances()))
    convs = [node for node in index.view.nodes() if node.op_type == "Conv"]
    return index, [Layer((node,), (number,)) for number, node in enumerate(convs)]


def measured(alone: list[np.ndarray], off: Setting) -> Noise:
    """The sum of the noise of the layers that are on, on a quiet and a loud output."""
    whole = sum((noise for number, noise in enumerate(alone) if number not in off), np.zeros(8)) + 1e-9
    return Noise(np.full((len(whole), 2), [100.0, 1e6]), np.stack([whole, whole], axis=1))


EVEN, LOUD = np.ones(8), np.full(8, 9.0)
ONE_SAMPLE = np.array([1000.0, *[0.0] * 7])


@pytest.mark.parametrize(
    ("alone", "found"),
    [
        ([EVEN, EVEN, EVEN, LOUD], ("boxes", 0.75)),
        ([EVEN, EVEN, EVEN, EVEN], None),
        # The layers that make most of the noise are large.
        ([EVEN, LOUD, EVEN, EVEN], None),
        ([EVEN, EVEN, LOUD * 9, LOUD], None),
        # It gains much on one sample, and nothing on the others.
        ([EVEN, EVEN, EVEN, ONE_SAMPLE], None),
    ],
)
def test_a_layer_is_found_where_it_is_small_and_makes_more_noise_than_all_others(alone, found):
    index, layers = network()

    def measure(off: Setting, samples: Sequence[int]) -> Noise:
        return measured(alone, off).of(samples=samples)

    layer = find_dominant_layer(layers, index, measured(alone, {}), measure)
    assert (layer and (layer.nodes[0][1][0], layer.noise_share)) == found


def test_halves_are_run_on_the_median_sample_of_those_that_have_a_signal():
    noise = np.array([[5.0, 1], [1, 1], [9, 1], [0, 1], [3, 1]])
    signal = np.array([[1.0, 1], [1, 1], [1, 1], [0, 1], [10, 1]])
    index, layers = network()
    asked = []

    def measure(_: Setting, samples: Sequence[int]) -> Noise:
        asked.extend(samples)
        return Noise(signal, noise).of(samples=samples)

    # The ratios of noise to signal at the first output, the worst one, are 5, 1, 9, none and 0.3.
    assert find_dominant_layer(layers, index, Noise(signal, noise), measure) is None
    assert asked == [0]


def test_no_setting_is_measured_twice(monkeypatch):
    monkeypatch.setattr(dominant_layer, "LARGEST_SHARE", 1.0)
    index, layers = network()
    asked = []

    def measure(off: Setting, samples: Sequence[int]) -> Noise:
        asked.append((frozenset(off), len(samples)))
        return measured([EVEN, EVEN, EVEN, LOUD], off).of(samples=samples)

    assert find_dominant_layer(layers, index, measured([EVEN, EVEN, EVEN, LOUD], {}), measure) is not None
    # All, and two halves, twice, on one sample; then the layer that is left on all samples.
    assert len(asked) == len(set(asked)) == 6
    assert [samples for _, samples in asked] == [1, 1, 1, 1, 1, 8]


def test_a_recipe_without_a_record_stays_as_it_is():
    recipe = Recipe()
    assert with_dominant_in_float(recipe, ()) is recipe
