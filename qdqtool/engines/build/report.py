"""The report of ``build`` as data: the keys of the JSON report are the attributes of these classes."""

from dataclasses import dataclass
from pathlib import Path

from qdqtool.engines.build.conversions import Conversions
from qdqtool.engines.build.engine_map import MappedKernel, MultiplyAccumulates
from qdqtool.engines.build.precision_gate import GateResult
from qdqtool.engines.tensorrt.builder import BuildRefusedError, Evidence, InputProfile, NodePrecision, Refusal, Stage
from qdqtool.engines.tensorrt.deployment import OptionValue
from qdqtool.linting.report import Summary
from qdqtool.models.graph.io.model_file import ModelFile, describe_path
from qdqtool.models.transforms.specialize import Specialized
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """How a build compares with the manifest that locked it; model, options, profiles and product are equal.

    Attributes:
        manifest: The manifest.
        same_bytes: Whether the engine has the sha256 that the manifest names.
        same_kernels: Whether the kernels are those of the manifest; None where neither build has evidence of them.
    """

    manifest: str
    same_bytes: bool
    same_kernels: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport(Report):
    """The report of a build that made an engine.

    Attributes:
        model: The model file.
        model_file: Its digests.
        engine: The engine file; None when a gate was missed, because then none is kept.
        passed: Whether all gates were met.
        backend: Public id of the builder.
        version: Its version.
        evidence: Where the actual types come from: the builder's ahead-of-time layer dump, the engine inspector on a
            GPU, or nothing.
        targets: Compute capabilities that the engine is for; empty for the GPU in this machine.
        specialized: How the model was specialized for fixed shapes; None where it was built as it is.
        profiles: Shapes that it accepts for dynamic inputs.
        shape_values: Values that it accepts for inputs that decide shapes.
        options: Deployment options that were given, by name.
        seconds: Time in parser and builder.
        bytes: Size of the engine.
        planned: Number of quantized nodes by the type that their Q/DQ ask for.
        achieved: How many of these nodes run in that type.
        nodes: Every quantized node.
        macs: Multiply-accumulates of all kernels by type.
        kernels: The kernels in the order in which they run; empty without evidence.
        conversions: The conversions between floats and codes; None where the evidence cannot prove any.
        gates: Precision gates that were asked for.
        warnings: Messages of the builder that matter to the user.
        findings: Numbers of findings that ``validate`` has for this backend; None when it was skipped.
        skipped: Steps that were skipped at the user's request.
        manifest: The manifest file, None without an engine and where the engine went into a device or pipe.
        signature: The signature of the manifest, if one was asked for.
        locked: How the build compares with the manifest that locked it; None without one.
        layer_info: The layer file, if one was asked for.
    """

    model: str
    engine: str | None
    passed: bool
    backend: str
    version: str
    evidence: Evidence
    targets: tuple[str, ...]
    specialized: Specialized | None
    profiles: tuple[InputProfile, ...]
    shape_values: tuple[InputProfile, ...]
    options: dict[str, OptionValue]
    seconds: float
    bytes: int
    planned: dict[str, int]
    achieved: dict[str, int]
    nodes: tuple[NodePrecision, ...]
    macs: MultiplyAccumulates
    kernels: tuple[MappedKernel, ...]
    conversions: Conversions | None
    gates: tuple[GateResult, ...]
    warnings: tuple[str, ...]
    findings: Summary | None
    skipped: tuple[str, ...]
    manifest: str | None
    signature: str | None
    locked: Locked | None
    layer_info: str | None
    model_file: ModelFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedReport(Report):
    """A build that the validate gate, the parser or the builder refused.

    Attributes:
        model: The model file.
        model_file: Its digests; those of large external data are left out.
        engine: None, always.
        passed: False, always.
        stage: ``validate``, ``parse``, ``build`` or ``locked``.
        message: The refusal in one line.
        refusals: Every reason, the decisive one first.
        remark: Whether the float model is refused too; empty where that is not known.
        hint: How to fix it; None where that is not known.
    """

    model: str
    engine: None
    passed: bool
    stage: Stage
    message: str
    refusals: tuple[Refusal, ...]
    remark: str
    hint: str | None
    model_file: ModelFile | None = None


def refused_report(model: str | Path, error: BuildRefusedError) -> RefusedReport:
    """Turn the error of :func:`build_engine` into a report."""
    return RefusedReport(
        model=str(model),
        engine=None,
        passed=False,
        stage=error.stage,
        message=error.message,
        refusals=error.refusals,
        remark=error.remark,
        hint=error.hint,
        model_file=describe_path(Path(model)),
    )
