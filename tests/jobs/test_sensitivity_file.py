"""A search goes on from what ``sensitivity`` or an interrupted search measured, and ends at the same model."""

from pathlib import Path

import msgspec
import pytest
from support.paths import ROOT

from qdqtool.accuracy.layers.layer_runs import MOST_SAMPLES
from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.errors import UsageError
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.sensitivity import SensitivityOptions, measure_sensitivity
from qdqtool.quantization.ranges.checkpoint import Interrupted
from qdqtool.samples.request import FileData

MODEL = ROOT / "sample_models" / "digits_cnn" / "model.onnx"
DATA = ROOT / "sample_models" / "digits_cnn" / "calibration.npz"
GOAL_DB = 46.0
"""Some 3 dB above what the fully quantized model keeps."""


def _quantized(output: Path, measured: Path | None = None) -> bytes:
    goal = AccuracyGoal(min_sqnr_db=GOAL_DB, sensitivity_file=measured)
    report = quantize_model(MODEL, DATA, output, QuantizeOptions(goal=goal))
    assert report.goal is not None
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
        with pytest.raises(Interrupted, match=r"kept in .*s.json: the same command goes on from there"):
            _quantized(tmp_path / "a.onnx", measured)
    assert not (tmp_path / "a.onnx").exists()
    kept = msgspec.json.decode(measured.read_bytes())["entries"]
    assert len(kept) > 5
    runs = _count_runs(monkeypatch)
    plain = _quantized(tmp_path / "b.onnx")
    whole, runs[0] = runs[0], 0
    assert _quantized(tmp_path / "c.onnx", measured) == plain
    assert runs[0] < whole - 30


def test_a_file_of_other_options_is_refused_and_kept(tmp_path: Path) -> None:
    measured = tmp_path / "s.json"
    measure_sensitivity(MODEL, DATA, SensitivityOptions(output=measured))
    before = measured.read_bytes()
    goal = AccuracyGoal(min_sqnr_db=GOAL_DB, sensitivity_file=measured)
    with pytest.raises(UsageError, match="another model, plan or data"):
        quantize_model(MODEL, FileData(path=DATA, samples=16), tmp_path / "a.onnx", QuantizeOptions(goal=goal))
    assert measured.read_bytes() == before
    assert not (tmp_path / "a.onnx").exists()
