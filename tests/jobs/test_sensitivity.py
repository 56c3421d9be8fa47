"""The sensitivity job as a function: what it takes besides files, and its figures against ONNX Runtime."""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from support.layered import MAX, chain, outputs, planned, rows, save, sqnr

from qdqtool.errors import UsageError
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.sensitivity import SensitivityOptions, measure_sensitivity
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.options import Existing
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
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
