"""Insert, validate and check ONNX QuantizeLinear/DequantizeLinear nodes, and build TensorRT engines from them.

What users may import is in ``__all__`` here, in :mod:`qdqtool.interop` and in :mod:`qdqtool.errors`; every other module
may change without notice. Importing this package is instant: every public name is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qdqtool import errors, interop
    from qdqtool.accuracy.checking.check_blame import BlameRequest
    from qdqtool.accuracy.checking.limits import Gates
    from qdqtool.accuracy.checking.options import CheckOptions
    from qdqtool.accuracy.checking.report import CheckReport
    from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
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
    from qdqtool.engines.build.engine_map import EngineMap
    from qdqtool.engines.build.options import BuildOptions, ProfileOptions
    from qdqtool.engines.build.precision_gate import PrecisionGate
    from qdqtool.engines.build.profiles import ShapeOptions
    from qdqtool.engines.build.report import EngineReport
    from qdqtool.engines.gpu.report import BenchReport, RunReport
    from qdqtool.engines.gpu.speedup_gate import SpeedupGate
    from qdqtool.engines.gpu.timing import TimingOptions
    from qdqtool.engines.tensorrt.deployment import DeploymentOptions
    from qdqtool.engines.tensorrt.shape_values import ShapeValues
    from qdqtool.interop.arrays import dequantize, fake_quantize, quantize, scale_from_range, scale_from_tensor
    from qdqtool.jobs.bench import bench_engine
    from qdqtool.jobs.calibrate_report import CalibrateReport
    from qdqtool.jobs.conversion.options import ConvertOptions
    from qdqtool.jobs.conversion.progress import ConvertProgress
    from qdqtool.jobs.conversion.report import ConversionReport
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
    from qdqtool.jobs.reduction.options import ReduceOptions
    from qdqtool.jobs.reduction.report import ReduceReport
    from qdqtool.jobs.run import run_engine
    from qdqtool.jobs.sensitivity import SensitivityOptions
    from qdqtool.jobs.sensitivity_report import SensitivityReport
    from qdqtool.jobs.strip import StripReport, strip_model
    from qdqtool.jobs.verify_engine import VerifyReport, verify_engine
    from qdqtool.linting.findings import Finding
    from qdqtool.linting.policy import Policy
    from qdqtool.linting.repair.report import FixReport, NormalizeReport
    from qdqtool.linting.report import ValidateReport
    from qdqtool.models.diff.report import DiffReport
    from qdqtool.models.graph.io.any_model import ModelLike
    from qdqtool.models.graph.io.load import load_model
    from qdqtool.models.graph.io.save import ExternalData
    from qdqtool.models.graph.model import Model
    from qdqtool.models.running.ort_cpu import Profile
    from qdqtool.numerics.derive import PowerOfTwo, ScaleRule
    from qdqtool.quantization.insertion.pair_edits import WeightStorage
    from qdqtool.quantization.planning.existing import Existing
    from qdqtool.quantization.planning.placement.selection import Selection
    from qdqtool.quantization.planning.recipe import Preparation, Recipe
    from qdqtool.quantization.planning.scale_type import HighPrecision
    from qdqtool.quantization.preparation.cached_ranges import CachedRanges
    from qdqtool.quantization.ranges.file import read_ranges
    from qdqtool.quantization.ranges.merge import merge_ranges
    from qdqtool.quantization.ranges.shard import Shard
    from qdqtool.quantization.ranges.types import Ranges
    from qdqtool.reports.page.write import PageReport, write_page
    from qdqtool.results import Report, __version__
    from qdqtool.samples.feeds import Progress
    from qdqtool.samples.held import HeldData, hold_data
    from qdqtool.samples.media.images.options import ImageOptions
    from qdqtool.samples.media.sound.options import SoundOptions
    from qdqtool.samples.media.text.options import TextOptions
    from qdqtool.samples.read_options import ReadOptions
    from qdqtool.samples.request import DataRequest, FileData, RandomData

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
    "qdqtool.engines.tensorrt.deployment": ("DeploymentOptions",),
    "qdqtool.accuracy.checking.options": ("CheckOptions",),
    "qdqtool.accuracy.checking.limits": ("Gates",),
    "qdqtool.accuracy.checking.report": ("CheckReport",),
    "qdqtool.jobs.conversion.options": ("ConvertOptions",),
    "qdqtool.jobs.conversion.progress": ("ConvertProgress",),
    "qdqtool.jobs.conversion.report": ("ConversionReport",),
    "qdqtool.samples.feeds": ("Progress",),
    "qdqtool.samples.held": ("HeldData", "hold_data"),
    "qdqtool.samples.media.images.options": ("ImageOptions",),
    "qdqtool.samples.media.sound.options": ("SoundOptions",),
    "qdqtool.samples.media.text.options": ("TextOptions",),
    "qdqtool.samples.read_options": ("ReadOptions",),
    "qdqtool.samples.request": ("DataRequest", "FileData", "RandomData"),
    "qdqtool.models.diff.report": ("DiffReport",),
    "qdqtool.engines.build.engine_map": ("EngineMap",),
    "qdqtool.engines.build.options": ("BuildOptions", "ProfileOptions"),
    "qdqtool.engines.build.precision_gate": ("PrecisionGate",),
    "qdqtool.engines.build.profiles": ("ShapeOptions",),
    "qdqtool.engines.tensorrt.shape_values": ("ShapeValues",),
    "qdqtool.engines.build.report": ("EngineReport",),
    "qdqtool.linting.findings": ("Finding",),
    "qdqtool.engines.gpu.report": ("BenchReport", "RunReport"),
    "qdqtool.engines.gpu.speedup_gate": ("SpeedupGate",),
    "qdqtool.engines.gpu.timing": ("TimingOptions",),
    "qdqtool.models.graph.io.any_model": ("ModelLike",),
    "qdqtool.models.graph.io.load": ("load_model",),
    "qdqtool.models.graph.io.save": ("ExternalData",),
    "qdqtool.models.graph.model": ("Model",),
    "qdqtool.quantization.insertion.pair_edits": ("WeightStorage",),
    "qdqtool.interop.arrays": ("dequantize", "fake_quantize", "quantize", "scale_from_range", "scale_from_tensor"),
    "qdqtool.jobs.bench": ("bench_engine",),
    "qdqtool.jobs.calibrate_report": ("CalibrateReport",),
    "qdqtool.accuracy.checking.check_blame": ("BlameRequest",),
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
    "qdqtool.reports.page.write": ("PageReport", "write_page"),
    "qdqtool.quantization.planning.existing": ("Existing",),
    "qdqtool.quantization.planning.placement.selection": ("Selection",),
    "qdqtool.quantization.planning.recipe": ("Preparation", "Recipe"),
    "qdqtool.quantization.planning.scale_type": ("HighPrecision",),
    "qdqtool.accuracy.search.accuracy_goal": ("AccuracyGoal",),
    "qdqtool.quantization.preparation.cached_ranges": ("CachedRanges",),
    "qdqtool.quantization.ranges.file": ("read_ranges",),
    "qdqtool.quantization.ranges.merge": ("merge_ranges",),
    "qdqtool.quantization.ranges.shard": ("Shard",),
    "qdqtool.quantization.ranges.types": ("Ranges",),
    "qdqtool.jobs.reduction.options": ("ReduceOptions",),
    "qdqtool.jobs.reduction.report": ("ReduceReport",),
    "qdqtool.linting.repair.report": ("FixReport", "NormalizeReport"),
    "qdqtool.results": ("Report", "__version__"),
    "qdqtool.models.running.ort_cpu": ("Profile",),
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
