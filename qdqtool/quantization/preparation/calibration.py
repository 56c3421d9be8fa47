"""Calibrate a float model: prepare it, run it over data, and store the range of every tensor."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.model_file import model_digest
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.taps import tensor_key
from qdqtool.quantization.calibration_report import MethodTrial
from qdqtool.quantization.planning.existing_pairs import propose_for, refuse_nothing
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.planning.recipe import Recipe, with_fixed_inputs
from qdqtool.quantization.preparation.prepare import Prepared, prepare
from qdqtool.quantization.preparation.step import StepRequest
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.checkpoint import RangesCheckpoint
from qdqtool.quantization.ranges.collector import CollectedRanges, RangeCollector
from qdqtool.quantization.ranges.method_choice import ModelTrial, encode_choice, encode_dominant
from qdqtool.quantization.ranges.model_ranges import activations
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import CalibrationRecord, PreparationStep, Ranges, RangesPart, TensorKey
from qdqtool.quantization.statistics.channel_statistics import product_inputs
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds, Progress
from qdqtool.samples.request import FileData, RandomData, open_feeds
from qdqtool.samples.sample import data_digest, sample_digest
from qdqtool.samples.split import Split, split_samples, undivided

Elsewhere = Callable[[CalibrationRecord, Sequence[TensorKey], Collection[int]], CollectedRanges]
"""Makes a collector that runs samples in other processes; arguments: the record, the tensors, the hold-out samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationScope:
    """The samples that a calibration runs, and the file for partial results.

    Attributes:
        shard: The shard of the samples to run; None for all samples.
        keep: A ranges file, written regularly and at Ctrl-C; an interrupted run continues from it. None for no file.
        hold_back: Whether some samples are held out, to measure accuracy on them.
        elsewhere: Makes a collector that runs the samples in other processes; None to run them in this process.
    """

    shard: Shard | None = None
    keep: Path | None = None
    hold_back: bool = True
    elsewhere: Elsewhere | None = None


@dataclass(frozen=True, slots=True)
class CalibrationSamples:
    """Calibration data."""

    feeds: Feeds
    digests: Sequence[bytes]


def fold_samples(
    collector: CollectedRanges,
    record: CalibrationRecord,
    samples: CalibrationSamples,
    scope: CalibrationScope,
    progress: Progress | None,
) -> tuple[Ranges, int]:
    """Run the remaining samples of ``scope``.

    Raises:
        UsageError: As :meth:`Collector.chunks`; or the file has partial results of another calibration.
        OutputError: The file cannot be written.
        Interrupted: Ctrl-C, when there is a file.
        CapabilityError: No machine is left to run samples; the results so far are in the file.
    """
    count = len(samples.feeds)
    part = scope.shard.part(count) if scope.shard else RangesPart(0, count, 0)
    checkpoint = RangesCheckpoint(scope.keep) if scope.keep else None
    earlier = checkpoint.earlier(Ranges(record, collector.ranges, part=part)) if checkpoint else None
    if earlier is not None:
        assert earlier.part is not None
        collector.resume(earlier)
        part = earlier.part
    resumed = part.done - part.start

    def so_far() -> Ranges:
        return Ranges(record, collector.ranges, collector.unreadable, part, collector.choosing)

    try:
        for done in collector.chunks(samples.feeds, samples.digests, part, progress):
            part = replace(part, done=done)
            if checkpoint is not None and not part.is_whole:
                checkpoint.offer(so_far)
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        raise checkpoint.interrupted(so_far()) from None
    except CapabilityError:
        # The machines that ran the samples are gone.
        if checkpoint is not None and part.done > part.start:
            checkpoint.keep(so_far())
        raise
    return so_far() if scope.shard else replace(so_far(), part=None), resumed


TryMethods = Callable[[Prepared, Recipe, Feeds, FloatRuns], ModelTrial | None]
"""Tries calibration methods on the quantized model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRequest(CalibrationScope):
    """The samples to run, and the trials on the quantized model.

    Attributes:
        trial: Tries other methods if the recipe leaves the choice; None to try none. There is no default: a caller who
            forgets the argument would get other ranges without an error.
    """

    trial: TryMethods | None


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A float model with the ranges of its tensors.

    Attributes:
        prepared: The model that was run, ready to be quantized.
        ranges: The ranges of the tensors that placement proposes.
        feeds: The samples that were run; None if the ranges come from a file.
        split: The division into selection and hold-out samples; None if the ranges come from a file.
        resumed: Number of samples that an interrupted run had finished.
        method_trial: The effect of the calibration methods that were tried; None if none was tried.
    """

    prepared: Prepared
    ranges: Ranges
    feeds: Feeds | None = None
    split: Split | None = None
    resumed: int = 0
    method_trial: MethodTrial | None = None


def calibrate_model(
    source: Model,
    data: str | Path | FileData | RandomData,
    recipe: Recipe,
    runs: FloatRuns,
    progress: Progress | None = None,
    *,
    scope: CalibrationRequest,
) -> Calibrated:
    """Calibrate a loaded model. Its session stays open in ``runs``.

    The model is prepared with all selection samples, even if this run has only a shard of the samples. Ranges are
    collected on all samples, and separately on the selection samples.

    Args:
        source: The float model; it is not changed.
        data: The origin of the samples, or a request for random samples.
        recipe: Mode, target and options of the quantization.
        runs: Runs the model, see :func:`runs_for`.
        progress: Called after each sample, with the number of finished samples and of all samples.
        scope: The samples to run, the file for partial results, and the trial of other methods.
    """
    recipe.require_ranges(
        "there are no ranges to find",
        hint=f"`qdqtool quantize MODEL --quantize-mode {recipe.quantize_mode} -o OUT.onnx` needs no ranges",
    )
    model, digests = with_fixed_inputs(source, recipe), list[bytes]()
    feeds = open_feeds(model, data, lambda sample: digests.append(sample_digest(sample)))
    split = split_samples(len(feeds)) if scope.hold_back else undivided(len(feeds))
    choosing = split.choosing_of(feeds)
    prepared = prepared_for(recipe, model, choosing, runs)
    index = runs.index_of(prepared.model)
    values = calibrated_values(index, recipe)
    automatic = recipe.method == calibrators.DEFAULT
    tried = scope.trial(prepared, recipe, split.choosing_of(feeds), runs) if automatic and scope.trial else None
    prepared = replace(prepared, record=(*prepared.record, *_decisions(tried)))
    record = CalibrationRecord(
        method=recipe.method,
        samples=len(feeds),
        random=feeds.description.seed is not None,
        seed=feeds.description.seed,
        data_sha256=data_digest(digests),
        model_sha256=model_digest(prepared.model),
        preparation=prepared.record,
        parameters=recipe.parameters(),
        preprocessing=feeds.description.preprocessing,
    )
    collector: CollectedRanges
    if scope.elsewhere is None:
        histograms = calibrators.get(recipe.method).needs_histogram
        collector = RangeCollector(index, values, runs, histograms=histograms, held=split.held)
    else:
        collector = scope.elsewhere(record, [tensor_key(value) for value in values], split.held)
    ranges, resumed = fold_samples(collector, record, CalibrationSamples(feeds, digests), scope, progress)
    return Calibrated(prepared, ranges, feeds, split, resumed, None if tried is None else tried.methods)


def calibrated_values(index: ModelIndex, recipe: Recipe) -> list[Value]:
    """Return the tensors of a prepared model whose ranges are needed."""
    proposal = propose_for(index, recipe)
    refuse_nothing(proposal.slots, proposal.skipped)
    needed = [index.value(entry.slot) for entry in proposal.activations]
    return list(dict.fromkeys([*needed, *(activations(index) if recipe.all_tensors else ())]))


def _decisions(tried: ModelTrial | None) -> Iterator[PreparationStep]:
    """Yield the results of trials that a ranges file stores."""
    if tried is not None and tried.methods.method != calibrators.DEFAULT:
        yield encode_choice(tried.methods.method)
    if tried is not None and tried.dominant is not None:
        yield encode_dominant(tried.dominant)


def prepared_for(recipe: Recipe, model: Model, feeds: Feeds, runs: FloatRuns) -> Prepared:
    """Prepare a model for the quantization by a recipe; arguments and errors are those of :func:`prepare`."""

    def slots(index: ModelIndex) -> Sequence[ProposedSlot]:
        return propose_for(index, recipe).slots

    mode = recipe.mode
    request = StepRequest(
        recipe.preparation, integer_activations=mode.integer_activations, slots=slots, few_bits=mode.search
    )
    return prepare(model, feeds, runs, request)


def runs_for(recipe: Recipe) -> FloatRuns:
    """Return runs of a float model; their session returns all tensors that calibration or quantization reads."""

    def read(index: ModelIndex) -> Iterator[Value]:
        yield from (value for value, _ in product_inputs(index))
        # When the proposal is used, the same error is raised again.
        with contextlib.suppress(UsageError):
            yield from calibrated_values(index, recipe)

    return FloatRuns(read)
