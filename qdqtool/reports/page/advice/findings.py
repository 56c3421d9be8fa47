"""Findings of rules: the command that repairs them, or explains what no fix mends."""

from collections.abc import Iterator, Sequence

from qdqtool.errors import plural
from qdqtool.jobs.advice import command
from qdqtool.linting.findings import Finding
from qdqtool.models import targets
from qdqtool.reports.blocks import Step
from qdqtool.reports.page.advised import Advice, Files
from qdqtool.reports.saved.story import Story


def steps(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for what safe fixes repair, one for what other fixes do, and one for each other kind of error."""
    explained = dict[str, list[Finding]]()
    for source, model in story.validated():
        for target in model.targets:
            asked = () if target.target == targets.DEFAULT else ("--target", target.target)
            safe = [found for found in target.findings if found.safe_fix]
            unsafe = [found for found in target.findings if found.fixable and not found.safe_fix]
            if safe:
                fact = f"A fix that leaves the numbers as they are mends {_codes(safe)} [{source}]:"
                yield Step(fact, command("validate", files.model, *asked, "--fix", "-o", "FIXED.onnx"))
            if unsafe:
                fact = f"A fix that changes numbers, and prints by how much, mends {_codes(unsafe)} [{source}]:"
                words = (*asked, "--fix", "--unsafe-fixes", "-o", "FIXED.onnx")
                yield Step(fact, command("validate", files.model, *words))
            for found in target.findings:
                if found.severity == "error" and not found.fixable:
                    explained.setdefault(found.code, []).append(found)
    for code, found_ in explained.items():
        yield Step(f"No fix mends {_codes(found_)}. What to do instead is told by:", command("explain", code))


def _codes(found: Sequence[Finding]) -> str:
    """Return the codes of findings with their severities and counts, in words."""
    counts = dict[tuple[str, str], int]()
    for each in found:
        counts[each.code, each.severity] = counts.get((each.code, each.severity), 0) + 1
    return ", ".join(f"{plural(count, severity)} {code}" for (code, severity), count in sorted(counts.items()))


ADVICE = Advice(20, steps)
