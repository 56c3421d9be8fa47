"""The sensitivity job as a function, its figures against ONNX Runtime, and searches that go on from its file."""

from dataclasses import replace
from pathlib import Path

import msgspec
import onnx
import pytest
from support.layered import MAX, chain, outputs, planned, rows, save, sqnr
from support.paths import ROOT

from qdqtool.accuracy.layers.layer_runs import MOST_SAMPLES
from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.errors import UsageError
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.sensitivity import SensitivityOptions, measure_sensitivity
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.options import Existing
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.ranges.checkpoint import Interrupted
from qdqtool.samples.request import FileData

PLAIN = SensitivityOptions(recipe=MAX)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path, chain(4), rows())
    return tmp_path


def test_a_loaded_model_gives_the_same_report_and_stays_as_it_is(folder: Path):
    model = Model(onnx.load(folder / "m.onnx"))
    before = model.proto.SerializeToString()
    one = measure_sensitivity(model, folder / "d.npz", PLAIN)
    two = measure_sensitivity(folder / "m.onnx", FileData(path=folder / "d.npz"), PLAIN)
    assert model.proto.SerializeToString() == before
    assert one.model_file is None
    assert replace(one, model="") == replace(two, model="", model_file=None, calibration=one.calibration)


def test_all_quantized_and_each_kind_alone_are_what_onnxruntime_gives(folder: Path):
    report = measure_sensitivity(folder / "m.onnx", folder / "d.npz", PLAIN)
    with planned(folder) as made:
        samples = [dict(sample) for sample in made.choosing.first(8)]
        weights = {name.name for name in made.ready.proto.graph.initializer}
        kinds = [
            replace(made.plan, placements=tuple(each for each in made.plan if keep(each.slot.tensor in weights)))
            for keep in (lambda _: True, lambda weight: weight, lambda weight: not weight)
        ]
        float_runs = outputs(made.ready.proto, samples)
        found = [min(sqnr(float_runs, outputs(made.applied(plan), samples))) for plan in kinds]
    known = [report.outputs[0].sqnr_db, report.weights_only_db, report.activations_only_db]
    assert known == pytest.approx(found, abs=2e-4)


def test_progress_is_told_of_samples_and_of_settings(folder: Path):
    samples, settings = list[tuple[int, int]](), list[tuple[int, int]]()
    measure_sensitivity(
        folder / "m.onnx",
        folder / "d.npz",
        PLAIN,
        lambda done, total: samples.append((done, total)),
        lambda done, total: settings.append((done, total)),
    )
    assert samples == [(done, 12) for done in range(12)]
    assert settings == [(done, 8) for done in range(8)]


def test_ranges_serve_with_data_beside_them_only(folder: Path):
    calibrate_to_file(folder / "m.onnx", folder / "d.npz", folder / "r.json", MAX)
    with pytest.raises(UsageError, match="there are no samples to run"):
        measure_sensitivity(folder / "m.onnx", CachedRanges(path=folder / "r.json"), PLAIN)
    both = CachedRanges(path=folder / "r.json", data=FileData(path=folder / "d.npz"))
    found = measure_sensitivity(folder / "m.onnx", both, PLAIN)
    assert found.nodes == measure_sensitivity(folder / "m.onnx", folder / "d.npz", PLAIN).nodes


def test_layers_that_are_quantized_already_are_none_of_them(folder: Path):
    first = replace(MAX, selection=Selection(nodes_to_quantize=("m0", "m1")))
    quantize_model(folder / "m.onnx", folder / "d.npz", folder / "part.onnx", QuantizeOptions(recipe=first))
    kept = measure_sensitivity(
        folder / "part.onnx", folder / "d.npz", SensitivityOptions(recipe=replace(MAX, existing=Existing.KEEP))
    )
    assert {each.node for each in kept.nodes} == {"m2", "m3"}
    whole = measure_sensitivity(
        folder / "part.onnx", folder / "d.npz", SensitivityOptions(recipe=replace(MAX, existing=Existing.REPLACE))
    )
    assert {each.node for each in whole.nodes} == {"m0", "m1", "m2", "m3"}


MODEL = ROOT / "sample_models" / "digits_cnn" / "model.onnx"
DATA = ROOT / "sample_models" / "digits_cnn" / "calibration.npz"
GOAL_DB = 46.0
"""Some 3 dB above what the fully quantized model keeps."""


def _quantized(output: Path, measured: Path | None = None) -> bytes:
    goal = AccuracyGoal(min_sqnr_db=GOAL_DB, sensitivity_file=measured)
    report = quantize_model(MODEL, DATA, output, QuantizeOptions(goal=goal))
    assert report.goal.left
    return output.read_bytes()


def _count_runs(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> list[int]:
    """Count runs of samples in searches, not in the trial of methods; Ctrl-C comes at run ``stop_at``."""
    count, run = [0], MaskedRuns._run

    def counted(self: MaskedRuns, fed: object, number: int) -> object:
        if len(self.samples) == MOST_SAMPLES:
            count[0] += 1
            if count[0] == stop_at:
                raise KeyboardInterrupt
        return run(self, fed, number)

    monkeypatch.setattr(MaskedRuns, "_run", counted)
    return count


@pytest.mark.slow(reason="measures every layer twice")
def test_what_sensitivity_measured_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = tmp_path / "s.json"
    report = measure_sensitivity(MODEL, DATA, SensitivityOptions(output=measured))
    assert report.sensitivity_file == str(measured)
    runs = _count_runs(monkeypatch)
    alone = _quantized(tmp_path / "a.onnx")
    without, runs[0] = runs[0], 0
    assert _quantized(tmp_path / "b.onnx", measured) == alone
    # Each layer alone on 4 samples was there.
    assert 0 < runs[0] <= without - 4 * len(report.nodes)
    runs[0] = 0
    assert _quantized(tmp_path / "c.onnx", measured) == alone
    assert runs[0] == 0


@pytest.mark.slow(reason="measures every layer twice")
def test_an_interrupted_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = tmp_path / "s.json"
    with monkeypatch.context() as patch:
        _count_runs(patch, stop_at=150)
        with pytest.raises(Interrupted, match=r"kept in .*s.json: the same command continues from there"):
            _quantized(tmp_path / "a.onnx", measured)
    assert not (tmp_path / "a.onnx").exists()
    kept = msgspec.json.decode(measured.read_bytes())["entries"]
    assert len(kept) > 5
    runs = _count_runs(monkeypatch)
    plain = _quantized(tmp_path / "b.onnx")
    whole, runs[0] = runs[0], 0
    assert _quantized(tmp_path / "c.onnx", measured) == plain
    assert runs[0] < whole - 30


@pytest.mark.slow(reason="measures a model several times")
def test_a_file_of_other_options_is_refused_and_kept(tmp_path: Path) -> None:
    measured = tmp_path / "s.json"
    measure_sensitivity(MODEL, DATA, SensitivityOptions(output=measured))
    before = measured.read_bytes()
    goal = AccuracyGoal(min_sqnr_db=GOAL_DB, sensitivity_file=measured)
    with pytest.raises(UsageError, match="another model, plan or data"):
        quantize_model(MODEL, FileData(path=DATA, samples=16), tmp_path / "a.onnx", QuantizeOptions(goal=goal))
    assert measured.read_bytes() == before
    assert not (tmp_path / "a.onnx").exists()
