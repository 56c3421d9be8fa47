"""The check report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.checking.report import BoundaryResult, CheckReport, OutputResult, SavedOutputs
from qdqtool.accuracy.report import MetricResult
from qdqtool.errors import escape, plural
from qdqtool.jobs.check_models_report import ChecksReport, count_verdicts
from qdqtool.reports.blocks import Column, Columns, Table, number, tabulate, text
from qdqtool.reports.kinds import check, gates
from qdqtool.reports.terminal import fitted, limit, lists_all, named
from qdqtool.reports.text._shared import print_preprocessing, print_reasons, print_repeated, verdict_text
from qdqtool.reports.text.sensitivity import print_noisiest, print_pairs_blamed, print_worst_sample
from qdqtool.samples.input_shapes import spell_shape

SHOWN = 10
SHOWN_SKIPPED = 3


def render(report: CheckReport, console: Console) -> None:
    """Print the compared models, the gates, the worst outputs and tensors, the noisiest layers and the verdict."""
    against = f" against {escape(report.baseline)}" if report.baseline is not None else ""
    console.print(Text.assemble(("check ", "bold"), escape(report.model), against))
    _print_setup(report, console)
    console.print()
    console.print(fitted(Table("Gates", gates.COLUMNS, tuple(map(gates.of_check, report.gates)))))
    _print_outputs(report, console)
    if report.metric is not None:
        _print_metric(report.metric, console)
    if report.boundaries:
        _print_boundaries(report.boundaries, console)
    _print_notes(report, console)
    _print_noise(report, console)
    _print_verdict(report, console)


def render_models(report: ChecksReport, console: Console) -> None:
    """Print the full report of each model that failed, then each verdict with its reasons, and the counts."""
    for each in report.models:
        if isinstance(each.report, CheckReport) and (each.verdict == "failed" or lists_all(console)):
            render(each.report, console)
            console.print()
    for each in report.models:
        found = check.describe_worst(each.report) if isinstance(each.report, CheckReport) else ""
        worst = f": {escape(found)}" if found else ""
        console.print(Text.assemble(verdict_text(each.verdict, 9), f"{escape(each.model)}{worst}"))
        print_reasons(each.reasons, console, indent="  ")
    listed = count_verdicts([each.verdict for each in report.models], escape(report.settings))
    console.print(Text.assemble(verdict_text(report.verdict, 9), listed))


def _print_setup(report: CheckReport, console: Console) -> None:
    reference, data = report.reference, report.data
    options = ", ".join(f"{name}={value}" for name, value in reference.options.items()) or "defaults"
    features = ", ".join(reference.cpu_features) or "features unknown"
    console.print(
        f"  reference  {reference.runtime} {reference.version} {', '.join(reference.providers)}, profile "
        f"{reference.profile}; opset {reference.opset}, IR {reference.ir_version}"
    )
    if report.evaluated:
        console.print(f"  evaluated  {escape('; '.join(check.evaluators(report)))}")
    console.print(f"  options    {options}", style="dim")
    for each in reference.custom_ops:
        console.print(f"  operators  of {escape(each.library)}, SHA-256 {each.sha256[:12]}…")
    console.print(f"  processor  {escape(reference.cpu)}: {features}", style="dim")
    shapes = ", ".join(f"{escape(name)}:{spell_shape(shape)}" for name, shape in data.shapes.items())
    console.print(
        f"  data       {escape(check.data_origin(data))}: {plural(data.samples, 'sample')}; {shapes or 'no inputs'}"
    )
    print_preprocessing(data.preprocessing, console)
    print_repeated(data.samples, data.repeated, console)


def _print_outputs(report: CheckReport, console: Console) -> None:
    console.print()
    if report.baseline is None:
        names = ", ".join(escape(output.name) for output in report.outputs)
        console.print(f"outputs  {names} (not compared: no --baseline is given)")
    else:
        _print_comparison("output", report.outputs, console)
        worst = report.worst_output.name if report.worst_output is not None else None
        for output in (each for each in report.outputs if each.name == worst):
            print_worst_sample(output, console)
    if report.saved_outputs is not None:
        console.print()
        console.print(f"outputs {_source(report.saved_outputs)} against the reference", style="bold")
        _print_comparison("saved output", report.saved_outputs.outputs, console)


def _source(saved: SavedOutputs) -> str:
    if saved.computed_by:
        return f"of {escape(saved.file)} ({escape(saved.computed_by)})"
    return f"in {escape(saved.file)}"


def _print_comparison(what: str, outputs: tuple[OutputResult, ...], console: Console) -> None:
    columns = (Column(what), *check.OUTPUTS[1:], Column("Max steps", numeric=True, spare=2))
    rows = tuple((*check.output_row(output), number(output.max_steps, ".4g")) for output in outputs)
    console.print(fitted(Table("Outputs", columns, rows)))


def _print_metric(metric: MetricResult, console: Console) -> None:
    console.print()
    unit = f" {metric.unit}" if metric.unit else ""
    on = f"on {plural(metric.predictions, 'sample')}"
    if metric.output is not None:
        on = f"at '{escape(metric.output)}', {plural(metric.predictions, 'prediction')}"
        if metric.distinct_predictions not in {None, metric.predictions}:
            on += f", {metric.distinct_predictions} on distinct inputs"
    console.print(Text.assemble((metric.name, "bold"), f" {metric.value:.6g}{unit} {on}"))
    for what, value, loss in (
        ("baseline", metric.baseline, metric.loss),
        ("saved outputs", metric.saved, metric.saved_loss),
    ):
        if value is not None:
            worse = "the model loses" if what == "baseline" else "they lose"
            console.print(f"  {what} {value:.6g}{unit}: {worse} {_number(loss, '.4g')} {metric.loss_unit}".rstrip())
    for worst in metric.classes[:1]:
        was = f" (baseline {worst.baseline:.4g} %)" if worst.baseline is not None else ""
        found = f"class {worst.label}, {worst.value:.4g} %{was} of {plural(worst.predictions, 'prediction')}"
        console.print(f"  recall of {len(metric.classes)} classes, the largest loss: {found}")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _print_boundaries(boundaries: tuple[BoundaryResult, ...], console: Console) -> None:
    shown = boundaries[: limit(console, SHOWN)]
    columns: Columns[BoundaryResult] = {
        **check.TENSORS,
        Column("At", spare=5): lambda found: text(str(list(found.index))),
        Column("Node", spare=6): lambda found: text(found.node),
    }
    console.print()
    console.print(
        f"furthest from the baseline, {len(shown)} of {plural(len(boundaries), 'quantized tensor')}", style="bold"
    )
    console.print(fitted(tabulate("Tensors", columns, shown), lines=2))


def _print_notes(report: CheckReport, console: Console) -> None:
    nodes = dict[str, list[str]]()
    for skipped in report.not_observed:
        nodes.setdefault(skipped.reason, []).append(check.skipped_node(skipped))
    for reason, names in nodes.items():
        shown = named(names, limit(console, SHOWN_SKIPPED) or len(names))
        console.print(f"SKIPPED  {shown}: {escape(reason)}", style="yellow")
    for note in check.notes(report, SHOWN):
        console.print(f"note     {escape(note)}")
    if report.written is not None:
        console.print(f"outputs of the reference in {escape(report.written)}")
    for warning in report.warnings:
        console.print(f"warning  {escape(warning)}", style="yellow")


def _print_noise(report: CheckReport, console: Console) -> None:
    """Print the layers that make the noise at the worst output, or the noisiest tensors if no layer is known."""
    if report.blame is not None:
        console.print()
        print_pairs_blamed(report.blame, console)
    if report.blame is None or not report.blame.layers:
        print_noisiest(report.boundaries, console)
        if report.blame is None and report.worst_output is not None:
            console.print(
                "`--blame` names the layers that make the noise, in the form of `--nodes-to-exclude` of quantize"
            )


def _print_verdict(report: CheckReport, console: Console) -> None:
    console.print()
    for failure in report.failures:
        console.print(Text.assemble(("FAIL     ", "bold red"), escape(failure)))
    skipped = f", {len(report.not_observed)} SKIPPED" if report.not_observed else ""
    own = f", {report.qdq.own} evaluated by qdqtool alone" if report.qdq.own else ""
    count = f"{report.qdq.checked} of {plural(report.qdq.total, 'Q/DQ node')} checked{own}{skipped}"
    found = check.describe_worst(report)
    worst = f"; {escape(found)}" if found else ""
    doubtful = sum(bool(gate.warnings) for gate in report.gates)
    doubts = f", {doubtful} of them only because the inputs were random" if doubtful else ""
    missed = ", ".join(gate.name for gate in report.gates if not gate.passed)
    fact = f"missed {missed}" if missed else f"{plural(len(report.gates), 'gate')} held{doubts}"
    print_reasons((each for each in report.reasons if each.state == "warning"), console)
    console.print(Text.assemble(verdict_text(report.verdict), f"   {fact}{worst}; {count}"))
