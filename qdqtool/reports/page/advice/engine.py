"""The engine does not run what was planned, or was refused."""

import glob
from collections.abc import Iterator, Mapping, Sequence

from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.engines.tensorrt.builder import NodePrecision
from qdqtool.errors import plural
from qdqtool.jobs.advice import MOST_HINTED, command, excluding
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.reports.blocks import Step
from qdqtool.reports.page.advised import Advice, Files
from qdqtool.reports.saved.story import Story


def steps(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for each refusal, and for each reason why nodes run in another precision."""
    for source, refused in story.each(RefusedReport):
        hint = f" {refused.hint}." if refused.hint else ""
        fact = f"The build was refused in stage {refused.stage} [{source}]: {refused.message}.{hint}"
        yield Step(f"{fact} To see every finding:", command("validate", files.model, "--verbose"))
    patterns = _patterns(story)
    for source, build in story.each(EngineReport):
        reasons = dict[tuple[str, str, str], list[NodePrecision]]()
        for node in build.nodes:
            if node.actual not in {node.planned, "unknown"}:
                reasons.setdefault((node.planned, node.actual, node.reason or "no reason is known"), []).append(node)
        for (planned, actual, reason), nodes in sorted(reasons.items(), key=lambda each: -len(each[1])):
            yield _fallback(f"{_told(nodes, planned, actual)}: {reason} [{source}].", nodes, patterns, (files, build))


def _told(nodes: Sequence[NodePrecision], planned: str, actual: str) -> str:
    names = ", ".join(node.name for node in nodes[:MOST_HINTED])
    more = ", …" if len(nodes) > MOST_HINTED else ""
    verb = "runs" if len(nodes) == 1 else "run"
    return f"{plural(len(nodes), 'node')} planned in {planned} {verb} in {actual} ({names}{more})"


def _fallback(
    fact: str,
    nodes: Sequence[NodePrecision],
    patterns: Mapping[str, tuple[str, ...]],
    made: tuple[Files, EngineReport],
) -> Step:
    files, build = made
    known = [pattern for node in nodes for pattern in patterns.get(node.name, ())]
    if known and all(node.name in patterns for node in nodes):
        told = f"{fact} To leave them in float, since they gain nothing by their codes:"
        return Step(told, files.quantize(*excluding(dict.fromkeys(known))))
    compiled_for = ("--compute-capabilities", ",".join(build.targets)) if build.targets else ()
    listing = files.build("--backend", build.backend, *compiled_for, "--verbose")
    return Step(f"{fact} Every node with its kernel:", listing)


def _patterns(story: Story) -> Mapping[str, tuple[str, ...]]:
    """Return the patterns that name a node of the float model, by its label."""
    # Of nodes that ``sensitivity`` did not measure the name serves, unless ``quantize`` made new nodes: its names are
    # those of the quantized model.
    sensitivity, quantize = story.first(SensitivityReport), story.first(QuantizeReport)
    found: dict[str, tuple[str, ...]] = {}
    if quantize is not None and not quantize.separated:
        found = {node.name: (glob.escape(node.name),) for node in quantize.nodes if " -> " not in node.name}
    if sensitivity is not None:
        found |= {node.node: node.exclude for node in sensitivity.nodes if node.exclude}
    return found


ADVICE = Advice(70, steps)
