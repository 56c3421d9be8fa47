"""Cells of Markdown tables."""


def decibels(value: float | None) -> str:
    """Return an SQNR with one decimal."""
    if value is None:
        return "-"
    return "exact" if value == float("inf") else f"{value:.1f}"


def plain(text: str) -> str:
    """Return a text that may stand in a cell."""
    return text.replace("|", "\\|").replace("\n", " ")
