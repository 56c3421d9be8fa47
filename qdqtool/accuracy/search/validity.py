"""Refuse a quantized model that the linter finds errors in."""

from __future__ import annotations

from collections.abc import Container

from qdqtool.errors import GateError
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.report import validate_report
from qdqtool.models.graph.model import Model


def require_valid(
    quantized: Model, source: Model, target: str, lossy: Container[tuple[str, str]] = (), way_out: str = ""
) -> tuple[Finding, ...]:
    """Find what the linter says of a quantized model, and refuse one with errors.

    Args:
        quantized: The model.
        source: The model that it was made of: a fault that it has already is named as such.
        target: What the model is for.
        lossy: Scope and name of each tensor of which the caller reports that most of its values are lost. Where an
            outlier was clipped, the tensor behind it cannot fill the range that calibration saw, which QN504 reports:
            that error alone is returned as a finding.
        way_out: What the user can do about faults that ``source`` has already, besides the rule's remedy.

    Raises:
        GateError: There is another error; the message has the first.
    """
    findings = _findings(quantized, target)
    errors = [
        finding
        for finding in findings
        if finding.severity == "error" and not (finding.code == "QN504" and (finding.graph, finding.tensor) in lossy)
    ]
    if not errors:
        return findings
    first = errors[0]
    before = {(finding.code, finding.graph, finding.node) for finding in _findings(source, target)}
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    known = all((finding.code, finding.graph, finding.node) in before for finding in errors)
    raise GateError(
        f"the quantized model would not pass `validate --target {target}`; nothing was written: {first.code} "
        f"{first.node or first.tensor or ''}: {first.message}{more}",
        hint=f"the model has these errors already: {rules.get(first.code).remedy}{way_out}" if known else None,
    )


def _findings(model: Model, target: str) -> tuple[Finding, ...]:
    return validate_report([Linter(Policy(targets=(target,))).model(model)]).findings
