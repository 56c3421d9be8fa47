"""What TensorRT's parser said of a model, as the linter takes it in."""

from dataclasses import dataclass

from qdqtool.linting.findings import ParserStatus
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.scope import display

PARSER_TARGET = "tensorrt-rtx"
"""The target whose parser runs on any machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserFault:
    """One reason why the parser refuses a model.

    Attributes:
        title: The product that refuses, with its version.
        reason: The reason in plain words; starts in lower case, without a full stop.
        hint: How to fix it; empty where that is not known.
        name: Name of the node at fault, as the parser gives it; empty where it gives none.
        index: Place of the node in its graph; negative where it gives none.
        op_type: Operator of the node; empty where it gives none.
    """

    title: str
    reason: str
    hint: str = ""
    name: str = ""
    index: int = -1
    op_type: str = ""

    def node(self, nodes: tuple[NodeView, ...]) -> NodeView | None:
        """Find the node among those of the model; None where it is not clear which one it is."""
        if self.name:
            named = [node for node in nodes if node.proto.name == self.name and node.op_type == self.op_type]
            if len(named) == 1:
                return named[0]
        # The parser sorts nodes that are out of order; its number then belongs to another node of our file.
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
    """The answer to one question about one model.

    Attributes:
        status: ``asked``; ``absent`` where the package is not installed; ``off`` where it was not to be asked;
            ``timed out`` where it gave no answer in time.
        note: The version that was asked, or why it was not; empty where that is plain.
        messages: Its own words, without noise.
        faults: What it has against the model.
    """

    status: ParserStatus
    note: str = ""
    messages: tuple[str, ...] = ()
    faults: tuple[ParserFault, ...] = ()


def is_explained(node: NodeView | None, reported: set[tuple[str, str | None]]) -> bool:
    """Return whether findings that were reported before explain why the parser refuses a node.

    The parser reports one fault at a time, and a wrong type or shape often at the node that reads the tensor.

    Args:
        node: The node; None where the parser names none.
        reported: Scope and label of the nodes at which a rule says that TensorRT refuses the model.
    """
    if node is None:
        return bool(reported)
    makers = [value.producer for value in node.present_inputs if value.producer is not None]
    readers = [use.node for value in node.present_outputs for use in value.uses]
    return any((display(each.scope.path), each.label) in reported for each in (node, *makers, *readers))
