"""The accuracy of each output against the float model, and its worst samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

from qdqtool.accuracy.checking.report import CheckReport, OutputResult
from qdqtool.accuracy.checking.sample_errors import is_outlier
from qdqtool.accuracy.report import OutputAccuracy, SampleDistribution, WorstSample
from qdqtool.errors import plural
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.reports.blocks import Block, Cell, Column, Columns, Lines, Table, decibels, number, share, tabulate, text
from qdqtool.reports.kinds import check
from qdqtool.reports.page.difference import DIFFERENCE, EXACT, in_decibels, in_shares
from qdqtool.reports.page.fairness import CheckPair, check_pairs
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Comparison, Section
from qdqtool.reports.page.sections.facts import sqnr
from qdqtool.reports.saved.story import Story, bracketed

_FLOAT = "not exact"
CHECKED = (
    *check.OUTPUTS,
    Column("Equal elements", numeric=True, empty=_FLOAT),
    Column("NaN or infinite", numeric=True, empty="0"),
    Column("Report", empty=""),
)
MEASURED: Columns[OutputAccuracy] = {
    Column("Output"): lambda output: text(output.name),
    Column("SQNR", numeric=True): lambda output: decibels(output.sqnr_db, exact=output.exact),
    Column("Standard error", numeric=True): lambda output: number(output.standard_error_db, ".2f", "dB"),
    Column("Finite"): lambda output: text("yes") if output.finite else Cell("no", "no", "failed"),
}


class _Sample(NamedTuple):
    source: str
    output: OutputResult
    sample: WorstSample


class _Spread(NamedTuple):
    source: str
    output: str
    all: SampleDistribution


_NO_FILE = "no file of its own"
SAMPLES: Columns[_Sample] = {
    Column("Output"): lambda row: text(row.output.name),
    Column("Sample", numeric=True): lambda row: number(row.sample.number, "d"),
    Column("SQNR", numeric=True): lambda row: _sample_sqnr(row.sample),
    Column("Largest difference", numeric=True): lambda row: number(row.sample.max_abs),
    Column("File", empty=_NO_FILE): lambda row: _files(row.sample),
    Column("Report", empty=""): lambda row: text(row.source),
}
DISTRIBUTION: Columns[_Spread] = {
    Column("Output"): lambda row: text(row.output),
    Column("Lowest", numeric=True): lambda row: decibels(row.all.min_db),
    Column("Lower quartile", numeric=True): lambda row: decibels(row.all.lower_quartile_db),
    Column("Median", numeric=True): lambda row: decibels(row.all.median_db),
    Column("Upper quartile", numeric=True): lambda row: decibels(row.all.upper_quartile_db),
    Column("Highest", numeric=True): lambda row: decibels(row.all.max_db),
    Column("Samples", numeric=True): lambda row: number(row.all.samples, ","),
    Column("Exact", numeric=True, empty="0"): lambda row: number(row.all.exact, ","),
    Column("Float output 0", numeric=True, empty="0"): lambda row: number(row.all.zero_reference, ","),
    Column("NaN or infinite", numeric=True, empty="0"): lambda row: number(row.all.nonfinite, ","),
    Column("Report", empty=""): lambda row: text(row.source),
}


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the accuracy of outputs from ``check`` and ``quantize``, worst first, and the worst samples."""
    compared = [
        (source, output)
        for source, checked in story.each(CheckReport)
        if checked.baseline is not None
        for output in checked.outputs
    ]
    compared.sort(key=lambda found: _badness(found[1]))
    rows = tuple(_row(source, output) for source, output in compared)
    columns = {column: itemgetter(at) for at, column in enumerate(CHECKED)}
    tables = (tabulate("Outputs against the float model, worst first", columns, rows),) if rows else ()
    return (*tables, *_samples(compared), *_measured(story), *_remarks(story))


def _badness(output: OutputResult) -> float:
    found = sqnr(output)
    return found if found is not None else -EXACT


def _row(source: str, output: OutputResult) -> tuple[Cell, ...]:
    agreement = _agreement(output)
    return (
        *check.output_row(output),
        share(agreement) if agreement is not None else Cell(_FLOAT),
        Cell(str(output.nonfinite), float(output.nonfinite), "warning" if output.nonfinite else None),
        text(source),
    )


def _samples(compared: Sequence[tuple[str, OutputResult]]) -> Iterator[Block]:
    spread = [
        _Spread(source, output.name, output.sample_sqnr)
        for source, output in compared
        if output.sample_sqnr is not None
    ]
    if spread:
        yield tabulate("SQNR of single samples", DISTRIBUTION, spread)
    worst = [
        _Sample(source, output, sample)
        for source, output in compared
        for sample in output.worst_samples
        if _is_worse(sample, output.sample_sqnr)
    ]
    if worst:
        yield tabulate("Samples that are far worse than the others", SAMPLES, worst)


def _is_worse(sample: WorstSample, all_: SampleDistribution | None) -> bool:
    if sample.nonfinite or sample.zero_reference:
        return True
    return all_ is not None and is_outlier(sample.sqnr_db, all_.median_db, all_.samples)


def _files(sample: WorstSample) -> Cell:
    return text(", ".join(sample.files)) if sample.files else Cell(_NO_FILE)


def _sample_sqnr(sample: WorstSample) -> Cell:
    """Return the SQNR of a sample; a sample without SQNR because it is worse is sorted as worst."""
    if sample.nonfinite:
        return Cell(f"NaN or infinite in {plural(sample.nonfinite, 'element')}", float("-1e9"), "failed")
    if sample.zero_reference:
        return Cell("float output is 0", float("-1e8"), "warning")
    return replace(decibels(sample.sqnr_db), state="warning")


def _measured(story: Story) -> Iterator[Block]:
    quantize = story.first(QuantizeReport)
    if quantize is None or quantize.accuracy is None:
        return
    if quantize.accuracy.problem:
        yield Lines("Accuracy that quantize measured", (f"Nothing was measured: {quantize.accuracy.problem}",))
    if quantize.accuracy.outputs:
        on = f"{quantize.accuracy.samples} {quantize.accuracy.part} samples"
        yield tabulate(f"The same as quantize measured it on {on}", MEASURED, quantize.accuracy.outputs)


_REMARKS: tuple[tuple[str, Callable[[CheckReport], Iterable[str]]], ...] = (
    ("What the check left out", lambda found: map(check.not_checked, found.not_observed)),
    ("Notes of the check", check.notes),
    ("Warnings of the check", lambda found: found.warnings),
)


def _remarks(story: Story) -> Iterator[Block]:
    for heading, read in _REMARKS:
        lines = tuple(f"{line}{bracketed(source)}" for source, each in story.each(CheckReport) for line in read(each))
        if lines:
            yield Lines(heading, lines)


COMPARED = (
    Column("Output"),
    Column("SQNR of A", numeric=True),
    Column("SQNR of B", numeric=True),
    Column(f"SQNR, {DIFFERENCE}", numeric=True, bars=True),
)
CODES = (
    Column("Output that is not float"),
    Column("Equal elements in A", numeric=True),
    Column("Equal elements in B", numeric=True),
    Column(f"Equal elements, {DIFFERENCE}", numeric=True),
)


def compared(pair: Pair) -> tuple[Block, ...]:
    """Return the outputs of each pair of checks, sorted by the worse of the two models."""
    return tuple(table for found in check_pairs(pair) for table in _tables(found))


def _tables(pair: CheckPair) -> Iterator[Table]:
    a, b = ({output.name: output for output in check.outputs} for check in (pair.a, pair.b))
    both = sorted(((a.get(name), b.get(name)) for name in {**a, **b}), key=lambda each: min(map(_worse, each)))
    floats = tuple(_floats(*each, pair.why) for each in both if not any(map(_has_codes, each)))
    codes = tuple(_codes(*each, pair.why) for each in both if any(map(_has_codes, each)))
    where = "" if pair.why else f" [{pair.a.data.source}]"
    if floats:
        yield Table(f"Outputs against the float model, worst first{where}", COMPARED, floats)
    if codes:
        yield Table(f"Outputs that are not float{where}", CODES, codes)


def _has_codes(output: OutputResult | None) -> bool:
    return output is not None and output.agreement is not None


def _worse(output: OutputResult | None) -> float:
    return EXACT if output is None or _has_codes(output) else _badness(output)


def _floats(a: OutputResult | None, b: OutputResult | None, why: str) -> tuple[Cell, ...]:
    values = sqnr(a) if a is not None else None, sqnr(b) if b is not None else None
    return _name(a, b), *in_decibels(values, why)


def _codes(a: OutputResult | None, b: OutputResult | None, why: str) -> tuple[Cell, ...]:
    return _name(a, b), *in_shares((_agreement(a), _agreement(b)), why)


def _name(a: OutputResult | None, b: OutputResult | None) -> Cell:
    return text(next(each.name for each in (a, b) if each is not None))


def _agreement(output: OutputResult | None) -> float | None:
    if output is None:
        return None
    return 1.0 if output.exact else output.agreement


SECTION = Section(
    30,
    "Accuracy of the outputs",
    ("check", "quantize"),
    blocks,
    Comparison("Accuracy of the outputs", ("check --baseline for both models",), compared),
)
