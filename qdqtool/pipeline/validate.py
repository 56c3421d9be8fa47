"""The linter as one job: models, targets and a choice of rules in, findings out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qdqtool import rules, targets
from qdqtool.errors import ArgumentError, ModelError
from qdqtool.findings import SEVERITIES, Finding, Severity
from qdqtool.graph.load import load_model
from qdqtool.graph.model import Model
from qdqtool.rules import Facts, Rule
from qdqtool.targets import Target

Verdict = Literal["pass", "fail"]


@dataclass(frozen=True, slots=True)
class TargetReport:
    """What was found for one target.

    Attributes:
        target: Its id.
        verdict: ``fail`` when a finding is an error.
        findings: Errors first, then in the order of the rules and of the nodes.
    """

    target: str
    verdict: Verdict
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What was found in one model.

    Attributes:
        path: Its file; ``<memory>`` for a model that has none.
        targets: One report for each target; empty for a model that cannot be read.
        error: Why it cannot be read, or None.
    """

    path: str
    targets: tuple[TargetReport, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """How many findings there are over all models and targets."""

    errors: int = 0
    warnings: int = 0
    infos: int = 0


@dataclass(frozen=True, slots=True)
class ValidateReport:
    """The findings of a run.

    Attributes:
        models: One report for each model, in the order asked for.
        summary: The counts.
    """

    models: tuple[ModelReport, ...]
    summary: Summary

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all models and targets."""
        return tuple(finding for model in self.models for target in model.targets for finding in target.findings)

    @property
    def unreadable(self) -> tuple[ModelReport, ...]:
        """The models that could not be read."""
        return tuple(model for model in self.models if model.error is not None)

    def reaches(self, severity: Severity) -> bool:
        """Whether there is a finding of ``severity`` or worse."""
        worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(finding.severity in worst for finding in self.findings)


def validate_model(
    path_or_model: str | Path | Model,
    targets: Sequence[str] = ("tensorrt",),
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
) -> ValidateReport:
    """Find every fault of one model for each target.

    The file is read as it is, and weights are left on disk: only scales and zero points are read.

    Args:
        path_or_model: A file, or a model in memory.
        targets: Target ids: ``onnx``, ``ort-cpu``, ``tensorrt``, ``tensorrt-rtx``.
        select: Prefixes of the rule codes to apply (``QS``, ``QP101``, ``ALL``); None for all.
        ignore: Prefixes of rule codes to leave out.

    Raises:
        ArgumentError: A target or a prefix is unknown.
        ModelError: The model cannot be read.
    """
    chosen = _Choice.of(targets, select, ignore)
    model = path_or_model if isinstance(path_or_model, Model) else load_model(Path(path_or_model))
    return _report([chosen.judge(model)])


def validate_models(
    paths: Iterable[Path],
    targets: Sequence[str] = ("tensorrt",),
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
) -> ValidateReport:
    """As :func:`validate_model` for many files; one that cannot be read is reported and does not stop the others.

    Raises:
        ArgumentError: A target or a prefix is unknown.
    """
    chosen = _Choice.of(targets, select, ignore)
    found: list[ModelReport] = []
    for path in paths:
        try:
            found.append(chosen.judge(load_model(path)))
        except ModelError as error:
            found.append(ModelReport(str(path), (), f"{error.message}; {error.hint}" if error.hint else error.message))
    return _report(found)


@dataclass(frozen=True, slots=True)
class _Choice:
    targets: tuple[Target, ...]
    rules: tuple[Rule, ...]

    @classmethod
    def of(cls, names: Sequence[str], select: Iterable[str] | None, ignore: Iterable[str] | None) -> "_Choice":
        if isinstance(names, str) or not names:
            raise ArgumentError(
                f"targets is {names!r}; it must be a list of one or more of {', '.join(targets.names())}"
            )
        return cls(tuple(targets.get(name) for name in dict.fromkeys(names)), rules.choose(select, ignore))

    def judge(self, model: Model) -> ModelReport:
        facts = Facts(model)
        reports = tuple(self._judge_for(facts, target) for target in self.targets)
        return ModelReport(str(model.path) if model.path is not None else "<memory>", reports)

    def _judge_for(self, facts: Facts, target: Target) -> TargetReport:
        found = [finding for rule in self.rules for finding in rule.run(facts, target)]
        found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
        failed = any(finding.severity == "error" for finding in found)
        return TargetReport(target.id, "fail" if failed else "pass", tuple(found))


def _report(models: list[ModelReport]) -> ValidateReport:
    counts = Counter(finding.severity for model in models for target in model.targets for finding in target.findings)
    return ValidateReport(tuple(models), Summary(counts["error"], counts["warning"], counts["info"]))
