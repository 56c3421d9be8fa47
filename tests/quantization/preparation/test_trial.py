"""Rescaling channels is kept where the quantized model measurably gains by it, and left with the figures elsewhere."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from support.paths import ROOT
from support.small import make_model, nodes_of

from qdqtool.cli import command
from qdqtool.errors import CapabilityError
from qdqtool.jobs.calibrate import CalibrationPlace, calibrate, calibrate_to_file
from qdqtool.jobs.convert_ranges import convert_ranges
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.io.tensors import is_pending, nbytes, payload_of
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import QuantPlan
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.transforms.specialize import specialize
from qdqtool.quantization.calibration_report import Trial, TrialOutput
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.trial import decide
from qdqtool.quantization.ranges.file import read_ranges
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import PreparationStep
from qdqtool.samples.request import RandomData, open_feeds

SAMPLE = ROOT / "sample_models" / "digits_depthwise"
SAMPLES = 32
"""Two chunks, so that two shards have one each."""

ALL_SEEN = 12
"""Samples of which none is left out when channels are looked at, nor in a trial."""


def misjudged() -> onnx.ModelProto:
    """Two products, of whose 24 results only the last four are returned, by a Gather that no estimate looks behind.

    Those four read four channels of their own, with weights a thousandth of the others: the others are what is expected
    to gain, and these four pay for it.
    """
    rng = np.random.default_rng(0)
    second = rng.normal(size=(16, 24)).astype(np.float32)
    second[12:, :20] = 0
    second[:12, 20:] = 0
    second[12:, 20:] /= 1000
    weights = {
        "first": np.diag(np.append(np.exp2(rng.uniform(-3, 3, 12)), [8] * 4)).astype(np.float32),
        "second": second,
        "last": np.arange(20, 24),
    }
    nodes = nodes_of("""[one] h = MatMul (x, first)  [relu] r = Relu (h)  [two] all = MatMul (r, second)
        [pick] y = Gather <axis = -1> (all, last)""")
    return make_model(nodes, {"x": ("N", 64, 16)}, {"y": ("N", 64, 4)}, weights)


def written(folder: Path, samples: int) -> tuple[Path, Path]:
    """That model, and samples of 64 rows."""
    onnx.save(misjudged(), folder / "m.onnx")
    np.savez(folder / "d.npz", x=np.random.default_rng(1).uniform(0, 1, (samples, 64, 16)).astype(np.float32))
    return folder / "m.onnx", folder / "d.npz"


@pytest.fixture
def hurt(tmp_path: Path) -> tuple[Path, Path]:
    return written(tmp_path, SAMPLES)


def energies(float_path: Path, quantized_path: Path, feeds: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Signal and noise of every output on every sample, ``[samples, outputs, 2]``, from unoptimized ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    one, two = (
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for path in (float_path, quantized_path)
    )
    runs = [(one.run(None, sample), two.run(None, sample)) for sample in feeds]
    return np.array(
        [
            [
                (np.sum(before.astype(np.float64) ** 2), np.sum((before.astype(np.float64) - after) ** 2))
                for before, after in zip(*run, strict=True)
            ]
            for run in runs
        ]
    )


def sqnrs(float_path: Path, quantized_path: Path, feeds: list[dict[str, np.ndarray]]) -> list[float]:
    """Of every output in dB."""
    return [in_db(found) for found in energies(float_path, quantized_path, feeds).sum(axis=0)]


def in_db(energy: np.ndarray) -> float:
    """The SQNR of signal and noise."""
    signal, noise = energy
    return float(10 * np.log10(signal / noise))


def sqnr(float_path: Path, quantized_path: Path, feeds: list[dict[str, np.ndarray]]) -> float:
    """Of the only output."""
    (found,) = sqnrs(float_path, quantized_path, feeds)
    return found


def quantized(
    model: Path, data: Path, output: Path, *, equalize: bool = True, method: str = "max", validation: Path | None = None
) -> QuantizeReport:
    recipe = Recipe(method=method, preparation=Preparation(equalize=equalize))
    return quantize_model(model, data, output, QuantizeOptions(recipe=recipe, validation_data=validation))


def equalization(report: QuantizeReport):
    (found,) = (step for step in report.preparation if step.step == "equalization")
    return found


def test_where_the_outputs_would_lose_the_model_is_left_as_it_is(tmp_path, monkeypatch):
    model, data = written(tmp_path, ALL_SEEN)
    step = equalization(quantized(model, data, tmp_path / "left.onnx"))
    assert step.sites
    assert not step.applied
    quantized(model, data, tmp_path / "plain.onnx", equalize=False)
    assert (tmp_path / "left.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes()
    monkeypatch.setattr("qdqtool.quantization.preparation.prepare._run_trial", lambda *_: None)
    assert equalization(quantized(model, data, tmp_path / "forced.onnx")).applied
    feeds = [{"x": sample[np.newaxis]} for sample in np.load(data)["x"]]
    without, forced = (sqnr(model, tmp_path / f"{name}.onnx", feeds) for name in ("plain", "forced"))
    assert forced < without - 10
    (output,) = step.trial.outputs
    assert step.trial.samples == ALL_SEEN - 4
    # Ranges of the trial come from every other sample, and so do the factors.
    assert output.without_db == pytest.approx(without, abs=0.5)
    assert output.with_db == pytest.approx(forced, abs=0.5)


@pytest.mark.slow(reason="trials of preparation")
def test_where_the_outputs_gain_it_is_made(tmp_path):
    model, data = SAMPLE / "uneven.onnx", SAMPLE / "calibration.npz"
    step = equalization(quantized(model, data, tmp_path / "with.onnx"))
    assert step.applied
    quantized(model, data, tmp_path / "without.onnx", equalize=False)
    images = np.load(data)["image"][:, np.newaxis]
    feeds = [{"image": image} for image in images[: step.trial.samples]]
    found = {name: sqnr(model, tmp_path / f"{name}.onnx", feeds) for name in ("with", "without")}
    (output,) = step.trial.outputs
    assert found["with"] > found["without"] + 20
    assert output.without_db == pytest.approx(found["without"], abs=2)
    assert output.with_db > output.without_db + 20


def test_a_trial_measures_what_the_written_model_does(tmp_path):
    """Few samples, `max`, and no pairs but on products: models calibrated on every other sample, run on the rest."""
    rng = np.random.default_rng(3)
    factors = np.exp2(rng.uniform(-4, 4, 32))
    weights = {
        "v": (rng.normal(size=(16, 32)) * factors).astype(np.float32),
        "w": (rng.normal(size=(32, 16)) / factors[:, np.newaxis]).astype(np.float32),
    }
    nodes = nodes_of("h = MatMul (x, v)  r = Relu (h)  y = MatMul (r, w)")
    model = tmp_path / "m.onnx"
    onnx.save(make_model(nodes, {"x": (1, 16)}, {"y": (1, 16)}, weights), model)
    x = rng.normal(size=(8, 16)).astype(np.float32)
    data, half = tmp_path / "d.npz", tmp_path / "half.npz"
    np.savez(data, x=x)
    # With validation data, all samples choose.
    (output,) = (step := equalization(quantized(model, data, tmp_path / "whole.onnx", validation=data))).trial.outputs
    found = {True: [], False: []}
    for fold in (0, 1):
        np.savez(half, x=x[fold::2])
        feeds = [{"x": row[np.newaxis]} for row in x[1 - fold :: 2]]
        for equalize, each in found.items():
            quantized(model, half, tmp_path / "half.onnx", equalize=equalize, validation=data)
            each.extend(energies(model, tmp_path / "half.onnx", feeds)[:, 0])
    assert step.trial.samples == len(found[True]) == 8
    # The share of the unevenness that moves, and the means that correct biases, are those of all samples.
    assert output.with_db == pytest.approx(in_db(np.sum(found[True], axis=0)), abs=1)
    assert output.without_db == pytest.approx(in_db(np.sum(found[False], axis=0)), abs=0.7)
    gains = [in_db(after) - in_db(before) for after, before in zip(found[True], found[False], strict=True)]
    assert step.trial.sample_gain_db == pytest.approx(np.mean(gains), abs=1)
    assert step.trial.gain_error_db == pytest.approx(np.std(gains, ddof=1) / np.sqrt(8), abs=0.4)


@pytest.mark.slow(reason="prepares and calibrates twice")
@pytest.mark.parametrize("which", ["left", "made"])
def test_every_shard_decides_alike(which, hurt):
    model, data = hurt if which == "left" else (SAMPLE / "uneven.onnx", SAMPLE / "calibration.npz")
    whole = calibrate(model, data).record.preparation
    trials = [step.trial for step in whole]
    assert [trial.kept for trial in trials if trial is not None] == [which == "made"]
    for number in (1, 2):
        part = calibrate(model, data, place=CalibrationPlace(shard=Shard(number, 2))).record.preparation
        assert part == whole
        assert [step.trial for step in part] == trials


def test_steps_that_made_the_same_change_are_the_same_whatever_was_measured():
    """So shards that ran on different machines are joined."""
    measured, elsewhere = (
        PreparationStep("equalization", {"joints": []}, Trial(samples=3, kept=True, outputs=(output,)))
        for output in (
            TrialOutput(name="y", without_db=20.0, with_db=30.0),
            TrialOutput(name="y", without_db=20.01, with_db=30.0),
        )
    )
    assert measured == elsewhere
    assert measured != PreparationStep("equalization", {"joints": [1]}, measured.trial)


def test_a_ranges_file_keeps_what_was_measured(hurt, tmp_path):
    model, data = hurt
    ranges = tmp_path / "r.json"
    calibrate_to_file(model, data, ranges)
    written = json.loads(ranges.read_text())["model"]["preparation"]
    assert [step["trial"]["kept"] for step in written if step["step"] == "equalization"] == [False]
    stored = next(step for step in read_ranges(ranges).record.preparation if step.step == "equalization")
    for asked in (Preparation(), Preparation(equalize=False)):  # nothing was made that the option forbids
        options = QuantizeOptions(recipe=Recipe(preparation=asked))
        report = quantize_model(model, CachedRanges(path=ranges), tmp_path / "q.onnx", options)
        assert equalization(report).trial == stored.trial
        assert not equalization(report).applied
    convert_ranges(ranges, tmp_path / "r.cache", to="tensorrt-cache")


def test_the_text_says_why(hurt, tmp_path):
    model, data = hurt
    arguments = [str(model), "--calib-data", str(data), "--output", str(tmp_path / "q.onnx")]
    text = CliRunner().invoke(command, ["quantize", *arguments]).stdout
    report = json.loads(CliRunner().invoke(command, ["quantize", *arguments, "--output-format", "json"]).stdout)
    (trial,) = (step["trial"] for step in report["preparation"] if step["step"] == "equalization")
    (output,) = trial["outputs"]
    figures = f"{output['without_db']:.1f} dB without, {output['with_db']:.1f} dB with (26 samples)"
    spread = f"gain for a sample {trial['sample_gain_db']:+.1f} ± {trial['gain_error_db']:.1f} dB"
    assert f"1 layer not equalized: measured SQNR {figures}; {spread}" in text


def errors(**noises: float) -> dict[str, AccumulatedError]:
    """Outputs of energy 1 with so much noise each."""
    return {
        name: AccumulatedError(elements=10, different=10, signal=1.0, noise=noise) for name, noise in noises.items()
    }


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ({"a": 1e-4}, {"a": 1e-5}, True),
        ({"a": 1e-4}, {"a": 2e-4}, False),
        ({"a": 1e-4}, {"a": 1e-4}, False),  # nothing is gained
        ({"a": 1e-4}, {"a": 0.9999e-4}, False),  # nor by a rounding
        ({"a": 1e-4, "b": 1e-4}, {"a": 1e-6, "b": 1.2e-4}, True),  # less than chance does to one of two
        ({"a": 1e-4, "b": 1e-4}, {"a": 1e-6, "b": 1.3e-4}, False),
        ({"a": 0.9, "b": 1e-7}, {"a": 0.8, "b": 1.2e-7}, False),  # a noisy output does not decide for a clean one
        ({"a": 0.0}, {"a": 1e-4}, False),
        ({"a": 1e-4}, {"a": 0.0}, True),
        ({"a": 0.0}, {"a": 1e-15}, False),  # below a rounding of float32: nothing is gained or lost
    ],
)
def test_a_verdict_weighs_outputs_by_what_they_lose_relative_to_themselves(before, after, kept):
    assert decide([errors(**before)], [errors(**after)]).kept == kept
    several = decide([errors(**before)] * 3, [errors(**after)] * 3)
    assert (several.kept, several.samples, several.gain_error_db) == (kept, 3, 0)


@pytest.mark.parametrize(
    ("falls", "kept"),
    [
        ([3.0], True),  # one sample has no spread
        ([3.0, 2.0, 4.0], True),
        ([9.0, 1.0, 1.0], True),
        ([9.0, 0.0, -0.5], False),
        ([3.0, 3.0, -9.0, 9.0], False),
        ([0.2, 0.3, 0.2, 0.3], True),
        ([0.02, 0.03, 0.02, 0.03], False),  # below the least gain
    ],
)
def test_a_gain_that_is_no_larger_than_its_standard_error_is_refused(falls, kept):
    # The noise over all samples is that of one more, which gains 0.06 dB: it does not decide alone.
    before = [*(errors(a=1e-6) for _ in falls), errors(a=1.0)]
    after = [*(errors(a=1e-6 * 10 ** (-fall / 10)) for fall in falls), errors(a=10**-0.006)]
    found, gains = decide(before, after), [*falls, 0.06]
    assert found.kept == kept
    assert found.sample_gain_db == pytest.approx(np.mean(gains), abs=0.006)
    assert found.gain_error_db == pytest.approx(np.std(gains, ddof=1) / np.sqrt(len(gains)), abs=0.006)


def test_noise_of_a_sample_below_one_rounding_of_the_mean_sample_counts_for_nothing():
    silent = {"a": AccumulatedError(elements=10, different=10, signal=0.0, noise=1e-20)}
    better = {"a": AccumulatedError(elements=10)}
    found = decide([errors(a=1e-4), silent], [errors(a=1e-4), better])
    assert (found.sample_gain_db, found.kept) == (0, False)


def test_how_large_an_output_is_does_not_matter():
    before, after = errors(a=1e-4), errors(a=1e-5)
    tiny = [{"a": replace(found["a"], signal=1e-30, noise=found["a"].noise * 1e-30)} for found in (before, after)]
    assert decide([before], [after]) == decide(tiny[:1], tiny[1:])
    zeros = [{"a": replace(found["a"], signal=0.0)} for found in (before, after)]
    assert decide(zeros[:1], zeros[1:]).kept
    assert not decide(zeros[1:], zeros[:1]).kept


def test_a_change_that_makes_values_infinite_is_refused():
    broken = {"a": replace(errors(a=1e-6)["a"], nonfinite_mismatches=1)}
    assert not decide([errors(a=1e-4)], [broken]).kept
    assert decide([broken], [errors(a=1e-4)]).kept


def test_without_float_outputs_what_is_expected_decides():
    assert decide([{}] * 3, [{}] * 3) == Trial(samples=3, kept=True, problem="the model has no float outputs")


def test_where_nothing_can_be_measured_the_report_says_so(tmp_path, monkeypatch):
    def refuse(*_):
        raise CapabilityError("no such kernel")

    monkeypatch.setattr("qdqtool.quantization.preparation.trial.open_session", refuse)
    step = equalization(quantized(SAMPLE / "uneven.onnx", SAMPLE / "calibration.npz", tmp_path / "q.onnx"))
    assert step.applied
    assert step.trial.problem == "no such kernel"


SHAPES = {
    "yunet_n_dynamic": {"input": (1, 3, 320, 320)},
    "silero_vad_16k_op15": {"input": (1, 576), "state": (2, 1, 128)},
}


@pytest.mark.real
def test_real_models_gain_on_noise_that_they_were_not_prepared_on(real_model, tmp_path):
    """Two of them lost as long as half of the unevenness was moved everywhere, and nothing was measured."""
    shapes = SHAPES.get(real_model.stem, {})
    fixed = specialize(load_model(real_model), shapes).model if shapes else load_model(real_model)
    save_model(fixed, tmp_path / "float.onnx")
    feeds = [dict(sample) for sample in open_feeds(fixed, RandomData(seed=5, samples=24))]
    found = []
    for equalize in (False, True):
        recipe = Recipe(input_shapes=shapes, preparation=Preparation(equalize=equalize))
        data = RandomData(seed=0, samples=16)
        quantize_model(real_model, data, tmp_path / "q.onnx", QuantizeOptions(recipe=recipe))
        found.append(np.mean(sqnrs(tmp_path / "float.onnx", tmp_path / "q.onnx", feeds)))
    assert found[1] > found[0] - 0.5


def largest_of_points() -> onnx.ModelProto:
    """A PointNet: layers on every point, and the largest value over all of them."""
    random = np.random.default_rng(4)
    weights = {
        "first": random.normal(size=(64, 3, 1)).astype(np.float32) * np.exp(random.normal(0, 1, (64, 1, 1))),
        "second": random.normal(size=(128, 64, 1)).astype(np.float32) / 8,
    }
    nodes = nodes_of(
        "a = Conv (x, first)  b = Relu (a)  c = Conv (b, second)  y = ReduceMax <axes = [2], keepdims = 0> (c)"
    )
    constants = {name: array.astype(np.float32) for name, array in weights.items()}
    return make_model(nodes, {"x": (1, 3, 256)}, {"y": (1, 128)}, constants)


def test_what_only_the_samples_that_made_it_praise_is_left_out(tmp_path):
    """Equalised, all channels end where the largest of few values lay; larger ones are clipped, and count here."""
    random = np.random.default_rng(5)
    onnx.save(largest_of_points(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=random.normal(size=(12, 1, 3, 256)).astype(np.float32))
    unseen = [{"x": random.normal(size=(1, 3, 256)).astype(np.float32)} for _ in range(16)]
    found = {}
    for equalize in (True, False):
        output = tmp_path / f"{equalize}.onnx"
        quantized(tmp_path / "m.onnx", tmp_path / "d.npz", output, equalize=equalize, method="auto")
        found[equalize] = sqnr(tmp_path / "m.onnx", output, unseen)
    assert found[True] > found[False] - 0.5


def test_every_model_that_is_tried_has_its_weights_in_a_file(tmp_path, monkeypatch):
    """Also the one that is changed as a part of the samples would have it: it is beside the other in memory."""
    tried: list[Model] = []

    def recorded(model: Model, plan: QuantPlan) -> object:
        tried.append(model)
        return apply_plan(model, plan)

    monkeypatch.setattr("qdqtool.quantization.preparation.trial.apply_plan", recorded)
    random = np.random.default_rng(5)
    onnx.save(largest_of_points(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=random.normal(size=(12, 1, 3, 256)).astype(np.float32))
    quantized(tmp_path / "m.onnx", tmp_path / "d.npz", tmp_path / "q.onnx", equalize=True, method="max")
    weights = [
        payload_of(model, tensor)
        for model in tried
        for tensor in model.proto.graph.initializer
        if nbytes(tensor) > 1 << 14 and is_pending(tensor)
    ]
    assert len(tried) == len(weights) == 4  # without the change, and with it, as each fold would have it
    assert all(payload.place is not None for payload in weights)
