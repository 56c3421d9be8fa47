"""What each layer does to the outputs, and how far its inputs are from those of the float model."""

from qdqtool.reports.blocks import Block, Cell, Column, Table, decibels, number, scoped, share, text
from qdqtool.reports.page.layers import Layer, join_layers
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story

COLUMNS = (
    Column("Layer"),
    Column("Operator"),
    Column("Share of noise", numeric=True, bars=True),
    Column("SQNR alone", numeric=True, bars=True),
    Column("Gain in float", numeric=True, bars=True),
    Column("Share of cost", numeric=True, bars=True),
    Column("SQNR of worst input", numeric=True, bars=True),
    Column("Clipped", numeric=True, bars=True),
    Column("Precision"),
)

_NONE = Cell("\N{EN DASH}")
"""A node that stays float, or is measured with another one, has no such value."""


def blocks(story: Story) -> tuple[Block, ...]:
    """Return one row for each quantizable node; unless a report measured layers or tensors there is no table."""
    layers = join_layers(story)
    if not any(layer.is_measured for layer in layers):
        return ()
    order = ", the noisiest first" if any(layer.noise_share for layer in layers) else " in the order of the reports"
    return (Table(f"Quantizable nodes{order}", COLUMNS, tuple(map(_row, layers))),)


def _row(layer: Layer) -> tuple[Cell, ...]:
    name = scoped(layer.node, layer.graph)
    is_part = bool(layer.leader) or layer.stays_float
    effects = (
        share(layer.noise_share),
        decibels(layer.alone_db),
        number(layer.gain_db, "+.2f", "dB"),
        share(layer.cost_share),
    )
    inputs = (decibels(layer.input_db), share(layer.clipped))
    return (
        text(f"{name} (part of {layer.leader})" if layer.leader else name),
        text(layer.op_type),
        *((_NONE,) * len(effects) if is_part else effects),
        *((_NONE,) * len(inputs) if layer.stays_float else inputs),
        _precision(layer),
    )


def _precision(layer: Layer) -> Cell:
    if layer.stays_float:
        return text("float")
    if layer.actual is None:
        return text(None)
    if layer.actual == layer.planned:
        return text(layer.actual, "passed")
    return text(f"{layer.actual}, planned {layer.planned}", "unknown" if layer.actual == "unknown" else "warning")


SECTION = Section(40, "Layers", ("sensitivity", "check and quantize"), blocks)
