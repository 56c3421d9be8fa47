"""The sites of a model: each place that reads a tensor, with the Q/DQ steps in front of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode, is_qdq
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model

# A limit, since the nodes of an unsound graph may form a cycle.
MAX_STEPS = 16


class Side:
    """One of two models that are compared, with its index.

    Args:
        source: A file, or a model in memory.

    Raises:
        ModelError: The model cannot be read.
    """

    def __init__(self, source: str | Path | Model) -> None:
        self.model = source if isinstance(source, Model) else load_model(source)
        self.path = str(self.model.path) if self.model.path is not None else "<memory>"
        self.index = ModelIndex.of(self.model)

    def steps(self, value: Value | None) -> tuple[tuple["Step", ...], Value | None]:
        """Return the Q/DQ steps that produce ``value``, the nearest first, and the tensor in front of all of them."""
        steps: list[Step] = []
        while len(steps) < MAX_STEPS:
            entry = self.index.qdq.maker(value)
            if entry is None:
                break
            if entry.is_quantize:
                steps.append(Step(entry, None))
                value = entry.data
                continue
            quantize = self.index.qdq.quantizer_of(entry)
            steps.append(Step(quantize, entry))
            value = quantize.data if quantize is not None else entry.data
        return tuple(steps), value


@dataclass(frozen=True, slots=True)
class Step:
    """A Q and the DQ that reads it, or one of them alone: a DQ of stored codes, or a Q whose codes are read.

    Attributes:
        quantize: The Q, if there is one.
        dequantize: The DQ, if there is one.
    """

    quantize: QdqNode | None
    dequantize: QdqNode | None

    @property
    def main(self) -> QdqNode:
        """The DQ, else the Q."""
        found = self.dequantize or self.quantize
        assert found is not None
        return found

    @property
    def first(self) -> QdqNode:
        """The Q, else the DQ: the same node for all DQs of a Q."""
        return self.quantize or self.main

    @property
    def source(self) -> Value | None:
        """The tensor that it quantizes, or the stored codes."""
        return self.quantize.data if self.quantize is not None else self.main.data


@dataclass(frozen=True, slots=True)
class Site:
    """A place that reads a tensor: an input of a node other than Q and DQ, or an output of a graph.

    Attributes:
        scope: Where.
        node: The node; None for outputs.
        index: The number of the input or output.
    """

    scope: Scope
    node: NodeView | None
    index: int

    @property
    def value(self) -> Value | None:
        """The tensor that is read there."""
        if self.node is not None:
            return self.node.input(self.index)
        return self.scope.resolve(self.scope.output_names()[self.index])

    @property
    def label(self) -> str:
        """The name of the reader in reports."""
        if self.node is None:
            return f"output {self.scope.output_names()[self.index]}"
        more = f"[{self.index}]" if len(self.node.proto.input) > 1 else ""
        return f"{self.node.label}{more}"


def sites(scope: Scope) -> Iterator[Site]:
    """Yield every site of a graph or function."""
    for node in plain_nodes(scope):
        for index, name in enumerate(node.proto.input):
            if name:
                yield Site(scope, node, index)
    for index in range(len(scope.output_names())):
        yield Site(scope, None, index)


def plain_nodes(scope: Scope) -> Iterator[NodeView]:
    """Return the nodes of a scope other than Q and DQ."""
    return (node for node in scope.nodes if not is_qdq(node))
