"""The layers of an engine from the files of trtexec, with their times."""

from qdqtool.engines.report import LayerMap
from qdqtool.reports.blocks import Block, Facts, Lines, tabulate, text
from qdqtool.reports.kinds import layer_map
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story


def blocks(story: Story) -> tuple[Block, ...]:
    """Return sums by type, conversions, quantized nodes and layers of each engine."""
    return tuple(block for _, report in story.each(LayerMap) for block in _blocks(report))


def _blocks(report: LayerMap) -> tuple[Block, ...]:
    files = (("Layers", report.layer_file), ("Profile", report.profile), ("Model", report.model))
    facts = [(name, text(file)) for name, file in files if file is not None]
    notes = layer_map.summary(report)
    nodes = sorted(report.nodes, key=lambda node: node.planned == node.actual)
    conversions = layer_map.totals(report, "Conversions", "Conversion", report.conversions)
    return (
        Facts((*facts, ("Evidence", text(report.evidence)))),
        *((Lines("Times and types", notes),) if notes else ()),
        layer_map.totals(report, "Layers by type", "Computes in", report.by_type),
        *((conversions,) if report.conversions else ()),
        *((tabulate("Quantized nodes, those with another type first", layer_map.NODES, nodes),) if nodes else ()),
        layer_map.layers(report),
    )


SECTION = Section(75, "Layers of the engine", (), blocks)
