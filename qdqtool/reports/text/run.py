"""The run report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.engines.gpu.report import RunReport
from qdqtool.errors import plural
from qdqtool.reports.terminal import escape
from qdqtool.samples.input_shapes import spell_shape


def render(report: RunReport, console: Console) -> None:
    """Print what ran on which GPU, and what was written."""
    console.print(Text.assemble(("run ", "bold"), escape(report.engine.file)))
    console.print(f"  with     {escape(str(report.engine))}")
    console.print(f"  data     {escape(report.data.source)}: {plural(report.data.samples, 'sample')}")
    for name, shape in report.outputs.items():
        console.print(f"  output   {escape(name)}: {spell_shape(shape)}")
    console.print(Text.assemble("wrote ", (escape(report.output), "bold")))
