"""Parts that several reports print: samples, preparation, inserted pairs, files and skipped nodes."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.report import OutputAccuracy
from qdqtool.errors import escape, human_bytes, human_count, plural
from qdqtool.models.graph.report import NodeReason, Sizes
from qdqtool.models.report import Work
from qdqtool.quantization.calibration_report import MethodTrial, PreparationReport, Trial
from qdqtool.quantization.planning.placement.context import QUANTIZED_ALREADY
from qdqtool.quantization.preparation.steps import known_steps
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.report import GivenReport, HighPrecisionReport, QuantizedTensor
from qdqtool.reports.blocks import percentage, scoped
from qdqtool.reports.terminal import (
    limit,
    lists_all,
    named,
    placed,
    print_rest,
    print_written,
    quantized_tensors,
    sizes_line,
)
from qdqtool.results import Judgement, VerdictWord
from qdqtool.samples.preprocessing import Preprocessing

SHOWN = 20
SHOWN_NODES = 4


def print_repeated(samples: int, repeated: int, console: Console) -> None:
    """Warn if some samples are copies of others, which add no information."""
    if repeated:
        share, left = f"{repeated} of {plural(samples, 'sample')}", samples - repeated
        verb = "is" if left == 1 else "are"
        console.print(f"REPEATED {share} equal an earlier sample: {left} {verb} different", style="yellow")


def print_preprocessing(how: Preprocessing | None, console: Console) -> None:
    """Print how files were converted to samples, unless they are arrays."""
    if how is not None:
        console.print(f"{how.kind}: {how}")


def print_single(samples: int, repeated: int, console: Console) -> None:
    """Warn if all ranges come from one sample: the accuracy on other samples may be lower."""
    if samples - repeated == 1:
        console.print("ONE sample: values of other samples that lie outside its ranges are clipped", style="yellow")


def print_chosen(chosen: str, trial: MethodTrial | None, console: Console) -> None:
    """Print which method ``auto`` chose for the whole model, if it chose one."""
    if chosen in ("", calibrators.DEFAULT):
        return
    if trial is None:
        console.print(f"scales by {escape(chosen)}, as the ranges file says")
        return
    gain, error = trial.gains_db.get(chosen, 0.0), trial.errors_db.get(chosen, 0.0)
    samples = plural(trial.samples, "sample")
    effect = f"outputs keep {gain:.1f} ± {error:.1f} dB more than with a method for each tensor ({samples})"
    console.print(f"scales by {escape(chosen)}: {effect}")


def print_preparation(reports: Sequence[PreparationReport], console: Console) -> None:
    """Print the result of each preparation step that found something to do."""
    for report in reports:
        if report.trial is not None and not report.trial.kept:
            _print_refused(report, report.trial, console)
        elif report.sites:
            _print_step(report, console)


def _print_step(report: PreparationReport, console: Console) -> None:
    step = known_steps()[report.step]
    count, done = plural(len(report.sites), step.thing), step.done
    measured = f"; {_measured(report.trial)}" if report.trial is not None else ""
    if report.max_difference is None:
        console.print(f"{count} {done}, as the ranges file says{measured}")
        return
    seen = f"outputs and inner tensors differ by {report.max_difference:.2g} at most"
    if report.applied:
        console.print(f"{count} {done}: {seen}, limit {report.limit:g}{measured}")
    else:
        console.print(f"{count} NOT {done}: {seen}, more than {report.limit:g}", style="yellow")


def _print_refused(report: PreparationReport, trial: Trial, console: Console) -> None:
    step = known_steps()[report.step]
    if report.sites:
        console.print(f"{plural(len(report.sites), step.thing)} not {step.done}: {_measured(trial)}")
    else:
        console.print(f"no {step.thing} {step.done}, as the ranges file says: {_measured(trial)}")


def _measured(trial: Trial) -> str:
    """Describe the output that decides a trial: the output with the smallest gain, or the largest loss."""
    # The JSON report has all outputs.
    if trial.problem:
        return f"not measured: {escape(trial.problem)}"
    known = [(o.with_db - o.without_db, o) for o in trial.outputs if o.with_db is not None and o.without_db is not None]
    if not known:
        return "no output changes"
    _, output = min(known, key=lambda pair: pair[0])
    among = f" at '{escape(output.name)}', the smallest gain of {len(known)} outputs" if len(known) > 1 else ""
    samples = plural(trial.samples, "sample")
    effect = f"measured SQNR {output.without_db:.1f} dB without, {output.with_db:.1f} dB with{among} ({samples})"
    if trial.kept or trial.sample_gain_db is None or trial.gain_error_db is None:
        return effect
    # A gain that does not exceed its standard error is refused too.
    return f"{effect}; gain for a sample {trial.sample_gain_db:+.1f} ± {trial.gain_error_db:.1f} dB"


def print_given(given: GivenReport, console: Console) -> None:
    """Print where another tool's ranges come from, and which ranges could not be used."""
    console.print(
        f"ranges of {plural(given.tensors, 'tensor')} from {escape(given.source)} ({given.format}, {given.mode})"
    )
    if given.weights:
        console.print(f"scales of {plural(given.weights, 'weight')} are taken from the file")
    if given.unknown:
        named = ", ".join(escape(name) for name in given.unknown[:SHOWN_NODES])
        more = ", …" if len(given.unknown) > SHOWN_NODES else ""
        lost = f"{plural(len(given.unknown), 'tensor')} of the file"
        console.print(f"note     {lost} not found in the model: {named}{more}", style="yellow")
    for note in given.notes:
        console.print(f"note     {escape(note)}")


def print_skipped(skipped: Sequence[NodeReason], console: Console) -> None:
    """Print the quantizable nodes without a pair, grouped by reason."""
    already = sum(node.reason == QUANTIZED_ALREADY.text for node in skipped)
    counted = ((already, "quantized already"), (len(skipped) - already, "unquantized"))
    if counts := ", ".join(f"{plural(count, 'node')} {what}" for count, what in counted if count):
        console.print(counts, style="bold")
    by_reason: dict[tuple[str, str], list[str]] = {}
    for node in skipped:
        by_reason.setdefault((node.op_type, node.reason), []).append(scoped(node.node, node.graph))
    for (op_type, reason), labels in list(by_reason.items())[: limit(console, SHOWN)]:
        console.print(f"  {escape(op_type)} {named(labels, SHOWN_NODES)}: {escape(reason)}")
    print_rest(len(by_reason), SHOWN, console)


def print_high_precision(report: HighPrecisionReport | None, console: Console) -> None:
    """Print how many nodes compute in half precision, and why the others do not, grouped by reason."""
    if report is None:
        return
    if report.note:
        console.print(f"note     --high-precision-dtype {report.dtype} changed nothing: {report.note}", style="yellow")
        return
    total = report.nodes + len(report.kept)
    name = "bfloat16" if report.dtype == "bf16" else "float16"
    console.print(f"{report.nodes} of {plural(total, 'float node')} in {name}, {plural(report.casts, 'Cast')} added")
    if report.random or not report.measured:
        known = "those of random inputs" if report.random else "unknown"
        console.print(f"note     without data, the largest values of activations are {known}", style="yellow")
    groups = [(reason, list(nodes)) for reason, nodes in groupby(sorted(report.kept, key=_reason), _reason)]
    for reason, nodes in groups[: limit(console, SHOWN)]:
        names = named([f"{node.op_type} {node.node}" for node in nodes], SHOWN_NODES)
        console.print(f"  float32 {names}: {escape(reason)}")
    print_rest(len(groups), SHOWN, console)


LEAST_LOSS_DB = 0.05


def print_cost_of_half(outputs: Sequence[OutputAccuracy], console: Console) -> None:
    """Print the largest loss of an output through unquantized nodes in half precision."""
    known = ((each.float32_db, each.sqnr_db, each.name) for each in outputs)
    losses = [(full - half, name) for full, half, name in known if full is not None and half is not None]
    if losses:
        loss, name = max(losses)
        cost = f"{loss:.1f} dB at {escape(name)}" if loss >= LEAST_LOSS_DB else f"less than {LEAST_LOSS_DB:g} dB"
        console.print(f"  unquantized nodes in half precision instead of float32 cost {cost}")


def _reason(node: NodeReason) -> str:
    return node.reason


def print_work(work: Work, console: Console, of: str = "") -> None:
    """Print the multiply-accumulates and the bytes of weights by type; ``of`` begins each line."""
    counts = sorted(work.by_type.items(), key=lambda entry: (-entry[1], entry[0]))
    shares = [f" ({percentage(work.share(count))})" if len(counts) > 1 else "" for _, count in counts]
    macs = [f"{human_count(count)} in {escape(kind)}{part}" for (kind, count), part in zip(counts, shares, strict=True)]
    if macs:
        console.print(f"  {of}multiply-accumulates: {', '.join(macs)}")
    sizes = sorted(work.weight_bytes.items(), key=lambda entry: (-entry[1], entry[0]))
    weights = [f"{human_bytes(size)} in {escape(kind)}" for kind, size in sizes if size]
    if weights:
        console.print(f"  {of}weights: {', '.join(weights)}")
    if work.unknown_kernels:
        console.print(f"  {of}multiply-accumulates of {plural(len(work.unknown_kernels), 'kernel')} not known")
    if work.nodes_without_kernel:
        names = named(work.nodes_without_kernel, 2)
        console.print(f"  {of}no kernel names {names}: multiply-accumulates not counted")


def print_counts(pairs: Sequence[QuantizedTensor], model: str, console: Console) -> None:
    """Print how many tensors of a model were quantized."""
    weights = sum(pair.kind == "weight" for pair in pairs)
    counts = quantized_tensors(len(pairs) - weights, weights)
    listed = " (-v lists them)" if pairs and not lists_all(console) else ""
    console.print(Text.assemble((counts, "bold"), f" in {escape(model)}{listed}"))


def print_pairs(pairs: Sequence[QuantizedTensor], console: Console) -> None:
    """With ``--verbose``, print each pair with its format and scales."""
    if lists_all(console):
        for pair in pairs:
            console.print(_pair(pair))


def print_opset(before: int, after: int, console: Console) -> None:
    """Print the change of the opset, if there is one."""
    if after != before:
        console.print(f"opset raised from {before} to {after}, as the formats need")


def print_files(output: str, external_data: str | None, sizes: Sizes, console: Console) -> None:
    """Print sizes and names of the files written."""
    console.print(sizes_line(sizes.before, sizes.after))
    print_written(output, console, weights=external_data)


def _pair(pair: QuantizedTensor) -> Text:
    scales = f"scale {pair.scale_min:.4g}"
    if pair.scales > 1:
        scales = f"{pair.scales} scales {pair.scale_min:.4g} to {pair.scale_max:.4g}"
    return Text.assemble(
        "  ",
        (f"{pair.kind:<10}", "cyan"),
        f" {placed(pair.tensor, pair.graph)}: {pair.format} {pair.granularity}, {scales}",
    )


_VERDICTS = {"passed": "bold green", "warning": "bold yellow", "failed": "bold red"}


def verdict_text(word: VerdictWord, width: int = 0) -> Text:
    """Return the verdict as one word, with spaces up to a width."""
    return Text(f"{word.upper():<{width}}", _VERDICTS[word])


def print_reasons(reasons: Iterable[Judgement], console: Console, indent: str = "") -> None:
    """Print the reasons of a verdict: each fact, and the option or command that changes it."""
    for each in reasons:
        hint = f"; {escape(each.hint)}" if each.hint else ""
        console.print(
            Text.assemble(
                indent,
                (f"{each.state:<9}", "red" if each.state == "failed" else "yellow"),
                f"{escape(each.detail)}{hint}",
            )
        )
