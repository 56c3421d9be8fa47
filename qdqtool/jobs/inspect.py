"""The inspect job: what is quantized in a model and what is not."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from qdqtool import formats, ops
from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.qdq import QdqIndex, QdqNode
from qdqtool.graph.index.types import Shape, TensorTypes
from qdqtool.graph.index.view import GraphView, NodeView, Value
from qdqtool.graph.io.external import model_bytes
from qdqtool.graph.io.load import load_model
from qdqtool.graph.io.tensors import iter_tensors, nbytes
from qdqtool.graph.model import Model
from qdqtool.graph.scope import display
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.planning.placement.joined import origin


@dataclass(frozen=True, slots=True, kw_only=True)
class QdqGroup:
    """Q/DQ nodes of one operator, format and granularity.

    Attributes:
        op_type: QuantizeLinear or DequantizeLinear.
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
    shape: Shape | None
    quantized: bool
    consumers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectReport:
    """What is in a model.

    Attributes:
        model: The file.
        bytes: Of the file and its external data.
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
    """

    model: str
    bytes: int
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


def inspect_model(model: str | Path | Model, *, tensors: bool = False) -> InspectReport:
    """What is quantized in a model and what is not.

    Args:
        model: The ``.onnx`` file, or a loaded model. Weights are not read.
        tensors: Also list every tensor.

    Raises:
        ModelError: The model cannot be read.
    """
    source = model if isinstance(model, Model) else load_model(model)
    view = GraphView(source)
    types, constants = TensorTypes(view), Constants(view)
    index = QdqIndex(view, types, constants)
    proto = source.proto
    describe = _Describer(types, constants, index)
    return InspectReport(
        model=str(source.path or ""),
        bytes=model_bytes(source),
        weight_bytes=_weight_bytes(proto),
        ir_version=proto.ir_version,
        opset_imports={entry.domain or "ai.onnx": entry.version for entry in proto.opset_import},
        producer=f"{proto.producer_name} {proto.producer_version}".strip(),
        inputs=tuple(describe(value) for value in _inputs(view)),
        outputs=tuple(
            describe(view.main.values[name]) for name in view.main.output_names() if name in view.main.values
        ),
        nodes=sum(1 for _ in view.nodes()),
        scopes=len(view.scopes) - 1,
        groups=tuple(_groups(index, constants)),
        coverage=tuple(_coverage(view, index)),
        tensors=tuple(describe(value) for value in view.values()) if tensors else (),
    )


def _inputs(view: GraphView) -> list[Value]:
    values = (view.main.values[name] for name in view.main.input_names())
    return [value for value in values if value.initializer is None]


def _weight_bytes(proto: onnx.ModelProto) -> dict[str, int]:
    total: Counter[str] = Counter()
    for tensor in iter_tensors(proto):
        total[type_name(tensor.data_type)] += nbytes(tensor)
    return dict(total.most_common())


def type_name(onnx_type: int | None) -> str:
    """The ONNX name of an element type in lower case, ``unknown`` for None."""
    return onnx.TensorProto.DataType.Name(onnx_type).lower() if onnx_type else "unknown"


def _groups(index: QdqIndex, constants: Constants) -> Iterator[QdqGroup]:
    members: dict[tuple[str, str, str, str], list[QdqNode]] = {}
    for entry in index.nodes:
        fmt = formats.by_onnx_type(entry.quantized_type) if entry.quantized_type is not None else None
        kind = _kind_of(entry, index, constants)
        name = fmt.name if fmt else type_name(entry.quantized_type)
        members.setdefault((kind, name, _granularity_name(entry), entry.node.op_type), []).append(entry)
    for (kind, name, granularity, op_type), entries in sorted(members.items()):
        scales = [found for entry in entries if (found := _scale_range(entry, constants)) is not None]
        yield QdqGroup(
            op_type=op_type,
            kind=kind,
            format=name,
            granularity=granularity,
            count=len(entries),
            scale_min=min(low for low, _ in scales) if scales else None,
            scale_max=max(high for _, high in scales) if scales else None,
        )


def _granularity_name(entry: QdqNode) -> str:
    match entry.granularity:
        case PerTensor():
            return "per-tensor"
        case PerAxis():
            return "per-axis"
        case Blocked():
            return "blocked"
        case None:
            return "unknown"


def _kind_of(entry: QdqNode, index: QdqIndex, constants: Constants) -> str:
    if not entry.is_quantize and index.makes_scales(entry):
        return "scale"
    return "weight" if _is_weight(entry, index, constants) else "activation"


def _is_weight(entry: QdqNode, index: QdqIndex, constants: Constants) -> bool:
    if not entry.is_quantize:
        return index.is_weight(entry)
    return entry.data is not None and constants.is_constant(entry.data)


def _scale_range(entry: QdqNode, constants: Constants) -> tuple[float, float] | None:
    scale = constants.array(entry.scale) if entry.scale is not None else None
    if scale is None or not scale.size or scale.dtype.kind in "iub":
        return None
    values = scale.astype(np.float64)
    return float(values.min()), float(values.max())


def _coverage(view: GraphView, index: QdqIndex) -> Iterator[Coverage]:
    totals: Counter[str] = Counter()
    full: Counter[str] = Counter()
    partly: Counter[str] = Counter()
    for node in view.nodes():
        op = ops.get(node)
        if op is None or not op.weighted:
            continue
        quantized = [_is_dequantized(node.input(position), index) for position in op.quantized_inputs(node)]
        totals[node.op_type] += 1
        full[node.op_type] += all(quantized)
        partly[node.op_type] += any(quantized) and not all(quantized)
    for op_type, total in sorted(totals.items()):
        yield Coverage(op_type=op_type, total=total, quantized=full[op_type], partly=partly[op_type])


def _is_dequantized(value: Value | None, index: QdqIndex) -> bool:
    """Whether a tensor comes from a DQ, be it through operators that only move values."""
    return value is not None and index.dequantizer_of(origin(value)) is not None


class _Describer:
    def __init__(self, types: TensorTypes, constants: Constants, index: QdqIndex) -> None:
        self._types, self._constants, self._index = types, constants, index

    def __call__(self, value: Value) -> TensorInfo:
        return TensorInfo(
            name=value.name,
            graph=display(value.scope.path),
            kind=self._kind(value),
            type=type_name(self._types.elem_type(value)),
            shape=self._types.shape(value),
            quantized=any(entry is not None and entry.is_quantize for entry in map(self._index.get, _readers(value))),
            consumers=tuple(dict.fromkeys(node.label for node in _readers(value))),
        )

    def _kind(self, value: Value) -> str:
        if value.initializer is not None:
            return "initializer"
        if value.is_input:
            return "input"
        return "constant" if self._constants.is_constant(value) else "activation"


def _readers(value: Value) -> list[NodeView]:
    return [use.node for use in value.uses]
