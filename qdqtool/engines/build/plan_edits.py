"""Find the change of a plan that removes a conversion from an engine."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from qdqtool.engines.build.report import PlanEdit, SharedEntry
from qdqtool.engines.tensorrt.kernels import FLOATS, Kernel, is_quantized
from qdqtool.engines.tensorrt.precision import names_node
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode, is_qdq, is_quantize
from qdqtool.models.graph.index.structure import NodePatterns
from qdqtool.models.graph.index.view import NodeView, Value

INPUT = "the graph's input is float"
OUTPUT = "the graph's output is float"
CODES = "its codes are an input of the graph"
NO_READER = "no node reads its output"


class PlanEdits:
    """Finds the edits for the conversions of one model."""

    def __init__(self, index: ModelIndex) -> None:
        self._index, self._qdq = index, index.qdq
        self._patterns = NodePatterns(index.view)
        self._inputs = {entry.name for entry in index.model.proto.graph.input}

    def without(self, nodes: Iterable[NodeView], shared: SharedEntry | None = None) -> PlanEdit:
        """Return the edit that leaves nodes in float."""
        found = list(dict.fromkeys(nodes))
        options = (f"--nodes-to-exclude {shlex.quote(self._patterns.pattern(node))}" for node in found)
        return PlanEdit(options=" ".join(options), nodes=tuple(node.label for node in found), shared=shared)

    def for_quantizers(self, quantizers: Sequence[QdqNode]) -> PlanEdit | str:
        """Return the edit that removes the pairs of these Q nodes, or why there is none."""
        if any(self._is_graph_input(entry.data) for entry in quantizers):
            return INPUT
        return self.for_dequantizers([reader for entry in quantizers for reader in self._qdq.readers(entry)])

    def for_dequantizers(self, dequantizers: Sequence[QdqNode]) -> PlanEdit | str:
        """Return the edit that removes the pairs of these DQ nodes, or why there is none."""
        if any(self._qdq.quantizer_of(entry) is None and self._is_graph_input(entry.data) for entry in dequantizers):
            return CODES
        reached = [value for entry in dequantizers for value in _reached(entry.output)]
        if any(value.is_output and not value.scope.path for value in reached):
            return OUTPUT
        # An operator that moves values and may have pairs is itself the reason for a pair before it.
        asked = [use.node for entry in dequantizers for use in entry.uses if ops.get(use.node) is not None]
        readers = [*asked, *(use.node for value in reached for use in value.uses if _is_reader(use.node))]
        return self.without(readers) if readers else NO_READER

    def _is_graph_input(self, value: Value | None) -> bool:
        sources = ops.moved_from(value) if value is not None else ()
        # Below IR version 4, initializers are also listed as inputs.
        found = (source for source in sources if source.producer is None and source.name in self._inputs)
        return any(not self._index.is_constant(source) for source in found)


def _reached(value: Value | None) -> Iterator[Value]:
    """Yield a tensor, then the tensors that operators make from it by only moving values."""
    waiting = [value] if value is not None else []
    for _ in range(ops.MAX_MOVES):
        if not waiting:
            return
        here = waiting.pop()
        yield here
        moved = (use.node.output() for use in here.uses if ops.moves_values(use.node))
        waiting += [output for output in moved if output is not None]


def _is_reader(node: NodeView) -> bool:
    return not ops.moves_values(node) and not is_qdq(node)


@dataclass(frozen=True, slots=True, eq=False)
class FloatCopy:
    """A float copy of a tensor that a kernel also writes as codes.

    Attributes:
        quantize: The Q that makes the codes.
        shared: The plan entry that makes the reader of the copy read the codes instead.
    """

    quantize: QdqNode
    shared: SharedEntry


class FloatCopies:
    """Finds the float copies of one engine."""

    def __init__(self, index: ModelIndex, kernels: Sequence[Kernel]) -> None:
        self._nodes = list(index.view.nodes())
        self._quantizers = list(index.qdq.quantizers())
        self._qdq = index.qdq
        self._kernels = kernels

    def of(self, kernel: Kernel) -> Iterator[FloatCopy]:
        """Yield the copies that a kernel writes.

        The kernel makes a tensor, names a Q of this tensor, and writes codes and floats of one shape. Operators that
        only move values may be between the tensor and the Q, since the builder moves the Q over them. Another generated
        kernel reads the floats, and its nodes read no other tensor of the first kernel.
        """
        readers = list(self._readers(kernel))
        if not readers:
            return
        for entry in self._quantizers:
            if not names_node(kernel, entry.node) or entry.data is None:
                continue
            made = (value for value in ops.moved_from(entry.data) if self._makes(kernel, value))
            tensor = next(made, None)
            users = [user for reader in readers for user in self._users(kernel, reader, tensor)]
            if tensor is not None and users:
                yield FloatCopy(entry, SharedEntry(tensor=tensor.name, consumers=self._consumers(tensor)))

    def _readers(self, kernel: Kernel) -> Iterator[Kernel]:
        """Yield the generated kernels that read a float output with the same shape as an output of codes."""
        shapes = [tensor.shape for tensor in kernel.outputs if is_quantized(tensor.type)]
        copies = {tensor.name for tensor in kernel.outputs if tensor.type in FLOATS and tensor.shape in shapes}
        for reader in self._kernels:
            if kernel.is_generated and reader.is_generated and copies & {tensor.name for tensor in reader.inputs}:
                yield reader

    def _users(self, kernel: Kernel, reader: Kernel, tensor: Value | None) -> list[NodeView]:
        """Return the nodes of a reader that read the tensor; none if they also read another tensor of the kernel."""
        nodes = [node for node in self._nodes if names_node(reader, node) and not names_node(kernel, node)]
        read = {value for node in nodes for value in node.present_inputs if self._makes(kernel, value)}
        if read != {tensor}:
            return []
        return [node for node in nodes if tensor in node.inputs]

    def _makes(self, kernel: Kernel, value: Value) -> bool:
        return value.producer is not None and names_node(kernel, value.producer)

    def _consumers(self, tensor: Value) -> tuple[str, ...]:
        """Return the labels of the nodes that read a tensor, directly or through a pair."""
        pairs = [entry for use in tensor.uses if (entry := self._qdq.get(use.node)) is not None and use.index == 0]
        dequantized = [use.node for entry in pairs for reader in self._qdq.readers(entry) for use in reader.uses]
        floats = [use.node for use in tensor.uses if not is_quantize(use.node)]
        return tuple(dict.fromkeys(node.label for node in (*dequantized, *floats)))
