"""What the page reads of ranges and scales in the report of ``quantize``."""

from typing import Annotated

import msgspec

from qdqtool.reports.saved.stored_parts import Stored

_COUNTS = r"^(\d{1,18}(\*\d{1,2})?( |$))*$"
_NUMBERS = r"^(\d+(\.\d+)?(e[+-]\d+)?( |$))*$"


class StoredMethodRange(Stored, frozen=True, kw_only=True):
    """What a calibration method would choose."""

    method: str
    range: float
    clipped: float


class StoredHistogram(Stored, frozen=True, kw_only=True):
    """Magnitudes in few bins; ``counts`` is ``3 0*40 17`` for 3, forty zeros, 17."""

    bin_width: float
    counts: Annotated[str, msgspec.Meta(pattern=_COUNTS, max_length=2000)]
    zeros: int
    beyond: int


class StoredActivationRange(Stored, frozen=True, kw_only=True):
    """The range of one activation; without ``values`` another tool gave it."""

    tensor: str
    graph: str
    format: str
    min: float
    max: float
    values: int | None
    range: float
    clipped: float | None
    method: str
    reason: str
    shared: bool
    methods: tuple[StoredMethodRange, ...]
    histogram: StoredHistogram | None


class StoredWeightScales(Stored, frozen=True, kw_only=True):
    """The scales of one weight by channel; ``largest`` is empty where it is ``smallest``."""

    tensor: str
    graph: str
    format: str
    axis: int
    channels: int
    grouped: int
    smallest: Annotated[str, msgspec.Meta(pattern=_NUMBERS, max_length=4000)]
    largest: Annotated[str, msgspec.Meta(pattern=_NUMBERS, max_length=4000)]
    dead: int
