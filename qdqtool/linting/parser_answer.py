"""The answer of TensorRT's parser about a model, which the linter turns into findings."""

from dataclasses import dataclass

from qdqtool.linting.findings import ParserStatus
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.scope import display

PARSER_TARGET = "tensorrt-rtx"
"""The target whose parser also runs on machines without a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserFault:
    """One reason why the parser refuses a model.

    Attributes:
        title: Name and version of the product that refuses the model.
        reason: The reason in plain words; starts in lower case, without a full stop.
        hint: How to fix the model; empty if that is not known.
        name: Name of the node at fault, from the parser; empty if the parser names no node.
        index: Position of the node in its graph, from the parser; negative if unknown.
        op_type: Operator of the node, from the parser; empty if unknown.
    """

    title: str
    reason: str
    hint: str = ""
    name: str = ""
    index: int = -1
    op_type: str = ""

    def node(self, nodes: tuple[NodeView, ...]) -> NodeView | None:
        """Return the node at fault, or None if the model has no such node or several."""
        if self.name:
            named = [node for node in nodes if node.proto.name == self.name and node.op_type == self.op_type]
            if len(named) == 1:
                return named[0]
        # The parser sorts nodes that are out of order. Its number then belongs to another node of the file.
        placed = [
            node
            for node in nodes
            if node.index == self.index
            and node.scope.owner is None
            and not node.scope.is_function
            and node.op_type == self.op_type
        ]
        return placed[0] if placed and (not self.name or placed[0].proto.name == self.name) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserAnswer:
    """The answer of the parser about one model.

    Attributes:
        status: ``asked``; ``absent`` if the package is not installed; ``off`` if the parser should not be asked;
            ``timed out`` if it did not answer in time.
        note: The version of the parser, or why it was not asked; may be empty.
        messages: The messages of the parser, without lines on other subjects.
        faults: The reasons why the parser refuses the model.
    """

    status: ParserStatus
    note: str = ""
    messages: tuple[str, ...] = ()
    faults: tuple[ParserFault, ...] = ()


def is_explained(node: NodeView | None, reported: set[tuple[str, str | None]]) -> bool:
    """Return whether findings of other rules explain why the parser refuses a node.

    The parser reports one fault at a time. It often reports a wrong type or shape at the node that reads the tensor.

    Args:
        node: The node; None if the parser names no node.
        reported: Scope and label of the nodes at which a rule found that TensorRT refuses the model.
    """
    if node is None:
        return bool(reported)
    makers = [value.producer for value in node.present_inputs if value.producer is not None]
    readers = [use.node for value in node.present_outputs for use in value.uses]
    return any((display(each.scope.path), each.label) in reported for each in (node, *makers, *readers))
