"""Steps are taken where they are proven to change nothing, and taken again from a ranges file without a run."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.paths import ROOT
from support.small import conv_model, make_model, nodes_of, run

from qdqtool.errors import UsageError
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.running.ort_cpu import Session
from qdqtool.quantization.calibration_report import GATE_LIMIT, Site
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.gate import largest_difference
from qdqtool.quantization.preparation.prepare import Prepared, prepare, prepare_as_recorded
from qdqtool.quantization.preparation.step import PreparationMethod, ProposedChange, StepRequest
from qdqtool.quantization.preparation.steps.equalization import EqualizationStep
from qdqtool.quantization.ranges.types import PreparationStep
from qdqtool.quantization.statistics.channel_statistics import ChannelData
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.request import open_feeds

SAMPLE = ROOT / "sample_models" / "digits_depthwise"


def uneven(read: float = 1 / 64) -> onnx.ModelProto:
    """Conv, Relu, Conv whose second channel is 64 times as large as the others between the two, and read by a share."""
    proto = conv_model()
    weights = {tensor.name: tensor for tensor in proto.graph.initializer}
    for name, axis, factor in (("w", 0, 64), ("b", 0, 64), ("v", 1, read)):
        values = numpy_helper.to_array(weights[name]).copy()
        np.moveaxis(values, axis, 0)[1] *= np.float32(factor)
        weights[name].CopyFrom(numpy_helper.from_array(values, name))
    return proto


def prepared(model: Model, data: Path, **preparation: object) -> Prepared:
    return prepare(model, open_feeds(model, data), FloatRuns(), StepRequest(Preparation(**preparation)))


def test_uneven_channels_are_found_evened_out_and_reported(data):
    done = prepared(Model(uneven()), data)
    assert [report.step for report in done.reports if report.sites] == ["equalization"]
    (equalization,) = (report for report in done.reports if report.step == "equalization")
    assert [site.name for site in equalization.sites] == ["c"]
    assert equalization.sites[0].note.startswith("expected noise -")
    assert equalization.applied
    assert equalization.max_difference <= GATE_LIMIT
    assert [step.step for step in done.record] == ["equalization", "bias-correction"]


def test_random_inputs_move_less_unevenness_than_the_same_values_as_data(data):
    """Ranges of random inputs are not those of real ones."""
    model, spreads = Model(uneven(read=1 / 8)), []
    feeds = open_feeds(model, data)
    for seed in (None, 0):
        given = replace(feeds, description=replace(feeds.description, seed=seed))
        done = prepare(model, given, FloatRuns(), StepRequest(Preparation()))
        (joint,) = next(step for step in done.record if step.step == "equalization").parameters["joints"]
        spreads.append(max(joint["factors"]) / min(joint["factors"]))
    assert spreads[0] > 1.5 * spreads[1] > 1.5


def test_what_is_recorded_gives_the_same_model_again(data):
    model = Model(uneven())
    done = prepared(model, data)
    stored = [PreparationStep(made.step, json.loads(json.dumps(made.parameters))) for made in done.record]
    again = prepare_as_recorded(model, stored)
    assert again.model.proto == done.model.proto
    for key, payload in done.model.payloads.items():
        assert again.model.payloads[key].make() == payload.make()
    assert [report.step for report in again.reports] == ["equalization"]


def test_an_evened_out_model_computes_the_same(data, tmp_path):
    path = str(save_model(prepared(Model(uneven()), data).model, tmp_path / "even.onnx").model)
    feeds = {"x": np.load(data)["x"][:1]}
    (before,), (after,) = run(uneven(), feeds), run(path, feeds)
    assert np.abs(before - after).max() <= 1e-5 * np.abs(before).max()


def test_nothing_is_asked_nothing_is_done(data):
    model = Model(uneven())
    done = prepared(model, data, equalize=False, smoothquant=None, bias_correction=False)
    assert done.model is model
    assert done.record == ()


class _Harm(PreparationMethod):
    """A step that doubles a weight."""

    name = "harm"

    def replay(self, model, parameters):
        del parameters
        changed = onnx.ModelProto()
        changed.CopyFrom(model.proto)
        weight = changed.graph.initializer[0]
        weight.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(weight), weight.name))
        return ProposedChange(model=Model(changed), done=(Site(name="w", graph="", note="doubled"),))


def test_a_step_that_changes_an_output_is_refused_and_reported(data, monkeypatch):
    monkeypatch.setattr("qdqtool.quantization.preparation.prepare.asked_steps", lambda _: (_Harm(),))
    model = Model(conv_model())
    done = prepared(model, data, bias_correction=False)
    (report,) = done.reports
    assert not report.applied
    assert report.max_difference > GATE_LIMIT
    assert done.model is model
    assert done.record == ()


class _HarmOrNothing(_Harm):
    def changes(self, model, data, request):
        yield from super().changes(model, data, request)
        yield ProposedChange(model=model, parameters={"twice": False}, done=(Site(name="w", graph="", note="kept"),))


def test_a_second_choice_is_taken_where_the_first_changes_an_output(data, monkeypatch):
    monkeypatch.setattr("qdqtool.quantization.preparation.prepare.asked_steps", lambda _: (_HarmOrNothing(),))
    done = prepared(Model(conv_model()), data, bias_correction=False)
    (report,) = done.reports
    assert report.applied
    assert report.max_difference == 0
    assert report.sites[0].note == "kept"
    assert done.record == (PreparationStep("harm", {"twice": False}),)


def test_the_second_choice_of_equalization_changes_no_bit(data):
    model = Model(uneven())
    channels = ChannelData(open_feeds(model, data), FloatRuns())
    _, exact = EqualizationStep().changes(model, channels, StepRequest(Preparation()))
    factors = [factor for point in exact.parameters["joints"] for factor in point["factors"]]
    assert all(np.frexp(factor)[0] == 0.5 for factor in factors)
    assert len(set(factors)) > 1
    sample = {"x": np.load(data)["x"][:1]}
    with Session(model) as before, Session(exact.model) as after:
        assert np.array_equal(before.run(sample)["y"], after.run(sample)["y"])


def test_differences_are_relative_to_the_largest_output_of_all_runs():
    expected = [{"y": np.array([1.0])}, {"y": np.array([4.0])}]
    assert largest_difference(expected, [{"y": np.array([1.5])}, {"y": np.array([4.0])}]) == 0.125
    assert largest_difference(expected, [{"y": np.array([np.nan])}, {"y": np.array([4.0])}]) == np.inf
    assert largest_difference(expected, [{"y": np.array([1.0, 2.0])}, {"y": np.array([4.0])}]) == np.inf
    zeros = [{"y": np.zeros(2)}]
    assert largest_difference(zeros, zeros) == 0
    masked = [{"y": np.array([2.0, -np.inf, np.nan])}]
    assert largest_difference(masked, [{"y": np.array([2.5, -np.inf, np.nan])}]) == 0.25
    assert largest_difference(masked, [{"y": np.array([2.0, np.inf, np.nan])}]) == np.inf
    assert largest_difference(zeros, [{"y": np.array([0, 1e-9])}]) == np.inf


def joints(*factors: float, tensor: str = "c") -> dict[str, object]:
    return {"joints": [{"tensor": tensor, "scope": [], "factors": factors}]}


@pytest.mark.parametrize(
    ("step", "parameters", "message"),
    [
        ("equalization", {}, "malformed parameters of step 'equalization'"),
        ("equalization", joints(1.0, 0.0, 1.0, 1.0), "malformed parameters"),
        ("equalization", joints(1.0, 1e99, 1.0, 1.0), "malformed parameters"),
        ("equalization", joints(1.0), "scale the 1 channels of tensor 'c'"),
        ("equalization", joints(1.0, 1.0, 1.0, 1.0, tensor="q"), "no such tensor"),
        ("equalization", {"joints": joints(1.0, 1.0, 1.0, 1.0)["joints"] * 2}, "no such tensor"),
        ("polish", {}, "after step 'polish', which this qdqtool does not know"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(step, parameters, message):
    with pytest.raises(UsageError, match=message):
        prepare_as_recorded(Model(conv_model()), [PreparationStep(step, parameters)])


def test_options_that_contradict_the_record_are_refused(data, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(uneven(), path)
    calibrate_to_file(path, data, tmp_path / "r.json")
    cache = CachedRanges(path=tmp_path / "r.json")
    for asked, message in (
        (Preparation(equalize=False), "but --no-equalize is given"),
        (Preparation(smoothquant=0.5), "without the step that --smoothquant asks for"),
    ):
        with pytest.raises(UsageError, match=message):
            quantize_model(path, cache, tmp_path / "q.onnx", QuantizeOptions(recipe=Recipe(preparation=asked)))


@pytest.mark.slow(reason="prepares and calibrates twice")
@pytest.mark.parametrize("name", ["model", "uneven"])
def test_calibrating_first_gives_the_same_bytes_as_one_step(name, tmp_path):
    path, images = SAMPLE / f"{name}.onnx", SAMPLE / "calibration.npz"
    quantize_model(path, images, tmp_path / "one.onnx")
    calibrate_to_file(path, images, tmp_path / "r.json")
    quantize_model(path, CachedRanges(path=tmp_path / "r.json"), tmp_path / "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def outliers(seed: int = 0) -> onnx.ModelProto:
    """x -> LayerNormalization, two of whose channels are 60 times the others -> MatMul."""
    rng = np.random.default_rng(seed)
    scale = np.ones(32, np.float32)
    scale[[3, 17]] = 60
    weights = {
        "scale": scale,
        "shift": rng.normal(size=32).astype(np.float32),
        "w": rng.normal(size=(32, 48)).astype(np.float32),
    }
    weights["w"][[3, 17]] /= 60
    nodes = nodes_of("[norm] n = LayerNormalization (x, scale, shift)  [product] y = MatMul (n, w)")
    return make_model(nodes, {"x": ("N", 16, 32)}, {"y": ("N", 16, 48)}, weights)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with that model and data for it."""
    onnx.save(outliers(), tmp_path / "m.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(3).normal(size=(8, 16, 32)).astype(np.float32))
    return tmp_path


@pytest.mark.parametrize("alpha", [0.5, "auto"])
def test_smoothquant_takes_outlier_channels_down(alpha, folder):
    found = {}
    for asked in (None, alpha):
        options = QuantizeOptions(recipe=Recipe(preparation=Preparation(smoothquant=asked)))
        report = quantize_model(folder / "m.onnx", folder / "data.npz", folder / "q.onnx", options)
        found[asked] = report.accuracy.outputs[0].sqnr_db
    (step,) = (step for step in report.preparation if step.step == "smoothquant")
    assert step.applied
    assert [site.name for site in step.sites] == ["n"]
    assert found[alpha] > found[None] + 10


def test_ranges_of_a_smoothed_model_are_refused_where_smoothing_is_off(folder):
    calibrate_to_file(folder / "m.onnx", folder / "data.npz", folder / "r.json")
    cache = CachedRanges(path=folder / "r.json")
    assert quantize_model(folder / "m.onnx", cache, folder / "q.onnx").preparation[0].step == "smoothquant"
    options = QuantizeOptions(recipe=Recipe(preparation=Preparation(smoothquant=None)))
    with pytest.raises(UsageError, match="but --smoothquant off is given"):
        quantize_model(folder / "m.onnx", cache, folder / "q.onnx", options)


def test_a_search_leaves_alone_what_is_better_as_it_is(tmp_path):
    """All channels alike, and weights too: nothing to gain."""
    signs = np.sign(np.random.default_rng(1).normal(size=(32, 48)))
    even = {"scale": np.ones(32), "shift": np.zeros(32), "w": signs}
    proto = outliers()
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(even[tensor.name].astype(np.float32), tensor.name))
    half = np.tile([-1.0, 1.0], 16)
    rows = np.random.default_rng(2).permuted(np.tile(half, (8, 16, 1)), axis=-1).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=rows)
    done = prepared(Model(proto), tmp_path / "data.npz", smoothquant="auto")
    (report,) = (report for report in done.reports if report.step == "smoothquant")
    assert not report.sites
    assert [(site.name, site.note) for site in report.left] == [("n", "no alpha lowers its noise")]
