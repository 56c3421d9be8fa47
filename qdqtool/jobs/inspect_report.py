"""The report of ``inspect``: the keys of the JSON report are the attributes of these classes."""

from dataclasses import dataclass

from qdqtool.models.graph.report import ModelFile
from qdqtool.models.report import Work
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class QdqGroup:
    """Q/DQ nodes with the same operator, format and granularity.

    Attributes:
        op_type: QuantizeLinear or DequantizeLinear, or an operator of TensorRT's parser.
        kind: ``weight`` if the data is constant, ``scale`` if the node makes scales that other nodes read, else
            ``activation``.
        format: Number format, or the name of the ONNX type if it is not a number format of qdqtool.
        granularity: ``per-tensor``, ``per-axis``, ``blocked`` or ``unknown``.
        count: Number of nodes.
        scale_min: Smallest scale; None if no scale is constant.
        scale_max: Largest scale; None if no scale is constant.
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
        op_type: Name of the operator.
        total: Number of nodes with the operator.
        quantized: Number of nodes whose data inputs all come from a DequantizeLinear.
        partly: Number of nodes whose data inputs partly come from a DequantizeLinear.
    """

    op_type: str
    total: int
    quantized: int
    partly: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor, for ``--tensors``.

    Attributes:
        name: Name of the tensor.
        graph: Scope of the tensor; empty for the main graph.
        kind: ``input``, ``initializer``, ``constant`` or ``activation``.
        type: ONNX element type, or ``unknown``.
        shape: Extents: symbolic ones by name, unknown ones null. None if the rank is unknown.
        quantized: Whether a node reads the tensor through a Q/DQ pair.
        consumers: Labels of the nodes that read the tensor.
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
        missing_data: External data files that do not exist.
        weight_bytes: Bytes of stored tensors, by element type.
        ir_version: ONNX IR version.
        opset_imports: Opset versions by domain; the default domain is ``ai.onnx``.
        producer: Name and version of the exporter.
        inputs: Graph inputs that are not initializers.
        outputs: Graph outputs.
        nodes: Number of nodes in all scopes.
        scopes: Number of control-flow bodies and local functions.
        groups: The Q/DQ inventory.
        coverage: Coverage of the quantizable operators.
        tensors: Every tensor, if requested.
        work: Multiply-accumulates and bytes of weights by type; None in reports of earlier versions.
        model_file: Digests of the file, and of external data up to 64 MiB. None for a model in memory.
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
    work: Work | None = None
