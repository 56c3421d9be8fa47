"""What TensorRT's parser has against a model: evidence that a rule reads, like the model itself."""

from dataclasses import dataclass

from qdqtool.models.graph.index.view import NodeView


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
