"""A gate of a check failed: the command that shows where, or makes a model that may pass."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.limits import ACCURACY_GATES
from qdqtool.accuracy.checking.report import CheckReport, GateResult
from qdqtool.jobs.advice import excluding
from qdqtool.reports.blocks import Step, percentage
from qdqtool.reports.page.advised import Advice, Files, has_fault
from qdqtool.reports.saved.story import Story

_SCALES = {"activations", "weights"}


def steps(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for each gate that was missed; of the accuracy, only where no other gate says why it is lost."""
    for source, check in story.each(CheckReport):
        missed = [gate for gate in check.gates if not gate.passed]
        for gate in missed:
            if gate.name in _SCALES:
                yield Step(f"{_fact(gate, source)} Scales that fit come from calibrating again:", files.quantize())
            elif gate.name not in ACCURACY_GATES:
                yield Step(f"{_fact(gate, source)} All places are listed by:", files.check("--verbose"))
        lost = next((gate for gate in missed if gate.name in ACCURACY_GATES), None)
        if lost is not None and not has_fault(check):
            yield _accuracy(check, f"{_fact(lost, source)} ", files)


def _fact(gate: GateResult, source: str) -> str:
    reason = gate.failures[0] if gate.failures else gate.detail
    return f"Gate {gate.name} failed: {reason} [{source}]."


def _accuracy(check: CheckReport, fact: str, files: Files) -> Step:
    blame = check.blame
    if blame is None or not blame.layers:
        return Step(f"{fact}The layers that cost the outputs most are named by:", files.check("--blame"))
    names = ", ".join(f"{layer.node} ({percentage(layer.noise_share)})" for layer in blame.layers)
    patterns = (pattern for layer in blame.layers for pattern in layer.exclude)
    told = f"{fact}Most of the noise at {blame.output} is made by {names}. To leave them in float:"
    return Step(told, files.quantize(*excluding(patterns)))


ADVICE = Advice(10, steps)
