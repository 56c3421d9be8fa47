"""The Q/DQ inventory of ``inspect``: nodes of one operator, format and granularity are one group."""

from collections.abc import Iterator

import numpy as np

from qdqtool.jobs.inspect_report import QdqGroup
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.tensorrt_operators import BLOCK_DEQUANTIZE, IN_BLOCKS, MX_DEQUANTIZE
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.tensors import onnx_type_name
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT8E8M0
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor


def groups_of(index: ModelIndex) -> Iterator[QdqGroup]:
    """Yield the groups of a model: those of Q and DQ, then those of TensorRT's operators that quantize in blocks."""
    yield from _of_qdq(index)
    yield from _of_tensorrt(index)


def _of_qdq(index: ModelIndex) -> Iterator[QdqGroup]:
    members: dict[tuple[str, str, str, str], list[QdqNode]] = {}
    for entry in index.qdq.nodes:
        fmt = formats.by_onnx_type(entry.quantized_type) if entry.quantized_type is not None else None
        kind = _kind_of(entry, index)
        name = fmt.name if fmt else onnx_type_name(entry.quantized_type)
        members.setdefault((kind, name, _granularity_name(entry), entry.node.op_type), []).append(entry)
    for (kind, name, granularity, op_type), entries in sorted(members.items()):
        scales = [found for entry in entries if (found := _scale_range(entry, index.constants)) is not None]
        yield QdqGroup(
            op_type=op_type,
            kind=kind,
            format=name,
            granularity=granularity,
            count=len(entries),
            scale_min=min(low for low, _ in scales) if scales else None,
            scale_max=max(high for _, high in scales) if scales else None,
        )


def _of_tensorrt(index: ModelIndex) -> Iterator[QdqGroup]:
    """Yield the operators of TensorRT's parser that quantize in blocks and are no Q or DQ of ONNX."""
    members: dict[tuple[str, str, str], list[NodeView]] = {}
    for node in index.view.nodes():
        if node.op_type in IN_BLOCKS:
            data = node.input(0)
            is_weight = data is not None and index.constants.is_constant(data)
            codes = data if node.op_type in {MX_DEQUANTIZE, BLOCK_DEQUANTIZE} else node.output()
            kind = onnx_type_name(index.elem_type(codes) if codes is not None else None)
            members.setdefault(("weight" if is_weight else "activation", kind, node.op_type), []).append(node)
    for (stands_for, kind, op_type), nodes in sorted(members.items()):
        scales = [found for node in nodes if (found := _block_scales(node, index.constants)) is not None]
        yield QdqGroup(
            op_type=op_type,
            kind=stands_for,
            format=kind,
            granularity="blocked",
            count=len(nodes),
            scale_min=min((low for low, _ in scales), default=None),
            scale_max=max((high for _, high in scales), default=None),
        )


def _block_scales(node: NodeView, constants: Constants) -> tuple[float, float] | None:
    """Return the range of constant scales; those of MXFP8 are stored as exponents."""
    value = node.input(1)
    scale = constants.array(value) if value is not None else None
    if scale is None or not scale.size:
        return None
    real = scale.view(FLOAT8E8M0) if scale.dtype == np.uint8 else scale
    values = real.astype(np.float64)
    return float(values.min()), float(values.max())


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


def _kind_of(entry: QdqNode, index: ModelIndex) -> str:
    if not entry.is_quantize and index.qdq.makes_scales(entry):
        return "scale"
    return "weight" if _is_weight(entry, index) else "activation"


def _is_weight(entry: QdqNode, index: ModelIndex) -> bool:
    if not entry.is_quantize:
        return index.qdq.is_weight(entry)
    return entry.data is not None and index.constants.is_constant(entry.data)


def _scale_range(entry: QdqNode, constants: Constants) -> tuple[float, float] | None:
    scale = constants.array(entry.scale) if entry.scale is not None else None
    if scale is None or not scale.size or scale.dtype.kind in "iub":
        return None
    values = scale.astype(np.float64)
    return float(values.min()), float(values.max())
