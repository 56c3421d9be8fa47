"""The result of one contestant on one subject."""

from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.comparison import coverage
from benchmarks.comparison.contestants import Contestant
from benchmarks.comparison.costs import Cost
from benchmarks.comparison.coverage import Coverage
from benchmarks.comparison.engine import Engine
from benchmarks.comparison.quality import Quality
from benchmarks.comparison.subjects import Subject


@dataclass(slots=True)
class Result:
    """What is known; what is None was not measured, or could not be.

    Attributes:
        subject: The model.
        contestant: The tool with its options; None: the float model itself, with the cost of plain inference.
        samples: Calibration samples.
        baseline: Cost of plain inference on as many samples.
        cost: Cost of quantizing.
        quality: Of the outputs.
        coverage: Of the nodes.
        size: Bytes of the file.
        engine: What TensorRT for RTX says.
        failed: Why there is no result, or why nothing could be measured of it; empty: all is well.
    """

    subject: Subject
    contestant: Contestant | None
    samples: int
    baseline: Cost | None = None
    cost: Cost | None = None
    quality: Quality | None = None
    coverage: Coverage | None = None
    size: int | None = None
    engine: Engine | None = None
    failed: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Of the contestant."""
        return self.contestant.label if self.contestant else "float"

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
