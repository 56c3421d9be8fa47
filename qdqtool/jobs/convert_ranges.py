"""The convert-ranges job: write ranges of qdqtool, of another tool or of a model in a file format of another tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.errors import ArgumentError, UsageError, plural
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.output import check_output, write_output
from qdqtool.models.graph.scope import display
from qdqtool.numerics import formats
from qdqtool.quantization.preparation.bias_correction import BIAS_CORRECTION
from qdqtool.quantization.preparation.steps import known_steps
from qdqtool.quantization.ranges import calibrators, encodings
from qdqtool.quantization.ranges.file import read_stored
from qdqtool.quantization.ranges.method_choice import PLANNED, chosen_method, threshold
from qdqtool.quantization.ranges.model_ranges import model_ranges
from qdqtool.quantization.ranges.types import UNSEEN, Ranges, TensorRange
from qdqtool.registry import suggestion
from qdqtool.results import Report

MODEL = "onnx"
"""The value of ``read_as`` for a model with Q/DQ."""

GOAL_FORMAT = "int8"
"""The number format for which the files are written: a TensorRT calibration cache holds int8 scales."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertReport(Report):
    """The result of ``convert-ranges``.

    Attributes:
        source: The input file.
        read_as: Id of the format of the input; ``qdqtool`` for a ranges file of qdqtool, ``onnx`` for a model with
            Q/DQ.
        output: The file that was written.
        written_as: Id of the format of the output.
        method: Id of the calibrator that computed thresholds from ranges; None if the input already has thresholds.
        tensors: Number of tensors that were written.
        unseen: Tensors without a range, which were left out.
        notes: Facts in the input that the output format cannot express; and how a range without a pair was found.
    """

    source: str
    read_as: str
    output: str
    written_as: str
    method: str | None
    tensors: int
    unseen: tuple[str, ...]
    notes: tuple[str, ...] = ()


def convert_ranges(
    source: str | Path, output: str | Path, to: str, method: str | None = None, fill: str | Path | None = None
) -> ConvertReport:
    """Write ranges in a file format of another tool.

    Args:
        source: A ranges file of qdqtool or of another tool, or a model with Q/DQ (``.onnx``).
        output: The file to write.
        to: One of :func:`qdqtool.quantization.ranges.encodings.writable`.
        method: Id of the calibrator that derives thresholds from ranges; None for the method of the calibration.
        fill: Another such file, for the tensors of ``source`` that have no range there; None for none.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The input is malformed, or cannot be written in the format.
        OutputError: The file cannot be written.
    """
    source, output = Path(source), Path(output)
    fills = [] if fill is None else [Path(fill)]
    _check_format(to)
    check_output(output, [source, *fills])
    read, *more = (_read(path, to, method) for path in (source, *fills))
    if method is not None and all(each.method is None for each in (read, *more)):
        raise UsageError(f"{source} has no histograms: --calibration-method needs ranges of `qdqtool calibrate`")
    seen, notes = {name: each for name, each in read.given.items() if each.count}, read.notes
    for other in more:
        had = len(seen)
        seen |= {
            name: found for name in read.given if (found := other.given.get(name, UNSEEN)).count and name not in seen
        }
        notes = (*notes, f"{plural(len(seen) - had, 'tensor')} without a range took the one in {fill}")
    if not seen:
        raise UsageError(f"{source} has no range of any tensor: there is nothing to write")
    ranges = {name: seen[name] for name in read.given if name in seen}
    write_output(output, encodings.encode(ranges, to))
    return ConvertReport(
        source=str(source),
        read_as=read.read_as,
        output=str(output),
        written_as=to,
        method=read.method,
        tensors=len(seen),
        unseen=tuple(name for name in read.given if name not in seen),
        notes=notes,
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What a file or model says: the attributes are those of :class:`ConvertReport`."""

    read_as: str
    method: str | None
    given: Mapping[str, TensorRange]
    notes: tuple[str, ...] = ()


def _read(path: Path, to: str, method: str | None) -> _Read:
    """Read ranges. Only those of qdqtool have histograms, to which the method is applied."""
    read_as = MODEL if path.suffix == ".onnx" else encodings.recognize(path)
    if read_as is not None:
        return _Read(read_as, None, *(_of_model(path) if read_as == MODEL else _of_file(path, to)))
    found = read_stored(path, method)
    method = method or found.record.method
    _check_preparation(found, path)
    return _Read("qdqtool", method, _thresholds(found, method))


def _check_format(to: str) -> None:
    legal = encodings.writable()
    if to not in legal:
        raise ArgumentError(f"format '{to}' cannot be written; legal: {', '.join(legal)}{suggestion(to, legal)}")


def _of_model(source: Path) -> tuple[Mapping[str, TensorRange], tuple[str, ...]]:
    """Return the ranges of the pairs of a model, and notes about them."""
    read = model_ranges(load_model(source))
    notes = list(read.found.remarks_of(read.found.ranges))
    if read.carried:
        count = plural(len(read.carried), "tensor")
        notes.append(
            f"{count} without a pair took the range of another tensor or of an operator, such as '{read.carried[0]}'"
        )
    if read.kept:
        notes.append(f"{plural(read.kept, 'Q/DQ node')} cannot be stripped: the names may not fit the stripped model")
    return read.found.ranges, tuple(notes)


def _of_file(source: Path, to: str) -> tuple[Mapping[str, TensorRange], tuple[str, ...]]:
    """Return the ranges in a file of another tool, and the facts in it that the format ``to`` cannot express."""
    theirs = encodings.read_encodings(source).found
    notes = [] if encodings.keeps_ends(to) else list(theirs.remarks_of(theirs.ranges))
    others = [name for name in theirs.names if name not in theirs.ranges]
    if others:
        notes.append(f"{len(others)} tensors without a range of their own are left out, such as '{others[0]}'")
    return theirs.ranges, tuple(notes)


def _check_preparation(ranges: Ranges, source: Path) -> None:
    """Refuse ranges that were measured after tensors were rescaled, since other tools use the original model."""
    known = known_steps()
    harmless = {BIAS_CORRECTION, *PLANNED, *(name for name, step in known.items() if not step.rescales_tensors)}
    steps = [step.step for step in ranges.record.preparation if step.was_made and step.step not in harmless]
    if steps:
        off = " ".join(step.off for step in known.values() if step.rescales_tensors)
        raise UsageError(
            f"ranges {source} were found after {' and '.join(steps)}, which rescaled channels: they do not fit the "
            "original model, which other tools read",
            hint=f"calibrate again with `{off}`, then convert",
        )


def _thresholds(ranges: Ranges, method: str) -> dict[str, TensorRange]:
    """Return the ranges that int8 codes must cover, by tensor name: files of other tools have no scopes."""
    percentile = ranges.record.parameters.get("percentile", calibrators.PERCENTILE)
    if not isinstance(percentile, int | float):
        raise UsageError(f"the ranges were found for percentile {percentile!r}, which is not a number")
    calibrators.check_percentile("percentile", percentile)
    goal = calibrators.RangeGoal(format=formats.get(GOAL_FORMAT), percentile=percentile)
    chosen, automatic = chosen_method(ranges.record, method), method == calibrators.DEFAULT
    found: dict[str, TensorRange] = {}
    for (scope, name), seen in ranges.tensors.items():
        amax = threshold(chosen, seen, goal, automatic=automatic).amax
        kept = replace(seen, min=max(seen.min, -amax), max=min(seen.max, amax), amax=amax, histogram=None)
        if found.setdefault(name, kept) != kept:
            raise UsageError(
                f"tensor '{name}' has different ranges in several graphs, as in {display(scope) or 'the main graph'}: "
                "files of other tools have one range for each name"
            )
    return found
