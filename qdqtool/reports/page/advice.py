"""Advice on what to try next: steps that follow from the reports, each with a command.

Each command works when it is run where the reports were made.
"""

import glob
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from qdqtool.accuracy.checking.limits import ACCURACY_GATES, ON_OUTPUTS
from qdqtool.accuracy.checking.report import CheckReport, GateResult
from qdqtool.accuracy.checking.sample_errors import is_outlier
from qdqtool.accuracy.report import BlamedLayer
from qdqtool.accuracy.search.blame import FAIR_DB
from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.engines.report import NodePrecision
from qdqtool.errors import plural
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import NodeEffect, SensitivityReport
from qdqtool.linting.findings import Finding
from qdqtool.models import targets
from qdqtool.quantization.planning import modes
from qdqtool.reports.advice import MOST_HINTED, clipping_cause, command, dominant_layers, excluding, leaves_some
from qdqtool.reports.blocks import Step, percentage
from qdqtool.reports.page.advised import Files, compared, has_fault, worst_output
from qdqtool.reports.page.verdict import QUESTIONS, judge
from qdqtool.reports.saved.story import Story, bracketed

_INT8 = modes.get(modes.DEFAULT)
_SCALES = {"activations", "weights"}


def missed_gates(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for each missed gate; for an accuracy gate only if no other missed gate explains it."""
    for source, check in story.each(CheckReport):
        missed = [gate for gate in check.gates if not gate.passed]
        for gate in missed:
            if gate.name in _SCALES:
                yield Step(f"{_missed(gate, source)} To get scales that fit, calibrate again:", files.quantize())
            elif gate.name not in ACCURACY_GATES:
                yield Step(f"{_missed(gate, source)} To list all places:", files.check("--verbose"))
        lost = next((gate for gate in missed if gate.name in ACCURACY_GATES), None)
        if lost is not None and not has_fault(check):
            yield _lost_accuracy(check, f"{_missed(lost, source)} ", files)


def _missed(gate: GateResult, source: str) -> str:
    reason = gate.failures[0] if gate.failures else gate.detail
    return f"Gate {gate.name} failed: {reason}{bracketed(source)}."


def _lost_accuracy(check: CheckReport, fact: str, files: Files) -> Step:
    blame = check.blame
    if blame is None or not blame.layers or not leaves_some(layer.macs_share for layer in blame.layers):
        return Step(f"{fact}This command names the layers that cost the outputs most:", files.check("--blame"))
    clipping = clipping_cause(blame)
    if clipping is not None:
        fact += f"The ranges clip up to {percentage(clipping.clipped_share)} of the values of a tensor. "
        return Step(f"{fact}To use ranges that hold all values:", files.quantize("--calibration-method", "max"))
    patterns = (pattern for layer in blame.layers for pattern in layer.exclude)
    fact += f"Most of the noise at {blame.output} comes from {_names(blame.layers)}. Leave them unquantized:"
    return Step(fact, files.quantize(*excluding(patterns)))


def _names(layers: Sequence[NodeEffect | BlamedLayer]) -> str:
    return ", ".join(f"{each.node} ({percentage(each.noise_share)})" for each in layers)


def fixable_findings(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for safe fixes, a step for other fixes, and a step for each rule whose errors have no fix."""
    explained = dict[str, list[Finding]]()
    for source, model in story.validated():
        for target in model.targets:
            asked = () if target.target == targets.DEFAULT else ("--target", target.target)
            safe = [found for found in target.findings if found.safe_fix]
            unsafe = [found for found in target.findings if found.fixable and not found.safe_fix]
            if safe:
                fact = f"To fix {_codes(safe)} without changing numbers{bracketed(source)}:"
                yield Step(fact, command("validate", files.model, *asked, "--fix", "-o", "FIXED.onnx"))
            if unsafe:
                fact = f"To fix {_codes(unsafe)}, and print how much numbers change{bracketed(source)}:"
                words = (*asked, "--fix", "--unsafe-fixes", "-o", "FIXED.onnx")
                yield Step(fact, command("validate", files.model, *words))
            for found in target.findings:
                if found.severity == "error" and not found.fixable:
                    explained.setdefault(found.code, []).append(found)
    for code, found_ in explained.items():
        yield Step(
            f"No automatic fix exists for {_codes(found_)}. This command describes the manual fix:",
            command("explain", code),
        )


def _codes(found: Sequence[Finding]) -> str:
    """Return the codes of rules with the severities and the number of their findings, in words."""
    counts = dict[tuple[str, str], int]()
    for each in found:
        counts[each.code, each.severity] = counts.get((each.code, each.severity), 0) + 1
    return ", ".join(f"{plural(count, severity)} {code}" for (code, severity), count in sorted(counts.items()))


def random_samples(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step if the ranges come from random samples, and a step for each check on random inputs."""
    quantize = story.first(QuantizeReport)
    if quantize is not None and quantize.calibration is not None and quantize.calibration.random:
        yield Step("The ranges come from random inputs. To use ranges from real data:", files.quantize())
    for source, check in story.each(CheckReport):
        if check.data.seed is not None:
            yield Step(
                f"The check ran on random inputs{bracketed(source)}. To measure the accuracy on real data:",
                files.check(),
            )
        elif check.baseline is None:
            yield Step(f"The check had no float model to compare with{bracketed(source)}:", files.check())


def noisy_layers(story: Story, files: Files) -> Iterator[Step]:
    """Yield steps if the worst output misses its limit (requested or default) and no other fault explains this."""
    found = _worst_figure(story)
    quantize = story.first(QuantizeReport)
    asked = quantize.search.min_sqnr_db if quantize is not None and quantize.search is not None else None
    enough = FAIR_DB if asked is None else asked
    if found is None or found[1] >= enough or any(has_fault(check) for _, check in compared(story)):
        return
    fact = f"Output {found[0]} keeps {found[1]:.2f} dB{bracketed(found[2])}"
    if asked is not None:
        words = ("--min-sqnr", f"{asked + (asked - found[1]):.4g}")
        yield Step(f"{fact}; {asked:g} dB was the target on other samples. To raise it:", files.quantize(*words))
        return
    yield from _layers(story, files, fact)


def _worst_figure(story: Story) -> tuple[str, float, str] | None:
    """Return the worst output, its SQNR and its report, which is a check on real data or else ``quantize``."""
    checked = [
        (output.name, output.sqnr_db, source)
        for source, check in compared(story)
        if (output := worst_output(check)) is not None and output.sqnr_db is not None
    ]
    quantize = story.first(QuantizeReport)
    is_real = quantize is not None and quantize.calibration is not None and not quantize.calibration.random
    measured = quantize.accuracy.outputs if quantize is not None and is_real and quantize.accuracy is not None else ()
    source = next((name for name, _ in story.each(QuantizeReport)), "")
    others = [(output.name, output.sqnr_db, source) for output in measured if output.sqnr_db is not None]
    return min(checked or others, key=lambda each: each[1], default=None)


def _layers(story: Story, files: Files, fact: str) -> Iterator[Step]:
    quantize, sensitivity = story.first(QuantizeReport), story.first(SensitivityReport)
    blame = quantize.blame if quantize is not None else None
    dominant: Sequence[NodeEffect | BlamedLayer] = blame.layers if blame is not None else ()
    if sensitivity is not None and sensitivity.nodes:
        dominant = sensitivity.nodes[: dominant_layers([node.noise_share for node in sensitivity.nodes])]
    shares = (each.macs_share if isinstance(each, BlamedLayer) else each.cost_share for each in dominant)
    if quantize is not None and not leaves_some(shares):
        if modes.get(quantize.mode).weight_format.bits < _INT8.weight_format.bits:
            fact += f". No layer is quantized except {_names(dominant)}. 8 bits have finer steps than {quantize.mode}:"
            yield Step(fact, files.in_default_mode().quantize())
        return
    patterns = [pattern for each in dominant for pattern in each.exclude]
    is_named = any(check.blame is not None and check.blame.layers for _, check in compared(story))
    if patterns and not is_named:
        names = _names(dominant)
        yield Step(
            f"{fact}. Most of the noise comes from {names}. To leave them in float:",
            files.quantize(*excluding(patterns)),
        )
    goal = files.quantize("--min-sqnr", f"{FAIR_DB:g}")
    yield Step(f"{fact}. To keep {FAIR_DB:g} dB at every output with the fewest layers in float:", goal)
    if sensitivity is None:
        words = ("sensitivity", files.float_model, "--calib-data", files.data, *files.options)
        yield Step("To measure the noise of each layer:", command(*words))


def odd_samples(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for the worst sample of the worst output of each check, if the sample is an outlier."""
    for source, check in compared(story):
        output = worst_output(check)
        if output is None or output.sample_sqnr is None or not output.worst_samples:
            continue
        sample, all_ = output.worst_samples[0], output.sample_sqnr
        figure = None if sample.nonfinite else sample.sqnr_db
        if not is_outlier(figure, all_.median_db, all_.samples):
            continue
        name = f"sample {sample.number}" + (f" ({', '.join(sample.files)})" if sample.files else "")
        kept = "has no SQNR" if figure is None else f"keeps {figure:.2f} dB"
        fact = (
            f"At output {output.name}, {name} {kept}, and half of the samples keep more than {all_.median_db:.2f} dB"
            f"{bracketed(source)}. Look at this sample. To write the outputs of all samples in order:"
        )
        yield Step(fact, files.check("--save-outputs", "outputs.npz"))


def missing_limits(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for each check that passed without a limit on its outputs."""
    for source, check in compared(story):
        output = worst_output(check)
        if not check.passed or ON_OUTPUTS & {gate.name for gate in check.gates} or output is None:
            continue
        assert output.sqnr_db is not None
        fact = f"The check had no limit on the accuracy{bracketed(source)}. To set a limit that this model passes:"
        yield Step(fact, files.check("--min-sqnr", f"{math.floor(output.sqnr_db)}"))


def lost_precision(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for each refusal, and for each reason why nodes run in another precision."""
    for source, refused in story.each(RefusedReport):
        hint = f" {refused.hint}." if refused.hint else ""
        fact = f"The build was refused in stage {refused.stage}{bracketed(source)}: {refused.message}.{hint}"
        yield Step(f"{fact} To see every finding:", command("validate", files.model, "--verbose"))
    patterns = _patterns(story)
    for source, build in story.each(EngineReport):
        reasons = dict[tuple[str, str, str], list[NodePrecision]]()
        for node in build.nodes:
            if node.actual not in {node.planned, "unknown"}:
                reasons.setdefault((node.planned, node.actual, node.reason or "no reason is known"), []).append(node)
        for (planned, actual, reason), nodes in sorted(reasons.items(), key=lambda each: -len(each[1])):
            yield _fallback(
                f"{_planned_and_actual(nodes, planned, actual)}: {reason}{bracketed(source)}.",
                nodes,
                patterns,
                (files, build),
            )


def _planned_and_actual(nodes: Sequence[NodePrecision], planned: str, actual: str) -> str:
    names = ", ".join(node.name for node in nodes[:MOST_HINTED])
    more = ", …" if len(nodes) > MOST_HINTED else ""
    verb = "runs" if len(nodes) == 1 else "run"
    return f"{plural(len(nodes), 'node')} planned in {planned} {verb} in {actual} ({names}{more})"


def _fallback(
    fact: str, nodes: Sequence[NodePrecision], patterns: Mapping[str, tuple[str, ...]], made: tuple[Files, EngineReport]
) -> Step:
    files, build = made
    known = [pattern for node in nodes for pattern in patterns.get(node.name, ())]
    if known and all(node.name in patterns for node in nodes):
        fact += " Their quantization saves nothing. To leave them unquantized:"
        return Step(fact, files.quantize(*excluding(dict.fromkeys(known))))
    compiled_for = ("--compute-capabilities", ",".join(build.targets)) if build.targets else ()
    listing = files.build("--backend", build.backend, *compiled_for, "--verbose")
    return Step(f"{fact} To list every node with its kernel:", listing)


def _patterns(story: Story) -> Mapping[str, tuple[str, ...]]:
    """Return the patterns that name a node of the float model, by its label."""
    # Nodes that ``sensitivity`` did not measure are named directly. This fails if ``quantize`` made new nodes, because
    # its names are those of the quantized model.
    sensitivity, quantize = story.first(SensitivityReport), story.first(QuantizeReport)
    found: dict[str, tuple[str, ...]] = {}
    if quantize is not None and not quantize.separated:
        found = {node.name: (glob.escape(node.name),) for node in quantize.nodes if " -> " not in node.name}
    if sensitivity is not None:
        found |= {node.node: node.exclude for node in sensitivity.nodes if node.exclude}
    return found


def open_questions(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for each question that no report answers; none if rules found errors, which must be fixed first."""
    commands: Mapping[str, str] = {
        "rules": command("validate", files.model),
        "numbers": files.check(),
        "engine": files.build(),
    }
    judgements = judge(story).judgements
    is_invalid = any(each.question == "rules" and each.state == "failed" for each in judgements)
    for judgement in () if is_invalid else judgements:
        if not judgement.source:
            yield Step(f"No report answers: {QUESTIONS[judgement.question][0]}", commands[judgement.question])


EVERY_ADVICE: tuple[Callable[[Story, Files], Iterator[Step]], ...] = (
    missed_gates,
    fixable_findings,
    random_samples,
    noisy_layers,
    odd_samples,
    missing_limits,
    lost_precision,
    open_questions,
)
"""Each function yields the steps of one kind; the most urgent kinds come first."""
