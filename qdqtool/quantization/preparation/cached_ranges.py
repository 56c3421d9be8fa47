"""Read ranges from a file instead of calibrating; data, if given, only measures the accuracy."""

from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.model_file import model_digest
from qdqtool.models.graph.model import Model
from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.calibration import Calibrated
from qdqtool.quantization.preparation.metadata import used_ranges
from qdqtool.quantization.preparation.prepare import prepare_as_recorded
from qdqtool.quantization.ranges.file import read_stored
from qdqtool.quantization.ranges.types import CalibrationRecord
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.preprocessing import Preprocessing
from qdqtool.samples.request import FileData, open_feeds
from qdqtool.samples.sample import data_digest, sample_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRanges:
    """A ranges file, and how it is used.

    Attributes:
        path: The ranges file, from qdqtool or from another tool (:mod:`qdqtool.quantization.ranges.encodings`).
        force: Use the ranges even if they were found on another model, on other data, or on a part of the samples.
        data: The data on which the ranges were found, to measure the accuracy of the result; None if not given.
    """

    path: Path
    force: bool = False
    data: FileData | None = None


@dataclass(frozen=True, slots=True)
class FromCache:
    """A calibration that was read from a ranges file of qdqtool.

    Attributes:
        found: The prepared model, its ranges and, if there is data, the checked samples.
        used: The facts about the ranges for a report.
        of_the_ranges: Whether the ranges are known to come from these samples.
    """

    found: Calibrated
    used: CalibrationUsed
    of_the_ranges: bool = True


def ranges_from_cache(model: Model, cache: CachedRanges, recipe: Recipe) -> FromCache:
    """Read a ranges file of qdqtool, and prepare the model as for these ranges; nothing is run.

    Args:
        model: The float model with the input shapes of the recipe; it is not changed.
        cache: The file, and data if there is any.
        recipe: Mode, target and options of the quantization.
    """
    ranges = read_stored(cache.path, recipe.method, force=cache.force)
    prepared = prepare_as_recorded(model, ranges.record.preparation, recipe.preparation)
    forced = [] if ranges.part is None else ["samples"]
    if model_digest(prepared.model) != ranges.record.model_sha256:
        _require_force(
            cache,
            f"ranges {cache.path} were found on another model, or with other --input-shapes or --input-values",
            "calibrate this model, or use the ranges anyway with --force",
        )
        forced.append("model")
    feeds = None if cache.data is None else _open_checked(model, cache, cache.data, ranges.record, forced)
    record = replace(ranges.record, samples=ranges.samples)
    used = replace(used_ranges(str(cache.path), record, recipe, tuple(forced)), from_file=True)
    return FromCache(Calibrated(prepared, ranges, feeds), used, of_the_ranges="data" not in forced)


def _open_checked(
    model: Model, cache: CachedRanges, data: FileData, record: CalibrationRecord, forced: list[str]
) -> Feeds:
    """Return the samples. Before anything runs, one pass checks all samples and computes their digests."""
    digests: list[bytes] = []
    data = replace(data, options=replace(data.options, recorded=record.preprocessing))
    feeds = open_feeds(model, data, lambda sample: digests.append(sample_digest(sample)))
    if record.chunk is None:
        problem = (
            f"an earlier version wrote ranges {cache.path} without a record of their data: it may not be {data.path}"
        )
    elif feeds.description.preprocessing != record.preprocessing:
        problem = (
            f"ranges {cache.path} were found on {_preprocessed(record.preprocessing)}, and {data.path} gives "
            f"{_preprocessed(feeds.description.preprocessing)}"
        )
    elif data_digest(digests) != record.data_sha256:
        theirs = "random samples" if record.random else f"{record.samples} samples"
        problem = f"ranges {cache.path} were found on other data ({theirs}) than {data.path} ({len(feeds)} samples)"
    else:
        return feeds
    _require_force(
        cache,
        problem,
        "give the data and --samples of the ranges; or measure on other data with --validation-data; or use both "
        "anyway with --force",
    )
    forced.append("data")
    return feeds


def _preprocessed(how: Preprocessing | None) -> str:
    return "samples of arrays" if how is None else f"{how.kind} with the preprocessing '{how}'"


def _require_force(cache: CachedRanges, problem: str, hint: str) -> None:
    if not cache.force:
        raise UsageError(problem, hint=hint)
