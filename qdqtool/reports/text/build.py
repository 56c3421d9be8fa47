"""The reports of `build` and `verify-engine` for a terminal."""

import shlex
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from qdqtool.engines.build.report import EngineReport, Locked, RefusedReport
from qdqtool.engines.report import InputProfile, NodePrecision, Refusal
from qdqtool.engines.tensorrt.deployment import OptionValue
from qdqtool.engines.tensorrt.kernels import UNKNOWN
from qdqtool.errors import escape, human_bytes, plural
from qdqtool.jobs.verify_engine import VerifyReport
from qdqtool.models.report import Specialized, float32_rest
from qdqtool.reports.blocks import Table
from qdqtool.reports.kinds import gates
from qdqtool.reports.terminal import FittedTable, fitted, limit, lists_all, named, print_rest
from qdqtool.reports.text._shared import print_reasons, print_work
from qdqtool.samples.input_shapes import spell_shape, spell_values

SHOWN = 20
SHOWN_NODES = 4
"""Largest number of nodes with the same fallback that are named."""

_EVIDENCE = {
    "aot-dump": "Types are from the layer dump that the builder makes ahead of time. Float operands in it prove a "
    "fallback; quantized operands show the types that the kernel was chosen for. The dump shows neither the code that "
    "the GPU generates at first use, nor whether results leave a kernel quantized, nor the speed.",
    "inspector": "Types are from the engine inspector: the kernels that this GPU will run. Speed was not measured.",
    "none": "The builder gave no layer information: the types of the kernels are unknown.",
}


def render(report: EngineReport, console: Console) -> None:
    """Print targets and shapes, planned and actual types, the fallbacks with their reasons, and the files."""
    _head(report, console)
    console.print()
    _precision(report, console)
    if report.work is not None:
        console.print()
        print_work(report.work, console, "model: ")
        print_work(report.macs, console, "engine: ")
        print_reasons(float32_rest(report.work, report.model), console)
    if report.gates:
        console.print()
        console.print(fitted(Table("Gates", gates.COLUMNS, tuple(map(gates.of_build, report.gates)))))
    console.print()
    _files(report, console)


def _head(report: EngineReport, console: Console) -> None:
    targets = f"compute capability {', '.join(report.targets)}" if report.targets else "for the GPU in this machine"
    console.print(Text(escape(report.model), "bold"))
    console.print(f"  {report.backend} {escape(report.version)}; {targets}")
    if report.specialized is not None:
        console.print(f"  {_specialized(report.specialized)}")
    several = any(entry.profile for entry in (*report.profiles, *report.shape_values))
    for profile in report.profiles:
        console.print(f"  {_number(profile, several)}{_profile(profile)}")
    for values in report.shape_values:
        console.print(f"  {_number(values, several)}values of {_profile(values)}")
    if report.options:
        console.print(f"  options: {escape(_options(report.options))}")
    if report.findings is not None:
        found = f"{plural(report.findings.warnings, 'warning')}, {plural(report.findings.infos, 'info')}"
        console.print(f"  validate: pass ({found})")
    for step in report.skipped:
        console.print(Text.assemble(f"  {step}: ", ("SKIPPED", "bold yellow")))
    lost = [f"the model has lost the Q/DQ of {plural(report.lost_nodes, 'node')} since quantize wrote it"] * bool(
        report.lost_nodes
    )
    for warning in (*lost, *report.warnings):
        console.print(Text.assemble("  ", ("warning: ", "yellow"), escape(warning)))


def _specialized(done: Specialized) -> str:
    shapes = [f"{escape(name)} {spell_shape(shape)}" for name, shape in done.input_shapes.items()]
    values = [f"{escape(name)} = {spell_values(given)}" for name, given in done.input_values.items()]
    return f"specialized for {', '.join(shapes + values)}: {done.nodes_before} nodes became {done.nodes_after}"


def _number(entry: InputProfile, several: bool) -> str:
    return f"profile {entry.profile}: " if several else ""


def _options(given: Mapping[str, OptionValue]) -> str:
    return ", ".join(name if value is True else f"{name} {_value(value)}" for name, value in given.items())


def _value(value: OptionValue) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ",".join(f"{name}:{size}B" if isinstance(size, int) else name for name, size in value.items())


def _profile(profile: InputProfile) -> str:
    shapes = [spell_shape(shape) for shape in (profile.min, profile.opt, profile.max)]
    name = escape(profile.name)
    if len(set(shapes)) == 1:
        return f"input {name}: {shapes[0]}"
    return f"input {name}: {shapes[0]} to {shapes[2]}, optimized for {shapes[1]}"


def _precision(report: EngineReport, console: Console) -> None:
    if not report.nodes:
        console.print("no quantized Conv, ConvTranspose, Gemm or MatMul: this is a float engine")
        return
    for kind, planned in report.planned.items():
        achieved = report.achieved[kind]
        style = "bold green" if achieved == planned else "bold yellow"
        unknown = sum(node.planned == kind and node.actual == UNKNOWN for node in report.nodes)
        doubt = f"; unknown for {unknown}" if unknown else ""
        console.print(Text(f"{planned_and_achieved(kind, planned, achieved)}{doubt}", style))
    kinds = Counter((node.planned, node.actual, node.op_type) for node in report.nodes)
    rows = ((*map(escape, kind), str(count)) for kind, count in sorted(kinds.items()))
    console.print(FittedTable("planned", "actual", "operator", "nodes", rows=rows))
    _fallbacks([node for node in report.nodes if node.actual != node.planned], console)
    console.print(Text(_EVIDENCE[report.evidence], "dim"))


def planned_and_achieved(kind: str, planned: int, achieved: int) -> str:
    """Return how many of the nodes that are planned in a format run in this format, in words."""
    noun = "node runs" if planned == 1 else "nodes run"
    return f"{achieved} of {planned} planned {kind} {noun} in {kind} kernels"


def _fallbacks(nodes: Sequence[NodePrecision], console: Console) -> None:
    """Print the nodes that do not run as planned; nodes that differ only in their name are grouped."""
    groups: dict[Hashable, list[NodePrecision]] = {}
    for index, node in enumerate(nodes):
        key = index if lists_all(console) else (node.op_type, node.planned, node.actual, node.reason)
        groups.setdefault(key, []).append(node)
    for group in list(groups.values())[: limit(console, SHOWN)]:
        console.print(_fallback(group))
    print_rest(len(groups), SHOWN, console)


def _fallback(group: Sequence[NodePrecision]) -> Text:
    node = group[0]
    names = [f"{each.name} in {each.graph}" if each.graph else each.name for each in group]
    types = f"{escape(node.planned)} -> {escape(node.actual)}"
    return Text.assemble(
        "  ", (named(names, SHOWN_NODES), "bold"), f" ({escape(node.op_type)}): {types}, {escape(node.reason or '')}"
    )


def _locked(found: Locked) -> Text:
    equal = f"model, options and product match {escape(found.manifest)}"
    if found.same_bytes:
        return Text(f"locked: {equal}; the engine has the same bytes")
    kernels = "the kernels are the same" if found.same_kernels else "the kernels are unknown"
    return Text.assemble(f"locked: {equal}; ", ("the engine has OTHER bytes", "bold yellow"), f", {kernels}")


def _nothing_quantized(report: EngineReport) -> str:
    """Return the remark that no node runs quantized, such as for compute capability 7.5; empty if a node does."""
    actual = {node.actual for node in report.nodes}
    if not report.nodes or UNKNOWN in actual or report.evidence == "none" or any(report.achieved.values()):
        return ""
    return f": a FLOAT engine, none of {plural(len(report.nodes), 'planned node')} runs quantized"


def _files(report: EngineReport, console: Console) -> None:
    if report.layer_info:
        console.print(f"layers in {escape(report.layer_info)}")
    if report.engine is None:
        console.print(Text("no engine was written, because a gate was missed", "bold red"))
        return
    if report.manifest is not None:
        signed = f", signed in {escape(report.signature)}" if report.signature is not None else ""
        console.print(f"manifest in {escape(report.manifest)}{signed}")
        if report.kernels:
            command = f"qdqtool inspect {shlex.quote(report.engine)}"
            console.print(f"to list kernels and conversions: `{escape(command)}`", soft_wrap=True)
    if report.locked is not None:
        console.print(_locked(report.locked))
    console.print(
        Text.assemble(
            "wrote ",
            (escape(report.engine), "bold"),
            f", {human_bytes(report.bytes)} in {report.seconds:.1f} s",
            (_nothing_quantized(report), "bold red"),
        )
    )


_STAGES = {"validate": "validate gate", "parse": "parser", "build": "builder", "locked": "locked manifest"}


def render_refused(report: RefusedReport, console: Console) -> None:
    """Print the reasons of a refusal if there are several; a single reason is already in the error message."""
    if len(report.refusals) < 2:
        return
    console.print(Text.assemble((escape(report.model), "bold"), f": the {_STAGES[report.stage]} refuses"))
    for refusal in report.refusals:
        console.print(_refusal(refusal))


def _refusal(refusal: Refusal) -> Text:
    where = f"{escape(refusal.node)} ({escape(refusal.op_type or '?')}): " if refusal.node else ""
    hint = f"; {escape(refusal.hint)}" if refusal.hint else ""
    code = f"{refusal.code} " if refusal.code else ""
    return Text.assemble("  ", (code, "red"), (where, "bold"), escape(refusal.reason), (hint, "dim"))


_STATES = {"passed": ("passed", "green"), "failed": ("FAILED", "bold red"), "not-possible": ("not possible", "yellow")}


def render_verified(report: VerifyReport, console: Console) -> None:
    """Print the result of every check, and how many passed, failed or were not possible."""
    console.print(Text(escape(report.engine), "bold"))
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        word, style = _STATES[check.status]
        console.print(Text.assemble(f"  {escape(check.name):<{width}}  ", (word, style), f": {escape(check.detail)}"))
    console.print()
    console.print(_checks_passed(report))


def _checks_passed(report: VerifyReport) -> Text:
    names = {status: [check.name for check in report.checks if check.status == status] for status in _STATES}
    parts = [f"{plural(len(names['passed']), 'check')} passed"]
    if names["not-possible"]:
        parts.append(f"{len(names['not-possible'])} not possible: {', '.join(names['not-possible'])}")
    rest = f"{'; '.join(parts)}. The engine was not run."
    if report.passed:
        return Text(rest)
    return Text.assemble((f"FAILED: {', '.join(names['failed'])}", "bold red"), f"; {rest}")
