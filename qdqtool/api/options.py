"""Options of jobs, made of keywords. What is not given stays as the classes of the library have it."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.api.any_data import as_place, as_shapes, as_values
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.precision_gate import parse_gate
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.engines.tensorrt import gpus
from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.engines.tensorrt.shape_values import ShapeValues
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.jobs.insert import InsertOptions
from qdqtool.jobs.quantize import QuantizeOptions
from qdqtool.jobs.sensitivity import SensitivityOptions
from qdqtool.models.graph.io.save import ExternalData
from qdqtool.models.running.ort_cpu import Profile
from qdqtool.quantization.insertion.pair_edits import WeightStorage
from qdqtool.quantization.planning.existing import Existing
from qdqtool.quantization.planning.high_precision import HighPrecision
from qdqtool.quantization.planning.placement.proposal import Selection
from qdqtool.quantization.planning.recipe import Preparation, Recipe
from qdqtool.samples.request import DataRequest, FileData

Options = TypeVar("Options")

_PATTERNS = ("nodes_to_quantize", "nodes_to_exclude", "op_types_to_quantize", "op_types_to_exclude")
_KINDS = ("min", "opt", "max")


def settled(
    options: Options | None, given: dict[str, Any], make: Callable[[dict[str, Any]], Options], name: str = "options"
) -> Options:
    """Return the options that a caller passed as an object, or as keywords.

    Args:
        options: The object; None where there is none.
        given: The keywords that the object would say too.
        make: Makes the object of the keywords.
        name: The name of the argument with the object.

    Raises:
        ArgumentError: There are both.
    """
    if options is None:
        return make(given)
    if given:
        kind = type(options).__name__
        raise ArgumentError(f"{name} and {next(iter(given))} are both given", hint=f"say it in {kind}(…)")
    return options


def calibrate_recipe(given: dict[str, Any]) -> Recipe:
    """Return the recipe of ``calibrate``."""
    return Recipe(**_recipe(given))


def quantize_options(given: dict[str, Any]) -> QuantizeOptions:
    """Return the options of ``quantize_model``."""
    recipe = _recipe(given)
    recipe |= _taken(given, {"high_precision_dtype": "high_precision"}, HighPrecision)
    recipe |= _taken(given, {"fallback": "fallback"})
    found = _taken(given, {"save_ranges": "ranges_file", "save_plan": "plan_file", "pareto": "curve_file"})
    limits = _taken(given, {"min_sqnr": "min_sqnr_db", "max_metric_loss": "max_metric_loss"})
    measured = _taken(given, {"sensitivity": "sensitivity_file"})
    if not limits and (measured or "curve_file" in found):
        raise UsageError("pareto and sensitivity go with min_sqnr or max_metric_loss only")
    goal = AccuracyGoal(**limits, **measured, whole_curve="curve_file" in found) if limits else None
    return QuantizeOptions(
        recipe=Recipe(**recipe),
        goal=goal,
        **found,
        **_taken(given, {"weights": "weights"}, WeightStorage),
        **_taken(given, {"external_data": "external_data"}, ExternalData),
        **_taken(given, {"metric": "metric", "validation_data": "validation_data"}),
    )


def sensitivity_options(given: dict[str, Any]) -> SensitivityOptions:
    """Return the options of ``measure_sensitivity``."""
    recipe = Recipe(**_recipe(given))
    return SensitivityOptions(recipe=recipe, **_taken(given, {"metric": "metric", "output": "output"}))


def check_options(given: dict[str, Any]) -> CheckOptions:
    """Return the options of ``check_model``."""
    gates = _taken(given, {field.name: field.name for field in fields(Gates)})
    profile = _taken(given, {"profile": "profile"}, Profile)
    return CheckOptions(gates=Gates(**gates), **profile, **given)


def insert_options(given: dict[str, Any]) -> InsertOptions:
    """Return the options of ``insert_plan``."""
    shapes, verify = as_shapes(given.pop("input_shapes", {})), given.pop("verify", False)
    if shapes and not verify:
        raise UsageError("input_shapes goes with verify only")
    return InsertOptions(
        verify=DataRequest(input_shapes=shapes) if verify else None,
        **_taken(given, {"targets": "targets"}, tuple),
        **_taken(given, {"weights": "weights"}, WeightStorage),
        **_taken(given, {"external_data": "external_data"}, ExternalData),
    )


def build_options(given: dict[str, Any]) -> BuildOptions:
    """Return the options of ``build_engine``."""
    shapes = {kind: as_shapes(given.pop(f"{kind}_shapes", {})) for kind in _KINDS}
    values = {kind: as_shapes(given.pop(f"{kind}_shape_values", {})) for kind in _KINDS}
    asked = given.pop("compute_capabilities", ())
    names = {"sign": "sign_key", "export_layer_info": "layer_info"}
    names |= {name: name for name in ("locked", "verbose_log", "skip_validate", "timeout")}
    return BuildOptions(
        shapes=ShapeOptions(**shapes, fixed=as_shapes(given.pop("input_shapes", {}))),
        shape_values=ShapeValues(**values),
        input_values=as_values(given.pop("input_values", {})),
        deployment=DeploymentOptions(**_taken(given, {field.name: field.name for field in fields(DeploymentOptions)})),
        compute_capabilities=gpus.parse(",".join(asked)) if asked else (),
        require_precision=tuple(map(parse_gate, given.pop("require_precision", ()))),
        **_taken(given, {"calib_data": "calib_data"}, _as_file_data),
        **_taken(given, names),
    )


def _recipe(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a recipe that are given."""
    names = {name: name for name in ("quantize_mode", "block_size", "percentile", "target")}
    alpha = _taken(given, {"smoothquant": "smoothquant"}, lambda word: None if word == "off" else word)
    steps = {name: name for name in ("equalize", "bias_correction", "float_layer")}
    awq = _taken(given, {"awq": "awq"}, lambda word: word == "auto")
    return {
        **_taken(given, {**names, "calibration_method": "method"}),
        **_taken(given, {"existing": "existing"}, Existing),
        **_taken(given, {"input_shapes": "input_shapes"}, as_shapes),
        **_taken(given, {"input_values": "input_values"}, as_values),
        "selection": Selection(**_taken(given, {name: name for name in _PATTERNS}, tuple)),
        "preparation": Preparation(**_taken(given, steps), **alpha, **awq),
    }


def _taken(
    given: dict[str, Any], names: Mapping[str, str], convert: Callable[[Any], Any] | None = None
) -> dict[str, Any]:
    """Take keywords out of ``given`` and return them by the names that a class has for them."""
    found = {field: given.pop(name) for name, field in names.items() if name in given}
    return found if convert is None else {field: convert(value) for field, value in found.items()}


def _as_file_data(data: Any) -> FileData:
    return data if isinstance(data, FileData) else FileData(path=as_place(data), allow_constant=True)
