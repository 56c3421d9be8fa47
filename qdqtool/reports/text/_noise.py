"""The quantized tensors with most noise, for a terminal."""

from collections.abc import Sequence

from rich.console import Console

from qdqtool.accuracy.checking.accuracy import TensorAccuracy
from qdqtool.accuracy.checking.report import BoundaryResult
from qdqtool.errors import plural
from qdqtool.reports.bars import BarTable
from qdqtool.reports.terminal import escape

SHOWN = 8
"""So many rows leave room for the verdict on a terminal of 24 lines."""

_LARGEST = 300
"""Power of ten that the noise is not said to exceed."""


def print_noisiest(boundaries: Sequence[BoundaryResult], console: Console) -> None:
    """Print the tensors of a check whose noise is largest in relation to the baseline's values, if any has noise.

    Args:
        boundaries: The quantized tensors; those without noise have no SQNR, nor have those whose baseline is 0.
        console: Where to print.
    """
    noisy = [(found, found.sqnr_db) for found in boundaries if found.sqnr_db is not None]
    if not noisy:
        return
    shown = sorted(noisy, key=lambda each: each[1])[:SHOWN]
    rows = [(found.tensor, found.graph, found.kind, sqnr_db) for found, sqnr_db in shown]
    console.print()
    console.print(
        f"most noise against the baseline, {len(rows)} of {plural(len(boundaries), 'quantized tensor')}", style="bold"
    )
    _print_table(rows, console)


def print_pair_errors(worst: Sequence[TensorAccuracy], console: Console) -> None:
    """Print the pairs that change their own tensor most, if there are any."""
    if not worst:
        return
    console.print("largest errors of a pair on its own tensor, which need not reach the outputs", style="bold")
    _print_table([(found.tensor, found.graph, found.kind, found.sqnr_db) for found in worst[:SHOWN]], console)


def _print_table(rows: Sequence[tuple[str, str, str, float]], console: Console) -> None:
    """Print name, scope, kind and SQNR in dB of tensors."""
    table = BarTable("  tensor", texts=("kind",), bars="RMS noise / signal", figures=("noise", "SQNR dB"))
    for tensor, graph, kind, sqnr_db in rows:
        scope = f" in {escape(graph)}" if graph else ""
        noise = relative_noise(sqnr_db)
        table.add_row(f"  {escape(tensor)}{scope}", noise, (kind,), (_percent(noise), f"{sqnr_db:.1f}"))
    console.print(table)


def relative_noise(sqnr_db: float) -> float:
    """Return the RMS of the noise divided by that of the signal: 0.1 for 20 dB."""
    return 10 ** min(-sqnr_db / 20, _LARGEST)


def _percent(share: float) -> str:
    if share >= 10:
        return f"{100 * share:.3g}%"
    return f"{share:.2%}" if share >= 0.0001 else "< 0.01%"
