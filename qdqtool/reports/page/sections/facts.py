"""Settings, results and origin of two models: a row for each fact, with both values and the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from qdqtool.accuracy.checking.report import CheckReport, OutputResult
from qdqtool.accuracy.report import OutputAccuracy
from qdqtool.engines.build.report import EngineReport
from qdqtool.errors import plural
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.linting.findings import SEVERITIES
from qdqtool.reports.blocks import Block, Cell, Column, Lines, Table
from qdqtool.reports.kinds.check import data_origin, evaluators
from qdqtool.reports.page.difference import (
    DIFFERENCE,
    EXACT,
    Row,
    in_bytes,
    in_decibels,
    in_numbers,
    in_parts,
    in_words,
)
from qdqtool.reports.page.fairness import accuracies_differ, check_pairs
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Comparison, Section
from qdqtool.reports.page.sections.findings import findings_of
from qdqtool.reports.saved.identity import DIGITS, Claim
from qdqtool.reports.saved.story import Story

COLUMNS = (Column("Fact"), Column("A", prose=True), Column("B", prose=True), Column(DIFFERENCE, numeric=True))


def compared(pair: Pair) -> tuple[Block, ...]:
    """Return the facts that are known for at least one model, and the data on which the SQNRs were measured."""
    settings, origin = ([Row(name, in_words(pair.each(read))) for name, read in part] for part in (_SETTINGS, _ORIGIN))
    rows = (_verdict(pair), *settings, *result_rows(pair), *origin)
    known = tuple(row.cells for row in rows if row.is_known)
    notes = tuple(_notes(pair))
    table = Table(f"A is {pair.a.name}, B is {pair.b.name}", COLUMNS, known)
    return (table, Lines("What is compared", notes)) if notes else (table,)


def _verdict(pair: Pair) -> Row:
    a, b = pair.a.verdict.overall, pair.b.verdict.overall
    *_, difference = in_words((a, b))
    return Row("Verdict", (Cell(a, a, a), Cell(b, b, b), difference))


def _notes(pair: Pair) -> Iterator[str]:
    files = [story.quantized.file for story in pair.stories if story.quantized is not None]
    if len(files) == 2 and files[0] is not None and files[0] == files[1]:
        yield "A and B are the same file: only their data, versions and builds can differ."
    yield from dict.fromkeys(found.sentence for found in check_pairs(pair))


def builder(build: EngineReport) -> str:
    """Return the builder of an engine and its targets."""
    return f"{build.backend} {build.version} for {', '.join(build.targets) or 'the GPU of the machine'}"


def _digest(claim: Claim | None) -> str | None:
    return f"{claim.file.sha256[:DIGITS]}…" if claim is not None and claim.file is not None else None


def _of_quantize(read: Callable[[QuantizeReport], str | None]) -> Callable[[Story], str | None]:
    def found(story: Story) -> str | None:
        quantize = story.first(QuantizeReport)
        return read(quantize) if quantize is not None else None

    return found


def _opset(story: Story) -> str | None:
    quantize, inspected = story.first(QuantizeReport), story.first(InspectReport)
    if quantize is not None:
        return str(quantize.opset_after)
    found = inspected.opset_imports.get("ai.onnx") if inspected is not None and inspected.groups else None
    return str(found) if found is not None else None


def _calibration(quantize: QuantizeReport) -> str:
    found = quantize.calibration
    if found is None:
        return "none: the scales follow from the weights alone"
    return f"{'random inputs' if found.random else found.source}, {plural(found.samples, 'sample')}"


def _checked_origin(story: Story) -> str | None:
    return _joined(
        f"{data_origin(check.data)}, {plural(check.data.samples, 'sample')}" for _, check in story.each(CheckReport)
    )


def references(story: Story) -> str | None:
    """Return the sessions that computed the numbers of checks, or None without a check."""
    used = ((check.reference, evaluators(check)) for _, check in story.each(CheckReport))
    return _joined(
        ", ".join([f"{it.runtime} {it.version}, profile {it.profile}, on {it.cpu}", *others]) for it, others in used
    )


def builders(story: Story) -> str | None:
    """Return the builders of the engines and their targets, or None without a build."""
    return _joined(builder(build) for _, build in story.each(EngineReport))


def versions(story: Story) -> str | None:
    """Return the versions of qdqtool that made the reports of each model; None if no report names a version."""
    return _joined(filter(None, (report.qdqtool_version for report in story.reports)))


def _joined(words: Iterable[str]) -> str | None:
    return "; ".join(sorted(set(words))) or None


_Readers = tuple[tuple[str, Callable[[Story], str | None]], ...]
_SETTINGS: _Readers = (
    ("Mode", _of_quantize(lambda quantize: quantize.mode)),
    ("Target", _of_quantize(lambda quantize: quantize.target)),
    ("Opset", _opset),
    ("Calibration method", _of_quantize(lambda each: each.calibration.method_used if each.calibration else None)),
)
_ORIGIN: _Readers = (
    ("Quantized model", lambda story: story.quantized_model),
    ("SHA-256 of the quantized model", lambda story: _digest(story.quantized)),
    ("Float model", lambda story: story.float_model),
    ("SHA-256 of the float model", lambda story: _digest(story.original)),
    ("Calibration data", _of_quantize(_calibration)),
    ("Data of the checks", _checked_origin),
    ("qdqtool", versions),
    ("Reference", references),
    ("Builder", builders),
)


def result_rows(pair: Pair) -> Iterator[Row]:
    """Yield accuracy, counts, sizes, precision and findings."""
    yield _checked(pair)
    yield _measured(pair)
    yield from _counts(pair)
    yield from _engine(pair)
    yield from _findings(pair)


def sqnr(output: OutputResult | OutputAccuracy) -> float | None:
    """Return the SQNR of an output in dB; infinite if the output is exact."""
    return EXACT if output.exact else output.sqnr_db


def _checked(pair: Pair) -> Row:
    """Return the worst SQNR of each model: of the checks that can be compared, or else of all checks."""
    pairs = check_pairs(pair)
    why = pairs[0].why if pairs else ""
    if pairs and not why:
        worst = _worst(_floats(each.a for each in pairs)), _worst(_floats(each.b for each in pairs))
    else:
        worst = pair.each(lambda story: _worst(_floats(check for _, check in story.each(CheckReport))))
    return Row("Worst output SQNR, by check", in_decibels(worst, why))


def _floats(checks: Iterable[CheckReport]) -> Iterator[OutputResult | OutputAccuracy]:
    for check in checks:
        if check.baseline is not None:
            yield from (output for output in check.outputs if output.agreement is None)


def _measured(pair: Pair) -> Row:
    a, b = pair.each(lambda story: story.first(QuantizeReport))
    why = accuracies_differ(a, b) if a is not None and b is not None else ""
    return Row("Worst output SQNR, by quantize", in_decibels((_worst_of(a), _worst_of(b)), why))


def _worst_of(quantize: QuantizeReport | None) -> float | None:
    return _worst(quantize.accuracy.outputs) if quantize is not None and quantize.accuracy is not None else None


def _worst(outputs: Iterable[OutputResult | OutputAccuracy]) -> float | None:
    """Return the smallest SQNR, or None if the SQNR of an output is unknown."""
    found = [sqnr(output) for output in outputs]
    known = [each for each in found if each is not None]
    return min(known) if known and len(known) == len(found) else None


def _counts(pair: Pair) -> Iterator[Row]:
    quantize = pair.each(lambda story: story.first(QuantizeReport))
    a, b = ((len(each.quantized), len(each.skipped)) if each is not None else (None, None) for each in quantize)
    yield Row("Quantized tensors", in_numbers((a[0], b[0])))
    yield Row("Unquantized nodes", in_numbers((a[1], b[1])))
    yield Row("QuantizeLinear nodes", in_numbers(pair.each(lambda story: _nodes(story, "QuantizeLinear"))))
    yield Row("DequantizeLinear nodes", in_numbers(pair.each(lambda story: _nodes(story, "DequantizeLinear"))))
    yield Row("Size of the model", in_bytes(pair.each(_model_bytes)))


def _nodes(story: Story, op_type: str) -> int | None:
    inspected = story.first(InspectReport)
    if inspected is None or not inspected.groups:
        return None
    return sum(group.count for group in inspected.groups if group.op_type == op_type)


def _model_bytes(story: Story) -> int | None:
    quantize = story.first(QuantizeReport)
    if quantize is not None:
        return quantize.sizes.after
    file = story.quantized.file if story.quantized is not None else None
    return file.bytes + sum(each.bytes for each in file.external_data) if file is not None else None


def _engine(pair: Pair) -> Iterator[Row]:
    first, second = pair.each(lambda story: [build for _, build in story.each(EngineReport)])
    same = next(((a, b) for a in first for b in second if builder(a) == builder(b)), None)
    a, b = same or (next(iter(first), None), next(iter(second), None))
    sizes = a.bytes if a is not None else None, b.bytes if b is not None else None
    why = others = ""
    if a is not None and b is not None:
        why = "" if (a.backend, a.version) == (b.backend, b.version) else "other builder"
        others = "" if a.targets == b.targets else "other targets"
    yield Row("Size of the engine", in_bytes(sizes, why or others))
    kinds = tuple(dict.fromkeys(kind for build in (a, b) if build is not None for kind in build.planned))
    for name, counted in (("Nodes that run as planned", kinds), *((f"Of these in {kind}", (kind,)) for kind in kinds)):
        run, planned = (_achieved(a, counted), _achieved(b, counted)), (_planned(a, counted), _planned(b, counted))
        yield Row(name, in_parts(run, planned, why))


def _planned(build: EngineReport | None, kinds: Sequence[str]) -> int | None:
    return sum(build.planned.get(kind, 0) for kind in kinds) if build is not None else None


def _achieved(build: EngineReport | None, kinds: Sequence[str]) -> int | None:
    """Return how many of the planned nodes run as planned, or None if this is unknown."""
    if build is None or build.evidence == "none":
        return None
    return sum(min(build.achieved.get(kind, 0), build.planned.get(kind, 0)) for kind in kinds)


def _findings(pair: Pair) -> Iterator[Row]:
    targets = pair.each(_targets)
    why = "" if targets[0] == targets[1] else "other targets"
    found = pair.each(lambda story: set(findings_of(story)))
    for severity in SEVERITIES:
        a, b = (
            sum(finding.severity == severity for _, finding in each) if asked else None
            for each, asked in zip(found, targets, strict=True)
        )
        yield Row(f"Findings: {severity}", in_numbers((a, b), why))


def _targets(story: Story) -> frozenset[str]:
    quantize = story.first(QuantizeReport)
    of_quantize = {quantize.target} if quantize is not None else set()
    return frozenset(of_quantize | {target.target for _, model in story.validated() for target in model.targets})


SECTION = Section(15, "Facts", (), lambda _: (), Comparison("Facts", (), compared), is_open=True)
