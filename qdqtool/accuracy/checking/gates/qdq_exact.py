"""The gate on Q and DQ nodes: ONNX Runtime must compute each of them as our own core does, bit for bit."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.qdq_reference import NodeCheck, described, qdq_count
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge every Q and DQ node; always active."""
    checks = list(evidence.job.checks.values())
    wrong = [check for check in checks if check.different]
    count = qdq_count(checks)
    missing = count.total - count.checked - count.own
    found = f"{len(wrong)} of {count.checked} differ" if wrong else f"{count.checked} of {count.total} agree"
    if count.own:
        found += f", {count.own} evaluated by our own core alone (refused by ONNX Runtime)"
    if missing:
        found += f", {missing} SKIPPED"
    yield GateResult.of(
        name="own-core",
        requires="every Q and DQ result of the reference equals that of qdqtool in every bit",
        failures=map(_failure, wrong),
        detail=found if checks else "the model has no Q or DQ of ONNX",
    )


def _failure(check: NodeCheck) -> str:
    return (
        f"{described(check.entry)}: {check.different} of {check.elements} elements differ from "
        f"the result of qdqtool, by up to {check.max_steps:g} steps; {check.example}"
    )
