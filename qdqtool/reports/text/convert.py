"""The report of a conversion for a terminal: a line or two for each step, then the files."""

import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.errors import escape, human_bytes, plural
from qdqtool.jobs.conversion.folder import PAGE, REPORT
from qdqtool.jobs.conversion.report import ConversionReport, MeasuredOn, StepReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.linting.report import ValidateReport
from qdqtool.reports.kinds.check import worst_words
from qdqtool.reports.text import renderer
from qdqtool.reports.text._shared import print_reasons, verdict_text

_STYLES = {"passed": "green", "failed": "bold red", "not reached": "yellow", "not asked for": "yellow"}


def render(report: ConversionReport, console: Console) -> None:
    """Print the report of a failed step, the verdict, the steps, the files and the next command."""
    failed = None if report.failed is None else report.step(report.failed)
    if failed is not None:
        _print_details(failed, console)
    at = f" at {report.failed}" if report.failed is not None else ""
    console.print(Text.assemble((escape(report.model), "bold"), "  ", verdict_text(report.verdict), at))
    for step in report.steps:
        lines = _lines(step, report.measured_on)
        said = f"  {lines[0]}" if lines[0] else ""
        console.print(Text.assemble(f"  {step.step:<9} ", (f"{step.state:<7}", _STYLES[step.state]), said))
        for line in lines[1:]:
            console.print(f"{'':21}{line}")
    print_reasons((each for each in report.reasons if each.state == "warning"), console)
    _print_files(report, console)
    _print_next(report, console)


def _print_details(step: StepReport, console: Console) -> None:
    """Print the report of the failed step, as its command would."""
    kinds = {ValidateReport: "findings", CheckReport: "check", EngineReport: "build", RefusedReport: "build_refused"}
    kind = next((name for each, name in kinds.items() if isinstance(step.report, each)), None)
    if kind is not None:
        renderer(kind)(step.report, console)
        console.print()


def _lines(step: StepReport, measured: MeasuredOn | None) -> list[str]:
    if step.state == "failed":
        return [f"missed {escape(', '.join(step.missed))}" if step.missed else f"exit code {step.exit_code}"]
    found = step.report
    if isinstance(found, QuantizeReport):
        return _quantized(found)
    if isinstance(found, ValidateReport):
        targets = ", ".join(target.target for model in found.models for target in model.targets)
        counts = f"{plural(found.summary.errors, 'error')}, {plural(found.summary.warnings, 'warning')}"
        return [f"{counts} for {targets}"]
    if isinstance(found, CheckReport) and measured is not None:
        return [_worst(found), *_samples(measured)]
    if isinstance(found, EngineReport):
        kept = [
            f"{found.achieved.get(kind, 0)} of {count} planned {kind} nodes are {kind}"
            for kind, count in found.planned.items()
        ]
        gpus = f" for {', '.join(found.targets)}" if found.targets else ""
        return [
            f"{found.backend} {found.version}{gpus}",
            f"{', '.join(kept) or 'no type is planned'} (evidence: {found.evidence})",
        ]
    return [""]


def _quantized(report: QuantizeReport) -> list[str]:
    if report.existing == "keep" and not report.quantized:
        half = report.high_precision
        done = "the model is written unchanged" if half is None else f"{plural(half.nodes, 'node')} in half precision"
        return [f"nothing was left to quantize: {done}"]
    left = f"{plural(len(report.skipped), 'node')} unquantized; " if report.skipped else ""
    size = f"{left}{human_bytes(report.sizes.before)} -> {human_bytes(report.sizes.after)}"
    return [f"{report.mode} for {report.target}: {plural(len(report.quantized), 'quantized tensor')}", size]


def _worst(report: CheckReport) -> str:
    held = f"{plural(len(report.gates), 'gate')} held"
    worst = report.worst_output
    if worst is None:
        return f"{held}; all outputs are equal to the float model's"
    return f"{held}; worst output '{escape(worst.name)}' {worst_words(worst)}"


def _samples(measured: MeasuredOn) -> list[str]:
    """Describe the samples of the check, and whether they also influenced the model."""
    if measured.part == "held back":
        kind = "random hold-out sample" if measured.data == "random" else "hold-out sample"
        return [f"on {plural(measured.samples, kind)}; they influence only the final ranges"]
    if measured.part == "random":
        return [f"on {plural(measured.samples, 'random sample')}: they say little about real inputs"]
    doubt = f": {measured.reason}" if measured.reason else ""
    return [f"on {plural(measured.samples, 'sample')} of {escape(measured.data)}{doubt}"]


def _print_files(report: ConversionReport, console: Console) -> None:
    console.print(f"files in {escape(report.folder)}")
    width = max(len(name) for name in (REPORT, *(each.name for each in report.files)))
    for each in report.files:
        console.print(f"  {escape(each.name):<{width}}  {each.what:<9}  {human_bytes(each.bytes)}")
    console.print(f"  {REPORT:<{width}}  the reports of all steps")
    console.print(f"  {PAGE:<{width}}  the same reports as one page")
    for name in report.removed:
        console.print(f"  {escape(name)} of an earlier conversion was removed", style="yellow")


def _print_next(report: ConversionReport, console: Console) -> None:
    names = {each.what: each.name for each in report.files}
    if report.failed is not None or "model" not in names:
        return
    quantized = report.step("quantize").report
    if "engine" in names:
        path = shlex.quote(str(Path(report.folder) / names["engine"]))
        console.print(f"next: `qdqtool verify-engine {escape(path)}` on the target machine", soft_wrap=True)
    elif isinstance(quantized, QuantizeReport) and quantized.target.startswith("tensorrt"):
        path = shlex.quote(str(Path(report.folder) / names["model"]))
        console.print(f"next: `qdqtool build {escape(path)} -o model.engine`", soft_wrap=True)
