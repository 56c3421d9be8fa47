"""How much of a model is quantized, counted from its nodes alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

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
