"""What a model is to be fed with, as a caller asks for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRequest:
    """What a model is to be fed with.

    Attributes:
        path: A data file; None for random inputs.
        seed: Of random inputs.
        samples: Only so many samples; None for all of a file, or the default number of random ones.
        input_shapes: Extents that the user fixes, by input name.
    """

    path: Path | None = None
    seed: int = 0
    samples: int | None = None
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
