"""Cells of tables with two models: a value of each model, and their difference if it is meaningful."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isinf

from qdqtool.errors import human_bytes
from qdqtool.reports.blocks import UNKNOWN, Cell, decibels, number, percentage, share, text

DIFFERENCE = "A\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}B"
NONE = Cell("\N{EN DASH}")
"""The cell for a missing value or difference."""
EXACT = float("inf")
"""The SQNR of outputs that are equal."""
_SMALL = 0.0001


Texts = tuple[str | None, str | None]
Numbers = tuple[float | None, float | None]
"""The values of the first and the second model; None for an unknown value."""
Compared = tuple[Cell, Cell, Cell]
"""The value of the first model, the value of the second model, and the difference."""


@dataclass(frozen=True, slots=True)
class Row:
    """One value of both models, and the difference."""

    name: str
    values: Compared

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The row of a table."""
        return text(self.name), *self.values

    @property
    def is_known(self) -> bool:
        """Whether a report has the value for at least one of the models."""
        return {each.text for each in self.values[:2]} != {UNKNOWN}


def in_words(found: Texts) -> Compared:
    """Return two texts, and whether they are the same."""
    a, b = found
    return text(a), text(b), NONE if a is None or b is None else text("same" if a == b else "differs")


def in_numbers(found: Numbers, why: str = "") -> Compared:
    """Return two counts and their difference.

    Args:
        found: The counts.
        why: Why they must not be subtracted; empty if they may be subtracted.
    """
    a, b = found
    return number(a, ",.0f"), number(b, ",.0f"), _difference(found, why, lambda value: f"{value:,.0f}")


def in_parts(parts: Numbers, wholes: Numbers, why: str = "") -> Compared:
    """Return two counts as parts of wholes, and the difference of the parts."""
    a, b = (
        text(None) if part is None or whole is None else Cell(f"{part:,.0f} of {whole:,.0f}", float(part))
        for part, whole in zip(parts, wholes, strict=True)
    )
    return a, b, _difference(parts, why, lambda value: f"{value:,.0f}")


def in_bytes(found: Numbers, why: str = "") -> Compared:
    """Return two sizes and their difference."""
    a, b = (text(human_bytes(int(each)) if each is not None else None) for each in found)
    return a, b, _difference(found, why, lambda value: human_bytes(int(value)))


def in_decibels(found: Numbers, why: str = "") -> Compared:
    """Return two SQNRs and their difference in dB; an infinite SQNR (equal outputs) has no difference."""
    a, b = (decibels(each, exact=each is not None and isinf(each)) for each in found)
    finite = not any(each is not None and isinf(each) for each in found)
    rounded = _rounded(found[0]), _rounded(found[1])
    return a, b, _difference(rounded, why, lambda value: f"{value:.2f} dB") if finite else NONE


def in_shares(found: Numbers, why: str = "") -> Compared:
    """Return two shares of 1, and their difference in percentage points."""
    return share(found[0]), share(found[1]), _difference(found, why, _points)


def _rounded(value: float | None) -> float | None:
    """Return an SQNR rounded to the shown digits, so that a difference that is not shown becomes 0."""
    return round(value, 2) if value is not None and not isinf(value) else None


def _points(value: float) -> str:
    """Return a difference of shares in percent; a small one has two digits, so that it is not shown as 0."""
    return f"{100 * value:.2g}%" if 0 < value < _SMALL else percentage(value)


def _difference(found: Numbers, why: str, write: Callable[[float], str]) -> Cell:
    a, b = found
    if a is None or b is None:
        return NONE
    if why:
        return Cell(why, None, "unknown")
    sign = "+" if a > b else "-" if a < b else ""
    return Cell(f"{sign}{write(abs(a - b))}", float(a - b))
