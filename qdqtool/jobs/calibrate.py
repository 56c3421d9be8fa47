"""The calibrate job: run a float model over data, and keep the range of every tensor that is to be quantized."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from qdqtool.data import Feeds, data_digest, sample_digest
from qdqtool.data.feeds import Progress
from qdqtool.data.request import FileData, RandomData, open_feeds
from qdqtool.errors import UsageError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import Value
from qdqtool.graph.io.digest import model_digest
from qdqtool.graph.io.load import load_model
from qdqtool.graph.io.save import check_output, write_atomically
from qdqtool.graph.io.spill import spilled
from qdqtool.graph.model import Model
from qdqtool.graph.scope import display
from qdqtool.jobs.calibrate_report import CalibrateReport, UnseenTensor
from qdqtool.planning.placement import (
    ProposedSlot,
)
from qdqtool.planning.proposal import NEVER_RUN, propose_for, refuse_nothing
from qdqtool.planning.recipe import Recipe, with_fixed_shapes
from qdqtool.preparation.prepare import Calibrated, Prepared, prepare
from qdqtool.ranges import calibrators
from qdqtool.ranges.calibration_run import CalibrationScope, Samples, fold_samples
from qdqtool.ranges.collector import RangeCollector
from qdqtool.ranges.file import encode_ranges
from qdqtool.ranges.shard import Shard
from qdqtool.ranges.types import CalibrationRecord, Ranges
from qdqtool.running.channel_statistics import product_inputs
from qdqtool.running.float_runs import FloatRuns


def calibrate(
    model: str | Path | Model,
    data: str | Path | FileData | RandomData,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    shard: Shard | None = None,
) -> Ranges:
    """Run a float model over data and return the range of every tensor that ``quantize_model`` would quantize.

    Args:
        model: The ``.onnx`` file, or a loaded model.
        data: Where the samples are, or that they are random.
        recipe: What is to be quantized; default int8 for TensorRT.
        progress: Told of every sample.
        shard: Run these samples only; :func:`qdqtool.ranges.merge.merge_ranges` joins shards.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The data does not fit the model, the model fails on a sample, or a tensor is not finite.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
    """
    recipe, source = recipe or Recipe(), spilled(model if isinstance(model, Model) else load_model(model))
    with runs_for(recipe) as runs:
        return calibrate_model(source, data, recipe, runs, progress, CalibrationScope(shard=shard)).ranges


def calibrate_to_file(
    model: str | Path | Model,
    data: str | Path | FileData | RandomData,
    output: str | Path,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    shard: Shard | None = None,
) -> CalibrateReport:
    """As :func:`calibrate`, and write the ranges to a file.

    The file holds what is done from time to time, and at Ctrl-C; the same call goes on from there.

    Raises:
        OutputError: The file cannot be written.
    """
    recipe, output = recipe or Recipe(), Path(output)
    source = spilled(model if isinstance(model, Model) else load_model(model))
    check_output(output, [source.path] if source.path else [])
    with runs_for(recipe) as runs:
        done = calibrate_model(source, data, recipe, runs, progress, CalibrationScope(shard=shard, keep=output))
    write_atomically(output, encode_ranges(done.ranges))
    assert done.feeds is not None
    unseen, part = done.ranges.unseen(), done.ranges.part
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
    )


def calibrate_model(
    source: Model,
    data: str | Path | FileData | RandomData,
    recipe: Recipe,
    runs: FloatRuns,
    progress: Progress | None = None,
    scope: CalibrationScope | None = None,
) -> Calibrated:
    """The calibration of a loaded model, with the model that was really run; arguments and errors as `calibrate`.

    The session that ran it is left open in ``runs``.
    """
    if recipe.mode.weight_only:
        raise UsageError(
            f"quantize mode '{recipe.quantize_mode}' quantizes weights only: there are no ranges to find",
            hint="`qdqtool quantize` needs no ranges for it",
        )
    model, digests = with_fixed_shapes(source, recipe), list[bytes]()
    feeds = open_feeds(model, data, lambda sample: digests.append(sample_digest(sample)))
    prepared = prepared_for(recipe, model, feeds, runs)
    index = runs.index_of(prepared.model)
    proposal = propose_for(index, recipe)
    refuse_nothing(proposal.slots, proposal.skipped)
    slots = [entry.slot for entry in proposal.slots if entry.kind == "activation"]
    values = [index.view.scope(slot.scope).values[slot.tensor] for slot in slots]
    collector = RangeCollector(index, values, runs, histograms=calibrators.get(recipe.method).needs_histogram)
    record = CalibrationRecord(
        method=recipe.method,
        samples=len(feeds),
        random=feeds.description.seed is not None,
        seed=feeds.description.seed,
        data_sha256=data_digest(digests),
        model_sha256=model_digest(prepared.model),
        preparation=prepared.record,
        parameters=recipe.parameters(),
    )
    done = fold_samples(collector, record, Samples(feeds, digests), scope or CalibrationScope(), progress)
    return Calibrated(prepared, done.ranges, feeds, done.resumed)


def prepared_for(recipe: Recipe, model: Model, feeds: Feeds, runs: FloatRuns) -> Prepared:
    """A model prepared for what a recipe quantizes; arguments and errors as :func:`prepare`."""

    def slots(index: ModelIndex) -> Sequence[ProposedSlot]:
        return propose_for(index, recipe).slots

    integers = recipe.mode.integer_activations
    return prepare(model, feeds, runs, recipe.preparation, integer_activations=integers, slots=slots)


def runs_for(recipe: Recipe) -> FloatRuns:
    """Runs of a float model that is calibrated or quantized so."""

    def read(index: ModelIndex) -> Iterator[Value]:
        yield from (value for value, _ in product_inputs(index))
        if recipe.mode.weight_only:
            return
        with contextlib.suppress(UsageError):  # it is raised where the proposal counts
            for entry in propose_for(index, recipe).slots:
                if entry.kind == "activation":
                    yield index.view.scope(entry.slot.scope).values[entry.slot.tensor]

    return FloatRuns(read)
