"""The report of ``validate``: findings by model and target, and their counts."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from qdqtool.linting.findings import SEVERITIES, Finding, ParserStatus, Severity
from qdqtool.models.graph.report import ModelFile
from qdqtool.results import Report

Verdict = Literal["pass", "fail"]


@dataclass(frozen=True, slots=True)
class Ignored:
    """A rule that the settings or the command line ignore, and the number of its findings.

    Attributes:
        code: Code of the rule.
        count: Number of findings of the rule.
        errors: How many of them are errors.
    """

    code: str
    count: int
    errors: int = 0


REPEATED = 10
"""Findings with one cause and severity are grouped if there are more than this: nobody reads them one by one."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A common cause in many places of a model, and the errors or warnings that it makes.

    Attributes:
        cause: The cause in words, such as ``asymmetric activations``; the name of the rule if the cause is unknown.
        code: Code of the rule.
        severity: Severity of the findings.
        sites: Number of tensors or nodes with the cause: a Q and its DQ count as one.
        findings: Number of findings.
        fixable: How many of them have an automatic fix.
        safe: How many of them have an automatic fix that leaves the numbers unchanged.
    """

    cause: str
    code: str
    severity: Severity
    sites: int
    findings: int
    fixable: int
    safe: int


@dataclass(frozen=True, slots=True)
class TargetReport:
    """The findings for one target.

    Attributes:
        target: Id of the target.
        verdict: ``fail`` if a finding is an error.
        findings: The findings: errors first, then in the order of the rules and of the nodes.
        checked: Codes of the rules that were applied.
        suppressed: Number of findings that notes in the model, or the settings, suppress; ``findings`` does not contain
            them.
        known: Number of findings that the baseline contains; ``findings`` does not contain them.
        ignored: Rules that are both selected and ignored, for this model or for all models. ``findings`` does not
            contain their findings, only their number is given.
        parser: Whether TensorRT's parser was asked too: ``asked``; ``stopped`` at a plugin operator, so that nodes
            behind it were not parsed; ``absent``, ``off`` or ``timed out``; None for targets without parser. If the
            parser refuses the model, ``findings`` has QE701.
        parser_note: The version of the parser, or why it was not asked.
        parser_messages: The messages of the parser.
        causes: The causes of findings that repeat, the most frequent first; empty if none repeats.
        not_selected: Number of rules for this target that were not applied, because others were selected.
        lowered: Number of findings that are errors by their rule, but have a lower severity by the settings.
    """

    target: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    checked: tuple[str, ...] = ()
    suppressed: int = 0
    known: int = 0
    ignored: tuple[Ignored, ...] = ()
    parser: ParserStatus | None = None
    parser_note: str = ""
    parser_messages: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    not_selected: int = 0
    lowered: int = 0


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The findings in one model.

    Attributes:
        path: File of the model; ``<memory>`` for a model without a file.
        targets: One report for each target; empty for a model that cannot be read.
        error: Why the model cannot be read, or None.
        qdq_nodes: Number of QuantizeLinear and DequantizeLinear nodes; None for a model that cannot be read. If it is
            0, the verdict ``pass`` does not mean that the model is quantized correctly.
        file: Digests of the file, and of external data up to 64 MiB, since no rule reads large weights. None for a
            model without a file.
        per_tensor_weights: Number of products whose quantized weight has one scale for all channels; 0 if no cause
            repeats. This is no fault, but scales for each channel are more accurate.
        plugins: The operators that are declared as plugins; nothing inside them is checked.
    """

    path: str
    targets: tuple[TargetReport, ...]
    error: str | None = None
    qdq_nodes: int | None = None
    file: ModelFile | None = None
    per_tensor_weights: int = 0
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of findings over all models and targets.

    Attributes:
        errors: Findings of severity error.
        warnings: Findings of severity warning.
        infos: Findings of severity info.
        suppressed: Findings that are suppressed by notes in the models or by the settings; not counted above.
        known: Findings that the baseline has; not counted above.
        ignored: Findings of ignored rules; not counted above.
    """

    errors: int = 0
    warnings: int = 0
    infos: int = 0
    suppressed: int = 0
    known: int = 0
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class ValidateReport(Report):
    """The findings of a run.

    Attributes:
        models: One report for each model, in the order of the request.
        summary: The counts.
        settings: The settings file that was used, or None.
    """

    models: tuple[ModelReport, ...]
    summary: Summary
    settings: str | None = None

    def notebook_rows(self) -> dict[str, object]:
        """Return the counts and the findings, each with its model and target."""
        found = [
            {"model": model["path"], "target": target["target"], **finding}
            for model in self.to_dict()["models"]
            for target in model["targets"]
            for finding in target["findings"]
        ]
        errors = [{"model": model.path, "error": model.error} for model in self.unreadable]
        verdicts = {
            f"{model.path}, {target.target}": target.verdict for model in self.models for target in model.targets
        }
        return {"verdicts": verdicts, "unreadable": errors, "findings": found, "summary": self.to_dict()["summary"]}

    @property
    def passed(self) -> bool:
        """Whether every model was read and no finding is an error."""
        return not self.summary.errors and not self.unreadable

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all models and targets."""
        return tuple(finding for model in self.models for target in model.targets for finding in target.findings)

    @property
    def ignored(self) -> dict[str, int]:
        """The ignored rules that have findings, with the number of their findings."""
        found: Counter[str] = Counter()
        for model in self.models:
            for target in model.targets:
                found.update({each.code: each.count for each in target.ignored if each.count})
        return dict(sorted(found.items()))

    @property
    def unreadable(self) -> tuple[ModelReport, ...]:
        """The models that could not be read."""
        return tuple(model for model in self.models if model.error is not None)

    def reaches(self, severity: Severity) -> bool:
        """Whether there is a finding of ``severity`` or worse."""
        worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(finding.severity in worst for finding in self.findings)


def target_report(
    target: str, findings: Iterable[Finding], *, checked: tuple[str, ...], suppressed: int = 0, known: int = 0
) -> TargetReport:
    """Make the report of one target: findings sorted by severity, and the verdict."""
    return with_findings(TargetReport(target, "pass", (), checked, suppressed, known), findings)


def with_findings(report: TargetReport, findings: Iterable[Finding]) -> TargetReport:
    """Return a report with other findings, sorted by severity, and with the verdict of these findings."""
    found = tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
    verdict: Verdict = "fail" if any(finding.severity == "error" for finding in found) else "pass"
    return replace(report, findings=found, verdict=verdict, causes=_causes(found))


def _causes(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    groups: dict[tuple[str, str, Severity], list[Finding]] = {}
    for each in findings:
        groups.setdefault((each.cause or each.name, each.code, each.severity), []).append(each)
    repeated = ((key, group) for key, group in groups.items() if len(group) > REPEATED and key[2] != "info")
    found = (
        Cause(
            *key,
            sites=sum(bool(each.cause) and each.op_type == "QuantizeLinear" for each in group) or len(group),
            findings=len(group),
            fixable=sum(each.fixable for each in group),
            safe=sum(each.safe_fix for each in group),
        )
        for key, group in repeated
    )
    return tuple(sorted(found, key=lambda each: (SEVERITIES.index(each.severity), -each.findings)))


def validate_report(models: Iterable[ModelReport]) -> ValidateReport:
    """Make the report of a run, with the counts."""
    models = tuple(models)
    reports = [target for model in models for target in model.targets]
    counts = Counter(finding.severity for report in reports for finding in report.findings)
    summary = Summary(
        errors=counts["error"],
        warnings=counts["warning"],
        infos=counts["info"],
        suppressed=sum(each.suppressed for each in reports),
        known=sum(each.known for each in reports),
        ignored=sum(ignored.count for each in reports for ignored in each.ignored),
    )
    return ValidateReport(models, summary)


@dataclass(frozen=True, slots=True)
class RuleCount:
    """The findings of one rule at one severity, over all models and targets.

    Attributes:
        code: Code of the rule.
        name: Dotted name of the rule.
        severity: The severity.
        count: Number of findings.
        fixable: Number of findings with a fix.
    """

    code: str
    name: str
    severity: Severity
    count: int
    fixable: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts of a run, the most frequent rule first.

    Attributes:
        rules: The counts of each rule at each severity.
        summary: The counts over all rules.
    """

    rules: tuple[RuleCount, ...]
    summary: Summary


def statistics(report: ValidateReport) -> Statistics:
    """Count the findings of a report by rule."""
    counts = Counter((each.code, each.name, each.severity) for each in report.findings)
    fixable = Counter((each.code, each.name, each.severity) for each in report.findings if each.fixable)
    rows = (RuleCount(*key, count, fixable[key]) for key, count in counts.items())
    return Statistics(tuple(sorted(rows, key=lambda row: (-row.count, row.code, row.severity))), report.summary)
