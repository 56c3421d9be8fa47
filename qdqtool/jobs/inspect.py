"""The inspect job: list the quantized and the float parts of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import onnx

from qdqtool.engines.tensorrt.planned_types import work_of
from qdqtool.jobs.inspect_groups import groups_of
from qdqtool.jobs.inspect_report import Coverage, InspectReport, TensorInfo
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.external import model_bytes
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import QUICK_BYTES, describe_file
from qdqtool.models.graph.io.tensors import iter_tensors, nbytes, onnx_type_name
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display
from qdqtool.quantization.planning.placement.propose import reads_codes


def inspect_model(model: str | Path | Model, *, tensors: bool = False) -> InspectReport:
    """Return which tensors of a model are quantized and which are not.

    Args:
        model: The ``.onnx`` file, or a loaded model. Weights are not read; external data may be missing.
        tensors: Whether to list every tensor too.

    Raises:
        ModelError: The model cannot be read.
    """
    source = model if isinstance(model, Model) else load_model(model, needs_data=False)
    index = ModelIndex.of(source)
    view, proto = index.view, source.proto
    describe = partial(_describe, index)
    inputs = (view.main.values[name] for name in view.main.input_names())
    return InspectReport(
        model=str(source.path or ""),
        bytes=model_bytes(source),
        missing_data=tuple(sorted(source.missing_data)),
        weight_bytes=_weight_bytes(proto),
        ir_version=proto.ir_version,
        opset_imports={entry.domain or "ai.onnx": entry.version for entry in proto.opset_import},
        producer=f"{proto.producer_name} {proto.producer_version}".strip(),
        inputs=tuple(describe(value) for value in inputs if value.initializer is None),
        outputs=tuple(
            describe(view.main.values[name]) for name in view.main.output_names() if name in view.main.values
        ),
        nodes=sum(1 for _ in view.nodes()),
        scopes=len(view.scopes) - 1,
        groups=tuple(groups_of(index)),
        coverage=tuple(_coverage(index)),
        tensors=tuple(describe(value) for value in view.values()) if tensors else (),
        work=work_of(index),
        model_file=describe_file(source, most_data=QUICK_BYTES),
    )


def _weight_bytes(proto: onnx.ModelProto) -> dict[str, int]:
    total: Counter[str] = Counter()
    for tensor in iter_tensors(proto):
        total[onnx_type_name(tensor.data_type)] += nbytes(tensor)
    return dict(total.most_common())


def _coverage(index: ModelIndex) -> Iterator[Coverage]:
    totals: Counter[str] = Counter()
    full: Counter[str] = Counter()
    partly: Counter[str] = Counter()
    for node in index.view.nodes():
        op = ops.product(node)
        if op is None:
            continue
        quantized = [reads_codes(node.input(position)) for position in op.quantized_inputs(node)]
        totals[node.op_type] += 1
        full[node.op_type] += all(quantized)
        partly[node.op_type] += any(quantized) and not all(quantized)
    for op_type, total in sorted(totals.items()):
        yield Coverage(op_type=op_type, total=total, quantized=full[op_type], partly=partly[op_type])


def _describe(index: ModelIndex, value: Value) -> TensorInfo:
    readers = [use.node for use in value.uses]
    return TensorInfo(
        name=value.name,
        graph=display(value.scope.path),
        kind=_kind(index, value),
        type=onnx_type_name(index.types.elem_type(value)),
        shape=index.types.shape(value),
        quantized=any(entry is not None and entry.is_quantize for entry in map(index.qdq.get, readers)),
        consumers=tuple(dict.fromkeys(node.label for node in readers)),
    )


def _kind(index: ModelIndex, value: Value) -> str:
    if value.initializer is not None:
        return "initializer"
    if value.is_input:
        return "input"
    return "constant" if index.constants.is_constant(value) else "activation"
