"""File sizes before and after a job."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of model and data file together, before and after."""

    before: int
    after: int
