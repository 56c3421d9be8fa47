"""A plan for any model: every input of every weighted operator, activations per-tensor, weights per-axis, int8."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display

FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16}
UNSEEN_RANGE = 8.0
"""Absmax of activations that nobody measured: those inside bodies and functions."""


def write_generated_plan(model: Model, folder: Path, ranges: dict[str, float] | None = None) -> Path:
    """Write ``plan.json`` and ``scales.npz`` into ``folder``; ``ranges`` are absmax values of main-graph tensors."""
    index = ModelIndex.of(model)
    entries: list[dict[str, Any]] = []
    scales: dict[str, np.ndarray] = {}
    for (value, axis), nodes in _slots(index).items():
        entry: dict[str, Any] = {
            "tensor": value.name,
            "scope": display(value.scope.path),
            "consumers": [node.proto.output[0] for node in nodes],
            "format": "int8",
        }
        if axis is None:
            entry["scale"] = max((ranges or {}).get(value.name, UNSEEN_RANGE), 1e-6) / 127
        else:
            key = f"s{len(scales)}"
            scales[key] = weight_scales(index, value, axis)
            entry |= {"axis": axis, "scale": {"file": "scales.npz", "key": key}}
        entries.append(entry)
    np.savez(folder / "scales.npz", **scales)
    path = folder / "plan.json"
    path.write_text(json.dumps({"schema_version": 1, "tensors": entries}))
    return path


def weight_scales(index: ModelIndex, value: Value, axis: int) -> np.ndarray:
    """amax/127 along ``axis``, with a floor for channels of zeros."""
    stored = index.constants.direct(value)
    assert stored is not None
    weights = read_array(index.model, stored).astype(np.float32)
    others = tuple(i for i in range(weights.ndim) if i != axis)
    return np.maximum(np.abs(weights).max(axis=others, initial=0.0), 1e-6) / 127


def _slots(index: ModelIndex) -> dict[tuple[Value, int | None], list[NodeView]]:
    slots: dict[tuple[Value, int | None], list[NodeView]] = {}
    for node in index.view.nodes():
        op = ops.product(node)
        if op is None:
            continue
        for position in op.quantized_inputs(node):
            value = node.input(position)
            if value is None or index.types.elem_type(value) not in FLOATS:
                continue
            axis = None
            if position == op.weight_input and index.constants.direct(value) is not None:
                axis = op.weight_axis(node, len(index.types.shape(value) or ()))
            slots.setdefault((value, axis), []).append(node)
    return slots
