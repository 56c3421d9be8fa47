"""The nodes and tensors that share codes: a fix must change all of them together."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from qdqtool.linting.rules.fixes.stored import Parameters, parameters
from qdqtool.linting.rules.support.fix import Draft, UnfitError
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode, same_constant
from qdqtool.models.graph.index.view import NodeView, Use, Value


@dataclass(slots=True, eq=False)
class CodeGroup:
    """The nodes and tensors that share the codes of one tensor.

    Attributes:
        context: The model.
        entries: Every Q that makes the codes, and every DQ that reads them.
        tensors: The tensors of codes that nodes make.
        constants: The constants with stored codes.
    """

    context: RuleContext
    entries: list[QdqNode] = field(default_factory=list)
    tensors: list[Value] = field(default_factory=list)
    constants: list[Value] = field(default_factory=list)
    _seen: set[Value] = field(default_factory=set)

    @classmethod
    def of(cls, context: RuleContext, entry: QdqNode) -> "CodeGroup":
        """Return the group of the codes that a Q makes or a DQ reads.

        Raises:
            UnfitError: The codes are made or read in a place where they must not be changed.
        """
        group = cls(context)
        pending = [entry.output if entry.is_quantize else entry.data]
        while pending:
            value = pending.pop()
            if value is None:
                raise UnfitError("no node makes the codes, and they are not stored")
            if value not in group._seen:
                group._seen.add(value)
                pending += group._add(value)
        return group

    def _add(self, value: Value) -> Iterable[Value | None]:
        if value.is_output or (value.is_input and value.initializer is None):
            raise UnfitError(
                f"the codes '{value.name}' are an input or output of the graph; a fix must not change their meaning"
            )
        found: list[Value | None] = []
        if self.context.constants.direct(value) is not None:
            self.constants.append(value)
        else:
            self.tensors.append(value)
            found += self._made(value)
        for use in value.uses:
            found += self._used(value, use)
        return found

    def _made(self, value: Value) -> list[Value | None]:
        entry = self.context.qdq.maker(value)
        if entry is not None and entry.is_quantize:
            self._enter(entry)
            return []
        assert value.producer is not None
        return self._moved(value.producer)

    def _used(self, value: Value, use: Use) -> list[Value | None]:
        entry = self.context.qdq.get(use.node)
        if entry is not None and not entry.is_quantize and use.index == 0:
            self._enter(entry)
            return []
        if use.index and not use.node.is_op("Concat"):
            raise UnfitError(f"{use.node.op_type} '{use.node.label}' reads the codes '{value.name}'")
        return self._moved(use.node)

    def _moved(self, node: NodeView) -> list[Value | None]:
        """Return the inputs and outputs of a node that moves codes."""
        if node.is_op("Concat"):
            sources = node.inputs
        elif ops.moves_codes(node):
            sources = [node.input(0)]
        else:
            raise UnfitError(f"{node.op_type} '{node.label}' computes with the codes")
        return [*sources, *(node.output(index) for index in range(len(node.key)) if node.key[index])]

    def _enter(self, entry: QdqNode) -> None:
        if entry not in self.entries:
            self.entries.append(entry)

    def shared(self) -> Parameters:
        """Return the constants that all nodes of the group share.

        Raises:
            UnfitError: The parameters differ, or are not constant.
        """
        first = self.entries[0]
        for entry in self.entries:
            same = (
                same_constant(first.scale, entry.scale, self.context.constants)
                and same_constant(first.zero_point, entry.zero_point, self.context.constants)
                and first.granularity == entry.granularity
            )
            if not same:
                raise UnfitError("nodes that share the codes have different scales or zero points")
        return parameters(self.context, first)

    def set_types(self, draft: Draft, onnx_type: int) -> None:
        """Set the declared element type of every tensor of codes."""
        for value in self.tensors:
            draft.set_type(value, onnx_type)
