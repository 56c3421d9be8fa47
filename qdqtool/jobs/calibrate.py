"""The calibrate job: run a float model over data, and write the range of every tensor that is to be quantized."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qdqtool.accuracy.layers.method_trial import try_methods
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.io.output import check_output, is_stream, write_output
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display
from qdqtool.quantization.calibration_report import MethodTrial, PreparationReport
from qdqtool.quantization.cluster.collector import CalibrationCluster, calibration_cluster
from qdqtool.quantization.cluster.machine import ClusterUsed
from qdqtool.quantization.planning.existing_pairs import NEVER_RUN, settle_model
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.calibration import CalibrationRequest, calibrate_model, runs_for
from qdqtool.quantization.preparation.metadata import used_ranges
from qdqtool.quantization.ranges.file import encode_ranges
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.results import Report
from qdqtool.samples.feeds import Progress
from qdqtool.samples.in_memory import in_files
from qdqtool.samples.report import DataDescription
from qdqtool.samples.request import FileData, RandomData


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenTensor:
    """A tensor that had no values on the data, and the reason.

    Attributes:
        tensor: Name of the tensor.
        graph: Scope of the tensor; empty for the main graph.
        reason: Why the tensor had no values.
    """

    tensor: str
    graph: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateReport(Report):
    """The result of ``calibrate``.

    Attributes:
        model: The input model.
        output: The ranges file that was written.
        method: The calibration method for which the ranges were collected.
        target: The target for which pairs were placed.
        data: The data that was run.
        shard: The shard of the data, as ``I/N``; None for all data.
        samples: Number of samples on which the ranges were collected.
        resumed: How many of these samples an interrupted run had already finished.
        tensors: Number of tensors with a range.
        unseen: Tensors without a range.
        preparation: The outcome of each step that prepares the model.
        chosen: Id of the method that ``auto`` chose for the whole model by comparing outputs. ``auto`` if it chooses
            for each tensor, and empty for other methods.
        method_trial: The effect of each method that ``auto`` tried on the outputs; None if it tried none.
        cluster: The workers of a Dask cluster that ran the samples; None if this process ran them.
    """

    model: str
    output: str
    method: str
    target: str
    data: DataDescription
    shard: str | None
    samples: int
    resumed: int
    tensors: int
    unseen: tuple[UnseenTensor, ...]
    preparation: tuple[PreparationReport, ...]
    chosen: str = ""
    method_trial: MethodTrial | None = None
    cluster: ClusterUsed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlace:
    """The samples of a calibration to run, and where to run them.

    Attributes:
        shard: The shard of the samples; None for all samples.
        dask: The scheduler of a Dask cluster whose workers run the samples; None for this process.
    """

    shard: Shard | None = None
    dask: str | None = None


def calibrate(
    model: str | Path | Model,
    data: str | Path | FileData | RandomData,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    place: CalibrationPlace | None = None,
) -> Ranges:
    """Run a float model over data and return the range of every tensor that ``quantize_model`` would quantize.

    Args:
        model: The ``.onnx`` file, or a loaded model.
        data: The origin of the samples, or a request for random samples.
        recipe: Mode, target and options of the later quantization; default int8 for TensorRT.
        progress: Called after each sample, with the number of finished samples and of all samples.
        place: Run only some of the samples, to merge their ranges with others by
            :func:`qdqtool.quantization.ranges.shard.merge_ranges`; or run them on a cluster.
    """
    recipe, place = recipe or Recipe(), place or CalibrationPlace()
    source = offloaded(model if isinstance(model, Model) else load_model(model))
    settled = settle_model(source, recipe)
    with _cluster(place, model, recipe) as cluster, runs_for(settled.recipe) as runs:
        scope = CalibrationRequest(
            trial=try_methods, shard=place.shard, elsewhere=cluster.collector if cluster else None
        )
        return calibrate_model(settled.model, data, settled.recipe, runs, progress, scope=scope).ranges


def calibrate_to_file(
    model: str | Path | Model,
    data: str | Path | FileData | RandomData,
    output: str | Path,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    place: CalibrationPlace | None = None,
) -> CalibrateReport:
    """Calibrate like :func:`calibrate`, and write the ranges to a file.

    Partial results are written to the file regularly and at Ctrl-C; the same call continues from them. A stream gets
    only the complete ranges.
    """
    recipe, output, place = recipe or Recipe(), Path(output), place or CalibrationPlace()
    source = offloaded(model if isinstance(model, Model) else load_model(model))
    place_of_data = Path(data) if isinstance(data, str | Path) else getattr(data, "path", None)
    check_output(output, in_files([source.path, place_of_data]))
    kept = None if is_stream(output) else output
    settled = settle_model(source, recipe)
    with _cluster(place, model, recipe) as cluster, runs_for(settled.recipe) as runs:
        scope = CalibrationRequest(
            trial=try_methods, shard=place.shard, keep=kept, elsewhere=cluster.collector if cluster else None
        )
        done = calibrate_model(settled.model, data, settled.recipe, runs, progress, scope=scope)
        used = cluster.used() if cluster else None
    write_output(output, encode_ranges(done.ranges))
    assert done.feeds is not None
    unseen, part, shard = done.ranges.unseen(), done.ranges.part, place.shard
    return CalibrateReport(
        model=str(source.path or ""),
        output=str(output),
        method=recipe.method,
        target=recipe.target,
        data=done.feeds.description,
        shard=f"{shard.number}/{shard.of}" if shard else None,
        samples=part.stop - part.start if part else len(done.feeds),
        resumed=done.resumed,
        tensors=len(done.ranges.tensors) - len(unseen),
        unseen=tuple(
            UnseenTensor(tensor=name, graph=display(scope), reason=done.ranges.unreadable.get((scope, name), NEVER_RUN))
            for scope, name in unseen
        ),
        preparation=done.prepared.reports,
        chosen=used_ranges("", done.ranges.record, recipe).chosen,
        method_trial=done.method_trial,
        cluster=used,
    )


@contextlib.contextmanager
def _cluster(place: CalibrationPlace, model: str | Path | Model, recipe: Recipe) -> Iterator[CalibrationCluster | None]:
    if place.dask is None:
        yield None
        return
    with calibration_cluster(place.dask, model if isinstance(model, Model) else Path(model), recipe) as cluster:
        yield cluster
