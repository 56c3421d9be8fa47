"""Insert, validate and check ONNX QuantizeLinear/DequantizeLinear nodes, and build TensorRT engines from them.

What users may import is in ``__all__`` here, in :mod:`qdqtool.interop` and in :mod:`qdqtool.errors`; every other module
may change without notice. Importing this package is instant: every public name is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from qdqtool.version import __version__ as __version__

if TYPE_CHECKING:
    from qdqtool import errors, interop
    from qdqtool.api.any_data import DataLike
    from qdqtool.api.build import build_engine
    from qdqtool.api.check import check_model
    from qdqtool.api.convert import convert
    from qdqtool.api.insert import insert_plan
    from qdqtool.api.keywords import (
        BuildKeywords,
        CalibrateKeywords,
        CheckKeywords,
        ConvertKeywords,
        InsertKeywords,
        QuantizeKeywords,
        SensitivityKeywords,
    )
    from qdqtool.api.models import diff_models, inspect_model, validate_model
    from qdqtool.api.quantize import calibrate, calibrate_to_file, measure_sensitivity, quantize_model
    from qdqtool.attempts.accuracy_goal import AccuracyGoal
    from qdqtool.builders.deployment import DeploymentOptions
    from qdqtool.builders.shape_values import ShapeValues
    from qdqtool.checking.limits import Gates
    from qdqtool.checking.options import CheckOptions
    from qdqtool.checking.report import CheckReport
    from qdqtool.conversion.options import ConvertOptions
    from qdqtool.conversion.progress import ConvertProgress
    from qdqtool.conversion.report import ConversionReport
    from qdqtool.data.feeds import Progress
    from qdqtool.data.held import HeldData, hold_data
    from qdqtool.data.read_options import ReadOptions
    from qdqtool.data.request import DataRequest, FileData, RandomData
    from qdqtool.diff.report import DiffReport
    from qdqtool.engine.engine_map import EngineMap
    from qdqtool.engine.options import BuildOptions, ProfileOptions
    from qdqtool.engine.precision_gate import PrecisionGate
    from qdqtool.engine.profiles import ShapeOptions
    from qdqtool.engine.report import EngineReport
    from qdqtool.findings import Finding
    from qdqtool.gpu.report import BenchReport, RunReport
    from qdqtool.gpu.speedup_gate import SpeedupGate
    from qdqtool.gpu.timing import TimingOptions
    from qdqtool.graph.io.any_model import ModelLike
    from qdqtool.graph.io.load import load_model
    from qdqtool.graph.io.save import ExternalData
    from qdqtool.graph.model import Model
    from qdqtool.insertion.pair_edits import WeightStorage
    from qdqtool.interop.arrays import dequantize, fake_quantize, quantize, scale_from_range, scale_from_tensor
    from qdqtool.jobs.bench import bench_engine
    from qdqtool.jobs.calibrate_report import CalibrateReport
    from qdqtool.jobs.check_blame import BlameRequest
    from qdqtool.jobs.convert_ranges import ConvertReport, convert_ranges
    from qdqtool.jobs.fix import FixRequest, fix_models
    from qdqtool.jobs.insert import InsertOptions, InsertReport, insert_encodings
    from qdqtool.jobs.inspect_engine import inspect_engine
    from qdqtool.jobs.inspect_report import InspectReport
    from qdqtool.jobs.merge import MergeReport, merge_to_file
    from qdqtool.jobs.normalize import normalize_model
    from qdqtool.jobs.quantize import QuantizeOptions
    from qdqtool.jobs.quantize_report import QuantizeReport
    from qdqtool.jobs.reduce import reduce_model
    from qdqtool.jobs.run import run_engine
    from qdqtool.jobs.sensitivity import SensitivityOptions
    from qdqtool.jobs.sensitivity_report import SensitivityReport
    from qdqtool.jobs.strip import StripReport, strip_model
    from qdqtool.jobs.verify_engine import VerifyReport, verify_engine
    from qdqtool.linting.policy import Policy
    from qdqtool.linting.report import ValidateReport
    from qdqtool.media.images.options import ImageOptions
    from qdqtool.media.sound.options import SoundOptions
    from qdqtool.media.text.options import TextOptions
    from qdqtool.numerics.derive import PowerOfTwo, ScaleRule
    from qdqtool.page.write import PageReport, write_page
    from qdqtool.planning.existing import Existing
    from qdqtool.planning.placement.selection import Selection
    from qdqtool.planning.recipe import Preparation, Recipe
    from qdqtool.planning.scale_type import HighPrecision
    from qdqtool.preparation.cached_ranges import CachedRanges
    from qdqtool.ranges.file import read_ranges
    from qdqtool.ranges.merge import merge_ranges
    from qdqtool.ranges.shard import Shard
    from qdqtool.ranges.types import Ranges
    from qdqtool.reduction.options import ReduceOptions
    from qdqtool.reduction.report import ReduceReport
    from qdqtool.repair.report import FixReport, NormalizeReport
    from qdqtool.results import Report
    from qdqtool.running.ort_cpu import Profile

_HOMES = {
    "qdqtool.api.any_data": ("DataLike",),
    "qdqtool.api.build": ("build_engine",),
    "qdqtool.api.check": ("check_model",),
    "qdqtool.api.convert": ("convert",),
    "qdqtool.api.insert": ("insert_plan",),
    "qdqtool.api.keywords": (
        "BuildKeywords",
        "CalibrateKeywords",
        "CheckKeywords",
        "ConvertKeywords",
        "InsertKeywords",
        "QuantizeKeywords",
        "SensitivityKeywords",
    ),
    "qdqtool.api.models": ("diff_models", "inspect_model", "validate_model"),
    "qdqtool.api.quantize": ("calibrate", "calibrate_to_file", "measure_sensitivity", "quantize_model"),
    "qdqtool.jobs.verify_engine": ("VerifyReport", "verify_engine"),
    "qdqtool.builders.deployment": ("DeploymentOptions",),
    "qdqtool.checking.options": ("CheckOptions",),
    "qdqtool.checking.limits": ("Gates",),
    "qdqtool.checking.report": ("CheckReport",),
    "qdqtool.conversion.options": ("ConvertOptions",),
    "qdqtool.conversion.progress": ("ConvertProgress",),
    "qdqtool.conversion.report": ("ConversionReport",),
    "qdqtool.data.feeds": ("Progress",),
    "qdqtool.data.held": ("HeldData", "hold_data"),
    "qdqtool.media.images.options": ("ImageOptions",),
    "qdqtool.media.sound.options": ("SoundOptions",),
    "qdqtool.media.text.options": ("TextOptions",),
    "qdqtool.data.read_options": ("ReadOptions",),
    "qdqtool.data.request": ("DataRequest", "FileData", "RandomData"),
    "qdqtool.diff.report": ("DiffReport",),
    "qdqtool.engine.engine_map": ("EngineMap",),
    "qdqtool.engine.options": ("BuildOptions", "ProfileOptions"),
    "qdqtool.engine.precision_gate": ("PrecisionGate",),
    "qdqtool.engine.profiles": ("ShapeOptions",),
    "qdqtool.builders.shape_values": ("ShapeValues",),
    "qdqtool.engine.report": ("EngineReport",),
    "qdqtool.findings": ("Finding",),
    "qdqtool.gpu.report": ("BenchReport", "RunReport"),
    "qdqtool.gpu.speedup_gate": ("SpeedupGate",),
    "qdqtool.gpu.timing": ("TimingOptions",),
    "qdqtool.graph.io.any_model": ("ModelLike",),
    "qdqtool.graph.io.load": ("load_model",),
    "qdqtool.graph.io.save": ("ExternalData",),
    "qdqtool.graph.model": ("Model",),
    "qdqtool.insertion.pair_edits": ("WeightStorage",),
    "qdqtool.interop.arrays": ("dequantize", "fake_quantize", "quantize", "scale_from_range", "scale_from_tensor"),
    "qdqtool.jobs.bench": ("bench_engine",),
    "qdqtool.jobs.calibrate_report": ("CalibrateReport",),
    "qdqtool.jobs.check_blame": ("BlameRequest",),
    "qdqtool.jobs.convert_ranges": ("ConvertReport", "convert_ranges"),
    "qdqtool.jobs.fix": ("FixRequest", "fix_models"),
    "qdqtool.jobs.insert": ("InsertOptions", "InsertReport", "insert_encodings"),
    "qdqtool.jobs.inspect_engine": ("inspect_engine",),
    "qdqtool.jobs.inspect_report": ("InspectReport",),
    "qdqtool.jobs.merge": ("MergeReport", "merge_to_file"),
    "qdqtool.jobs.normalize": ("normalize_model",),
    "qdqtool.jobs.quantize": ("QuantizeOptions",),
    "qdqtool.jobs.quantize_report": ("QuantizeReport",),
    "qdqtool.jobs.sensitivity": ("SensitivityOptions",),
    "qdqtool.jobs.reduce": ("reduce_model",),
    "qdqtool.jobs.run": ("run_engine",),
    "qdqtool.jobs.sensitivity_report": ("SensitivityReport",),
    "qdqtool.jobs.strip": ("StripReport", "strip_model"),
    "qdqtool.linting.policy": ("Policy",),
    "qdqtool.linting.report": ("ValidateReport",),
    "qdqtool.numerics.derive": ("PowerOfTwo", "ScaleRule"),
    "qdqtool.page.write": ("PageReport", "write_page"),
    "qdqtool.planning.existing": ("Existing",),
    "qdqtool.planning.placement.selection": ("Selection",),
    "qdqtool.planning.recipe": ("Preparation", "Recipe"),
    "qdqtool.planning.scale_type": ("HighPrecision",),
    "qdqtool.attempts.accuracy_goal": ("AccuracyGoal",),
    "qdqtool.preparation.cached_ranges": ("CachedRanges",),
    "qdqtool.ranges.file": ("read_ranges",),
    "qdqtool.ranges.merge": ("merge_ranges",),
    "qdqtool.ranges.shard": ("Shard",),
    "qdqtool.ranges.types": ("Ranges",),
    "qdqtool.reduction.options": ("ReduceOptions",),
    "qdqtool.reduction.report": ("ReduceReport",),
    "qdqtool.repair.report": ("FixReport", "NormalizeReport"),
    "qdqtool.results": ("Report",),
    "qdqtool.running.ort_cpu": ("Profile",),
}
"""The public names of each module that defines some."""

_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AccuracyGoal",
    "BenchReport",
    "BlameRequest",
    "BuildKeywords",
    "BuildOptions",
    "CachedRanges",
    "CalibrateKeywords",
    "CalibrateReport",
    "CheckKeywords",
    "CheckOptions",
    "CheckReport",
    "ConversionReport",
    "ConvertKeywords",
    "ConvertOptions",
    "ConvertProgress",
    "ConvertReport",
    "DataLike",
    "DataRequest",
    "DeploymentOptions",
    "DiffReport",
    "EngineMap",
    "EngineReport",
    "Existing",
    "ExternalData",
    "FileData",
    "Finding",
    "FixReport",
    "FixRequest",
    "Gates",
    "HeldData",
    "HighPrecision",
    "ImageOptions",
    "InsertKeywords",
    "InsertOptions",
    "InsertReport",
    "InspectReport",
    "MergeReport",
    "Model",
    "ModelLike",
    "NormalizeReport",
    "PageReport",
    "Policy",
    "PowerOfTwo",
    "PrecisionGate",
    "Preparation",
    "Profile",
    "ProfileOptions",
    "Progress",
    "QuantizeKeywords",
    "QuantizeOptions",
    "QuantizeReport",
    "RandomData",
    "Ranges",
    "ReadOptions",
    "Recipe",
    "ReduceOptions",
    "ReduceReport",
    "Report",
    "RunReport",
    "ScaleRule",
    "Selection",
    "SensitivityKeywords",
    "SensitivityOptions",
    "SensitivityReport",
    "ShapeOptions",
    "ShapeValues",
    "Shard",
    "SoundOptions",
    "SpeedupGate",
    "StripReport",
    "TextOptions",
    "TimingOptions",
    "ValidateReport",
    "VerifyReport",
    "WeightStorage",
    "__version__",
    "bench_engine",
    "build_engine",
    "calibrate",
    "calibrate_to_file",
    "check_model",
    "convert",
    "convert_ranges",
    "dequantize",
    "diff_models",
    "errors",
    "fake_quantize",
    "fix_models",
    "hold_data",
    "insert_encodings",
    "insert_plan",
    "inspect_engine",
    "inspect_model",
    "interop",
    "load_model",
    "measure_sensitivity",
    "merge_ranges",
    "merge_to_file",
    "normalize_model",
    "quantize",
    "quantize_model",
    "read_ranges",
    "reduce_model",
    "run_engine",
    "scale_from_range",
    "scale_from_tensor",
    "strip_model",
    "validate_model",
    "verify_engine",
    "write_page",
]


def __getattr__(name: str) -> Any:
    if name in {"errors", "interop"}:
        return importlib.import_module(f"qdqtool.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'qdqtool' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
