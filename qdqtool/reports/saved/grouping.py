"""Assign reports to models: a page shows one model, or two models side by side.

Without ``--against``, reports are assigned to two models only if the assignment is certain. This requires two reports
of ``quantize`` or ``convert`` with different digests of the quantized model, and one of these digests in every other
report. Otherwise, contradicting reports are refused: one of them may belong to an older file of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qdqtool.errors import UsageError
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.reports.saved.identity import (
    ANOTHER_MODEL,
    Claim,
    float_claims,
    quantized_claims,
    refuse,
    same_file,
    same_model,
    validated_claims,
)
from qdqtool.reports.saved.reading import SavedReport
from qdqtool.reports.saved.story import Story, join

_Unit = tuple[SavedReport, ...]
"""The content of one file: a report, or the report of a conversion with the reports of its steps."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A report that describes a whole model."""

    quantized: Claim
    original: Claim
    quantize: QuantizeReport


def group(reports: Sequence[SavedReport], against: Sequence[SavedReport] = ()) -> tuple[Story, ...]:
    """Return the reports grouped by model, for one or two models, or for all models that a settings file lists.

    Args:
        reports: The reports of one model, or of two models with different digests.
        against: The reports of the second model; if there are any, ``reports`` are about the first model.

    Raises:
        UsageError: Reports contradict each other, or are about more than two models.
    """
    if any(report.listed_in for report in (*reports, *against)):
        return _listed((*reports, *against))
    if against:
        return join(tuple(reports)), join(tuple(against))
    units = tuple(_units(reports))
    anchors = _anchors(units)
    if len(anchors) < 2:
        return (join(tuple(reports)),)
    if len(anchors) > 2:
        names = ", ".join(str(anchor.quantized) for anchor in anchors)
        raise UsageError(
            f"the reports are about {len(anchors)} models ({names}), but a page shows one or two",
            hint="write one page for each pair of models",
        )
    owners = [_owners(unit, anchors) for unit in units]
    return tuple(
        join(tuple(report for unit, found in zip(units, owners, strict=True) if anchor in found for report in unit))
        for anchor in anchors
    )


def _listed(reports: Sequence[SavedReport]) -> tuple[Story, ...]:
    for report in reports:
        if not report.listed_in:
            raise UsageError(
                f"{report.source} is about one model, and {reports[0].source} about a model of a list",
                hint="write one page for the report of the list, and another one for the other reports",
            )
    return tuple(join((report,)) for report in reports)


def _units(reports: Sequence[SavedReport]) -> Iterator[_Unit]:
    starts = [at for at, report in enumerate(reports) if not report.is_step]
    for start, end in zip(starts, [*starts[1:], len(reports)], strict=True):
        yield tuple(reports[start:end])


def _anchors(units: Sequence[_Unit]) -> tuple[_Anchor, ...]:
    """Return each model that a report of ``quantize`` or ``convert`` describes; none if one of them has no digest."""
    found: list[_Anchor] = []
    for unit in units:
        if unit[0].command not in {"convert", "quantize"}:
            continue
        anchor = _anchor(unit)
        if anchor is None:
            return ()
        if not any(same_model(anchor.quantized, other.quantized) for other in found):
            found.append(anchor)
    return tuple(found)


def _anchor(unit: _Unit) -> _Anchor | None:
    for report in unit:
        content = report.content
        if isinstance(content, QuantizeReport) and content.output_file is not None:
            (quantized,), (original,) = quantized_claims(report), float_claims(report)
            return _Anchor(quantized, original, content)
    return None


def _owners(unit: _Unit, anchors: Sequence[_Anchor]) -> tuple[_Anchor, ...]:
    anchor = _anchor(unit)
    if anchor is not None:
        return tuple(each for each in anchors if same_model(anchor.quantized, each.quantized))
    report = unit[0]
    if isinstance(report.content, SensitivityReport):
        return _measured(report, report.content, anchors)
    quantized = [*quantized_claims(report), *(claim for _, claim in validated_claims(report))]
    if quantized:
        return _named(quantized, anchors)
    return _of_original([*float_claims(report)], anchors)


def _named(claims: Sequence[Claim], anchors: Sequence[_Anchor]) -> tuple[_Anchor, ...]:
    """Return the models that a report names; a report of ``validate`` may name both."""
    named = [_named_by(claim, anchors) for claim in claims]
    found = tuple(anchor for anchor in anchors if anchor in named)
    if not found:
        alike = next((each for each in anchors if same_file(claims[0].path, each.quantized.path)), anchors[0])
        refuse(claims, [anchor.quantized for anchor in anchors], alike.quantized)
    return found


def _named_by(claim: Claim, anchors: Sequence[_Anchor]) -> _Anchor | None:
    found = [anchor for anchor in anchors if same_model(claim, anchor.quantized)]
    if len(found) > 1:
        raise UsageError(
            f"{claim.source} has no digest of its model, and its path matches two models: {claim.path}",
            hint=ANOTHER_MODEL,
        )
    return found[0] if found else None


def _of_original(claims: Sequence[Claim], anchors: Sequence[_Anchor]) -> tuple[_Anchor, ...]:
    """Return the models that were made from the float model of a report."""
    found = tuple(anchor for anchor in anchors if any(same_model(claim, anchor.original) for claim in claims))
    if not found and claims:
        refuse(claims, [anchor.original for anchor in anchors], anchors[0].original)
    return found or tuple(anchors)


def _measured(report: SavedReport, sensitivity: SensitivityReport, anchors: Sequence[_Anchor]) -> tuple[_Anchor, ...]:
    """Return the models to which a sensitivity report belongs: those with its calibration, or else all."""
    made = [each for each in _of_original([*float_claims(report)], anchors) if each.quantize.mode == sensitivity.mode]
    if not made:
        modes = " and ".join(each.quantize.mode for each in anchors)
        raise UsageError(
            f"the reports do not belong together: {report.source} is about mode {sensitivity.mode}, "
            f"the models have mode {modes}",
            hint="measure the sensitivity in the mode of a quantized model",
        )
    wanted = _calibrated(sensitivity)
    return tuple(each for each in made if _calibrated(each.quantize) == wanted) or tuple(made)


def _calibrated(report: QuantizeReport | SensitivityReport) -> tuple[str, int, bool, str] | None:
    found = report.calibration
    return (found.source, found.samples, found.random, found.method_used) if found is not None else None
