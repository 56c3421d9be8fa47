"""The search of ``quantize`` for an accuracy in its JSON report, as types."""

from qdqtool.reports.saved.stored_parts import Stored


class StoredState(Stored, frozen=True, kw_only=True):
    """One state: layers in float, the share of the cost that is quantized, and what it keeps, null where not known."""

    layers_in_float: int
    layers_in_fallback: int
    quantized_share: float
    worst_sqnr_db: float | None
    measured_sqnr_db: float | None
    metric_loss: float | None
    measured_metric_loss: float | None
    finite: bool
    chosen: bool


class StoredSearch(Stored, frozen=True, kw_only=True):
    """The states of a search, the cheapest first, with the limits that were asked for."""

    min_sqnr_db: float | None
    max_metric_loss: float | None
    metric: str
    loss_unit: str
    samples: int
    states: tuple[StoredState, ...]
