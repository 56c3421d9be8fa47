"""The inputs of a plan: a prepared float model with its ranges or its data, from any source."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.given_ranges import GivenRanges, given_ranges
from qdqtool.quantization.planning.planner import Planned
from qdqtool.quantization.planning.planners import PlanData
from qdqtool.quantization.planning.recipe import Recipe, with_fixed_inputs
from qdqtool.quantization.planning.target_fit import taken_modes
from qdqtool.quantization.preparation.cached_ranges import CachedRanges, ranges_from_cache
from qdqtool.quantization.preparation.calibration import (
    Calibrated,
    CalibrationRequest,
    TryMethods,
    calibrate_model,
    prepared_for,
)
from qdqtool.quantization.preparation.metadata import data_of_weights, used_ranges
from qdqtool.quantization.preparation.prepare import Prepared
from qdqtool.quantization.ranges import encodings
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.quantization.statistics.channel_statistics import ChannelData
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds, Progress
from qdqtool.samples.request import FileData, RandomData, open_feeds
from qdqtool.samples.sample import data_digest, sample_digest
from qdqtool.samples.split import (
    NOT_RECORDED,
    SAME_DATA,
    THEIRS,
    UNKNOWN,
    MeasuringData,
    Split,
    measuring_part,
    split_samples,
    undivided,
)


@dataclass(frozen=True, slots=True)
class ValidationData:
    """Validation data that was checked against the inputs of a model.

    Attributes:
        feeds: The samples.
        digest: The digest of the samples, in the form of the digest of calibration data in a ranges file.
    """

    feeds: Feeds
    digest: str

    def alone(self) -> MeasuringData:
        """Return the samples for a measurement, if there is no calibration data that could be the same."""
        return MeasuringData(feeds=self.feeds, validation=self.feeds.description.source)

    def beside(self, calibration: str | None) -> MeasuringData:
        """Return the samples for a measurement, with a note if they are the same as the calibration data.

        Args:
            calibration: Digest of the calibration data; None if unknown.
        """
        return MeasuringData(feeds=self.feeds, reason=SAME_DATA) if self.digest == calibration else self.alone()


def open_validation(model: Model, data: str | Path | FileData) -> ValidationData:
    """Open validation data and check each of its samples.

    Args:
        model: The float model with fixed input shapes.
        data: The file, folder or script.
    """
    digests: list[bytes] = []
    feeds = open_feeds(model, data, lambda sample: digests.append(sample_digest(sample)))
    return ValidationData(feeds, data_digest(digests))


PlanSource = str | Path | FileData | RandomData | CachedRanges
"""Calibration data, a request for random data, or existing ranges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """A prepared float model, with the ranges and data for a plan.

    Attributes:
        prepared: The prepared model.
        feeds: Calibration data; None if there is none.
        choosing: The selection samples: no other sample influences a choice, except through the final ranges.
        measuring: The samples to measure accuracy on; None if there are none.
        ranges: The ranges of the activations, from a calibration; None in modes that do not need them.
        given: Results of another tool, used instead of ranges.
        used: The origin of the ranges; None if there are none.
    """

    prepared: Prepared
    feeds: Feeds | None = None
    choosing: Feeds | None = None
    measuring: MeasuringData | None = None
    ranges: Ranges | None = None
    given: GivenRanges | None = None
    used: CalibrationUsed | None = None

    def used_for(self, planned: Planned) -> CalibrationUsed | None:
        """Return the origin of the ranges with the use of a given file; without ranges, how the data was used."""
        if self.used is not None:
            return self.used if planned.given is None else replace(self.used, given=planned.given)
        if self.feeds is None or self.choosing is None:
            return None
        return data_of_weights(self.feeds.description, len(self.choosing), rounded=planned.rounded_by_data)

    def plan_data(self, progress: Progress | None = None, *, stored: bool = True) -> PlanData:
        """Return the data from which a plan is made."""
        return PlanData(ranges=self.ranges, given=self.given, feeds=self.choosing, progress=progress, stored=stored)


@dataclass(frozen=True, slots=True)
class PlanSources:
    """The origin of the ranges and samples for a plan.

    Attributes:
        data: The calibration data or the ranges; None in a mode that needs neither.
        validation: Samples to measure accuracy on, so that no hold-out samples are needed; None for none.
        keep: A ranges file for the partial results of a calibration; None for none.
        trial: Tries calibration methods on the quantized model; None to try none.
    """

    data: PlanSource | None
    validation: str | Path | FileData | None = None
    keep: Path | None = None
    trial: TryMethods | None = field(kw_only=True)


def gather_inputs(
    source: Model, sources: PlanSources, recipe: Recipe, runs: FloatRuns, progress: Progress | None = None
) -> PlanInputs:
    """Prepare a float model, and find or read the ranges for its plan.

    Args:
        source: The float model; it is not changed.
        sources: The samples or ranges.
        recipe: What to quantize.
        runs: Runs the model, see :func:`qdqtool.quantization.preparation.calibration.runs_for`.
        progress: Called after each calibration sample, with the number of finished samples and of all samples.

    Raises:
        UsageError: Data or ranges do not fit the model or the mode, or are missing.
    """
    data, measured = sources.data, None
    if sources.validation is not None:
        measured = open_validation(with_fixed_inputs(source, recipe), sources.validation)
    if isinstance(data, CachedRanges):
        if encodings.recognize(data.path) is not None:
            return _given_by_another_tool(with_fixed_inputs(source, recipe), data, recipe, runs, measured)
        recipe.require_ranges(f"it does not use ranges {data.path}")
        return _from_cache(with_fixed_inputs(source, recipe), data, recipe, measured)
    if not recipe.mode.needs_ranges:
        return _without_ranges(with_fixed_inputs(source, recipe), data, recipe, runs, measured)
    if data is None:
        others = (name for name in taken_modes(recipe.target) if not modes.get(name).needs_ranges)
        raise UsageError(
            f"quantize mode '{recipe.quantize_mode}' quantizes activations: it needs calibration data",
            hint=f"weight-only modes need no data: {', '.join(others)}",
        )
    scope = CalibrationRequest(keep=sources.keep, hold_back=measured is None, trial=sources.trial)
    return _calibrated(calibrate_model(source, data, recipe, runs, progress, scope=scope), recipe, measured)


def gather_data(
    source: Model, sources: PlanSources, recipe: Recipe, runs: FloatRuns, progress: Progress | None = None
) -> PlanInputs:
    """Find the samples for a model that gets no new pairs, so that it needs no ranges; as :func:`gather_inputs`."""
    del progress
    data = sources.data.data if isinstance(sources.data, CachedRanges) else sources.data
    measured = open_validation(source, sources.validation) if sources.validation is not None else None
    return _without_ranges(source, data, recipe, runs, measured)


def _calibrated(found: Calibrated, recipe: Recipe, measured: ValidationData | None) -> PlanInputs:
    """Return the inputs of a plan from a calibration of this run."""
    assert found.feeds is not None
    assert found.split is not None
    read, record = found.feeds.description, found.ranges.record
    measuring = measuring_part(found.feeds, found.split) if measured is None else measured.beside(record.data_sha256)
    if measuring.held_back and found.ranges.choosing is None:
        measuring = MeasuringData(feeds=found.feeds, reason=NOT_RECORDED)
    used = used_ranges(read.source, record, recipe)
    return PlanInputs(
        prepared=found.prepared,
        feeds=found.feeds,
        choosing=found.split.choosing_of(found.feeds),
        measuring=measuring,
        ranges=found.ranges,
        used=replace(used, repeated=read.repeated, method_trial=found.method_trial),
    )


def _from_cache(model: Model, cache: CachedRanges, recipe: Recipe, measured: ValidationData | None) -> PlanInputs:
    """Return the inputs of a plan from a ranges file of qdqtool; additional data only measures."""
    if measured is not None and cache.data is not None:
        raise UsageError(
            "with a ranges file, validation data and calibration data would both measure the accuracy",
            hint="give one of --validation-data and --calib-data",
        )
    cached = ranges_from_cache(model, cache, recipe)
    found, record = cached.found, cached.found.ranges.record
    measuring = None
    if measured is not None:
        measuring = measured.beside(None if record.chunk is None else record.data_sha256)
    elif found.feeds is not None:
        measuring = MeasuringData(feeds=found.feeds, reason=THEIRS if cached.of_the_ranges else UNKNOWN)
    return PlanInputs(
        prepared=found.prepared,
        feeds=found.feeds,
        choosing=None if found.feeds is None else split_samples(len(found.feeds)).choosing_of(found.feeds),
        measuring=measuring,
        ranges=found.ranges,
        used=cached.used,
    )


def _without_ranges(
    model: Model,
    data: str | Path | FileData | RandomData | None,
    recipe: Recipe,
    runs: FloatRuns,
    measured: ValidationData | None,
) -> PlanInputs:
    """Return the inputs of a plan; the model is prepared only if data can prove that no output changes."""
    if data is None:
        return PlanInputs(prepared=Prepared(model), measuring=None if measured is None else measured.alone())
    digests: list[bytes] = []
    feeds = open_feeds(model, data, None if measured is None else lambda sample: digests.append(sample_digest(sample)))
    split = _split(feeds, measured)
    return PlanInputs(
        prepared=prepared_for(recipe, model, split.choosing_of(feeds), runs),
        feeds=feeds,
        choosing=split.choosing_of(feeds),
        measuring=measuring_part(feeds, split) if measured is None else measured.beside(data_digest(digests)),
    )


def _given_by_another_tool(
    model: Model, cache: CachedRanges, recipe: Recipe, runs: FloatRuns, measured: ValidationData | None
) -> PlanInputs:
    """Return the inputs for given ranges. They fit the unprepared model, so data only serves bias correction."""
    given = given_ranges(model, cache.path, recipe)
    used = used_ranges(str(cache.path), given.ranges.record, recipe)
    used = replace(used, method=given.report.format, given=given.report)
    feeds = None if cache.data is None else open_feeds(model, cache.data)
    if feeds is None:
        measuring = None if measured is None else measured.alone()
        return PlanInputs(prepared=Prepared(model), measuring=measuring, given=given, used=used)
    split = _split(feeds, measured)
    choosing = split.choosing_of(feeds)
    means = ChannelData(choosing, runs).means(model) if recipe.preparation.bias_correction else {}
    held = split.held_of(feeds) or feeds
    return PlanInputs(
        prepared=Prepared(model, means=means),
        feeds=feeds,
        choosing=choosing,
        measuring=MeasuringData(feeds=held, reason=UNKNOWN) if measured is None else measured.alone(),
        given=given,
        used=used,
    )


def _split(feeds: Feeds, measured: ValidationData | None) -> Split:
    return split_samples(len(feeds)) if measured is None else undivided(len(feeds))
