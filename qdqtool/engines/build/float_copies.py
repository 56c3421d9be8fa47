"""Find the float copies that kernels write beside the codes of the same tensor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qdqtool.engines.build.plan_edits import SharedEntry
from qdqtool.engines.tensorrt.kernels import FLOATS, Kernel, is_quantized
from qdqtool.engines.tensorrt.precision import names_node
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode, is_quantize
from qdqtool.models.graph.index.view import NodeView, Value


@dataclass(frozen=True, slots=True, eq=False)
class FloatCopy:
    """A float copy of a tensor that a kernel also writes as codes.

    Attributes:
        quantize: The Q that makes the codes.
        shared: The entry of a plan with which the reader of the copy reads the codes.
    """

    quantize: QdqNode
    shared: SharedEntry


class FloatCopies:
    """Finds the float copies of one engine.

    Args:
        index: The model that was built.
        kernels: The kernels of its engine.
    """

    def __init__(self, index: ModelIndex, kernels: Sequence[Kernel]) -> None:
        self._nodes = list(index.view.nodes())
        self._quantizers = list(index.qdq.quantizers())
        self._qdq = index.qdq
        self._kernels = kernels

    def of(self, kernel: Kernel) -> Iterator[FloatCopy]:
        """The copies that a kernel writes.

        A tensor is quantized by a Q that the kernel names, itself or behind operators that only move values, over
        which the builder moves the Q. The kernel makes this tensor, and it writes codes and floats of one shape. A
        generated kernel reads the floats, and the tensor is all that its nodes read of those of the first kernel.
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
        """The generated kernels that read a float output that has the shape of codes beside it."""
        shapes = [tensor.shape for tensor in kernel.outputs if is_quantized(tensor.type)]
        copies = {tensor.name for tensor in kernel.outputs if tensor.type in FLOATS and tensor.shape in shapes}
        for reader in self._kernels:
            if kernel.is_generated and reader.is_generated and copies & {tensor.name for tensor in reader.inputs}:
                yield reader

    def _users(self, kernel: Kernel, reader: Kernel, tensor: Value | None) -> list[NodeView]:
        """The nodes of a reader that read the tensor; none where its nodes read another one of the kernel too."""
        nodes = [node for node in self._nodes if names_node(reader, node) and not names_node(kernel, node)]
        read = {
            value
            for node in nodes
            for position in range(len(node.proto.input))
            if (value := node.input(position)) is not None and self._makes(kernel, value)
        }
        if read != {tensor}:
            return []
        return [node for node in nodes if tensor in {node.input(at) for at in range(len(node.proto.input))}]

    def _makes(self, kernel: Kernel, value: Value) -> bool:
        return value.producer is not None and names_node(kernel, value.producer)

    def _consumers(self, tensor: Value) -> tuple[str, ...]:
        """All that reads a tensor, itself or through a pair."""
        pairs = [entry for use in tensor.uses if (entry := self._qdq.get(use.node)) is not None and use.index == 0]
        dequantized = [use.node for entry in pairs for reader in self._qdq.readers(entry) for use in reader.uses]
        floats = [use.node for use in tensor.uses if not is_quantize(use.node)]
        return tuple(dict.fromkeys(node.label for node in (*dequantized, *floats)))
