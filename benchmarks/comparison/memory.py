"""Peak memory of quantizing with many samples against few, for every method of ours."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.comparison import contestants, costs, subjects
from benchmarks.comparison.contestants import Contestant
from benchmarks.comparison.subjects import Subject, Workshop

FEW, MANY = 32, 512
LIMIT = 1.1
SIDE = 64
"""Of the images for the ResNet-50 topology: many samples shall not take long."""

COLUMNS = ("model", "mode", "method", f"MB, {FEW} samples", f"MB, {MANY} samples", "ratio", "verdict")


@dataclass(frozen=True, slots=True)
class Growth:
    """How memory grows with the number of samples.

    Attributes:
        subject: The model.
        contestant: The method.
        few: Peak in bytes with :data:`FEW` samples.
        many: The same with :data:`MANY`.
        failed: Why there are no figures; empty: there are.
    """

    subject: str
    contestant: Contestant
    few: int
    many: int
    failed: str = ""

    @property
    def row(self) -> list[str]:
        """Under :data:`COLUMNS`."""
        names = [self.subject, self.contestant.group, self.contestant.method]
        if self.failed:
            return [*names, "-", "-", "-", f"SKIPPED: {self.failed}"]
        ratio = self.many / self.few
        verdict = "met" if ratio <= LIMIT else f"missed by {ratio - LIMIT:.2f}"
        return [*names, f"{self.few / 1e6:.0f}", f"{self.many / 1e6:.0f}", f"{ratio:.2f}", verdict]


def measure(workshop: Workshop) -> Iterator[Growth]:
    """Every method that reads data, on the two models."""
    methods = [one for one in contestants.ours() if one.group not in contestants.WEIGHT_ONLY]
    for subject in (_digits(workshop), subjects.resnet(workshop, side=SIDE, samples=MANY)):
        for one in methods:
            print(f"{subject.name}: {one.label}", file=sys.stderr, flush=True)
            yield _growth(subject, one, workshop.folder / "memory.onnx")


def _growth(subject: Subject, one: Contestant, output: Path) -> Growth:
    peaks = []
    for samples in (FEW, MANY):
        ended = costs.run(one.command(subject, samples, output))
        if ended.code:
            return Growth(subject.name, one, 0, 0, ended.complaint)
        peaks.append(ended.cost.peak)
    return Growth(subject.name, one, *peaks)


def _digits(workshop: Workshop) -> Subject:
    """The digits CNN, calibrated on its test images: there are more of them, and only memory is looked at."""
    subject = subjects.prepare("digits_cnn", workshop)
    with np.load(subject.test) as stored:
        images = stored["image"][:MANY]
    return replace(subject, calibration=workshop.arrays("digits_cnn.memory", lambda: {"image": images}), samples=MANY)
