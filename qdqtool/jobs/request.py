"""Turn option values into requests for jobs; check which options fit together, for the command line and for Python.

Each function removes the values that it uses from ``values``, which :func:`qdqtool.options.read` made. ``said`` is how
messages name options.
"""

from dataclasses import replace
from typing import Any

from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.engines.tensorrt.gpus import parse
from qdqtool.errors import UsageError
from qdqtool.jobs.insert import InsertOptions
from qdqtool.jobs.quantize import QuantizeOptions
from qdqtool.jobs.sensitivity import SensitivityOptions
from qdqtool.models import targets
from qdqtool.options import Speech, Values, build
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.samples.options import OF_CALIBRATION, ReadOptions, require_data
from qdqtool.samples.request import DataRequest, FileData, RandomData

Source = FileData | RandomData | CachedRanges

_NO_DATA = "no calibration data is given, and random data is used only on request"


def calibration_data(values: Values, said: Speech) -> FileData | RandomData:
    """Return the data of a calibration.

    Raises:
        UsageError: No source or two are named, or an option does not fit the source.
    """
    path, is_random = values.pop("calib_data", None), values.pop("random_calibration", False)
    seed = values.pop("seed", None)
    if path is not None and is_random:
        raise UsageError(f"{_data(said)} and {said('random_calibration')} cannot be used together")
    if seed is not None and not is_random:
        raise UsageError(f"{said('seed')} can only be used with {said('random_calibration')}")
    require_data(values, not is_random, said)
    files = _files(values, path)
    if is_random:
        return RandomData(seed=seed or 0, samples=files.samples)
    if path is None:
        raise UsageError(
            _NO_DATA,
            hint=said.either(
                "`--calib-data DATA`; or, for a trial, `--random-calibration`",
                "pass data; or, for a trial, random_calibration=True",
            ),
        )
    return files


def file_data(values: Values) -> FileData:
    """Return the data of a run, which ``values`` must name."""
    return _files(values, values.pop("data"))


def _files(values: Values, path: Any) -> FileData:
    reading, allow_constant = build(ReadOptions, values), values.pop("allow_constant_data", False)
    return FileData(path=path, samples=values.pop("samples", None), allow_constant=allow_constant, options=reading)


def recipe_request(values: Values) -> Recipe:
    """Return the recipe from the values of options."""
    return build(Recipe, values, high_precision=values.pop("high_precision_dtype", HighPrecision.AUTO))


def quantize_request(values: Values, said: Speech) -> tuple[Source | None, QuantizeOptions]:
    """Return the source of ranges (None for a weight-only mode without data), and the options of the quantization.

    Raises:
        UsageError: Options contradict each other, or one requires another.
    """
    recipe, gpus = recipe_request(values), values.pop("compute_capabilities", None)
    if gpus is not None:
        recipe.require_hardware(targets.capabilities(parse(gpus)))
    validation = _validation(values)
    has_data = "calib_data" in values
    require_data(values, has_data or validation is not None, said)
    require_data(values, has_data, said, OF_CALIBRATION)
    source = _source(values, said, needed=recipe.mode.needs_ranges, measured=validation is not None)
    goal = _goal(values, said)
    return source, build(
        QuantizeOptions,
        values,
        recipe=recipe,
        validation_data=validation,
        goal=goal,
        ranges_file=values.pop("save_ranges", None),
        plan_file=values.pop("save_plan", None),
        curve_file=values.pop("pareto", None),
    )


def sensitivity_request(values: Values, said: Speech) -> tuple[Source, SensitivityOptions]:
    """Return the source of ranges, and the options of the measurement.

    Raises:
        UsageError: Options contradict each other, or there is no data.
    """
    recipe = recipe_request(values)
    source = _cached(values, said) or calibration_data(values, said)
    return source, build(SensitivityOptions, values, recipe=recipe)


def insert_request(values: Values, said: Speech) -> InsertOptions:
    """Return the options for inserting a plan into a model.

    Raises:
        UsageError: An option requires another.
    """
    shapes, verify = values.pop("input_shapes", {}), values.pop("verify", False)
    if shapes and not verify and said.is_python:
        raise UsageError("input_shapes can only be used with verify")
    return build(InsertOptions, values, verify=DataRequest(input_shapes=shapes) if verify else None)


def _data(said: Speech) -> str:
    """Return the name of the option for calibration data, which is an argument of Python functions."""
    return said.either("--calib-data", "data")


def _goal(values: Values, said: Speech) -> AccuracyGoal | None:
    min_sqnr, max_loss = values.pop("min_sqnr", None), values.pop("max_metric_loss", None)
    measured, has_curve = values.pop("sensitivity", None), "pareto" in values
    if min_sqnr is None and max_loss is None:
        limits = f"{said('min_sqnr')} or {said('max_metric_loss')}"
        for name, given, why in (
            ("pareto", has_curve, "it writes the candidate models of a search"),
            ("sensitivity", measured is not None, "it stores the measurements of a search"),
        ):
            if given:
                raise UsageError(f"{said(name)} needs {limits}: {why}, and only a limit starts a search")
        return None
    return AccuracyGoal(
        min_sqnr_db=min_sqnr, max_metric_loss=max_loss, whole_curve=has_curve, sensitivity_file=measured
    )


def _validation(values: Values) -> FileData | None:
    """Return the validation data, without the options for labels and preview, which only calibration data has."""
    place = values.pop("validation_data", None)
    if place is None:
        return None
    reading = replace(build(ReadOptions, dict(values)), labels=None, preview=None)
    return FileData(path=place, allow_constant=values.get("allow_constant_data", False), options=reading)


def _source(values: Values, said: Speech, *, needed: bool, measured: bool) -> Source | None:
    """Return the source of ranges: data, or a file with optional data. It may be None if none is needed."""
    cached = _cached(values, said)
    if cached is not None:
        return cached
    if "calib_data" in values or values.get("random_calibration", False):
        return calibration_data(values, said)
    if said.is_python and "samples" in values:
        raise UsageError("samples can only be used with data")
    if needed and measured:
        raise UsageError(
            f"no calibration data is given; {said('validation_data')} only measures the accuracy",
            hint=said.either(
                "add `--calib-data DATA` with other samples; without validation data, it is divided into both",
                "add data with other samples; without validation_data, it is divided into both",
            ),
        )
    if needed:
        raise UsageError(
            _NO_DATA,
            hint=said.either(
                "`--calib-data DATA` or `--calibration-cache RANGES`; or, for a trial, `--random-calibration`",
                "pass data or calibration_cache; or, for a trial, random_calibration=True",
            ),
        )
    for name in ("random_calibration", "seed", "samples", "allow_constant_data"):
        values.pop(name, None)
    return None


def _cached(values: Values, said: Speech) -> CachedRanges | None:
    """Return ranges from a file, with the data to measure on, or None if no file is named."""
    cache, force = values.pop("calibration_cache", None), values.pop("force", False)
    if cache is None:
        if force:
            raise UsageError(f"{said('force')} can only be used with {said('calibration_cache')}")
        return None
    if values.pop("random_calibration", False) or values.pop("seed", None) is not None:
        raise UsageError(
            f"{said('calibration_cache')} cannot be used with {said('random_calibration')} or {said('seed')}"
        )
    path = values.pop("calib_data", None)
    data = _files(values, path)
    if path is None and data.samples is not None:
        raise UsageError(f"{said('samples')} can only be used with {_data(said)}: a ranges file fixes its samples")
    return CachedRanges(path=cache, force=force, data=data if path is not None else None)
