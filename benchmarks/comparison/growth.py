"""What more samples cost: seconds for each, beside those that any number takes, and memory.

Two runs of a command, with few samples and with many, give a straight line: its slope is what one sample takes, its
height at none what everything else takes. The slope over that of a plain session is calibrating against inferring.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.comparison import contestants, costs, subjects, tables
from benchmarks.comparison.contestants import DEFAULT, MAX, OURS, Contestant
from benchmarks.comparison.costs import Cost
from benchmarks.comparison.subjects import Subject, Workshop

NOTICEABLE = 0.25
"""Share of a short run by which two runs of the same may differ, generously."""
MEMORY_LIMIT = 1.1
SIDE = 64
"""Of the images for the ResNet-50 topology where there are many: they shall not take long."""

COLUMNS = (
    *("model", "tool", "mode", "method", "samples", "fixed s", "ms a sample", "plain ms", "ratio a sample"),
    *("ratio at few", "ratio at many", "MB at few", "MB at many", "memory ratio", "verdict"),
)


@dataclass(frozen=True, slots=True)
class Growth:
    """How cost grows with the number of samples.

    Attributes:
        model: Name of the subject.
        tool: Whose command it is.
        group: What it did.
        method: How.
        samples: Few and many.
        few: What the command took with few.
        many: With many.
        plain_few: What plain inference of few took.
        plain_many: Of many.
        load: Load average of the machine before.
        versions: Of the packages in the environment of the benchmark.
        failed: Why there are no figures; empty: there are.
    """

    model: str
    tool: str
    group: str
    method: str
    samples: Sequence[int]
    few: Cost
    many: Cost
    plain_few: Cost
    plain_many: Cost
    load: float
    versions: str
    failed: str = ""

    @property
    def label(self) -> str:
        """Unique among those of one model."""
        return f"{self.tool} {self.group}, {self.method}, {self.samples[0]} to {self.samples[1]}"

    @property
    def slope(self) -> float:
        """Seconds that one sample takes."""
        return (self.many.wall - self.few.wall) / (self.samples[1] - self.samples[0])

    @property
    def plain_slope(self) -> float:
        """The same of plain inference."""
        return (self.plain_many.wall - self.plain_few.wall) / (self.samples[1] - self.samples[0])

    @property
    def plain_grows(self) -> bool:
        """Whether plain inference of the further samples takes long enough to be told from starting up."""
        return self.plain_many.wall >= (1 + NOTICEABLE) * self.plain_few.wall

    @property
    def fixed(self) -> float:
        """Seconds without any sample."""
        return self.few.wall - self.slope * self.samples[0]

    @property
    def row(self) -> list[str]:
        """Under :data:`COLUMNS`."""
        names = [self.model, self.tool, self.group, self.method, f"{self.samples[0]}, {self.samples[1]}"]
        if self.failed:
            return [*names, *["-"] * (len(COLUMNS) - len(names) - 1), f"SKIPPED: {self.failed}"]
        figures = (
            f"{self.fixed:.2f}",
            f"{1e3 * self.slope:.2f}",
            f"{1e3 * self.plain_slope:.2f}" if self.plain_grows else "-",
            f"{self.slope / self.plain_slope:.2f}" if self.plain_grows else "-",
            f"{self.few.wall / self.plain_few.wall:.2f}",
            f"{self.many.wall / self.plain_many.wall:.2f}",
            f"{self.few.peak / 1e6:.0f}",
            f"{self.many.peak / 1e6:.0f}",
            f"{self.many.peak / self.few.peak:.2f}",
        )
        return [*names, *figures, self._verdict()]

    def _verdict(self) -> str:
        """Of memory, which the bar of ours is about."""
        missed = self.many.peak / self.few.peak - MEMORY_LIMIT
        return "-" if self.tool != OURS else "met" if missed <= 0 else f"missed by {missed:.2f}"


@dataclass(frozen=True, slots=True)
class Course:
    """A subject with two numbers of samples.

    Attributes:
        subject: Makes it.
        few: Samples.
        many: Samples.
        all_methods: Whether all of ours run that read data, or only what peers have too.
    """

    subject: Callable[[Workshop], Subject]
    few: int
    many: int
    all_methods: bool


def names() -> list[str]:
    """Of the subjects that are measured."""
    return list(_COURSES)


def measure(name: str, entered: Sequence[Contestant], workshop: Workshop, repeats: int) -> Iterator[Growth]:
    """The contestants that read data and keep none of it, on one subject.

    Args:
        name: Of the subject.
        entered: Any contestants.
        workshop: Where it is made.
        repeats: Runs of each command; the smallest figures count.
    """
    course, output = _COURSES[name], workshop.folder / "growth.onnx"
    subject = course.subject(workshop)
    plain = [_best(contestants.plain(subject, samples), repeats)[0] for samples in (course.few, course.many)]
    for one in entered:
        if _takes_part(one, course):
            print(f"{name}: {one.label}, {course.few} and {course.many} samples", file=sys.stderr, flush=True)
            load = os.getloadavg()[0]
            words = [one.command(subject, samples, output) for samples in (course.few, course.many)]
            (few, failed), (many, failed_later) = (_best(command, repeats) for command in words)
            numbers = [course.few, course.many]
            names = (name, one.tool, one.group, one.method)
            why = failed or failed_later
            yield Growth(*names, numbers, few, many, *plain, load, tables.versions(), why)


def _takes_part(one: Contestant, course: Course) -> bool:
    if one.group in contestants.WEIGHT_ONLY or one.follows:
        return False
    if one.tool == OURS:
        return course.all_methods or one.group in (DEFAULT, MAX)
    return one.group == MAX or (course.all_methods and one.sample_limit is None)


def _best(words: list[str], repeats: int) -> tuple[Cost, str]:
    """The smallest figures of some runs, and what went wrong if something did."""
    best: Cost | None = None
    for _ in range(repeats):
        ended = costs.run(words)
        if ended.code:
            return ended.cost, ended.complaint
        best = ended.cost.best(best)
    return best or Cost(0, 0, 0), ""


def _digits(workshop: Workshop) -> Subject:
    """The digits CNN, calibrated on its test images: there are more of them, and only costs are looked at."""
    subject = subjects.prepare("digits_cnn", workshop)
    with np.load(subject.test) as stored:
        images = stored["image"][:512]
    return replace(subject, calibration=workshop.arrays("digits_cnn.many", lambda: {"image": images}), samples=512)


_COURSES = {
    "digits_cnn": Course(_digits, 32, 512, all_methods=True),
    "resnet50_64": Course(
        lambda workshop: subjects.resnet(workshop, side=SIDE, samples=512), 32, 512, all_methods=True
    ),
    "resnet50": Course(lambda workshop: subjects.resnet(workshop, side=224, samples=100), 25, 100, all_methods=False),
}
