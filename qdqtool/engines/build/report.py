"""The report of ``build`` as data: the keys of the JSON report are the attributes of these classes."""

from dataclasses import dataclass
from typing import Literal

from qdqtool.engines.report import Evidence, InputProfile, NodePrecision, Refusal, Stage
from qdqtool.engines.tensorrt.deployment import OptionValue
from qdqtool.engines.tensorrt.kernels import KernelTensor
from qdqtool.linting.report import Summary
from qdqtool.models.graph.report import ModelFile
from qdqtool.models.report import Specialized, Work
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEntry:
    """A plan entry for a Q/DQ pair that several nodes read.

    Attributes:
        tensor: The tensor.
        consumers: Labels of the nodes that read the quantized tensor.
    """

    tensor: str
    consumers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEdit:
    """A change that removes a conversion.

    Attributes:
        options: Options of ``quantize`` that leave ``nodes`` in float. In a plan file, remove these nodes from the
            consumers of entries instead.
        nodes: Labels of the nodes that become float.
        shared: An entry of a plan file that also removes the conversion and keeps these nodes quantized; None if there
            is no such entry.
    """

    options: str
    nodes: tuple[str, ...]
    shared: SharedEntry | None = None


ConversionKind = Literal["quantize", "dequantize", "quantize-dequantize", "float-operands", "float-copy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A conversion that the layer dump proves.

    Attributes:
        kind: ``quantize``: reads floats, writes codes. ``dequantize``: reads codes and writes floats, or dequantizes
            them for a product in floats. ``quantize-dequantize``: does both inside, between floats. ``float-operands``:
            multiplies floats for a planned node, and reads only floats. ``float-copy``: writes codes, and also the same
            values as floats for another kernel.
        kernel: The kernel.
        from_types: Types that the kernel reads, each once.
        to_types: Types that the kernel writes, each once.
        node: The planned node for which the kernel multiplies; None if it multiplies nothing.
        qdq: The QuantizeLinear or DequantizeLinear nodes that cause the conversion.
        edit: The change of the plan that removes the conversion; None if there is none.
        no_edit: Why no change removes the conversion; None if ``edit`` is given.
    """

    kind: ConversionKind
    kernel: str
    from_types: tuple[str, ...]
    to_types: tuple[str, ...]
    node: str | None = None
    qdq: tuple[str, ...]
    edit: PlanEdit | None = None
    no_edit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownConversion:
    """A float tensor between two kernels; at first use, the GPU may join both into one kernel.

    Attributes:
        tensor: The tensor.
        type: Its float type.
        bytes: Its size; None if the dump does not give it.
        written_by: The stub kernel that writes it; None if the dump does not name this kernel.
        read_by: The generated kernel that reads it.
    """

    tensor: str
    type: str
    bytes: int | None
    written_by: str | None
    read_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversions:
    """The conversions of an engine.

    Attributes:
        proven: The conversions that the dump proves, in the order of the kernels.
        unknown: Tensors whose existence the GPU decides at first use; they are not counted.
    """

    proven: tuple[Conversion, ...] = ()
    unknown: tuple[UnknownConversion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedKernel:
    """One kernel of an engine.

    Attributes:
        name: The builder's name for it.
        layer_type: The builder's class of kernels: ``correlation``, ``gemm``, ``kgen``, ….
        generated: Whether the builder made it for this model; other kernels are chosen by the GPU at first use.
        nodes: The ONNX nodes that the kernel computes, in the parser's spelling.
        inputs: The tensors that it reads.
        constants: The constants that it reads.
        outputs: The tensors that it writes.
        bytes: Bytes of all these tensors by type, without padding; None if the size of one is unknown.
        macs: Multiply-accumulates of its products in one run; 0 without products, None if the number is unknown.
        computes: The type that it multiplies in; None if it computes no product.
    """

    name: str
    layer_type: str
    generated: bool
    nodes: tuple[str, ...]
    inputs: tuple[KernelTensor, ...]
    constants: tuple[KernelTensor, ...]
    outputs: tuple[KernelTensor, ...]
    bytes: dict[str, int] | None
    macs: int | None
    computes: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The result of a gate.

    Attributes:
        gate: The gate in the user's notation.
        passed: Whether it was met.
        found: The found share, in words.
    """

    gate: str
    passed: bool
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A build compared with the manifest that locked it; model, options, profiles and product are equal.

    Attributes:
        manifest: The manifest.
        same_bytes: Whether the engine has the sha256 in the manifest.
        same_kernels: Whether the kernels are equal; None if there is no evidence of kernels in either build.
    """

    manifest: str
    same_bytes: bool
    same_kernels: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport(Report):
    """The report of a build that made an engine.

    Attributes:
        model: The model file.
        model_file: Digests of the model file.
        engine: The engine file; None if a gate was missed, because then no engine is kept.
        passed: Whether all gates were met.
        backend: Public id of the builder.
        version: Its version.
        evidence: The source of the actual types: the builder's ahead-of-time layer dump, the engine inspector on a
            GPU, or nothing.
        targets: Compute capabilities that the engine is for; empty for the GPU in this machine.
        specialized: How the model was specialized for fixed shapes; None if it was not specialized.
        profiles: Shapes that the engine accepts for dynamic inputs.
        shape_values: Values that the engine accepts for inputs that decide shapes.
        options: Deployment options that were given, by name.
        seconds: Time for parsing and building.
        bytes: Size of the engine.
        planned: Number of quantized nodes by the type that their Q/DQ request.
        achieved: How many of these nodes run in that type.
        nodes: Every quantized node.
        macs: Multiply-accumulates of all kernels and bytes of their constants, by type.
        work: Multiply-accumulates of the model and bytes of its weights, by type; None in reports of earlier versions.
        kernels: The kernels in the order in which they run; empty without evidence.
        conversions: The conversions between floats and codes; None if the evidence cannot prove any.
        gates: Precision gates that were requested.
        warnings: Messages of the builder that matter to the user.
        findings: Numbers of findings of ``validate`` for this backend; None if validation was skipped.
        skipped: Steps that were skipped at the user's request.
        manifest: The manifest file; None without an engine, or if the engine was written to a device or pipe.
        signature: The signature of the manifest; None if none was requested.
        locked: The comparison with the manifest that locked the build; None without such a manifest.
        layer_info: The layer file; None if none was requested.
        plugin_operators: The operators that are declared as plugins.
        lost_nodes: Number of nodes that ``quantize`` quantized and that are not quantized in this model any more.
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
    macs: Work
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
    lost_nodes: int = 0
    work: Work | None = None
    plugin_operators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedReport(Report):
    """A build that the validate gate, the parser or the builder refused.

    Attributes:
        model: The model file.
        model_file: Digests of the model file, without those of large external data.
        engine: None, always.
        passed: False, always.
        stage: ``validate``, ``parse``, ``build`` or ``locked``.
        message: The refusal in one line.
        refusals: Every reason, the decisive one first.
        remark: Whether the float model is refused too, in words; empty if that is unknown.
        hint: How to fix the model; None if that is unknown.
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
