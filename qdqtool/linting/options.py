"""The options of ``validate`` that choose models' targets and rules, and decide which findings count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from qdqtool.models.options import OperatorOptions
from qdqtool.models.plugins import PluginOperator, plugin_ops_option
from qdqtool.options import SWITCH, choice, comma_separated, file, integer, option, output
from qdqtool.samples.options import CONSTANT_DATA, DATA, SEVERAL, SHAPES

JUDGED = "Targets and rules"
COUNTED = "Verdict"
FIXES = "Fixes"
"""Headings of the help."""
CODES = comma_separated("CODE,...", offers="rule_codes")


@dataclass(init=False, repr=False, eq=False)
class ValidateCommand:
    """Options of ``validate``, without the options for fixes and for printing the report."""

    targets: Sequence[str] = option(
        (),
        "Targets to check for: onnx, ort-cpu, tensorrt, tensorrt-rtx, or a release such as tensorrt-10.8. Separate "
        "several with commas.  [default: tensorrt]",
        comma_separated("TARGET,...", offers="targets_and_releases"),
        flags=("--target",),
        section=JUDGED,
    )
    sm: Sequence[str] = option(
        (),
        "Report types that these GPUs lack. Give compute capabilities, such as 8.6 or 86.",
        comma_separated("SM,..."),
        flags=("--sm", "--compute-capabilities"),
        section=JUDGED,
    )
    select: Sequence[str] | None = option(
        None, "Check only rules whose code begins with CODE; ALL checks every rule.", CODES, section=JUDGED
    )
    extend_select: Sequence[str] = option((), "Check these rules too.", CODES, section=JUDGED)
    ignore: Sequence[str] = option(
        (), "Skip rules whose code begins with CODE, unless --select has a longer CODE for them.", CODES, section=JUDGED
    )
    fail_on: Literal["error", "warning", "never"] | None = option(
        None,
        "Exit with 1 on a finding of this severity or worse.  [default: error]",
        choice("error", "warning", "never"),
        section=COUNTED,
    )
    parser: bool | None = option(
        None,
        "For tensorrt-rtx: run the parser of TensorRT for RTX too, in a separate process.  [default: if it is "
        "installed and the weights have at most 1 GB]",
        SWITCH,
        section=JUDGED,
    )
    plugin_ops: tuple[PluginOperator, ...] = plugin_ops_option(JUDGED)
    baseline: Path | None = option(None, "Report only findings that are not in FILE.", file("FILE"), section=COUNTED)
    write_baseline: Path | None = option(
        None, "Store the findings in FILE and exit with 0.", output("FILE"), section=COUNTED
    )
    isolated: bool = option(False, "Ignore qdqtool.toml and pyproject.toml.", section="Run", only="command line")
    show_settings: bool = option(False, "Print the effective settings and stop.", section="Run")
    jobs: int | None = option(
        None,
        "Number of processes that check the models.  [default: 1; after a second more, if this saves time]",
        integer(minimum=1),
        section="Run",
    )


@dataclass(init=False, repr=False, eq=False)
class FixCommand:
    """Options of ``validate`` that fix models."""

    fix: bool = option(
        False, "Apply fixes that are proven to keep the outputs; needs -o, --in-place or --diff.", section=FIXES
    )
    unsafe_fixes: bool = option(
        False, "Also apply fixes that change numbers or cannot be proven. The loss is printed.", section=FIXES
    )
    diff: bool = option(False, "Print what --fix would change, and write nothing.", section=FIXES)
    output: Path | None = option(
        None,
        "The fixed model to write. '-' is stdout; the report then goes to stderr.",
        output("FILE", is_binary=True),
        flags=("-o", "--output"),
        section=FIXES,
    )
    in_place: bool = option(False, "Write each fixed model over its own file.", section=FIXES)
    data: Path | None = option(
        None,
        "Samples on which fixes are proven, as for 'qdqtool check'.  [default: 4 random ones]",
        DATA,
        flags=("--data", "--calib-data"),
        section=FIXES,
    )
    allow_constant_data: bool = option(False, CONSTANT_DATA, section=FIXES)
    input_shapes: Mapping[str, tuple[int, ...]] = option(
        {}, f"Fix the shape of an input for the proof of fixes; {SEVERAL}", SHAPES, section=FIXES
    )
    operators: OperatorOptions = field(default_factory=OperatorOptions)
