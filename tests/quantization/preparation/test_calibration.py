"""Calibration runs the model as it is prepared, and each step of that only where it changes nothing."""

from pathlib import Path

import numpy as np
import onnx
from support.batchnorm import batchnorm_model
from support.small import run

from qdqtool.accuracy.layers.method_trial import try_methods
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.quantization.calibration_report import PreparationReport
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.calibration import Calibrated, CalibrationRequest, calibrate_model
from qdqtool.quantization.statistics.float_runs import FloatRuns


def images(count: int = 5) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(count, 3, 8, 8)).astype(np.float32)


def calibrated(proto: onnx.ModelProto, x: np.ndarray, folder: Path) -> tuple[Calibrated, PreparationReport]:
    """What a calibration gives, and its report on the folding of batch normalizations."""
    np.savez(folder / "data.npz", x=x)
    scope = CalibrationRequest(trial=try_methods)
    done = calibrate_model(Model(proto), folder / "data.npz", Recipe(), FloatRuns(), scope=scope)
    return done, next(report for report in done.prepared.reports if report.step == "batchnorm")


def test_batchnorm_is_folded_when_outputs_stay_within_the_limit(tmp_path):
    done, folding = calibrated(batchnorm_model(1.0), images(), tmp_path)
    assert (len(folding.sites), folding.applied) == (1, True)
    assert folding.max_difference <= folding.limit == 1e-5
    assert "BatchNormalization" not in {node.op_type for node in done.prepared.model.proto.graph.node}
    feeds, path = {"x": images()[:1]}, save_model(done.prepared.model, tmp_path / "saved.onnx").model
    (before,), (after,) = run(batchnorm_model(1.0), feeds), run(str(path), feeds)
    assert np.abs(before - after).max() <= 1e-5 * np.abs(before).max()


def test_batchnorm_is_left_where_folding_changes_an_output_by_more_than_the_limit(tmp_path):
    """x is a large constant plus little: before the normalization the constant cancels, after a fold it does not."""
    proto = batchnorm_model(1.0)
    weights = {tensor.name: tensor for tensor in proto.graph.initializer}
    w = onnx.numpy_helper.to_array(weights["w"]).copy()
    w -= w.mean(axis=(1, 2, 3), keepdims=True)
    weights["w"].CopyFrom(onnx.numpy_helper.from_array(w, "w"))
    proto.graph.node[0].attribute[0].ints[:] = [0, 0, 0, 0]
    for axis in (2, 3):
        proto.graph.output[0].type.tensor_type.shape.dim[axis].dim_value = 6
    done, folding = calibrated(proto, images() + np.float32(3e4), tmp_path)
    assert (len(folding.sites), folding.applied) == (1, False)
    assert folding.max_difference > folding.limit
    assert done.prepared.model.proto == proto
    assert [made.step for made in done.ranges.record.preparation] == ["bias-correction"]
