"""The options of ``convert``: the options of its four commands, taken from their declarations.

So a new option of one command is also an option of ``convert``. If two commands have options of the same name with
different meanings, the later one gets the name of its command as prefix: ``--check-min-sqnr``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from qdqtool.engines.options import BuildCommand
from qdqtool.jobs.options import CheckCommand, QuantizeCommand
from qdqtool.linting.options import ValidateCommand
from qdqtool.models.options import OperatorOptions
from qdqtool.options import Option, Values, declared, option
from qdqtool.samples.options import MEDIA

STEPS: Mapping[str, type] = {
    "quantize": QuantizeCommand,
    "build": BuildCommand,
    "validate": ValidateCommand,
    "check": CheckCommand,
}
"""The commands. If several have an option with the same name, only the first command keeps the name without prefix."""

OPERATORS = tuple(each.name for each in declared(OperatorOptions))
"""The options for custom operators, which take effect in every step that runs a model."""
_SHARED: Mapping[str, tuple[str, ...]] = {
    "build": ("input_shapes", "input_values"),
    "check": ("allow_constant_data", "input_shapes", "input_values", "metric", *MEDIA, *OPERATORS),
}
"""Options with the same meaning as in ``quantize``, given only once. Only the metric also takes effect in ``check``.
"""

_WRITTEN = "the folder gets it"
_NOTED = "the quantized model has a note of those of quantize"
_OURS = "it only prints; run the command itself"
LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "quantize": {
        "compute_capabilities": "that of build",
        "save_ranges": _WRITTEN,
        "save_plan": _WRITTEN,
        "list_matches": _OURS,
        "partial": "the check runs the whole model",
        "strict": "that of check",
    },
    "build": {"calib_data": "that of quantize", "plugin_ops": _NOTED},
    "validate": {
        "plugin_ops": _NOTED,
        "sm": "--compute-capabilities names the GPUs of validate and build",
        "jobs": "there is one model",
        "write_baseline": "no finding would fail; run the command itself",
        "show_settings": _OURS,
    },
    "check": {
        "baseline": "it is MODEL",
        "data": "it is --validation-data, or the part of --calib-data that quantize held out",
        "samples": "those of quantize",
        "seed": "that of quantize",
        "plugin_ops": _NOTED,
        "engine": "an earlier step makes it",
        "outputs": "the quantized model does not exist before the conversion",
    },
}
"""Options of the four commands that are not options of ``convert``, with the reason."""

_PREFIXED = frozenset(
    {("validate", "targets"), ("validate", "baseline"), ("build", "skip_validate"), ("check", "profile")}
)
"""Options that get a prefix because their name alone would be misleading in ``convert``."""

_HELP: Mapping[str, Mapping[str, str]] = {
    "build": {
        "compute_capabilities": "GPUs to validate and to build for, as 8.6,8.9 or sm86,sm89. Without it, tensorrt-rtx "
        "builds for each of 8.0,8.6,8.9,12.0,12.1 that has all types of the model; tensorrt builds for the GPU in the "
        "machine.",
        "skip_validate": "Build without validating the model for the builder's release first; the step validate "
        "still runs.",
    },
    "validate": {
        "targets": "Other targets to validate for, as onnx, ort-cpu, or a release as tensorrt-10.8. Several with "
        "commas.  [default: the value of --target]"
    },
    "check": {
        "min_sqnr": "Fail if a float output has a lower signal to noise ratio. This leaves no layer in float.",
        "min_agreement": "Fail if a smaller share of an integer, boolean or string output equals the baseline's; 0.9 "
        "with --check-min-sqnr or --min-cosine.",
        "max_metric_loss": "Fail if the metric loses more against the float model. This leaves no layer in float.",
        "save_outputs": "Write the outputs of the reference, in the layout that `qdqtool check --outputs` reads.",
    },
}
"""Help texts that differ from the help of the command."""


@dataclass(init=False, repr=False, eq=False)
class ConvertCommand:
    """Options that ``convert`` alone has."""

    no_build: bool = option(False, "Build no engine.", section="convert")


def step_options() -> dict[tuple[str, str], Option]:
    """Return the options of ``convert`` for all steps, by step and by name in that step."""
    found: dict[tuple[str, str], Option] = {}
    for step in STEPS:
        earlier = [*found.values()]
        for each in _own(step):
            found[step, each.name] = _renamed(step, each, earlier)
    return found


def split(values: Values) -> dict[str, Values]:
    """Return the values of each step, by the name that the option has in the command of the step."""
    found: dict[str, Values] = {step: {} for step in STEPS}
    for (step, name), each in step_options().items():
        if each.name in values:
            found[step][name] = values[each.name]
    if "metric" in values:
        found["check"]["metric"] = values["metric"]
    return found


def _own(step: str) -> Iterator[Option]:
    """Yield the options of a command that are also options of ``convert``."""
    left = {*LEFT_OUT[step], *_SHARED.get(step, ())}
    return (each for each in declared(STEPS[step]) if each.name not in left)


def _renamed(step: str, given: Option, earlier: list[Option]) -> Option:
    flags = given.flags or (given.flag,)
    taken = {other.name for other in earlier} | {flag for other in earlier for flag in (*other.flags, other.flag)}
    found = replace(given, text=_HELP.get(step, {}).get(given.name, given.text))
    if (step, given.name) in _PREFIXED or not taken.isdisjoint({given.name, *flags}):
        prefixed = tuple(f"--{step}-{flag.removeprefix('--')}" for flag in flags if flag.startswith("--"))
        found = replace(found, name=f"{step}_{given.name}", flags=prefixed)
    return found
