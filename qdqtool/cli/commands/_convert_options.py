"""The options of ``convert``: those of the four commands that it runs, taken from these commands themselves.

So an option that one of them gets is an option of ``convert`` too. Where two of them have an option of the same name
that does not mean the same, the later one gets the name of its command in front: ``--check-min-sqnr``.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import click

from qdqtool.cli.commands import build, check, quantize, validate
from qdqtool.cli.media import MEDIA
from qdqtool.cli.sections import REPORT, Layout, name_of

_PRINTED = "convert prints one report"
_REPORTED = "convert has its own"
_WRITTEN = "the folder gets it"
_MADE = "an earlier step makes it"
_OURS = "it fixes or only looks; run the command itself"

COMMANDS: Mapping[str, tuple[click.Command, Layout]] = {
    "quantize": (quantize.command, quantize.LAYOUT),
    "build": (build.command, build.LAYOUT),
    "validate": (validate.command, validate.LAYOUT),
    "check": (check.command, check.LAYOUT),
}
"""The commands; of options with the same name, that of the first keeps it."""

SHARED: Mapping[str, tuple[str, ...]] = {
    "build": ("input_shapes", "input_values"),
    "check": ("allow_constant_data", "input_shapes", "input_values", "metric", *MEDIA),
}
"""Options that mean the same as those of ``quantize``, and are given once."""

LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "quantize": {
        "output": _WRITTEN,
        "save_ranges": _WRITTEN,
        "save_plan": _WRITTEN,
        "list_matches": _OURS,
        "reports": _REPORTED,
        **dict.fromkeys(REPORT, _PRINTED),
    },
    "build": {
        "output": _WRITTEN,
        "calib_data": "that of quantize",
        "reports": _REPORTED,
        **dict.fromkeys(REPORT, _PRINTED),
    },
    "validate": {
        "sm": "--compute-capabilities names the GPUs of validate and build",
        "jobs": "there is one model",
        "write_baseline": "no finding would fail; run the command itself",
        "show_settings": _OURS,
        "show_context": _PRINTED,
        "statistics": _PRINTED,
        **dict.fromkeys(validate.LAYOUT.sections["Fixes"], _OURS),
        **dict.fromkeys(REPORT, _PRINTED),
    },
    "check": {
        "baseline": "it is MODEL",
        "data": "it is --validation-data, or the part of --calib-data that quantize held back",
        "samples": "those of quantize",
        "seed": "that of quantize",
        "engine": _MADE,
        "outputs": "the model of which they could be does not exist before",
        "reports": _REPORTED,
        **dict.fromkeys(REPORT, _PRINTED),
    },
}
"""Options of the commands that ``convert`` does not have, with the reason."""

_PREFIXED = frozenset(
    {("validate", "targets"), ("validate", "baseline"), ("validate", "reports"), ("build", "skip_validate")}
)
"""Options whose name alone would say something else here."""

_HELP: Mapping[tuple[str, str], str] = {
    ("build", "compute_capabilities"): "GPUs to validate and to build for, as 8.6,8.9 or sm86,sm89. Without it "
    "tensorrt-rtx builds for 8.0,8.6,8.9,12.0,12.1, less those that lack a type of the model; tensorrt for the GPU in "
    "the machine.",
    ("build", "skip_validate"): "Let the builder have the model without validating it for its release first; the step "
    "validate runs all the same.",
    (
        "validate",
        "targets",
    ): "Other targets to validate for, as onnx, ort-cpu, or a release as tensorrt-10.8. Several with "
    "commas.  [default: that of --target]",
    (
        "check",
        "min_sqnr",
    ): "Fail where a float output has a lower signal to noise ratio. No layer stays in float for it.",
    (
        "check",
        "min_agreement",
    ): "Share of every integer, boolean and string output that equals the baseline's; 0.9 with "
    "--check-min-sqnr or --min-cosine.",
    (
        "check",
        "max_metric_loss",
    ): "Fail where the metric loses more against the float model. No layer stays in float for it.",
    (
        "check",
        "save_outputs",
    ): "Write the outputs of the reference, in the layout that `qdqtool check --outputs` reads.",
}
"""Help texts that are others here than in the help of the command."""


def step_options() -> list[click.Option]:
    """Return the options of all steps under their names in ``convert``."""
    return [_renamed(step, option) for step in COMMANDS for option in _own(step)]


def values_of(step: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options of a command, under their names there.

    Args:
        step: The command.
        values: The values of the options of ``convert``.
    """
    own = {str(each.name): values[_name(step, each)] for each in _own(step) if each.expose_value}
    return own | {name: values[name] for name in SHARED.get(step, ())}


def sections() -> dict[str, tuple[str, ...]]:
    """Return the headings of the help, with the names of the options below them."""
    found: dict[str, tuple[str, ...]] = {}
    for step, (_, layout) in COMMANDS.items():
        own = {name_of(each): _name(step, each) for each in _own(step)}
        for heading, names in layout.sections.items():
            here = tuple(own[name] for name in names if name in own)
            if here:
                found[f"{step}: {heading}"] = here
    return found


def _own(step: str) -> Iterator[click.Option]:
    """Yield the options that ``convert`` takes over from a command."""
    left = {*LEFT_OUT[step], *SHARED.get(step, ())}
    for each in COMMANDS[step][0].params:
        if isinstance(each, click.Option) and name_of(each) not in left:
            yield each


def _name(step: str, option: click.Option) -> str:
    return f"{step}_{option.name}" if _has_prefix(step, option) else str(option.name)


def _has_prefix(step: str, option: click.Option) -> bool:
    earlier = [*COMMANDS][: [*COMMANDS].index(step)]
    taken = {each.name for other in earlier for each in _own(other)}
    flags = {flag for other in earlier for each in _own(other) for flag in each.opts}
    return (step, option.name) in _PREFIXED or option.name in taken or not flags.isdisjoint(option.opts)


def _renamed(step: str, option: click.Option) -> click.Option:
    found = copy.copy(option)
    found.name = _name(step, option)
    found.help = _HELP.get((step, str(option.name)), option.help)
    if _has_prefix(step, option):
        found.opts = [f"--{step}-{flag.removeprefix('--')}" for flag in option.opts if flag.startswith("--")]
        found.secondary_opts = [f"--no-{step}-{flag.removeprefix('--no-')}" for flag in option.secondary_opts]
    if option.name == "compute_capabilities":
        found.opts = [*option.opts, "--sm"]
    return found
