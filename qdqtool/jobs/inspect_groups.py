"""The Q/DQ inventory of ``inspect``: nodes with the same operator, format and granularity form one group."""

from collections.abc import Iterator

import numpy as np

from qdqtool.jobs.inspect_report import QdqGroup
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.tensorrt_operators import BLOCK_DEQUANTIZE, IN_BLOCKS, MX_DEQUANTIZE
from qdqtool.models.graph.io.tensors import onnx_type_name
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT8E8M0
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

_Key = tuple[str, str, str, str]
_Extremes = tuple[float, float] | None
_GRANULARITIES = {PerTensor: "per-tensor", PerAxis: "per-axis", Blocked: "blocked"}


def groups_of(index: ModelIndex) -> Iterator[QdqGroup]:
    """Yield the groups of Q and DQ of a model, then the groups of TensorRT operators that quantize in blocks."""
    for nodes in (_qdq_nodes(index), _tensorrt_nodes(index)):
        groups: dict[_Key, list[_Extremes]] = {}
        for key, scales in nodes:
            groups.setdefault(key, []).append(scales)
        for (kind, name, granularity, op_type), members in sorted(groups.items()):
            known = [each for each in members if each is not None]
            yield QdqGroup(
                op_type=op_type,
                kind=kind,
                format=name,
                granularity=granularity,
                count=len(members),
                scale_min=min((low for low, _ in known), default=None),
                scale_max=max((high for _, high in known), default=None),
            )


def _qdq_nodes(index: ModelIndex) -> Iterator[tuple[_Key, _Extremes]]:
    """Yield the group and the scales of each Q and DQ."""
    for entry in index.qdq.nodes:
        fmt = formats.by_onnx_type(entry.quantized_type) if entry.quantized_type is not None else None
        name = fmt.name if fmt else onnx_type_name(entry.quantized_type)
        granularity = "unknown" if entry.granularity is None else _GRANULARITIES[type(entry.granularity)]
        scale = index.constants.array(entry.scale) if entry.scale is not None else None
        is_real = scale is not None and scale.dtype.kind not in "iub"
        yield (_kind_of(entry, index), name, granularity, entry.node.op_type), _extremes(scale if is_real else None)


def _tensorrt_nodes(index: ModelIndex) -> Iterator[tuple[_Key, _Extremes]]:
    """Yield the group and the scales of each TensorRT operator that quantizes in blocks."""
    for node in index.view.nodes():
        if node.op_type in IN_BLOCKS:
            data, scales = node.input(0), node.input(1)
            is_weight = data is not None and index.constants.is_constant(data)
            codes = data if node.op_type in {MX_DEQUANTIZE, BLOCK_DEQUANTIZE} else node.output()
            name = onnx_type_name(index.elem_type(codes) if codes is not None else None)
            scale = index.constants.array(scales) if scales is not None else None
            if scale is not None and scale.dtype == np.uint8:
                scale = scale.view(FLOAT8E8M0)
            yield ("weight" if is_weight else "activation", name, "blocked", node.op_type), _extremes(scale)


def _extremes(scale: np.ndarray | None) -> _Extremes:
    if scale is None or not scale.size:
        return None
    values = scale.astype(np.float64)
    return float(values.min()), float(values.max())


def _kind_of(entry: QdqNode, index: ModelIndex) -> str:
    if entry.is_quantize:
        is_weight = entry.data is not None and index.constants.is_constant(entry.data)
    elif index.qdq.makes_scales(entry):
        return "scale"
    else:
        is_weight = index.qdq.is_weight(entry)
    return "weight" if is_weight else "activation"
