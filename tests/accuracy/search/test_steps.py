"""The accuracy that quantize prints is that of samples with which nothing was chosen; models are validated."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support import layered
from support.paths import ROOT
from support.small import make_model

from qdqtool.accuracy.search import steps
from qdqtool.accuracy.search.steps import require_valid
from qdqtool.errors import GateError, ModelError, UsageError
from qdqtool.jobs.calibrate import CalibrationPlace, calibrate, calibrate_to_file
from qdqtool.jobs.merge import merge_to_file
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.linting import rules
from qdqtool.models.graph.model import Model
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.insertion import apply_plan
from qdqtool.quantization.planning.options import HighPrecision, Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.checkpoint import Interrupted
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.samples.request import FileData
from qdqtool.samples.split import NOT_RECORDED, SAME_DATA, TOO_FEW, split_samples

COUNT = 40
SPLIT = split_samples(COUNT)
AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False)
MAX = Recipe(method="max", preparation=AS_IT_IS)


def layers(size: int = 32) -> onnx.ModelProto:
    """Two products with a Relu between them."""
    random = np.random.default_rng(4)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    weights = {name: random.normal(size=(size, size)).astype(np.float32) for name in "wv"}
    return make_model(nodes, {"x": (1, size)}, {"y": (1, size)}, weights)


def samples(largest: float = 8.0, count: int = COUNT, size: int = 32) -> Array:
    """Samples of which those that are held back are larger by a factor than all others."""
    x = np.random.default_rng(5).normal(size=(count, size)).astype(np.float32)
    x[list(split_samples(count).held)] *= np.float32(largest)
    return x


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(layers(), tmp_path / "m.onnx")
    saved(tmp_path / "d.npz", samples())
    return tmp_path


def saved(path: Path, x: Array) -> Path:
    np.savez(path, x=x)
    return path


def quantized(folder: Path, name: str = "q.onnx", data: str = "d.npz", **options: object) -> QuantizeReport:
    wanted = QuantizeOptions(**{"recipe": MAX, **options})
    return quantize_model(folder / "m.onnx", folder / data, folder / name, wanted)


def sqnr(folder: Path, name: str, x: Array) -> float:
    """The SQNR of a model in ONNX Runtime, without optimizations as in the reference session."""
    given = [{"x": row[None]} for row in x]
    return layered.sqnr(*(layered.outputs(folder / file, given) for file in ("m.onnx", name)))[0]


def printed(report: QuantizeReport) -> float:
    (output,) = report.accuracy.outputs
    assert output.sqnr_db is not None
    return output.sqnr_db


# --- ranges ---


def test_what_is_printed_is_the_accuracy_on_held_back_samples_with_ranges_of_the_others(folder):
    """The model of the other samples alone is made by hand: by a run over them that holds nothing back."""
    x, held, choosing = samples(), list(SPLIT.held), list(SPLIT.choosing)
    report = quantized(folder)
    assert (report.accuracy.samples, report.accuracy.held_back, report.accuracy.refitted) == (8, True, True)
    saved(folder / "choosing.npz", x[choosing])
    saved(folder / "held.npz", x[held])
    quantized(folder, "rehearsal.onnx", "choosing.npz", validation_data=folder / "held.npz")
    assert printed(report) == round(sqnr(folder, "rehearsal.onnx", x[held]), 4)
    # The written model knows the large values: on them, it looks better than on any other data of that kind.
    assert printed(report) < sqnr(folder, "q.onnx", x[held]) - 10
    assert printed(report) < sqnr(folder, "rehearsal.onnx", x[choosing]) - 10


def test_the_written_model_has_the_ranges_of_all_samples(folder):
    quantized(folder)
    proto = onnx.load(folder / "q.onnx")
    scale_name = next(n.input[1] for n in proto.graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "x")
    scale = next(onnx.numpy_helper.to_array(t) for t in proto.graph.initializer if t.name == scale_name)
    assert scale == np.abs(samples()).max() / np.float32(127)


def test_the_pairs_that_lose_most_are_those_of_the_measured_model(folder):
    """x is clipped at the largest of the other samples; its own loss follows from that scale."""
    x = samples()
    report = quantized(folder)
    scale = np.float32(np.abs(x[list(SPLIT.choosing)]).max()) / np.float32(127)
    held = x[list(SPLIT.held)]
    lost = held - np.clip(np.rint(held / scale), -128, 127) * scale
    expected = 10 * np.log10(np.sum(np.float64(held) ** 2) / np.sum(np.float64(lost) ** 2))
    assert {each.tensor: each.sqnr_db for each in report.accuracy.worst}["x"] == pytest.approx(expected, abs=1e-3)


def test_activations_that_become_zero_are_those_of_the_written_model(folder):
    """One held-back value of 1e6 gives the written model a scale that rounds all others to 0, not the rehearsal."""
    x = samples(1.0)
    x[SPLIT.held[0], 0] = 1e6
    saved(folder / "d.npz", x)
    report = quantized(folder)
    (lost,) = (each for each in report.accuracy.zeroed if each.tensor == "x")
    assert lost.scale == np.float32(1e6) / np.float32(127)
    assert "x" in {each.tensor for each in report.degenerate if each.condition == "strays"}


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """The plans that were carried out."""
    done: list[object] = []

    def recorded(*arguments: object) -> object:
        done.append(arguments[1])
        return apply_plan.apply_plan(*arguments)

    monkeypatch.setattr(steps, "apply_plan", recorded)
    return done


@pytest.mark.parametrize(("largest", "models"), [(8.0, 2), (0.1, 1)])
def test_a_second_model_is_made_only_where_its_scales_differ(largest, models, folder, carried):
    """Held-back samples that are smaller than the others change no range."""
    saved(folder / "d.npz", samples(largest))
    report = quantized(folder)
    assert (len(carried), report.accuracy.refitted) == (models, models == 2)
    assert report.accuracy.held_back


@pytest.mark.parametrize(("high", "models"), [(HighPrecision.FP32, 1), (HighPrecision.FP16, 2)])
def test_equal_scales_are_no_equal_model_where_ranges_decide_what_becomes_float16(high, models, tmp_path, carried):
    """The scale of a Softmax is known, its range is not."""
    nodes = [helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])]
    weights = {"w": np.random.default_rng(3).normal(size=(32, 32)).astype(np.float32)}
    onnx.save(make_model(nodes, {"x": (1, 32)}, {"y": (1, 32)}, weights, opset=19), tmp_path / "m.onnx")
    saved(tmp_path / "d.npz", samples())
    recipe = Recipe(quantize_mode="fp8", method="max", preparation=AS_IT_IS, high_precision=high)
    report = quantized(tmp_path, recipe=recipe)
    assert [pair.tensor for pair in report.quantized] == ["s", "w"]
    assert len(carried) == models


def test_one_session_is_opened_for_the_measurement(folder, monkeypatch):
    """That of the rehearsal takes the place of that of the written model, which has the same nodes."""
    monkeypatch.setattr("qdqtool.jobs.quantize.require_loadable", lambda *_: pytest.fail("loaded once more"))
    assert quantized(folder).accuracy.refitted


def save_branching(folder: Path, before: str, large: str, small: str, weights: dict[str, Array]) -> None:
    """A model with one branch for values above 100, which held-back samples alone have, and one for the others."""
    proto = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[1,16] x) => (float[1,16] y) <float limit = {{100}}> {{
            {before}
            largest = ReduceMax <keepdims = 0> (x)
            is_large = Greater (largest, limit)
            y = If (is_large) <
                then_branch = large () => (float[1,16] o) {{ {large} }},
                else_branch = small () => (float[1,16] p) {{ {small} }}
            >
        }}
    """)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.save(proto, folder / "m.onnx")
    saved(folder / "d.npz", samples(1000.0, size=16))


def test_a_rehearsal_with_other_nodes_does_not_vouch_for_the_written_model(tmp_path, monkeypatch):
    """Only held-back samples take the branch with a product: the rehearsal leaves it in float."""
    random = np.random.default_rng(6)
    weights = {name: random.normal(size=(16, 16)).astype(np.float32) for name in "wv"}
    save_branching(tmp_path, "a = MatMul (x, w)", "m = Neg (a)  o = MatMul (m, v)", "p = Neg (a)", weights)

    def refused(*_: object) -> None:
        raise ModelError("asked")

    monkeypatch.setattr("qdqtool.jobs.quantize.require_loadable", refused)
    with pytest.raises(ModelError, match="asked"):
        quantized(tmp_path)
    assert not (tmp_path / "q.onnx").exists()


def test_choosing_samples_that_reach_nothing_leave_the_accuracy_unmeasured_with_the_reason(tmp_path):
    """The only product stands in a branch that none of the other samples takes."""
    weights = {"v": np.random.default_rng(6).normal(size=(16, 16)).astype(np.float32)}
    save_branching(tmp_path, "", "m = Neg (x)  o = MatMul (m, v)", "n = Abs (x)  p = Neg (n)", weights)
    report = quantized(tmp_path)
    assert report.accuracy.problem.startswith("the selection samples give no model: ")
    assert [pair.tensor for pair in report.quantized] == ["m", "v"]


# --- everything else that data chooses ---


def uneven(size: int = 32) -> onnx.ModelProto:
    """Two layers whose channels equalisation evens out."""
    proto = layers(size)
    factors = np.exp2(np.random.default_rng(7).uniform(-4, 4, size)).astype(np.float32)
    for tensor in proto.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor) * (factors if tensor.name == "w" else 1 / factors[:, None])
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return proto


def test_held_back_samples_have_no_say_in_the_preparation(tmp_path):
    """Steps, factors, trials and means are equal; only the ranges are not."""
    onnx.save(uneven(), tmp_path / "m.onnx")
    found = [calibrate(tmp_path / "m.onnx", saved(tmp_path / "d.npz", samples(by))) for by in (1.0, 8.0)]
    one, two = (ranges.record for ranges in found)
    assert {step.step for step in one.preparation} >= {"equalization", "bias-correction"}
    assert any(step.parameters for step in one.preparation if step.step == "equalization")
    assert (one.preparation, one.model_sha256) == (two.preparation, two.model_sha256)
    assert [step.trial for step in one.preparation] == [step.trial for step in two.preparation]
    assert found[0].tensors != found[1].tensors
    assert found[0].choosing == found[1].choosing


@pytest.mark.parametrize("high", [each for each in HighPrecision if each is not HighPrecision.AUTO])
@pytest.mark.parametrize("mode", ["int4", "int8-weight-only"])
def test_held_back_samples_have_no_say_in_a_weight_only_model(mode, high, tmp_path):
    """The largest of them are beyond float16: measured, they would keep nodes in float32."""
    onnx.save(uneven(64), tmp_path / "m.onnx")
    recipe = Recipe(quantize_mode=mode, high_precision=high)
    for name, by in (("one", 1.0), ("two", 8.0 if high is HighPrecision.FP32 else 1e5)):
        saved(tmp_path / f"{name}.npz", samples(by, size=64))
        report = quantized(tmp_path, f"{name}.onnx", f"{name}.npz", recipe=recipe)
        assert (report.accuracy.held_back, report.accuracy.refitted) == (True, False)
        assert (report.calibration.samples, report.calibration.held_back) == (32, 8)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()
    if high is HighPrecision.FP32 and mode == "int4":
        assert printed(report) == round(sqnr(tmp_path, "two.onnx", samples(8.0, size=64)[list(SPLIT.held)]), 4)


@pytest.mark.slow(reason="rounds a language model by data")
def test_what_is_printed_of_a_language_model_in_int4_is_what_other_text_shows(tmp_path):
    """GPTQ on 8 samples: 27.1 dB were printed on those that chose the codes, and 24.3 dB are what other text keeps."""
    source = ROOT / "sample_models" / "char_lm"
    onnx.save(onnx.load(source / "model.onnx"), tmp_path / "m.onnx")
    name = onnx.load(source / "model.onnx").graph.input[0].name
    with np.load(source / "calibration.npz") as stored:
        calibration = stored[name]
    options = QuantizeOptions(recipe=Recipe(quantize_mode="int4"))
    data = FileData(path=source / "calibration.npz", samples=8)
    report = quantize_model(tmp_path / "m.onnx", data, tmp_path / "q.onnx", options)
    measured = QuantizeOptions(recipe=Recipe(quantize_mode="int4"), validation_data=source / "test.npz")
    np.savez(tmp_path / "choosing.npz", **{name: calibration[:8][list(split_samples(8).choosing)]})
    other_report = quantize_model(tmp_path / "m.onnx", tmp_path / "choosing.npz", tmp_path / "same.onnx", measured)
    assert (tmp_path / "q.onnx").read_bytes() == (tmp_path / "same.onnx").read_bytes()
    assert abs(printed(report) - printed(other_report)) < 1.5


# --- validation data, and data that is too small ---


def test_validation_data_measures_the_written_model_and_every_sample_chooses(folder):
    other = samples(3.0, 50)
    report = quantized(folder, validation_data=saved(folder / "other.npz", other))
    assert report.accuracy.validation == str(folder / "other.npz")
    assert (report.accuracy.samples, report.accuracy.held_back, report.accuracy.refitted) == (32, False, False)
    assert printed(report) == round(sqnr(folder, "q.onnx", other[:32]), 4)
    onnx.save(uneven(), folder / "m.onnx")
    whole = QuantizeOptions(validation_data=folder / "other.npz", ranges_file=folder / "whole.json")
    quantize_model(folder / "m.onnx", folder / "d.npz", folder / "q.onnx", whole)
    part = calibrate(folder / "m.onnx", folder / "d.npz")
    record = json.loads((folder / "whole.json").read_text())["model"]["preparation"]
    (means,) = (step["parameters"] for step in record if step["step"] == "bias-correction")
    (others,) = (step.parameters for step in part.record.preparation if step.step == "bias-correction")
    assert means != others


def test_validation_data_that_is_the_calibration_data_is_called_so(folder):
    saved(folder / "again.npz", samples())
    for recipe in (MAX, Recipe(quantize_mode="int4")):
        report = quantized(folder, recipe=recipe, validation_data=folder / "again.npz")
        assert (report.accuracy.validation, report.accuracy.reason) == (None, SAME_DATA)


def test_a_weight_only_model_without_calibration_data_is_measured_on_validation_data(folder):
    options = QuantizeOptions(recipe=Recipe(quantize_mode="int8-weight-only"), validation_data=folder / "d.npz")
    report = quantize_model(folder / "m.onnx", None, folder / "q.onnx", options)
    assert (report.accuracy.validation, report.calibration) == (str(folder / "d.npz"), None)
    assert printed(report) == round(sqnr(folder, "q.onnx", samples()[:32]), 4)
    quantize_model(folder / "m.onnx", None, folder / "alone.onnx", QuantizeOptions(recipe=options.recipe))
    assert (folder / "alone.onnx").read_bytes() == (folder / "q.onnx").read_bytes()


def test_validation_data_is_checked_before_anything_runs_and_is_no_output(folder, monkeypatch):
    monkeypatch.setattr("qdqtool.models.running.ort_cpu.Session.run", lambda *_: pytest.fail("the model was run"))
    np.savez(folder / "bad.npz", x=np.zeros((3, 7), np.float32))
    with pytest.raises(UsageError, match=r"bad\.npz, sample 0: input 'x' has shape \[1, 7\]"):
        quantized(folder, validation_data=folder / "bad.npz")
    with pytest.raises(UsageError, match=r"v\.npz"):
        quantized(folder, "v.npz", validation_data=saved(folder / "v.npz", samples()))


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_of_three_samples_none_is_held_back_and_the_reason_is_given(mode, folder):
    saved(folder / "d.npz", samples(1.0, 3))
    report = quantized(folder, recipe=Recipe(quantize_mode=mode))
    assert (report.accuracy.samples, report.accuracy.held_back, report.accuracy.reason) == (3, False, TOO_FEW)
    assert printed(report) == round(sqnr(folder, "q.onnx", samples(1.0, 3)), 4)


# --- shards, caches, interrupted runs ---


def test_shards_a_cache_and_one_run_give_the_same_model(tmp_path):
    """With preparation, to which every shard has to agree although it runs a part of the samples."""
    onnx.save(uneven(), tmp_path / "m.onnx")
    data = saved(tmp_path / "d.npz", samples())
    shards = [tmp_path / f"{number}.json" for number in (1, 2, 3)]
    for number, path in enumerate(shards, 1):
        calibrate_to_file(tmp_path / "m.onnx", data, path, place=CalibrationPlace(shard=Shard(number, 3)))
    merge_to_file(shards, tmp_path / "r.json")
    quantize_model(tmp_path / "m.onnx", CachedRanges(path=tmp_path / "r.json"), tmp_path / "two.onnx")
    quantize_model(tmp_path / "m.onnx", data, tmp_path / "one.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def interrupted(folder: Path) -> QuantizeOptions:
    """A run with Ctrl-C after two of three chunks, and the options to go on with."""
    options = QuantizeOptions(recipe=MAX, ranges_file=folder / "r.json")

    def progress(done: int, _: int) -> None:
        if done == 36:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="32 of 40 samples"):
        quantize_model(folder / "m.onnx", folder / "d.npz", folder / "q.onnx", options, progress)
    return options


def test_a_run_that_goes_on_measures_what_an_uninterrupted_one_measures(folder):
    expected = quantized(folder, "one.onnx", ranges_file=folder / "one.json")
    found = quantize_model(folder / "m.onnx", folder / "d.npz", folder / "q.onnx", interrupted(folder))
    assert found.accuracy == expected.accuracy
    for one, two in (("one.onnx", "q.onnx"), ("one.json", "r.json")):
        assert (folder / one).read_bytes() == (folder / two).read_bytes()


def test_a_run_that_goes_on_from_a_file_without_the_choosing_part_says_so(folder):
    options = interrupted(folder)
    document = json.loads((folder / "r.json").read_text())
    del document["choosing"]
    (folder / "r.json").write_text(json.dumps(document))
    report = quantize_model(folder / "m.onnx", folder / "d.npz", folder / "q.onnx", options)
    assert (report.accuracy.held_back, report.accuracy.reason) == (False, NOT_RECORDED)


@pytest.mark.parametrize("lossy", [set(), {("", "x")}, {("body", "r")}])
def test_an_unfillable_range_is_refused_unless_its_tensor_is_known_to_be_lost(lossy: set[tuple[str, str]]):
    model = Model(rules.get("QN504").INVALID[0].model())

    with pytest.raises(GateError, match="QN504"):
        require_valid(model, model, "tensorrt", lossy)
    assert "QN504" in {each.code for each in require_valid(model, model, "tensorrt", {*lossy, ("", "r")})}


def test_a_tensor_that_is_known_to_be_lost_may_have_no_other_error():
    model = Model(rules.get("QP101").INVALID[0].model())
    tensors = {("", name) for node in model.proto.graph.node for name in (*node.input, *node.output)}

    with pytest.raises(GateError, match="QP101"):
        require_valid(model, model, "tensorrt", tensors)
