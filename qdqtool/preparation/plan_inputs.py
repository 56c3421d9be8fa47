"""The inputs of a plan: a prepared float model with its ranges or its data, from any source."""

from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.data import Feeds
from qdqtool.data.feeds import Progress
from qdqtool.data.request import FileData, RandomData, open_feeds
from qdqtool.errors import UsageError
from qdqtool.graph.model import Model
from qdqtool.planning import modes
from qdqtool.planning.calibration_used import CalibrationUsed, data_of_weights, used_ranges
from qdqtool.planning.given_ranges import GivenRanges, given_ranges
from qdqtool.planning.planner import Planned
from qdqtool.planning.recipe import Recipe, with_fixed_inputs
from qdqtool.planning.target_fit import taken_modes
from qdqtool.preparation.cached_ranges import CachedRanges, ranges_from_cache
from qdqtool.preparation.calibration import Calibrated, calibrate_model, prepared_for
from qdqtool.preparation.prepare import Prepared
from qdqtool.ranges import encodings
from qdqtool.ranges.calibration_run import CalibrationScope
from qdqtool.ranges.types import Ranges
from qdqtool.running.channel_statistics import ChannelData
from qdqtool.running.float_runs import FloatRuns

PlanSource = str | Path | FileData | RandomData | CachedRanges
"""Calibration data, a request for random data, or ranges that were found before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """A prepared float model, with the ranges and data for a plan.

    Attributes:
        prepared: The model.
        feeds: Data for running it; None where there is none.
        ranges: The ranges of its activations, from a calibration; None in modes that need none.
        given: The results of another tool, in place of ranges.
        used: The origin of the ranges; None where there are none.
    """

    prepared: Prepared
    feeds: Feeds | None = None
    ranges: Ranges | None = None
    given: GivenRanges | None = None
    used: CalibrationUsed | None = None

    def used_for(self, planned: Planned) -> CalibrationUsed | None:
        """Return the origin of ranges, with the use of a given file; without ranges, the use of the data."""
        if self.used is not None:
            return self.used if planned.given is None else replace(self.used, given=planned.given)
        if self.feeds is None:
            return None
        return data_of_weights(self.feeds.description, rounded=planned.rounded_by_data)


def gather_inputs(
    source: Model,
    data: PlanSource | None,
    recipe: Recipe,
    runs: FloatRuns,
    progress: Progress | None = None,
    keep: Path | None = None,
) -> PlanInputs:
    """Prepare a float model, and find or read the ranges for its plan.

    Args:
        source: The float model; it is not changed.
        data: The samples or ranges. Optional in a mode that needs no ranges.
        recipe: What to quantize.
        runs: Runs the model, see :func:`qdqtool.preparation.calibration.runs_for`.
        progress: Told of every calibration sample.
        keep: A ranges file for the partial results of a calibration; None for none.

    Raises:
        UsageError: Data or ranges do not fit the model or the mode, or are missing.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
    """
    if isinstance(data, CachedRanges):
        if encodings.recognize(data.path) is not None:
            return _given_by_another_tool(source, data, recipe, runs)
        recipe.require_ranges(f"it has no use for ranges {data.path}")
        cached = ranges_from_cache(with_fixed_inputs(source, recipe), data, recipe)
        return _with_ranges(cached.found, cached.used)
    if not recipe.mode.needs_ranges:
        return _without_ranges(source, data, recipe, runs)
    if data is None:
        others = (name for name in taken_modes(recipe.target) if not modes.get(name).needs_ranges)
        raise UsageError(
            f"quantize mode '{recipe.quantize_mode}' quantizes activations: it needs calibration data",
            hint=f"weight-only modes need none: {', '.join(others)}",
        )
    found = calibrate_model(source, data, recipe, runs, progress, CalibrationScope(keep=keep))
    assert found.feeds is not None
    read = found.feeds.description
    used = used_ranges(read.source, found.ranges.record, recipe)
    return _with_ranges(found, replace(used, repeated=read.repeated, method_trial=found.method_trial))


def _with_ranges(found: Calibrated, used: CalibrationUsed) -> PlanInputs:
    return PlanInputs(prepared=found.prepared, feeds=found.feeds, ranges=found.ranges, used=used)


def _without_ranges(
    source: Model, data: str | Path | FileData | RandomData | None, recipe: Recipe, runs: FloatRuns
) -> PlanInputs:
    """Return the model, prepared only if there is data to prove that this changes no output."""
    model = with_fixed_inputs(source, recipe)
    if data is None:
        return PlanInputs(prepared=Prepared(model))
    feeds = open_feeds(model, data)
    return PlanInputs(prepared=prepared_for(recipe, model, feeds, runs), feeds=feeds)


def _given_by_another_tool(source: Model, cache: CachedRanges, recipe: Recipe, runs: FloatRuns) -> PlanInputs:
    """Return the inputs for given ranges: they are of the unprepared model, so data is only used to correct biases."""
    model = with_fixed_inputs(source, recipe)
    given = given_ranges(model, cache.path, recipe)
    used = used_ranges(str(cache.path), given.ranges.record, recipe)
    used = replace(used, method=given.report.format, given=given.report)
    feeds = None if cache.data is None else open_feeds(model, cache.data)
    correct = recipe.preparation.bias_correction
    means = ChannelData(feeds, runs).means(model) if feeds is not None and correct else {}
    return PlanInputs(prepared=Prepared(model, means=means), feeds=feeds, given=given, used=used)
