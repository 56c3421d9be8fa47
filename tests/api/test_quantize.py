"""Models and data of Python code give the bytes that the same values in files give, and stay as they were."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import convert_model_to_external_data
from support.paths import ROOT
from support.small import conv_model, matmul_model

import qdqtool
from qdqtool.api.any_data import as_place
from qdqtool.errors import ArgumentError, ModelError, UsageError
from qdqtool.jobs import quantize as quantize_job
from qdqtool.jobs.quantize import QuantizeOptions
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.file import encode_ranges
from qdqtool.samples.request import FileData

ROWS = np.random.default_rng(5).normal(size=(12, 3, 8, 8)).astype(np.float32)
DIGITS = ROOT / "sample_models/digits_cnn"


def bytes_of(report: qdqtool.QuantizeReport) -> bytes:
    assert report.output_model is not None
    return report.output_model.proto.SerializeToString(deterministic=True)


def saved(folder: Path) -> tuple[Path, Path]:
    onnx.save(conv_model(), folder / "m.onnx")
    np.savez(folder / "d.npz", x=ROWS)
    return folder / "m.onnx", folder / "d.npz"


class Loader:
    dataset = ROWS

    def __iter__(self) -> Iterator[Any]:
        return iter([[ROWS[:8], np.arange(8)], [ROWS[8:], np.arange(4)]])


DATA = {
    "array": lambda: ROWS,
    "dict": lambda: {"x": ROWS},
    "generator": lambda: ({"x": row[None]} for row in ROWS),
    "loader": Loader,
}


def test_ranges_and_model_are_those_of_the_same_values_in_a_file(tmp_path: Path):
    file, data = saved(tmp_path)
    made = tmp_path / "q.onnx"
    written = qdqtool.quantize_model(file, data, made)
    assert (written.output, written.output_model) == (str(made), None)
    wanted = encode_ranges(qdqtool.calibrate(file, data))
    for kind, make in DATA.items():
        kept = qdqtool.quantize_model(conv_model(), make())
        assert kept.output == "", kind
        assert bytes_of(kept) == made.read_bytes(), kind
        assert encode_ranges(qdqtool.calibrate(conv_model(), make())) == wanted, kind
    assert encode_ranges(qdqtool.calibrate(conv_model(), ROWS * 2)) != wanted


@pytest.mark.parametrize("kind", ["proto", "model"])
def test_a_model_in_memory_stays_as_it_was_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    proto = conv_model()
    model = proto if kind == "proto" else qdqtool.Model(proto)
    before = proto.SerializeToString()
    report = qdqtool.quantize_model(model, ROWS)
    qdqtool.measure_sensitivity(model, ROWS)
    qdqtool.calibrate(model, iter(ROWS[:, None]))
    assert report.output_model is not None
    made = report.output_model.proto.SerializeToString()
    assert qdqtool.check_model(report.output_model, baseline=model, data=ROWS, min_sqnr=20).passed
    assert qdqtool.validate_model(report.output_model).passed
    assert len(qdqtool.diff_models(model, report.output_model).added) == len(report.quantized)
    assert qdqtool.inspect_model(model).nodes == 3
    assert proto.SerializeToString() == before
    assert report.output_model.proto.SerializeToString() == made != before
    assert list(tmp_path.iterdir()) == []


def test_weights_beside_the_model_are_inside_the_model_in_memory(tmp_path: Path):
    proto = conv_model()
    convert_model_to_external_data(proto, location="w.bin", size_threshold=0)
    onnx.save(proto, tmp_path / "m.onnx")
    report = qdqtool.quantize_model(tmp_path / "m.onnx", ROWS)
    assert bytes_of(report) == bytes_of(qdqtool.quantize_model(conv_model(), ROWS))
    with pytest.raises(UsageError, match="external_data is 'always', but output is not given"):
        qdqtool.quantize_model(conv_model(), ROWS, external_data="always")


def test_a_proto_whose_weights_are_elsewhere_is_refused_with_a_hint(tmp_path: Path):
    proto = conv_model()
    convert_model_to_external_data(proto, location="w.bin", size_threshold=0)
    onnx.save(proto, tmp_path / "m.onnx")
    light = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    with pytest.raises(ModelError, match="whose tensor 'w' is stored in a file, and its folder is not known") as told:
        qdqtool.quantize_model(light, ROWS)
    assert "load_external_data_for_model(model, folder)" in told.value.hint
    onnx.external_data_helper.load_external_data_for_model(light, str(tmp_path))
    assert bytes_of(qdqtool.quantize_model(light, ROWS)) == bytes_of(qdqtool.quantize_model(conv_model(), ROWS))


@pytest.mark.parametrize("limit", [100, 1 << 40])
def test_a_result_that_no_proto_holds_needs_an_output(monkeypatch: pytest.MonkeyPatch, limit: int):
    monkeypatch.setattr("qdqtool.models.graph.io.save.INLINE_LIMIT", limit)
    if limit > 100:
        assert qdqtool.quantize_model(conv_model(), ROWS).output_model is not None
        return
    with pytest.raises(UsageError, match="is larger than 2 GiB, the limit of a ModelProto in memory") as told:
        qdqtool.quantize_model(conv_model(), ROWS)
    assert told.value.hint == "give output='OUT.onnx'; the weights are then written to a file beside it"


def test_options_as_keywords_change_the_model_as_objects_do(tmp_path: Path):
    wanted = QuantizeOptions(recipe=Recipe(quantize_mode="fp8", selection=Selection(nodes_to_exclude=("conv2",))))
    data = FileData(path=as_place(ROWS))
    by_object = quantize_job.quantize_model(Model(conv_model()), data, tmp_path / "a.onnx", wanted)
    words = {"quantize_mode": "fp8", "nodes_to_exclude": ["conv2"], "high_precision_dtype": "fp32"}
    by_words = qdqtool.quantize_model(conv_model(), ROWS, **words)
    qdqtool.quantize_model(conv_model(), ROWS, tmp_path / "b.onnx", **words)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert bytes_of(by_words) != bytes_of(qdqtool.quantize_model(conv_model(), ROWS))
    assert by_object.skipped == by_words.skipped
    assert [each.node for each in by_words.skipped] == ["conv2"]


def test_samples_and_weight_only_modes():
    report = qdqtool.quantize_model(conv_model(), (row[None] for row in ROWS), samples=5)
    assert report.calibration is not None
    assert (report.calibration.samples, report.calibration.source) == (5, "generator")
    assert qdqtool.quantize_model(matmul_model(inner=64), quantize_mode="int8-weight-only").calibration is None
    with pytest.raises(UsageError, match="no calibration data is given") as told:
        qdqtool.quantize_model(conv_model())
    assert told.value.hint == "pass data or calibration_cache; or, for a trial, random_calibration=True"
    with pytest.raises(UsageError, match="no calibration data is given") as told:
        qdqtool.calibrate(conv_model())
    assert told.value.hint == "pass data; or, for a trial, random_calibration=True"
    assert qdqtool.calibrate(conv_model(), random_calibration=True).record.random


def test_data_that_was_kept_serves_several_calls(tmp_path: Path):
    _, file = saved(tmp_path)
    kept = qdqtool.hold_data(row[None] for row in ROWS)
    assert bytes_of(qdqtool.quantize_model(conv_model(), kept)) == bytes_of(qdqtool.quantize_model(conv_model(), file))
    assert qdqtool.check_model(conv_model(), data=kept).data.samples == 12
    for place in (kept, ROWS, str(file)):
        assert qdqtool.check_model(conv_model(), data=place, samples=3).data.samples == 3
        assert qdqtool.calibrate(conv_model(), place, samples=3).record.samples == 3
    assert qdqtool.quantize_model(conv_model(), ROWS, validation_data=ROWS + 1).accuracy.validation == "array"


@pytest.mark.slow(reason="a search for a metric")
def test_a_metric_reads_labels_of_python_data():
    with np.load(DIGITS / "test.npz") as stored:
        image, labels = stored["image"][:60], stored["labels"][:60]
    by_dict = qdqtool.quantize_model(DIGITS / "model.onnx", {"image": image, "labels": labels}, metric="top-1")
    by_tuples = qdqtool.quantize_model(
        DIGITS / "model.onnx", zip(image[:, None], labels[:, None], strict=True), metric="top-1"
    )
    assert by_dict.accuracy is not None
    assert by_dict.accuracy.metric is not None
    assert by_tuples.accuracy == by_dict.accuracy
    with pytest.raises(UsageError, match="array has no labels for the metric"):
        qdqtool.quantize_model(DIGITS / "model.onnx", image, metric="top-1")


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        (ROWS, {"random_calibration": True}, "data and random_calibration cannot be used together"),
        (ROWS, {"seed": 3}, "seed can only be used with random_calibration"),
        (None, {"samples": 3}, "samples can only be used with data"),
        (
            None,
            {"random_calibration": True, "calibration_cache": "r"},
            "calibration_cache cannot be used with random_calibration",
        ),
        (ROWS, {"force": True}, "force can only be used with calibration_cache"),
        (ROWS, {"pareto": "p.json"}, "pareto needs min_sqnr or max_metric_loss"),
    ],
)
def test_what_contradicts_each_other_is_told(data: Any, more: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        qdqtool.quantize_model(conv_model(), data, **more)


def test_what_is_no_model_is_told():
    for call in (qdqtool.quantize_model, qdqtool.calibrate, qdqtool.validate_model, qdqtool.inspect_model):
        with pytest.raises(
            ArgumentError, match=r"model is of type numpy\.ndarray; legal: a path, an onnx.ModelProto, or"
        ):
            call(ROWS)
    with pytest.raises(ArgumentError, match="baseline is of type int; legal"):
        qdqtool.check_model(conv_model(), baseline=3)
    with pytest.raises(ModelError, match="model is a ModelProto without a graph"):
        qdqtool.validate_model(onnx.ModelProto())


def test_a_ranges_file_serves_as_keyword(tmp_path: Path):
    ranges = tmp_path / "r.json"
    qdqtool.calibrate_to_file(conv_model(), ROWS, ranges)
    report = qdqtool.quantize_model(conv_model(), calibration_cache=ranges)
    wanted = qdqtool.quantize_model(conv_model(), ROWS)
    assert [*report.quantized] == [*wanted.quantized]
    assert [*report.quantized] != [*qdqtool.quantize_model(conv_model(), ROWS * 2).quantized]
    beside = qdqtool.quantize_model(conv_model(), ROWS, calibration_cache=ranges)
    assert beside.accuracy is not None
    with pytest.raises(UsageError, match="were found on other data"):
        qdqtool.quantize_model(conv_model(), ROWS + 1, calibration_cache=ranges)
