"""The calibration method that the outputs of the quantized model gain by is chosen, in every way to quantize."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.small import make_model, run

from qdqtool.accuracy.layers.method_trial import LEAST_GAIN_DB, MIN_SAMPLES, decide_method, try_methods
from qdqtool.errors import CapabilityError, UsageError
from qdqtool.jobs.calibrate import CalibrationPlace, calibrate_to_file
from qdqtool.jobs.check import check_model
from qdqtool.jobs.convert_ranges import convert_ranges
from qdqtool.jobs.merge import merge_to_file
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.metadata import PREPARATION_KEY
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model
from qdqtool.numerics.noise import Noise
from qdqtool.quantization.calibration_report import MethodTrial
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.range_planner import RangePlanner
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.bias_correction import Means, correct_biases
from qdqtool.quantization.preparation.calibration import CalibrationRequest, calibrate_model, runs_for
from qdqtool.quantization.preparation.prepare import Prepared
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.file import read_ranges
from qdqtool.quantization.ranges.method_choice import METHOD_CHOICE
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.reports import json as as_json
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription
from qdqtool.samples.request import FileData
from qdqtool.samples.sample import Sample

AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False)
SAMPLES = 32
"""Two chunks, so that two shards have one each."""

CHOOSING = 26
"""Of these the rest is held out."""


def peaks() -> tuple[onnx.ModelProto, np.ndarray]:
    """The output reads only what lies above 10: 4 of the 4096 values of a sample, which auto clips for the others.

    So nothing should be clipped.
    """
    rng = np.random.default_rng(0)
    x = 2 * rng.normal(size=(SAMPLES, 64, 64)).astype(np.float32)
    for sample in x:
        sample.reshape(-1)[rng.choice(sample.size, 4, replace=False)] = np.linspace(11, 13, 4)
    weights = {"w": np.eye(64, dtype=np.float32), "ten": np.array([10], np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node("Sub", ["m", "ten"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    return make_model(nodes, {"x": ("N", 64, 64)}, {"y": ("N", 64, 64)}, weights), x


def unread() -> tuple[onnx.ModelProto, np.ndarray]:
    """Large values in a channel that the weight multiplies by 0: they should be clipped, and auto does not."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SAMPLES, 64, 64)).astype(np.float32)
    x[:, :, 1:4] *= 3
    # Steps of less than 16 between neighbours, else they would be strays.
    x[:2, :3, 0] = [100, 12, 40]
    weight = rng.normal(size=(64, 16)).astype(np.float32)
    weight[0] = 0
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    return make_model(nodes, {"x": ("N", 64, 64)}, {"y": ("N", 64, 16)}, {"w": weight}), x


def plain() -> tuple[onnx.ModelProto, np.ndarray]:
    """Two layers with biases on evenly spread values, far from 0: no method is better by much."""
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(16, 16)).astype(np.float32) for name in ("w", "v")}
    weights |= {name: rng.normal(size=16).astype(np.float32) for name in ("b", "c")}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["n"]),
        helper.make_node("Add", ["n", "c"], ["y"]),
    ]
    x = rng.uniform(1, 3, size=(SAMPLES, 16, 16)).astype(np.float32)
    return make_model(nodes, {"x": ("N", 16, 16)}, {"y": ("N", 16, 16)}, weights), x


ALL_CHOOSE = CalibrationRequest(hold_back=False, trial=try_methods)
SOME_CHOOSE = CalibrationRequest(trial=try_methods)
NETWORKS = {"peaks": peaks, "unread": unread, "plain": plain}


def written(folder: Path, name: str, samples: int = SAMPLES) -> tuple[Path, Path]:
    proto, x = NETWORKS[name]()
    onnx.save(proto, folder / "m.onnx")
    np.savez(folder / "d.npz", x=x[:samples])
    return folder / "m.onnx", folder / "d.npz"


def tried(
    folder: Path, name: str, samples: int = SAMPLES, scope: CalibrationRequest = SOME_CHOOSE
) -> MethodTrial | None:
    model, data = written(folder, name, samples)
    asked = Recipe(preparation=AS_IT_IS)
    with runs_for(asked) as runs:
        return calibrate_model(Model(onnx.load(model)), data, asked, runs, scope=scope).method_trial


def quantize(model: Path, source: object, output: Path, **recipe: object) -> QuantizeReport:
    return quantize_model(model, source, output, QuantizeOptions(recipe=Recipe(**recipe)))


def gains_by_hand(folder: Path, name: str, means: Means) -> dict[str, float]:
    """Quantize with the samples of each fold alone, and compare outputs on the others with those of the float model."""
    proto, x = NETWORKS[name]()
    signal, noise = [], {method: [] for method in calibrators.names()}
    for fold in range(2):
        np.savez(folder / "fold.npz", x=x[fold::2])
        judges = [x[number : number + 1] for number in range(SAMPLES) if number % 2 != fold]
        floats = [run(proto, {"x": sample})[0].astype(np.float64) for sample in judges]
        signal += [np.sum(a * a) for a in floats]
        for method, found in noise.items():
            quantized = quantized_by_hand(proto, folder / "fold.npz", method, means)
            outputs = [run(quantized, {"x": sample})[0] for sample in judges]
            found += [np.sum((a - b) ** 2) for a, b in zip(floats, outputs, strict=True)]
    assert min(signal) > 0
    return {
        method: 5 * np.log10(sum(noise["auto"]) / sum(found))
        + 5 * float(np.mean(np.log10(np.divide(noise["auto"], found))))
        for method, found in noise.items()
    }


def quantized_by_hand(proto: onnx.ModelProto, data: Path, method: str, means: Means) -> onnx.ModelProto:
    """The model with the scales of one method, and without a trial of methods."""
    recipe, index = Recipe(method=method, preparation=AS_IT_IS), ModelIndex.of(Model(proto))
    with runs_for(recipe) as runs:
        ranges = calibrate_model(index.model, data, recipe, runs, scope=CalibrationRequest(trial=None)).ranges
    plan = RangePlanner(recipe, ranges).plan(index).plan
    corrected = inlined(correct_biases(apply_plan(index.model, plan).model, index, plan, means).model)
    assert corrected is not None
    return corrected


@pytest.mark.parametrize(
    ("name", "chosen", "correct"),
    [("peaks", "max", False), ("unread", "percentile", False), ("plain", "auto", False), ("plain", "auto", True)],
)
def test_the_method_that_the_outputs_gain_by_is_chosen(name, chosen, correct, tmp_path):
    model, data = written(tmp_path, name)
    recipe = Recipe(preparation=replace(AS_IT_IS, bias_correction=correct))
    with runs_for(recipe) as runs:
        done = calibrate_model(Model(onnx.load(model)), data, recipe, runs, scope=ALL_CHOOSE)
    trial = done.method_trial
    assert (trial.method, trial.samples) == (chosen, SAMPLES)
    assert bool(done.prepared.means) == correct
    expected = gains_by_hand(tmp_path, name, done.prepared.means)
    assert trial.gains_db.keys() == expected.keys() == set(calibrators.names())
    best = max(expected.values())
    run = {method: gain for method, gain in expected.items() if gain >= best - 1.5 or method == "auto"}
    # Rounded to 0.01 dB; kernels that sum in another order move a value of the noise by one code here and there.
    assert {method: trial.gains_db[method] for method in run} == pytest.approx(run, abs=0.02)
    # What is far worse on a quarter of the samples is judged by these alone.
    assert all(trial.gains_db[method] < best - 1 for method in expected.keys() - run.keys())
    assert (max(expected.values()) > LEAST_GAIN_DB) == (chosen != "auto")


@pytest.mark.parametrize(("held", "scope"), [(0, ALL_CHOOSE), (4, SOME_CHOOSE)])
def test_few_samples_choose_nothing(held, scope, tmp_path):
    assert tried(tmp_path, "peaks", held + MIN_SAMPLES - 1, scope) is None
    found = tried(tmp_path, "peaks", held + MIN_SAMPLES, scope)
    assert found.samples == MIN_SAMPLES


def test_large_models_are_tried_on_fewer_samples(tmp_path, monkeypatch):
    # A run of the float model returns y, of 4096 values.
    monkeypatch.setattr("qdqtool.accuracy.layers.method_trial.ENOUGH_VALUES", 12 * 4096)
    found = tried(tmp_path, "peaks")
    assert found.samples == 12


@pytest.mark.parametrize("method", ["max", "mse"])
def test_a_method_of_the_user_is_taken_as_it_is(method, tmp_path, monkeypatch):
    monkeypatch.setattr("qdqtool.jobs.quantize.try_methods", lambda *_: pytest.fail("tried"))
    model, data = written(tmp_path, "peaks")
    report = quantize(model, data, tmp_path / "q.onnx", method=method)
    assert (report.calibration.method, report.calibration.chosen, report.calibration.method_trial) == (method, "", None)


def test_a_model_whose_masked_form_does_not_run_is_quantized_with_auto(tmp_path, monkeypatch):
    def refused(*_: object) -> None:
        raise CapabilityError("not with switches")

    model, data = written(tmp_path, "peaks")
    tell = {"chosen": "max", "trial": True}
    first = quantize(model, data, tmp_path / "chosen.onnx").calibration
    assert {"chosen": first.chosen, "trial": first.method_trial is not None} == tell
    monkeypatch.setattr("qdqtool.accuracy.layers.method_trial.MaskedRuns", refused)
    second = quantize(model, data, tmp_path / "plain.onnx").calibration
    assert (second.chosen, second.method_trial) == ("auto", None)
    assert (tmp_path / "plain.onnx").read_bytes() != (tmp_path / "chosen.onnx").read_bytes()


def test_a_model_without_float_outputs_has_nothing_to_compare(tmp_path):
    proto, x = peaks()
    proto.graph.node.append(helper.make_node("ArgMax", ["y"], ["last"], axis=2))
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("last", TensorProto.INT64, ("N", 64, 1)))
    np.savez(tmp_path / "d.npz", x=x)
    recipe = Recipe(preparation=AS_IT_IS)
    with runs_for(recipe) as runs:
        assert calibrate_model(Model(proto), tmp_path / "d.npz", recipe, runs, scope=SOME_CHOOSE).method_trial is None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its data, and what one run makes of them: a ranges file and a quantized model."""
    folder = tmp_path_factory.mktemp("made")
    model, data = written(folder, "peaks")
    calibrate_to_file(model, data, folder / "r.json")
    quantize(model, data, folder / "q.onnx")
    return folder


def test_the_same_data_gives_the_same_model(made, tmp_path):
    report = quantize(made / "m.onnx", made / "d.npz", tmp_path / "again.onnx")
    assert report.calibration.chosen == "max"
    assert (tmp_path / "again.onnx").read_bytes() == (made / "q.onnx").read_bytes()


def test_the_chosen_method_gives_the_model_that_it_gives_when_it_is_asked_for(made, tmp_path):
    quantize(made / "m.onnx", made / "d.npz", tmp_path / "max.onnx", method="max")
    one, two = (onnx.load(path).graph for path in (tmp_path / "max.onnx", made / "q.onnx"))
    assert one == two


@pytest.mark.parametrize("data", [False, True])
def test_cached_ranges_give_the_same_model(made, tmp_path, data):
    request = FileData(path=made / "d.npz") if data else None
    report = quantize(made / "m.onnx", CachedRanges(path=made / "r.json", data=request), tmp_path / "cached.onnx")
    assert (report.calibration.chosen, report.calibration.method_trial) == ("max", None)
    assert onnx.load(tmp_path / "cached.onnx").graph == onnx.load(made / "q.onnx").graph


def test_shards_give_the_ranges_of_one_run(made, tmp_path):
    shards = [tmp_path / f"{number}.json" for number in (1, 2)]
    for number, path in enumerate(shards, 1):
        calibrate_to_file(made / "m.onnx", made / "d.npz", path, place=CalibrationPlace(shard=Shard(number, 2)))
    merge_to_file(shards, tmp_path / "merged.json")
    assert (tmp_path / "merged.json").read_bytes() == (made / "r.json").read_bytes()


def test_other_methods_leave_the_choice_of_a_ranges_file_aside(made, tmp_path):
    cache = CachedRanges(path=made / "r.json")
    report = quantize(made / "m.onnx", cache, tmp_path / "mse.onnx", method="mse")
    assert report.calibration.chosen == ""
    quantize(made / "m.onnx", made / "d.npz", tmp_path / "direct.onnx", method="mse")
    assert onnx.load(tmp_path / "mse.onnx").graph == onnx.load(tmp_path / "direct.onnx").graph
    assert onnx.load(tmp_path / "mse.onnx").graph != onnx.load(made / "q.onnx").graph


def test_the_ranges_file_keeps_the_choice(made):
    (step,) = [step for step in read_ranges(made / "r.json").record.preparation if step.step == METHOD_CHOICE]
    assert step.parameters == {"method": "max"}


@pytest.mark.parametrize("method", ["fastest", 3, None])
def test_a_choice_that_is_malformed_is_refused(made, tmp_path, method):
    content = json.loads((made / "r.json").read_text())
    (step,) = [step for step in content["model"]["preparation"] if step["step"] == METHOD_CHOICE]
    step["parameters"] = {} if method is None else {"method": method}
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=f"malformed step '{METHOD_CHOICE}': method {method!r}"):
        quantize(made / "m.onnx", CachedRanges(path=tmp_path / "bad.json"), tmp_path / "q.onnx")
    with pytest.raises(UsageError, match=f"malformed step '{METHOD_CHOICE}'"):
        convert_ranges(tmp_path / "bad.json", tmp_path / "c.cache", "tensorrt-cache")


def test_converted_ranges_are_those_of_the_chosen_method(made, tmp_path):
    convert_ranges(made / "r.json", tmp_path / "chosen.json", "ort-json")
    convert_ranges(made / "r.json", tmp_path / "max.json", "ort-json", method="max")
    convert_ranges(made / "r.json", tmp_path / "mse.json", "ort-json", method="mse")
    chosen, largest, other = ((tmp_path / f"{name}.json").read_text() for name in ("chosen", "max", "mse"))
    assert chosen == largest != other


def test_a_check_against_the_baseline_is_not_told_of_the_choice(made):
    notes = {entry.key: entry.value for entry in onnx.load(made / "q.onnx").metadata_props}
    assert METHOD_CHOICE not in notes.get(PREPARATION_KEY, "")
    report = check_model(made / "q.onnx", baseline=made / "m.onnx", data=made / "d.npz")
    assert report.passed


def test_reports_have_the_choice_and_the_gains(made, tmp_path):
    quantized = quantize(made / "m.onnx", made / "d.npz", tmp_path / "q.onnx")
    calibrated = calibrate_to_file(made / "m.onnx", made / "d.npz", tmp_path / "r.json")
    told = [json.loads(as_json.render(quantized))["calibration"], json.loads(as_json.render(calibrated))]
    for each in told:
        assert each["chosen"] == each["method_trial"]["method"] == "max"
        assert each["method_trial"]["gains_db"]["auto"] == 0
        assert each["method_trial"]["gains_db"]["max"] > 5
        assert each["method_trial"]["samples"] == CHOOSING


@pytest.mark.parametrize("taken", ["one fold takes it", "no sample takes it"])
def test_a_branch_that_one_fold_alone_takes_does_no_harm(taken):
    proto, x = peaks()
    rng = np.random.default_rng(1)
    branches = onnx.parser.parse_graph("""
        g (float[64,64] x, bool cond) => (float[64,64] z) {
            z = If (cond) <
                then_branch = t () => (float[64,64] t_y) { t_abs = Abs (x)  t_y = MatMul (t_abs, t_w) },
                else_branch = e () => (float[64,64] e_y) { e_abs = Abs (x)  e_y = MatMul (e_abs, e_w) }
            >
        }
    """)
    weights = [numpy_helper.from_array(rng.normal(size=(64, 64)).astype(np.float32), name) for name in ("t_w", "e_w")]
    proto.graph.initializer.extend(weights)
    proto.graph.node.extend(branches.node)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.CopyFrom(helper.make_tensor_value_info("", 1, (64, 64)).type.tensor_type.shape)
    proto.graph.input.append(helper.make_tensor_value_info("cond", TensorProto.BOOL, ()))
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (64, 64)))
    given = [
        Sample({"x": rows, "cond": np.array(number % 2 == 0 and taken == "one fold takes it")})
        for number, rows in enumerate(x)
    ]
    feeds = Feeds(given, DataDescription("", len(given), None, {}))
    recipe = Recipe(preparation=AS_IT_IS)
    with runs_for(recipe) as runs:
        tried = try_methods(Prepared(Model(proto)), recipe, feeds, runs)
    trial = tried.methods
    assert trial.method == "max"
    assert trial.samples == SAMPLES


def noise_of_gains(**gains: list[float]) -> dict[str, Noise]:
    """Noise of one output whose signal and noise with ``auto`` are 1 on each sample, by the gains of samples in dB."""
    count = max(len(each) for each in gains.values())
    levels = {"auto": [0.0] * count, **gains}
    return {
        method: Noise(np.ones((len(each), 1)), 10 ** (-np.array(each)[:, np.newaxis] / 10))
        for method, each in levels.items()
    }


@pytest.mark.parametrize(
    ("gains", "chosen"),
    [
        ({"max": [1.0] * 8}, "max"),
        ({"max": [0.4] * 8}, "auto"),
        # The mean is 2 dB, and one sample makes it.
        ({"max": [40.0, *[-0.5] * 15]}, "auto"),
        ({"max": [2.0, 0.0] * 4}, "max"),
        # Both gain, and the best one of them not for sure more than mse.
        ({"percentile": [2.0, 0.0] * 4, "mse": [0.8] * 8}, "mse"),
        ({"percentile": [2.0, 0.0] * 4, "max": [0.8] * 8}, "percentile"),
        ({"percentile": [2.0, 0.0] * 4, "mse": [0.3] * 8}, "percentile"),
        ({"max": [0.6] * 16, "mse": [40.0, *[-0.5] * 15]}, "max"),
        # The best one may be chance, the second one is not.
        ({"percentile": [30.0, *[-0.5] * 9], "max": [0.6] * 10}, "max"),
        # Hopeless on the first samples: not run on the others.
        ({"max": [1.0] * 8, "entropy": [-20.0] * 2}, "max"),
    ],
)
def test_a_method_is_taken_where_its_gain_is_more_than_chance(gains, chosen):
    trial = decide_method(noise_of_gains(**gains))
    assert trial.method == chosen
    assert trial.gains_db.keys() == trial.errors_db.keys() == {"auto", *gains}
    assert (trial.gains_db["auto"], trial.errors_db["auto"]) == (0, 0)


def test_no_method_is_decided_without_samples():
    assert decide_method({"auto": Noise(np.ones((0, 1)), np.ones((0, 1)))}) is None
