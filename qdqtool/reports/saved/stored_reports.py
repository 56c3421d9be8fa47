"""What the page reads of each JSON report, as types; keys that no section shows are left out."""

from collections.abc import Mapping
from typing import Literal

from qdqtool.reports.saved.stored_blame import StoredBlame
from qdqtool.reports.saved.stored_outputs import StoredOutput
from qdqtool.reports.saved.stored_parts import (
    Stored,
    StoredAccuracy,
    StoredBoundary,
    StoredBuildGate,
    StoredCalibration,
    StoredCoverage,
    StoredData,
    StoredDegenerate,
    StoredEffect,
    StoredFile,
    StoredFinding,
    StoredGate,
    StoredGroup,
    StoredMeasuredOn,
    StoredModel,
    StoredModelFile,
    StoredNode,
    StoredPair,
    StoredPrecision,
    StoredReference,
    StoredRefusal,
    StoredSizes,
    StoredSkip,
    StoredStep,
)
from qdqtool.reports.saved.stored_ranges import StoredActivationRange, StoredWeightScales
from qdqtool.reports.saved.stored_search import StoredSearch


class StoredQuantize(Stored, frozen=True, kw_only=True):
    """The report of ``quantize``."""

    model: str
    output: str
    mode: str
    target: str
    opset_after: int
    calibration: StoredCalibration | None
    quantized: tuple[StoredPair, ...]
    skipped: tuple[StoredSkip, ...]
    degenerate: tuple[StoredDegenerate, ...]
    findings: tuple[StoredFinding, ...]
    accuracy: StoredAccuracy | None
    sizes: StoredSizes
    qdqtool_version: str | None = None
    model_file: StoredModelFile | None = None
    output_file: StoredModelFile | None = None
    nodes: tuple[StoredNode, ...] = ()
    activation_ranges: tuple[StoredActivationRange, ...] = ()
    weight_scales: tuple[StoredWeightScales, ...] = ()
    search: StoredSearch | None = None
    separated: tuple[str, ...] = ()
    blame: StoredBlame | None = None


class StoredValidate(Stored, frozen=True, kw_only=True):
    """The report of ``validate``."""

    models: tuple[StoredModel, ...]
    qdqtool_version: str | None = None


class StoredCheck(Stored, frozen=True, kw_only=True):
    """The report of ``check``."""

    passed: bool
    model: str
    baseline: str | None
    reference: StoredReference
    data: StoredData
    gates: tuple[StoredGate, ...]
    failures: tuple[str, ...]
    outputs: tuple[StoredOutput, ...]
    boundaries: tuple[StoredBoundary, ...]
    warnings: tuple[str, ...]
    qdqtool_version: str | None = None
    model_file: StoredModelFile | None = None
    baseline_file: StoredModelFile | None = None
    blame: StoredBlame | None = None


class StoredBuild(Stored, frozen=True, kw_only=True):
    """The report of ``build``; ``bytes`` is the size of the engine."""

    model: str
    engine: str | None
    passed: bool
    backend: str
    version: str
    evidence: str
    targets: tuple[str, ...]
    bytes: int
    planned: Mapping[str, int]
    achieved: Mapping[str, int]
    nodes: tuple[StoredPrecision, ...]
    gates: tuple[StoredBuildGate, ...]
    warnings: tuple[str, ...]
    qdqtool_version: str | None = None
    model_file: StoredModelFile | None = None


class StoredRefusedBuild(Stored, frozen=True, kw_only=True):
    """The report of ``build`` where the builder refused the model."""

    model: str
    passed: Literal[False]
    stage: str
    message: str
    refusals: tuple[StoredRefusal, ...]
    hint: str | None = None
    qdqtool_version: str | None = None
    model_file: StoredModelFile | None = None


class StoredSensitivity(Stored, frozen=True, kw_only=True):
    """The report of ``sensitivity``."""

    model: str
    mode: str
    target: str
    samples: int
    calibration: StoredCalibration | None
    weights_only_db: float | None
    activations_only_db: float | None
    nodes: tuple[StoredEffect, ...]
    qdqtool_version: str | None = None
    model_file: StoredModelFile | None = None


class StoredInspect(Stored, frozen=True, kw_only=True):
    """The report of ``inspect`` on a model; sizes are in bytes."""

    model: str
    bytes: int
    weight_bytes: Mapping[str, int]
    ir_version: int
    opset_imports: Mapping[str, int]
    producer: str
    groups: tuple[StoredGroup, ...]
    coverage: tuple[StoredCoverage, ...]
    qdqtool_version: str | None = None
    model_file: StoredModelFile | None = None


class StoredConvert(Stored, frozen=True, kw_only=True):
    """``report.json`` of ``convert``."""

    model: str
    folder: str
    passed: bool
    failed: str | None
    measured_on: StoredMeasuredOn | None
    steps: tuple[StoredStep, ...]
    files: tuple[StoredFile, ...]


class FailedCommand(Stored, frozen=True, kw_only=True):
    """A command that ended without a report, with its exit code; only ``--report html=FILE`` makes a page of it."""

    command: str
    model: str
    message: str
    hint: str | None
    exit_code: int


StoredReport = (
    StoredQuantize
    | StoredValidate
    | StoredCheck
    | StoredBuild
    | StoredRefusedBuild
    | StoredSensitivity
    | StoredInspect
    | StoredConvert
)
