"""Globs that match one node by its name or the name of an output."""

import glob
from collections import Counter

from qdqtool.models.graph.index.view import GraphView, NodeView


class NodePatterns:
    """The patterns by which options such as ``--nodes-to-exclude`` name the nodes of a model.

    Args:
        view: The index of the model.
    """

    def __init__(self, view: GraphView) -> None:
        self._names = Counter(name for node in view.nodes() for name in {node.proto.name, *node.proto.output})

    def pattern(self, node: NodeView) -> str:
        """Return a pattern that matches a node and no other; its name where all its names occur more than once."""
        words = [name for name in (node.proto.name, *node.proto.output) if name]
        return glob.escape(next((word for word in words if self._names[word] == 1), words[0]))
