"""Join the reports of one model; reports of several models or of several runs of ``quantize`` are refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from qdqtool.errors import UsageError
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.linting.report import ModelReport
from qdqtool.reports.saved.identity import (
    ANOTHER_MODEL,
    Claim,
    agreed,
    float_claims,
    quantized_claims,
    refuse,
    same_model,
    validated_claims,
)
from qdqtool.reports.saved.reading import FailedCommand, SavedReport
from qdqtool.results import Report

Content = TypeVar("Content", bound=Report | FailedCommand)
_SINGLE = ("convert", "quantize", "sensitivity", "inspect")
"""Commands of which a model may have only one report."""


@dataclass(frozen=True, slots=True)
class Story:
    """The reports about one quantized model, and what they state about its files.

    Attributes:
        reports: The reports, in the order given.
        float_model: The file of the float model; None if no report names it.
        quantized_model: The file of the quantized model; None if no report names it.
        quantized: The quantized model with its digests.
        original: The float model with its digests.
    """

    reports: tuple[SavedReport, ...]
    float_model: str | None
    quantized_model: str | None
    quantized: Claim | None = None
    original: Claim | None = None

    def each(self, kind: type[Content]) -> Iterator[tuple[str, Content]]:
        """Yield the reports of a kind, each with its source; if there is only one, the source is empty."""
        yield from _with_sources([(each, each.content) for each in self.reports if isinstance(each.content, kind)])

    def first(self, kind: type[Content]) -> Content | None:
        """Return the first report of a kind, or None if there is none."""
        return next((content for _, content in self.each(kind)), None)

    def validated(self) -> Iterator[tuple[str, ModelReport]]:
        """Yield the results of ``validate`` for the quantized model, each with its source as :meth:`each` does."""
        yield from _with_sources([*self.of_this_model()])

    def of_this_model(self) -> Iterator[tuple[SavedReport, ModelReport]]:
        """Yield the results of ``validate`` for the quantized model, each with its report."""
        for report in self.reports:
            for model, claim in validated_claims(report):
                if self.quantized is None or same_model(claim, self.quantized):
                    yield report, model


_Found = TypeVar("_Found")


def _with_sources(found: list[tuple[SavedReport, _Found]]) -> Iterator[tuple[str, _Found]]:
    yield from ((report.source if len(found) > 1 else "", content) for report, content in found)


def bracketed(source: str) -> str:
    """Return the name of a report in brackets, to follow a fact; empty if only one report has such facts."""
    return f" [{source}]" if source else ""


def join(reports: tuple[SavedReport, ...]) -> Story:
    """Join the reports of one model.

    Reports with equal digests are about the same model. Without digests, two paths name the same file if one ends with
    the other, since reports may have been made from several folders.

    Raises:
        UsageError: There is no report, two reports are about different models, or there are two reports of a command
            that may have only one.
    """
    if not reports:
        raise UsageError("a page needs at least one report")
    for command in _SINGLE:
        found = [report.source for report in reports if report.command == command]
        if len(found) > 1:
            raise UsageError(
                f"{found[0]} and {found[1]} are two reports of `qdqtool {command}`, but a model may have only one",
                hint=ANOTHER_MODEL,
            )
    quantized = agreed([claim for report in reports for claim in quantized_claims(report)], "quantized model")
    _check_validated(reports, quantized)
    _check_sizes(reports)
    baseline = agreed([claim for report in reports for claim in float_claims(report)], "float model")
    _check_modes(reports)
    quantized = quantized or _only_validated(reports)
    return Story(reports, _path(baseline), _path(quantized), quantized, baseline)


def _path(claim: Claim | None) -> str | None:
    return claim.path or None if claim is not None else None


def _check_validated(reports: Iterable[SavedReport], quantized: Claim | None) -> None:
    for found in map(validated_claims, reports):
        if found and quantized is not None and not any(same_model(claim, quantized) for _, claim in found):
            refuse([claim for _, claim in found], [quantized], quantized)


def _only_validated(reports: Iterable[SavedReport]) -> Claim | None:
    claims = [claim for report in reports for _, claim in validated_claims(report)]
    count = len({claim.path for claim in claims})
    if count > 1:
        raise UsageError(
            f"the reports are about {count} models, and no report names the model of the page",
            hint="add the report of check or quantize for one of the models",
        )
    return agreed(claims, "model")


def _check_sizes(reports: Iterable[SavedReport]) -> None:
    """Refuse reports with different sizes: the model may have been quantized again under the same name."""
    sizes = {}
    for each in reports:
        match each.content:
            case QuantizeReport(sizes=found):
                sizes[each.source] = found.after
            case InspectReport(bytes=count, groups=groups) if groups:
                sizes[each.source] = count
    if len(set(sizes.values())) > 1:
        (first, before), (second, after), *_ = sizes.items()
        raise UsageError(
            f"the reports do not belong together: the quantized model has {before} bytes in {first}, "
            f"{after} bytes in {second}",
            hint="make the older report again",
        )


def _check_modes(reports: Iterable[SavedReport]) -> None:
    modes = {
        each.source: each.content.mode
        for each in reports
        if isinstance(each.content, QuantizeReport | SensitivityReport)
    }
    if len(set(modes.values())) > 1:
        (first, mode), (second, other) = modes.items()
        raise UsageError(
            f"the reports do not belong together: {first} is about mode {mode}, {second} about mode {other}",
            hint="measure the sensitivity in the mode of the quantized model",
        )
