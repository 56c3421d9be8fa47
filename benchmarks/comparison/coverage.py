"""How much of a model is quantized, counted from its nodes alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.ops.support.weights import multiply_accumulates

WEIGHTED = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "MatMul": 2, "LSTM": 3, "GRU": 3}
"""Operators with heavy arithmetic, and how many of their first inputs take part in it."""

MOVES = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
"""Operators behind which a dequantized tensor still is one."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Counts over all graphs of a model.

    Attributes:
        weighted: Nodes with heavy arithmetic.
        full: Those of them whose factors all come from a DequantizeLinear.
        weight_only: Those of which only some factors do.
        pairs: QuantizeLinear nodes whose input is no initializer: what is rounded at run time.
    """

    weighted: int
    full: int
    weight_only: int
    pairs: int


@dataclass(frozen=True, slots=True)
class Half:
    """How much of a model computes in half precision, over all graphs.

    Attributes:
        nodes: Nodes that return a float tensor, without constants and Casts.
        half: Those of them that return float16.
        work: Percent of the multiply-accumulates in these, where an open dimension counts as 1; None: there are none.
        casts: Casts from a float type to a float type.
    """

    nodes: int
    half: int
    work: float | None
    casts: int


_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16})


def half_of(path: Path) -> Half:
    """Count what computes in half precision in a model file."""
    index = ModelIndex.of(load_model(path))
    casts, nodes, half = 0, [], set(half_nodes(index))
    for node in index.view.nodes():
        types = [{index.elem_type(value) for value in side} for side in (node.present_inputs, node.present_outputs)]
        if node.is_op("Cast"):
            casts += all(_FLOATS & side for side in types)
        elif _FLOATS & types[1] and not node.is_op("Constant", "ConstantOfShape"):
            nodes.append(node)
    work = {node: multiply_accumulates(node, lambda value: _shape(index, value)) or 0 for node in nodes}
    total, in_half = sum(work.values()), sum(macs for node, macs in work.items() if node in half)
    return Half(len(nodes), len(half), 100 * in_half / total if total else None, casts)


def half_nodes(index: ModelIndex) -> Iterator[NodeView]:
    """Yield the nodes that compute a float16 tensor."""
    for node in index.view.nodes():
        made = {index.elem_type(value) for value in node.present_outputs}
        if TensorProto.FLOAT16 in made and not node.is_op("Cast", "Constant", "ConstantOfShape"):
            yield node


def _shape(index: ModelIndex, value: Value) -> tuple[int, ...] | None:
    shape = index.types.shape(value)
    return tuple(extent if isinstance(extent, int) else 1 for extent in shape) if shape is not None else None


def count(path: Path) -> Coverage:
    """Count in a model file."""
    model = onnx.load(path, load_external_data=False)
    pairs = 0
    for graph in _graphs(model.graph):
        stored = {tensor.name for tensor in graph.initializer}
        pairs += sum(node.op_type == "QuantizeLinear" and node.input[0] not in stored for node in graph.node)
    found = [dequantized for _, dequantized in _weighted(model)]
    full = sum(all(factors) for factors in found)
    return Coverage(len(found), full, sum(any(factors) for factors in found) - full, pairs)


def quantized(path: Path) -> set[str]:
    """The nodes with heavy arithmetic whose factors all are dequantized, by the name of their output."""
    model = onnx.load(path, load_external_data=False)
    return {node.output[0] for node, dequantized in _weighted(model) if all(dequantized)}


def left_in_float(path: Path) -> list[str]:
    """The nodes with heavy arithmetic of which no factor is dequantized, by the labels that reports use."""
    model = onnx.load(path, load_external_data=False)
    return [node.name or f"{node.op_type} -> {node.output[0]}" for node, found in _weighted(model) if not any(found)]


def names(path: Path) -> dict[str, str]:
    """All nodes with heavy arithmetic: by the name of their output their own, or that again if they have none."""
    model = onnx.load(path, load_external_data=False)
    return {node.output[0]: node.name or node.output[0] for node, _ in _weighted(model)}


def _weighted(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, list[bool]]]:
    """The nodes with heavy arithmetic, and whether each factor comes from a DequantizeLinear."""
    for graph in _graphs(model.graph):
        makers = {output: node for node in graph.node for output in node.output}
        for node in graph.node:
            if node.op_type in WEIGHTED:
                yield node, [_is_dequantized(name, makers) for name in node.input[: WEIGHTED[node.op_type]]]


def _is_dequantized(name: str, makers: dict[str, onnx.NodeProto]) -> bool:
    maker = makers.get(name)
    while maker is not None and maker.op_type in MOVES:
        maker = makers.get(maker.input[0])
    return maker is not None and maker.op_type == "DequantizeLinear"


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)
