"""The files that ``quantize`` reads and writes besides the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from qdqtool.accuracy.search.goal_report import CurvePoint
from qdqtool.errors import UsageError
from qdqtool.models.graph.io.model_file import model_digest
from qdqtool.models.graph.io.output import check_outputs, write_output
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import QuantPlan
from qdqtool.quantization.planning.plan_file import encode_plan
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.preparation.plan_inputs import PlanSource
from qdqtool.quantization.ranges.file import encode_ranges
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.samples.in_memory import in_files
from qdqtool.samples.request import RandomData

CURVE_VERSION = 1


class CurveFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file that ``--pareto`` writes: accuracy and cost as more and more layers stay in float.

    Attributes:
        schema_version: Version of the schema, 1.
        points: The models that the search measured, in order.
    """

    schema_version: int
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraFiles:
    """The files that are written in addition to the model.

    Attributes:
        ranges_file: Where to write the ranges; None for nowhere.
        plan_file: Where to write the plan, as JSON; None for nowhere.
        curve_file: Where to write the curve of accuracy against quantized share, as JSON; None for nowhere.
    """

    ranges_file: Path | None = None
    plan_file: Path | None = None
    curve_file: Path | None = None


def check_files(
    source: Model, data: Iterable[PlanSource | None], outputs: Iterable[Path | None], extras: ExtraFiles
) -> None:
    """Check that all outputs can be written, and that none is an input or another output.

    Args:
        source: The model.
        data: Calibration data or ranges, and validation data; None for absent data.
        outputs: The model to write, and the file for the noise of layers; None for a file that is not requested.
        extras: The other files.

    Raises:
        UsageError: An output is an input or another output, or the plan file or curve file is not named ``.json``.
    """
    inputs = [source.path] if source.path else []
    for read in data:
        if read is not None and not isinstance(read, RandomData):
            inputs += in_files([Path(read) if isinstance(read, str | Path) else read.path])
        if isinstance(read, CachedRanges) and read.data is not None:
            inputs += in_files([read.data.path])
    written = (*outputs, extras.ranges_file, extras.plan_file, extras.curve_file)
    check_outputs([path for path in written if path is not None], inputs)
    for what, path in (("plan", extras.plan_file), ("curve", extras.curve_file)):
        if path is not None and path.suffix.lower() != ".json":
            raise UsageError(f"{what} file {path} must end in .json", hint=f"{what}s are written as JSON")


def save_extras(
    extras: ExtraFiles, ranges: Ranges | None, planned: tuple[QuantPlan, Model], curve: Sequence[CurvePoint]
) -> None:
    """Write the ranges, the plan with the digest of its model, and the curve, if requested."""
    if extras.ranges_file is not None and ranges is not None:
        write_output(extras.ranges_file, encode_ranges(ranges))
    if extras.plan_file is not None:
        plan, model = planned
        write_output(extras.plan_file, encode_plan(plan, model_digest(model)))
    if extras.curve_file is not None:
        document = CurveFile(schema_version=CURVE_VERSION, points=tuple(curve))
        write_output(extras.curve_file, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
