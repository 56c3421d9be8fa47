"""What the data of a run is, as data."""

from dataclasses import dataclass

from qdqtool.samples.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True)
class DataDescription:
    """The origin of the data, for reports.

    Attributes:
        source: ``random``, or the file or folder.
        samples: How many runs there are.
        seed: Of random data; None for files.
        shapes: Shape of each input in the first run.
        repeated: How many samples are equal to an earlier one.
        preprocessing: How files became inputs; None for data that holds arrays.
    """

    source: str
    samples: int
    seed: int | None
    shapes: dict[str, tuple[int, ...]]
    repeated: int = 0
    preprocessing: Preprocessing | None = None
