"""The result of one contestant on one subject: nothing but data, so that it can be written and read again."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.comparison import coverage
from benchmarks.comparison.contestants import HALF, Contestant
from benchmarks.comparison.costs import Cost
from benchmarks.comparison.coverage import Coverage, Half
from benchmarks.comparison.engine import Engine
from benchmarks.comparison.quality import Quality
from benchmarks.comparison.subjects import Subject

FLOAT = "float"
"""Stands for a tool in the row of the float model, whose cost is that of plain inference."""


@dataclass(slots=True)
class Result:
    """What is known; what is None was not measured, or could not be.

    Attributes:
        model: Name of the subject.
        tool: Whose result it is.
        group: What it did, as of a :class:`Contestant`.
        method: How.
        samples: Calibration samples.
        trained: As of a :class:`Subject`.
        heavy: The same.
        versions: Of the packages in the environment of the benchmark.
        load: Load average of the machine when the time was taken.
        baseline: Cost of plain inference on as many samples.
        cost: Cost of quantizing.
        quality: Of the outputs.
        coverage: Of the nodes.
        half: What computes in half precision, if the contestant converts to it.
        size: Bytes of the file.
        engine: What TensorRT for RTX says.
        failed: Why there is no result, or why nothing could be measured of it; empty: all is well.
        notes: What a reader has to know.
    """

    model: str
    tool: str
    group: str
    method: str
    samples: int
    trained: bool = False
    heavy: bool = False
    versions: str = ""
    load: float | None = None
    baseline: Cost | None = None
    cost: Cost | None = None
    quality: Quality | None = None
    coverage: Coverage | None = None
    half: Half | None = None
    size: int | None = None
    engine: Engine | None = None
    failed: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Unique among the results of one model."""
        return FLOAT if self.tool == FLOAT else f"{self.tool} {self.group}, {self.method}"

    def ratio(self, figure: str) -> float | None:
        """``wall``, ``cpu`` or ``peak`` over that of plain inference."""
        if self.cost is None or self.baseline is None:
            return None
        return float(getattr(self.cost, figure) / getattr(self.baseline, figure))

    def inspect(self, path: Path) -> None:
        """Fill in what the file alone tells."""
        self.size = path.stat().st_size
        self.size += sum(other.stat().st_size for other in path.parent.glob(f"{path.name}?data"))
        self.coverage = coverage.count(path)
        self.half = coverage.half_of(path) if self.group == HALF else None

    def after(self, older: "Result") -> "Result":
        """This result, with what it has not measured taken from an older one of the same contestant and samples.

        An engine counts as measured before only where the file has kept its size.
        """
        if self.failed or older.failed or self.samples != older.samples:
            return self
        timed = self if self.cost else older
        judged = self if self.coverage else older
        engine = judged.engine or (older.engine if judged.size == older.size else None)
        return replace(judged, cost=timed.cost, baseline=timed.baseline, load=timed.load, engine=engine)


def blank(subject: Subject, one: Contestant | None) -> Result:
    """Nothing measured yet; None: of the float model."""
    words = (one.tool, one.group, one.method) if one else (FLOAT, "", "")
    samples = one.samples(subject) if one else subject.samples
    return Result(subject.name, *words, samples, trained=subject.trained, heavy=subject.heavy)
