"""The options of ``validate`` that choose models' targets and rules, and decide which findings count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qdqtool.options import SWITCH, choice, comma_separated, file, integer, option, output
from qdqtool.samples.options import CONSTANT_DATA, DATA, SEVERAL, SHAPES

JUDGED = "What to judge"
COUNTED = "What counts"
FIXES = "Fixes"
"""Headings of the help."""
CODES = comma_separated("CODE,...", offers="rule_codes")


@dataclass(init=False, repr=False, eq=False)
class ValidateCommand:
    """Options of ``validate``, without the options for fixes and for printing the report."""

    targets: Sequence[str] = option(
        (),
        "What the model is for: onnx, ort-cpu, tensorrt, tensorrt-rtx, or a release as tensorrt-10.8. Several with "
        "commas.  [default: tensorrt]",
        comma_separated("TARGET,...", offers="targets_and_releases"),
        flags=("--target",),
        section=JUDGED,
    )
    sm: Sequence[str] = option(
        (),
        "GPUs that the engine is for, as 8.6 or 86: report the types that they lack.",
        comma_separated("SM,..."),
        flags=("--sm", "--compute-capabilities"),
        section=JUDGED,
    )
    select: Sequence[str] | None = option(None, "Only rules whose code begins so; ALL for all.", CODES, section=JUDGED)
    extend_select: Sequence[str] = option((), "These rules besides the selected ones.", CODES, section=JUDGED)
    ignore: Sequence[str] = option(
        (), "No rules whose code begins so, unless --select names them more closely.", CODES, section=JUDGED
    )
    fail_on: Literal["error", "warning", "never"] | None = option(
        None,
        "Exit with 1 on a finding of this severity or worse.  [default: error]",
        choice("error", "warning", "never"),
        section=COUNTED,
    )
    parser: bool | None = option(
        None,
        "tensorrt-rtx: also ask the parser of TensorRT for RTX, in a process of its own.  [default: where it is "
        "installed, up to 1 GB of weights]",
        SWITCH,
        section=JUDGED,
    )
    baseline: Path | None = option(None, "Report only findings that FILE does not hold.", file("FILE"), section=COUNTED)
    write_baseline: Path | None = option(
        None, "Store the findings in FILE and exit with 0.", output("FILE"), section=COUNTED
    )
    isolated: bool = option(False, "Read no qdqtool.toml or pyproject.toml.", section="Run", only="command line")
    show_settings: bool = option(False, "Print the settings in force and stop.", section="Run")
    jobs: int | None = option(
        None,
        "Processes that share the models.  [default: one; more for what is left after a second, where they pay]",
        integer(minimum=1),
        section="Run",
    )


@dataclass(init=False, repr=False, eq=False)
class FixCommand:
    """Options of ``validate`` that fix models."""

    fix: bool = option(False, "Fix what can be fixed with proof; needs -o, --in-place or --diff.", section=FIXES)
    unsafe_fixes: bool = option(
        False, "Fix also what changes numbers, or cannot be proven; the loss is printed.", section=FIXES
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
        "Samples that fixes are proven on, as for 'qdqtool check'.  [default: 4 random ones]",
        DATA,
        flags=("--data", "--calib-data"),
        section=FIXES,
    )
    allow_constant_data: bool = option(False, CONSTANT_DATA, section=FIXES)
    input_shapes: Mapping[str, tuple[int, ...]] = option(
        {}, f"Fix the shape of an input that fixes are proven on; {SEVERAL}", SHAPES, section=FIXES
    )
