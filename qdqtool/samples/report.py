"""The description of the data of a run, as a report stores it."""

from dataclasses import dataclass

from qdqtool.samples.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True)
class DataDescription:
    """The source and size of the data, for reports.

    Attributes:
        source: ``random``, or the file or folder.
        samples: Number of runs.
        seed: Seed of random data; None for files.
        shapes: Shape of each input in the first run.
        repeated: Number of samples that are equal to an earlier sample.
        preprocessing: How files became inputs; None if the data holds arrays.
    """

    source: str
    samples: int
    seed: int | None
    shapes: dict[str, tuple[int, ...]]
    repeated: int = 0
    preprocessing: Preprocessing | None = None

    @property
    def distinct(self) -> int:
        """Number of samples without copies."""
        return self.samples - self.repeated
