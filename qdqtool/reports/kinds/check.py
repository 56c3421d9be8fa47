"""What is told of a check: outputs and quantized tensors against those of the float model."""

from qdqtool.accuracy.checking.report import BoundaryResult, OutputResult, WorstOutput
from qdqtool.reports.blocks import Cell, Column, decibels, number, scoped, share, text
from qdqtool.samples.feeds import DataDescription

OUTPUTS = (
    Column("Output"),
    Column("SQNR", numeric=True, short="SQNR dB"),
    Column("Cosine", numeric=True, spare=1),
    Column("Largest difference", numeric=True, short="max abs"),
)
TENSORS = (
    Column("Tensor", short="quantized tensor"),
    Column("Kind", spare=1),
    Column("Format", spare=2),
    Column("Scales", spare=3),
    Column("SQNR", numeric=True, bars=True, short="SQNR dB"),
    Column("Clipped", numeric=True, bars=True),
    Column("Largest error in steps", numeric=True, bars=True, short="max steps"),
    Column("Mean error in steps", numeric=True, bars=True, short="mean", spare=4),
)


def data_origin(data: DataDescription) -> str:
    """Return where samples came from, in words."""
    return f"random inputs, seed {data.seed}" if data.seed is not None else data.source


def worst_words(worst: WorstOutput) -> str:
    """Return how far the worst output is from that of the float model, in words."""
    if worst.agreement is not None:
        return f"{worst.agreement:.2%} equal"
    return f"{worst.sqnr_db:.2f} dB" if worst.sqnr_db is not None else f"off by {number(worst.max_abs, '.4g').short}"


def output_row(output: OutputResult) -> tuple[Cell, ...]:
    """Return a row of :data:`OUTPUTS`: an output against that of the float model."""
    if output.agreement is None:
        sqnr, cosine = decibels(output.sqnr_db, exact=bool(output.exact)), number(output.cosine, ".8f", short=".7f")
    else:
        equal = "exact" if output.exact else f"{output.agreement:.2%} equal"
        sqnr, cosine = Cell("not a float output", short=equal), Cell("not a float output", short="-")
    return text(output.name), sqnr, cosine, number(output.max_abs, short=".4g")


def tensor_row(found: BoundaryResult) -> tuple[Cell, ...]:
    """Return a row of :data:`TENSORS`: a quantized tensor against that of the float model."""
    return (
        text(scoped(found.tensor, found.graph)),
        text(found.kind),
        text(found.format),
        text(found.granularity),
        decibels(found.sqnr_db, exact=found.max_steps == 0),
        share(found.clipped / found.elements if found.elements else None),
        number(found.max_steps, ".3g", short=".4g"),
        number(found.mean_steps, ".3g"),
    )
