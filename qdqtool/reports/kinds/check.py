"""Rows and blocks of a check: outputs and quantized tensors compared with the float model. Return gates as findings."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from qdqtool.accuracy.checking.report import BoundaryResult, CheckReport, NotObserved, OutputResult, WorstOutput
from qdqtool.errors import plural
from qdqtool.jobs.check_models_report import ChecksReport, ModelCheck
from qdqtool.linting.findings import Effect, Finding
from qdqtool.linting.report import ValidateReport, target_report, validate_report
from qdqtool.reports.blocks import Cell, Column, Columns, decibels, number, scoped, share, text
from qdqtool.reports.finding_words import CHECK, CheckedModel
from qdqtool.samples.report import DataDescription

OUTPUTS = (
    Column("Output"),
    Column("SQNR", numeric=True, short="SQNR dB"),
    Column("Cosine", numeric=True, spare=1),
    Column("Largest difference", numeric=True, short="max abs"),
)
"""Columns of a table of outputs compared with the float model; :func:`output_row` makes a row."""

TENSOR = Column("Tensor", short="quantized tensor")
TENSORS: Columns[BoundaryResult] = {
    TENSOR: lambda found: text(scoped(found.tensor, found.graph)),
    Column("Kind", spare=1): lambda found: text(found.kind),
    Column("Format", spare=2): lambda found: text(found.format),
    Column("Scales", spare=3): lambda found: text(found.granularity),
    Column("SQNR", numeric=True, bars=True, short="SQNR dB"): lambda found: decibels(
        found.sqnr_db, exact=found.max_steps == 0
    ),
    Column("Clipped", numeric=True, bars=True): lambda found: share(
        found.clipped / found.elements if found.elements else None
    ),
    Column("Largest error in steps", numeric=True, bars=True, short="max steps"): lambda found: number(
        found.max_steps, ".3g", short=".4g"
    ),
    Column("Mean error in steps", numeric=True, bars=True, short="mean", spare=4): lambda found: number(
        found.mean_steps, ".3g"
    ),
}
"""The table of quantized tensors compared with the float model."""


def data_origin(data: DataDescription) -> str:
    """Return the source of samples, in words."""
    return f"random inputs, seed {data.seed}" if data.seed is not None else data.source


def evaluators(report: CheckReport) -> list[str]:
    """Return the numbers of nodes that ONNX Runtime did not run unchanged, with the reasons, in words."""
    own = Counter(found.reason for found in report.evaluated if not found.type)
    half = Counter(found.type for found in report.evaluated if found.type)
    return [
        *(f"{plural(count, 'node')} by qdqtool ({reason})" for reason, count in own.items()),
        *(f"{plural(count, f'{name} node')} ran in float32, rounded after each node" for name, count in half.items()),
    ]


def worst_words(worst: WorstOutput) -> str:
    """Return the deviation of the worst output from the float model, in words."""
    if worst.agreement is not None:
        return f"{worst.agreement:.2%} equal"
    return f"{worst.sqnr_db:.2f} dB" if worst.sqnr_db is not None else f"off by {number(worst.max_abs, '.4g').short}"


def describe_worst(report: CheckReport) -> str:
    """Return the worst output and the gate that judged it, in words; empty without a baseline."""
    worst = report.worst_output
    if worst is None:
        return "" if report.baseline is None else "all compared outputs are exact"
    return f"worst output '{worst.name}' {worst_words(worst)} ({worst.gate})"


def not_checked(found: NotObserved) -> str:
    """Return which node was not checked, and why."""
    return f"{skipped_node(found)}: {found.reason}"


def skipped_node(found: NotObserved) -> str:
    """Return which node was not checked, with its scope."""
    return f"{found.node} in {found.graph}" if found.graph else found.node


def notes(check: CheckReport, shown: int | None = None) -> Iterator[str]:
    """Yield notes that explain the numbers: which codes were chosen with data, and known faults of ONNX Runtime.

    Args:
        check: The check.
        shown: Largest number of weights that are named; None for all.
    """
    chosen = [found.tensor for found in check.boundaries if found.judged_by_data]
    if chosen:
        more = f" and {len(chosen) - shown} more" if shown is not None and len(chosen) > shown else ""
        yield f"codes of {', '.join(chosen[:shown])}{more} were chosen with data: judged by the recorded error"
    for fault in check.known_faults:
        where = plural(len(fault.nodes), "node")
        yield f"ONNX Runtime {fault.fault}: {plural(fault.elements, 'element')} at {where}"


def output_row(output: OutputResult) -> tuple[Cell, ...]:
    """Return a row of :data:`OUTPUTS`."""
    if output.agreement is None:
        sqnr, cosine = decibels(output.sqnr_db, exact=bool(output.exact)), number(output.cosine, ".8f", short=".7f")
    else:
        equal = "exact" if output.exact else f"{output.agreement:.2%} equal"
        sqnr, cosine = Cell("not a float output", short=equal), Cell("not a float output", short="-")
    if output.exact:
        cosine = replace(cosine, short="exact")
    return text(output.name), sqnr, cosine, number(output.max_abs, short=".4g")


def as_findings(report: ChecksReport | CheckReport) -> ValidateReport:
    """Return checks as findings: missed gates are errors, and other reasons of a verdict keep their severity."""
    checks = (ModelCheck.of(report),) if isinstance(report, CheckReport) else report.models
    return validate_report(map(_judged, checks))


def _judged(check: ModelCheck) -> CheckedModel:
    made = check.report if isinstance(check.report, CheckReport) else None
    gates = made.gates if made is not None else ()
    found = [_finding(gate.name, "; ".join(gate.failures), "silent") for gate in gates if not gate.passed]
    for reason in check.reasons:
        message = f"{reason.detail}; {reason.hint}" if reason.hint else reason.detail
        if reason.state == "warning":
            found.append(_finding(CHECK, message, "advice"))
        elif not found:
            found.append(_finding(CHECK, message, "refused" if made is None else "silent"))
    target = target_report(CHECK, found, checked=(*(gate.name for gate in gates), CHECK))
    if made is None:
        return CheckedModel(check.model, (target,))
    return CheckedModel(check.model, (target,), qdq_nodes=made.qdq.total, worst=describe_worst(made))


def _finding(code: str, message: str, effect: Effect) -> Finding:
    return Finding(
        code=code,
        name=CHECK,
        severity="warning" if effect == "advice" else "error",
        effect=effect,
        message=message,
        fingerprint=code,
        structure=code,
    )
