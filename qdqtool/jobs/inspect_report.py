"""What ``inspect`` reports: the JSON report is these classes, key by key."""

from dataclasses import dataclass

from qdqtool.models.graph.report import ModelFile
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class QdqGroup:
    """Q/DQ nodes of one operator, format and granularity.

    Attributes:
        op_type: QuantizeLinear or DequantizeLinear, or one of TensorRT's parser.
        kind: ``weight`` if the node stands for a constant, ``scale`` if it makes the scales of others, else
            ``activation``.
        format: Number format, or the ONNX type's name where it is none that qdqtool knows.
        granularity: ``per-tensor``, ``per-axis``, ``blocked`` or ``unknown``.
        count: Number of nodes.
        scale_min: Smallest scale, None where none is constant.
        scale_max: Largest scale, likewise.
    """

    op_type: str
    kind: str
    format: str
    granularity: str
    count: int
    scale_min: float | None
    scale_max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many nodes of one quantizable operator read quantized tensors.

    Attributes:
        op_type: Operator.
        total: Its nodes.
        quantized: Those whose data inputs all come from a DequantizeLinear.
        partly: Those where only some do.
    """

    op_type: str
    total: int
    quantized: int
    partly: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor, for ``--tensors``.

    Attributes:
        name: Its name.
        graph: Its scope; empty for the main graph.
        kind: ``input``, ``initializer``, ``constant`` or ``activation``.
        type: ONNX element type, or ``unknown``.
        shape: Extents; symbolic ones by name, unknown ones null. None where the rank is unknown.
        quantized: Whether something reads it through a Q/DQ pair.
        consumers: Labels of the nodes that read it.
    """

    name: str
    graph: str
    kind: str
    type: str
    shape: tuple[int | str | None, ...] | None
    quantized: bool
    consumers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectReport(Report):
    """The contents of a model: files, tensors, nodes and quantization.

    Attributes:
        model: The file.
        bytes: Size of the file and of the external data that exists.
        missing_data: External data files that are not there.
        weight_bytes: Of stored tensors by element type.
        ir_version: ONNX IR version.
        opset_imports: Versions by domain, the default domain as ``ai.onnx``.
        producer: Name and version of the exporter.
        inputs: Graph inputs that are no initializers.
        outputs: Graph outputs.
        nodes: Number of nodes in all scopes.
        scopes: Number of control-flow bodies and local functions.
        groups: The Q/DQ inventory.
        coverage: Coverage of the quantizable operators.
        tensors: Every tensor, when asked for.
        model_file: Digests of the file; those of external data up to 64 MiB. None for a model in memory.
    """

    model: str
    bytes: int
    missing_data: tuple[str, ...]
    weight_bytes: dict[str, int]
    ir_version: int
    opset_imports: dict[str, int]
    producer: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    nodes: int
    scopes: int
    groups: tuple[QdqGroup, ...]
    coverage: tuple[Coverage, ...]
    tensors: tuple[TensorInfo, ...]
    model_file: ModelFile | None = None
