"""Turn option values into the request for a conversion."""

from collections.abc import Collection

from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.engines.build.options import build_request
from qdqtool.errors import UsageError
from qdqtool.jobs.conversion.options import ConvertOptions
from qdqtool.jobs.conversion.union import split, step_options
from qdqtool.jobs.request import Source, quantize_request
from qdqtool.options import Speech, Values, build

_OF_OTHERS_TOO = "compute_capabilities"
"""The engine option that also has an effect without an engine."""


def convert_request(values: Values, given: Collection[str], said: Speech) -> tuple[Source | None, ConvertOptions]:
    """Return the data and the options of each step, except the options for judging the model.

    Args:
        values: The values of the options.
        given: Names of the options that the user gave to this command; values from a recipe are not among them.
        said: How messages name options.

    Raises:
        UsageError: Options contradict each other, or one requires another.
    """
    steps = split(values)
    source, quantize = quantize_request(steps["quantize"], said)
    no_build = values.get("no_build", False)
    if no_build:
        _refuse_idle(given, said)
    backend = steps["build"].pop("backend", "auto")
    return source, ConvertOptions(
        quantize=quantize,
        check=build(CheckOptions, steps["check"]),
        blame=steps["check"].get("blame", False),
        strict=steps["check"].get("strict", False),
        build=None if no_build else build_request(steps["build"]),
        backend=backend,
    )


def _refuse_idle(given: Collection[str], said: Speech) -> None:
    """Refuse engine options if no engine is built."""
    for (step, name), each in step_options().items():
        if step == "build" and name != _OF_OTHERS_TOO and each.name in given:
            raise UsageError(f"{said(each.name)} needs an engine, but {said('no_build')} builds none")
