"""What every report for a terminal does with the strings of a model: none of them reaches it as it is.

Reports are made of their types, with a hostile string wherever there is a string.
"""

import dataclasses
import enum
import io
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.printed import HOSTILE

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.errors import is_unsafe
from qdqtool.reports.terminal import make_console
from qdqtool.reports.text import RENDERERS, renderer
from qdqtool.results import Report

FIXED = {
    "EngineReport.achieved": "int8",
    "EngineReport.planned": "int8",
    "Finding.code": "QP101",
    "HighPrecisionReport.note": "",
    "MagnitudeHistogram.counts": "1 2*3",
    "PreparationReport.step": "equalization",
    "QuantizeReport.mode": "int8",
    "WeightScales.largest": "0.5 0.25",
    "WeightScales.smallest": "0.5 0.25",
}
"""Words that a report is looked up by."""
OURS = {
    "BoundaryResult": {"format", "granularity", "kind"},
    "CalibrateReport": {"method", "shard"},
    "Change": {"after", "before", "code", "what"},
    "ConvertReport": {"read_as", "written_as"},
    "Coverage": {"op_type"},
    "DegenerateTensor": {"kind"},
    "EngineReport": {"backend", "skipped", "targets"},
    "EvaluatedNode": {"evaluated_by"},
    "GateResult": {"found", "gate", "name"},
    "SpeedupResult": {"found", "gate"},
    "GivenReport": {"format", "mode"},
    "GoalReport": {"fallback"},
    "HighPrecisionReport": {"dtype"},
    "InsertReport": {"verified"},
    "InspectReport": {"weight_bytes"},
    "KnownFault": {"fault"},
    "MatchesReport": {"target"},
    "MetricEffect": {"loss_unit", "unit"},
    "MetricGoal": {"loss_unit"},
    "MeasuredOn": {"reason"},
    "MetricResult": {"loss_unit", "name", "unit"},
    "PairInfo": {"form", "granularity", "type"},
    "PatternMatch": {"option"},
    "QdqGroup": {"format", "granularity", "kind", "op_type"},
    "QuantizedTensor": {"format", "granularity", "kind"},
    "QuantizeReport": {"target"},
    "Reference": {"cpu_features", "options", "profile", "providers", "runtime", "version"},
    "Refusal": {"code"},
    "RefusedBy": {"alternative", "reason", "target"},
    "RefusedFix": {"code"},
    "SensitivityReport": {"mode", "target"},
    "StepDone": {"name"},
    "TargetReport": {"target"},
    "TensorAccuracy": {"kind"},
    "TensorInfo": {"kind", "type"},
    "WorstOutput": {"gate"},
    "WrittenFile": {"what"},
}
"""Fields by report that hold words of ours, of ONNX or of ONNX Runtime, which no model can choose."""
OF_NO_MODEL = {"doctor", "manual", "page", "rule", "rules", "schema", "statistics"}
"""Reports about this installation and the rules."""


def made(hint: Any, name: str = "") -> Any:
    """A value of a type; a string is hostile, and begins with the name of the field that it is for."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return arguments[0]
    if origin in {typing.Union, types.UnionType}:
        return made(arguments[0], name)
    if origin is not None:
        return collection(origin, arguments, name)
    if hint is Report:
        hint = CheckReport  # a report that holds any other
    if dataclasses.is_dataclass(hint) or issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        is_struct = issubclass(hint, msgspec.Struct)
        fields = hint.__struct_fields__ if is_struct else [each.name for each in dataclasses.fields(hint) if each.init]
        return hint(**{field: made(hints[field], f"{hint.__name__}.{field}") for field in fields})
    if issubclass(hint, enum.Enum):
        return next(iter(hint))
    words = FIXED.get(name, name if ours(name) else f"{name} {HOSTILE}")
    return {str: words, Path: Path(HOSTILE), bool: True, int: 3, float: 2.5, types.NoneType: None}[hint]


def collection(origin: Any, arguments: tuple[Any, ...], name: str) -> Any:
    """A dictionary of one entry, a tuple of several types, or two of a kind, since one alone may be told elsewhere."""
    if origin in {dict, Mapping}:
        return {made(arguments[0], name): made(arguments[1], name)}
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(made(argument, name) for argument in arguments)
    return (made(arguments[0], name),) * 2


def ours(name: str) -> bool:
    report, _, field = name.partition(".")
    return field in OURS.get(report, ())


@pytest.mark.parametrize("name", sorted(RENDERERS.keys() - OF_NO_MODEL))
def test_no_string_of_a_model_reaches_the_terminal_as_it_is(name: str):
    render = renderer(name)
    printed = io.StringIO()
    render(made(typing.get_type_hints(render)["report"]), make_console(printed, verbose=True))

    text = printed.getvalue()
    assert not any(any(map(is_unsafe, line)) for line in text.split("\n"))
    assert text.count("evil") == text.count("[bold]") > 0, "some string of a model is printed, and none is markup"
