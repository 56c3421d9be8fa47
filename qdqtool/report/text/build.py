"""The build report for a terminal."""

from collections import Counter

from rich.console import Console
from rich.text import Text

from qdqtool.data.input_shapes import spell_shape
from qdqtool.engine.builder import InputProfile, NodePrecision
from qdqtool.engine.report import EngineReport
from qdqtool.report.table import FittedTable
from qdqtool.report.terminal import escape, human_bytes, make_table, plural
from qdqtool.report.text._rest import limit, print_rest
from qdqtool.transforms.specialize import Specialized

SHOWN = 20

_EVIDENCE = {
    "aot-dump": "Types are from the layer dump that the builder makes ahead of time. Float operands in it prove a "
    "fallback; quantized operands show what the kernel was chosen for. It cannot show the code that is generated on "
    "the GPU at first use, whether results leave a kernel quantized, or how fast it runs.",
    "inspector": "Types are from the engine inspector: the kernels that this GPU will run. Speed was not measured.",
    "none": "The builder gave no layer information: nothing is known of the types that the kernels run in.",
}


def render(report: EngineReport, console: Console) -> None:
    """Print targets and shapes, planned against actual types, the fallbacks with their reasons, and the files."""
    _head(report, console)
    console.print()
    _precision(report, console)
    for gate in report.gates:
        word, style = ("passed", "green") if gate.passed else ("MISSED", "bold red")
        console.print(Text.assemble(f"gate {gate.gate}: ", (word, style), f", {gate.found}"))
    console.print()
    _files(report, console)


def _head(report: EngineReport, console: Console) -> None:
    targets = ", ".join(report.targets) or "the GPU in this machine"
    console.print(Text(escape(report.model), "bold"))
    console.print(f"  {report.backend} {escape(report.version)}; compute capability {targets}")
    if report.specialized is not None:
        console.print(f"  {_specialized(report.specialized)}")
    for profile in report.profiles:
        console.print(f"  {_profile(profile)}")
    if report.findings is not None:
        found = f"{plural(report.findings.warnings, 'warning')}, {plural(report.findings.infos, 'remark')}"
        console.print(f"  validate: no errors, {found}")
    for step in report.skipped:
        console.print(Text.assemble(f"  {step}: ", ("SKIPPED", "bold yellow")))
    for warning in report.warnings:
        console.print(Text.assemble("  ", ("warning: ", "yellow"), escape(warning)))


def _specialized(done: Specialized) -> str:
    shapes = ", ".join(f"{escape(name)} {spell_shape(shape)}" for name, shape in done.input_shapes.items())
    return f"specialized for {shapes}: {done.nodes_before} nodes became {done.nodes_after}"


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
        noun = "node runs" if planned == 1 else "nodes run"
        console.print(Text(f"{achieved} of {planned} planned {kind} {noun} in {kind} kernels", style))
    console.print(_table(report.nodes))
    fallbacks = [node for node in report.nodes if node.actual != node.planned]
    for node in fallbacks[: limit(console, SHOWN)]:
        console.print(_fallback(node))
    print_rest(len(fallbacks), SHOWN, console)
    console.print(Text(_EVIDENCE[report.evidence], "dim"))


def _table(nodes: tuple[NodePrecision, ...]) -> FittedTable:
    table = make_table("planned", "actual", "operator", "nodes")
    for (planned, actual, op_type), count in sorted(Counter((n.planned, n.actual, n.op_type) for n in nodes).items()):
        table.add_row(escape(planned), escape(actual), escape(op_type), str(count))
    return table


def _fallback(node: NodePrecision) -> Text:
    scope = f" in {escape(node.graph)}" if node.graph else ""
    types = f"{escape(node.planned)} -> {escape(node.actual)}"
    return Text.assemble(
        "  ", (escape(node.name), "bold"), f"{scope} ({escape(node.op_type)}): {types}, {escape(node.reason or '')}"
    )


def _files(report: EngineReport, console: Console) -> None:
    if report.layer_info:
        console.print(f"layers in {escape(report.layer_info)}")
    if report.engine is None:
        console.print(Text("no engine was written: a gate was missed", "bold red"))
        return
    console.print(
        Text.assemble(
            "wrote ",
            (escape(report.engine), "bold"),
            f", {human_bytes(report.bytes)} in {report.seconds:.1f} s",
        )
    )
    if report.manifest is not None:
        console.print(f"manifest in {escape(report.manifest)}")
