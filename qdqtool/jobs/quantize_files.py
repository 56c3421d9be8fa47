"""The files that ``quantize`` reads and writes besides the model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from qdqtool.data.request import RandomData
from qdqtool.errors import UsageError
from qdqtool.graph.io.output import check_outputs, write_output
from qdqtool.graph.model import Model
from qdqtool.plan import QuantPlan
from qdqtool.planning.plan_write import encode_plan
from qdqtool.preparation.cached_ranges import CachedRanges
from qdqtool.preparation.plan_inputs import PlanSource
from qdqtool.ranges.file import encode_ranges
from qdqtool.ranges.types import Ranges


def check_files(
    source: Model,
    data: Iterable[PlanSource | None],
    output: Path,
    ranges_file: Path | None,
    plan_file: Path | None,
) -> None:
    """Check that all outputs can be written, and that none is an input or another output.

    Args:
        source: The model.
        data: Calibration data or ranges, and validation data; None for what is not there.
        output: The model to write.
        ranges_file: The ranges to write, if any.
        plan_file: The plan to write, if any.

    Raises:
        OutputError: A folder is missing, or an output is a folder.
        UsageError: An output is an input or another output, or the plan file is not named ``.json``.
    """
    inputs = [source.path] if source.path else []
    for read in data:
        if read is not None and not isinstance(read, RandomData):
            inputs.append(Path(read) if isinstance(read, str | Path) else read.path)
        if isinstance(read, CachedRanges) and read.data is not None:
            inputs.append(read.data.path)
    extra = [path for path in (ranges_file, plan_file) if path is not None]
    check_outputs([output, *extra], inputs)
    if plan_file is not None and plan_file.suffix.lower() != ".json":
        raise UsageError(f"plan file {plan_file} must end in .json", hint="plans are written as JSON")


def save_extras(ranges_file: Path | None, ranges: Ranges | None, plan_file: Path | None, plan: QuantPlan) -> None:
    """Write the ranges and the plan where they are asked for."""
    if ranges_file is not None and ranges is not None:
        write_output(ranges_file, encode_ranges(ranges))
    if plan_file is not None:
        write_output(plan_file, encode_plan(plan))
