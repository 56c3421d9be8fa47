"""Parts of the JSON reports that the page reads, as types: gates, findings, outputs, tensors, nodes.

A key that every version of a report has is required here. Numbers may be null: JSON cannot write NaN and infinities.
"""

from typing import Any, Literal

import msgspec

from qdqtool.linting.findings import Effect, Severity


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The base: unknown keys are ignored, as ``docs/stability.md`` asks of readers."""


class StoredDataFile(Stored, frozen=True, kw_only=True):
    """One file of external data; ``sha256`` is null where it was not computed."""

    name: str
    bytes: int
    sha256: str | None


class StoredModelFile(Stored, frozen=True, kw_only=True):
    """Size and digest of a model file, and of its external data."""

    bytes: int
    sha256: str
    external_data: tuple[StoredDataFile, ...]


class StoredCalibration(Stored, frozen=True, kw_only=True):
    """The data of the ranges: file, method, number of samples, whether they are random.

    ``chosen`` is the method that ``auto`` took for the whole model, and empty for another method.
    """

    source: str
    samples: int
    random: bool
    chosen: str
    method: str = ""
    from_file: bool = False
    given: Any = None

    @property
    def method_used(self) -> str:
        """The method that gave the ranges."""
        return self.chosen or self.method


class StoredPair(Stored, frozen=True, kw_only=True):
    """One quantized tensor; ``consumers`` are labels of the nodes that read it."""

    tensor: str
    graph: str
    kind: str
    format: str
    granularity: str
    scales: int
    scale_min: float | None
    scale_max: float | None
    consumers: tuple[str, ...]


class StoredSkip(Stored, frozen=True, kw_only=True):
    """One operator that stays in float, and why."""

    node: str
    op_type: str
    graph: str
    reason: str


class StoredNode(Stored, frozen=True, kw_only=True):
    """One operator: the numbers of those that it reads, and the formats of the Q/DQ pairs between."""

    name: str
    op_type: str
    inputs: tuple[int, ...]
    formats: tuple[str, ...]
    weights: str


class StoredDegenerate(Stored, frozen=True, kw_only=True):
    """A tensor that no scale serves well."""

    tensor: str
    graph: str
    condition: str
    action: str


class StoredFinding(Stored, frozen=True, kw_only=True):
    """One finding of a rule."""

    code: str
    name: str
    severity: Severity
    effect: Effect
    message: str
    node: str | None
    graph: str
    fixable: bool = False
    safe_fix: bool = False


class StoredAccuracyOutput(Stored, frozen=True, kw_only=True):
    """One output as ``quantize`` measured it; ``standard_error_db`` is null where one sample decides."""

    name: str
    sqnr_db: float | None
    exact: bool
    finite: bool
    standard_error_db: float | None = None


class StoredAccuracy(Stored, frozen=True, kw_only=True):
    """What quantizing cost on samples; ``problem`` says why nothing was measured, ``validation`` names other data."""

    samples: int
    held_back: bool
    outputs: tuple[StoredAccuracyOutput, ...]
    problem: str
    validation: str | None = None

    @property
    def part(self) -> str:
        """What the samples are, in one word."""
        return "validation" if self.validation is not None else "held-back" if self.held_back else "calibration"


class StoredSizes(Stored, frozen=True, kw_only=True):
    """File sizes in bytes."""

    before: int
    after: int


class StoredTarget(Stored, frozen=True, kw_only=True):
    """The findings for one target."""

    target: str
    verdict: Literal["pass", "fail"]
    findings: tuple[StoredFinding, ...]
    checked: tuple[str, ...]
    suppressed: int
    known: int


class StoredModel(Stored, frozen=True, kw_only=True):
    """The findings of one file; ``error`` says why it could not be read."""

    path: str
    targets: tuple[StoredTarget, ...]
    error: str | None
    file: StoredModelFile | None = None


class StoredGate(Stored, frozen=True, kw_only=True):
    """One gate of ``check``."""

    name: str
    requires: str
    passed: bool
    detail: str
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class StoredReference(Stored, frozen=True, kw_only=True):
    """The session that computed the numbers."""

    runtime: str
    version: str
    profile: str
    cpu: str


class StoredData(Stored, frozen=True, kw_only=True):
    """The data of a check; ``seed`` is that of random inputs, ``shapes`` are those of one sample, by input."""

    source: str
    samples: int
    seed: int | None
    shapes: Any = None
    preprocessing: Any = None


class StoredBoundary(Stored, frozen=True, kw_only=True):
    """One quantized tensor against that of the float model; distances are in quantization steps."""

    node: str
    graph: str
    tensor: str
    kind: str
    format: str
    granularity: str
    max_steps: float | None
    mean_steps: float | None
    sqnr_db: float | None
    clipped: int
    elements: int


class StoredBuildGate(Stored, frozen=True, kw_only=True):
    """One precision gate of ``build``."""

    gate: str
    passed: bool
    found: str


class StoredPrecision(Stored, frozen=True, kw_only=True):
    """The planned and the actual type of one node; ``kernel`` is null where it is not known."""

    name: str
    op_type: str
    planned: str
    actual: str
    graph: str
    kernel: str | None
    reason: str | None


class StoredRefusal(Stored, frozen=True, kw_only=True):
    """Why the builder refused a model."""

    message: str
    node: str | None


class StoredEffect(Stored, frozen=True, kw_only=True):
    """What one layer does to the outputs: ``noise_share`` of 1, SQNR alone and gain in dB, ``cost_share`` of 1."""

    node: str
    op_type: str
    graph: str
    nodes: tuple[str, ...]
    noise_share: float | None
    worst_sqnr_db: float | None
    gain_db: float | None
    cost_share: float | None
    exclude: tuple[str, ...] = ()


class StoredGroup(Stored, frozen=True, kw_only=True):
    """Q or DQ nodes of one kind."""

    op_type: str
    kind: str
    format: str
    granularity: str
    count: int


class StoredCoverage(Stored, frozen=True, kw_only=True):
    """How many operators of one type are quantized."""

    op_type: str
    total: int
    quantized: int
    partly: int


class StoredStep(Stored, frozen=True, kw_only=True):
    """One step of ``convert``; ``report`` is what its command prints."""

    step: Literal["quantize", "validate", "check", "build"]
    state: Literal["passed", "failed", "not reached", "not asked for"]
    missed: tuple[str, ...]
    message: str | None
    report: dict[str, Any] | None


class StoredMeasuredOn(Stored, frozen=True, kw_only=True):
    """The samples of the check of ``convert``."""

    data: str
    samples: int
    part: str
    reason: str = ""


class StoredFile(Stored, frozen=True, kw_only=True):
    """One file of a conversion, with its size in bytes and its digest."""

    name: str
    what: str
    bytes: int
    sha256: str
