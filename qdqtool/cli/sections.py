"""A command with a help that is easy to search: options under headings, terms, examples."""

import gc
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from qdqtool.cli.declared import DeclaredOption
from qdqtool.options import declared
from qdqtool.quantization.planning.options import SelectionOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The structure of the help of a command.

    Attributes:
        terms: Words and their meanings, by heading.
        sections: Names of parameters by heading, in order. Other declared options follow under the heading of their
            declaration; the remaining ones come last.
        headings: For a heading in the declarations, the heading that this command shows instead.
        examples: Example command lines.
        first: Names of the parameters that ``--help`` shows; empty for all. ``--help-all`` shows all of them.
    """

    terms: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    sections: Mapping[str, Sequence[str]]
    headings: Mapping[str, str] = field(default_factory=dict)
    examples: Sequence[str] = ()
    first: Sequence[str] = ()


REPORT = ("output_format", "quiet", "verbose", "help")
"""The options for printing, which every command with a report has."""
WHAT = ("target", "quantize_mode", "block_size", *(each.name for each in declared(SelectionOptions)))
"""The first options under "What is quantized", in another order than they are declared."""
HELP_NAMES = ["-h", "--help"]
_INT8 = "`qdqtool convert MODEL --calib-data DATA -o FOLDER` quantizes to int8; `build` reads the types of Q/DQ nodes"
_MODEL = "the model is an argument: `qdqtool build model.onnx -o model.engine`"
_DATA = "name the calibration data with `--calib-data DATA`"
OTHERS = {
    "--int8": _INT8,
    "--best": _INT8,
    "--fp8": "`qdqtool convert MODEL --quantize-mode fp8` quantizes to fp8",
    "--fp16": "`qdqtool convert MODEL --high-precision-dtype fp16` makes the unquantized nodes float16",
    "--onnx": _MODEL,
    "--onnx-path": _MODEL,
    "--saveEngine": "name the engine with `-o FILE`",
    "--output-path": "name the output with `-o FILE`",
    "--loadEngine": "the engine is an argument: `qdqtool run ENGINE`, `qdqtool bench ENGINE`",
    "--calib": "name ranges of TensorRT with `--calibration-cache FILE`",
    "--calibration-data": _DATA,
    "--calibration-data-path": _DATA,
    "--data-loader-script": "name the script with `--calib-data SCRIPT.py`",
    "--minShapes": "`--min-shapes NAME:1x3x320x320`",
    "--optShapes": "`--opt-shapes NAME:1x3x320x320`",
    "--maxShapes": "`--max-shapes NAME:1x3x320x320`",
    "--target": "`qdqtool build` names its builder with `--backend NAME`",
    "--shapes": "`--input-shapes NAME:1x3x320x320`",
}
"""Options of trtexec, Polygraphy and Model Optimizer, and the equivalents in qdqtool."""


class SectionedCommand(click.Command):
    """A command with many options."""

    def __init__(self, *args: Any, layout: Layout, **keywords: Any) -> None:
        # click makes the help option once, with the names from the first context. Without the names here, a context
        # without parent would remove -h for the rest of the process.
        settings = {"help_option_names": HELP_NAMES, **keywords.get("context_settings", {})}
        super().__init__(*args, **{**keywords, "context_settings": settings})
        self._layout = layout
        if layout.first:
            text = "Show all options and exit."
            show = click.Option(
                ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all, help=text
            )
            self.params.append(show)

    @property
    def sections(self) -> dict[str, list[str]]:
        """The names of the options, by heading."""
        found = {heading: [*names] for heading, names in self._layout.sections.items()}
        if self._layout.first:
            next(names for names in found.values() if "help" in names).append("help_all")
        named = {name for names in found.values() for name in names}
        for each in self.params:
            if isinstance(each, DeclaredOption) and each.name not in named:
                section = each.declaration.section
                found.setdefault(self._layout.headings.get(section, section), []).append(str(each.name))
        return found

    def make_context(self, *args: Any, **keywords: Any) -> click.Context:
        """Make a context as click does; the error for an option of trtexec or Model Optimizer names the equivalent."""
        try:
            return super().make_context(*args, **keywords)
        except click.NoSuchOption as error:
            if error.option_name not in OTHERS:
                raise
            ours = OTHERS[error.option_name]
            raise click.UsageError(f"No such option '{error.option_name}': {ours}", error.ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke as click does; files of ``--report`` are checked before, and written even without a report."""
        from qdqtool.cli.reports import guarded

        with guarded(ctx):
            _load_job(ctx.info_name or "")
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write terms and options by heading; without ``--help-all``, write the examples and the first options."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        records = {name_of(each): record for each in options if (record := each.get_help_record(ctx)) is not None}
        if self._layout.first and _ALL not in ctx.meta:
            self._format_examples(formatter)
            _section(formatter, "Options", [records[name] for name in (*self._layout.first, "help_all")])
            formatter.write(f"\n`{ctx.command_path} --help-all` shows all {len(records)} options.\n")
            return
        for heading, rows in self._layout.terms.items():
            _section(formatter, heading, rows)
        for heading, names in self.sections.items():
            _section(formatter, heading, [records.pop(name) for name in names if name in records])
        _section(formatter, "Other", [*records.values()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, unless they precede the options."""
        if not self._layout.first or _ALL in ctx.meta:
            self._format_examples(formatter)
        super().format_epilog(ctx, formatter)

    def _format_examples(self, formatter: click.HelpFormatter) -> None:
        if self._layout.examples:
            with formatter.section("Examples"):
                for line in self._layout.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


_ALL = "qdqtool.help_all"


def _show_all(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    """Print the help with all options."""
    if is_given and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def name_of(option: click.Option) -> str | None:
    """Return the name that layouts use for an option: releases of click differ in the name of ``--help``."""
    return "help" if "--help" in option.opts else option.name


def _load_job(command: str) -> None:
    """Import the job of a command while garbage collection is paused."""
    # An imported module leaves many objects but no garbage. Searching them for garbage took 60 of the 600 ms of
    # processor time of ``validate``.
    name = f"qdqtool.jobs.{command.replace('-', '_')}"
    if importlib.util.find_spec(name) is None:
        return
    enabled = gc.isenabled()
    gc.disable()
    try:
        importlib.import_module(name)
    finally:
        if enabled:
            gc.enable()


def _section(formatter: click.HelpFormatter, heading: str, rows: Sequence[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows)
