"""Decide whether two results may be subtracted: both must be measured on the same data against the same float model.

A report has the path of its data and the number of samples, but no digest of the data. So files with the same path are
treated as the same data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.errors import plural
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.models.graph.report import ModelFile
from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.reports.kinds.check import data_origin
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.saved.identity import same_content, same_file
from qdqtool.reports.saved.story import Story

FAIR = ""
"""The empty reason: the two results may be subtracted."""


@dataclass(frozen=True, slots=True)
class CheckPair:
    """A check of each model.

    Attributes:
        a: The check of the first model.
        b: The check of the second model.
        why: Why their numbers must not be subtracted, in two or three words; empty if they may be subtracted.
    """

    a: CheckReport
    b: CheckReport
    why: str

    @property
    def sentence(self) -> str:
        """A sentence on the data of each check, and whether a difference is fair."""
        if self.why == FAIR:
            return f"Both checks ran on {_data(self.a)}, against the same float model."
        return f"No difference of SQNRs is given ({self.why}): A was checked on {_data(self.a)}, B on {_data(self.b)}."


def check_pairs(pair: Pair) -> tuple[CheckPair, ...]:
    """Return the pairs of checks against a float model that were made in the same way.

    If there is no such pair, return one check of each model with the reason. If one of the models has no check against
    a float model, there is no pair.
    """
    first, second = (
        [check for _, check in story.each(CheckReport) if check.baseline is not None] for story in pair.stories
    )
    left = list(second)
    found: list[CheckPair] = []
    for a in first:
        b = next((each for each in left if _checks_differ(a, each) == FAIR), None)
        if b is not None:
            left.remove(b)
            found.append(CheckPair(a, b, FAIR))
    if not found and first and second:
        return (CheckPair(first[0], second[0], _checks_differ(first[0], second[0])),)
    return tuple(found)


def only(story: Story, checks: tuple[CheckReport, ...]) -> Story:
    """Return the reports of a model without its other checks."""
    kept = tuple(
        report
        for report in story.reports
        if not isinstance(report.content, CheckReport) or any(report.content is check for check in checks)
    )
    return replace(story, reports=kept)


def sensitivities_differ(a: SensitivityReport | None, b: SensitivityReport | None) -> str:
    """Return why the layer effects of two reports cannot be compared; empty if they can, or if one is missing."""
    if a is None or b is None:
        return FAIR
    if a is b:
        return "one report for both"
    samples = FAIR if a.samples == b.samples else "other samples"
    return _floats_differ(a.model_file, b.model_file) or samples or _calibrations_differ(a.calibration, b.calibration)


def accuracies_differ(a: QuantizeReport, b: QuantizeReport) -> str:
    """Return why SQNRs that ``quantize`` measured must not be subtracted; empty if they may be subtracted."""
    if a.accuracy is None or b.accuracy is None:
        return FAIR
    if (a.accuracy.validation, a.accuracy.held_back) != (b.accuracy.validation, b.accuracy.held_back):
        return "other data"
    if a.accuracy.samples != b.accuracy.samples:
        return "other samples"
    return _floats_differ(a.model_file, b.model_file) or _calibrations_differ(a.calibration, b.calibration)


def _checks_differ(a: CheckReport, b: CheckReport) -> str:
    same_data = (a.data.seed is None) == (b.data.seed is None) and same_file(a.data.source, b.data.source)
    same = {
        "other data": same_data,
        "other seed": a.data.seed == b.data.seed,
        "other samples": a.data.samples == b.data.samples,
        "other shapes": a.data.shapes == b.data.shapes,
        "other preprocessing": a.data.preprocessing == b.data.preprocessing,
        "other profile": a.reference.profile == b.reference.profile,
    }
    floats = _floats_differ(a.baseline_file, b.baseline_file)
    return floats or next((why for why, is_same in same.items() if not is_same), FAIR)


def _floats_differ(a: ModelFile | None, b: ModelFile | None) -> str:
    if a is None or b is None:
        return "float model unknown"
    return FAIR if same_content(a, b) else "other float model"


def _calibrations_differ(a: CalibrationUsed | None, b: CalibrationUsed | None) -> str:
    """Return how two calibrations differ. Their methods may differ, because the page compares them too."""
    if a is None or b is None:
        return FAIR if a is b else "other data"
    if a.random != b.random or not same_file(a.source, b.source):
        return "other data"
    return "other samples" if a.samples != b.samples else FAIR


def _data(check: CheckReport) -> str:
    data = check.data
    listed = msgspec.json.encode(data.shapes).decode().replace('"', "").strip("{}")
    shapes = f" of {listed}" if data.shapes else ""
    return f"{data_origin(data)} ({plural(data.samples, 'sample')}{shapes})"
