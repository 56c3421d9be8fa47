"""Outputs of a check in its JSON report, with their worst samples, as types."""

from qdqtool.reports.saved.stored_parts import Stored


class StoredWorstSample(Stored, frozen=True, kw_only=True):
    """One sample at which an output is far off; ``sqnr_db`` is null where the float output is 0 everywhere."""

    number: int
    files: tuple[str, ...]
    sqnr_db: float | None
    max_abs: float | None
    zero_reference: bool
    nonfinite: int


class StoredDistribution(Stored, frozen=True, kw_only=True):
    """How the SQNR of single samples is distributed: counts of samples, and quartiles of those that have one."""

    samples: int
    exact: int
    zero_reference: int
    nonfinite: int
    min_db: float | None
    lower_quartile_db: float | None
    median_db: float | None
    upper_quartile_db: float | None
    max_db: float | None


class StoredOutput(Stored, frozen=True, kw_only=True):
    """One output against that of the float model; everything but ``name`` is null where it is not known."""

    name: str
    nonfinite: int
    sqnr_db: float | None
    cosine: float | None
    max_abs: float | None
    exact: bool | None
    agreement: float | None
    worst_samples: tuple[StoredWorstSample, ...] = ()
    sample_sqnr: StoredDistribution | None = None
