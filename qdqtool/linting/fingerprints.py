"""What a finding is recognized by in the next run, however the model was renumbered, reordered or renamed."""

import re

from qdqtool.findings import Finding
from qdqtool.graph.index.structure import Neighbourhoods, context, digest
from qdqtool.graph.index.view import NodeView

_COUNTED = re.compile(r"(?:^|(?<=[/.:]))(?:onnx::\w+_|%|(?:val|value|tensor|node|add|mul)_|)\d+(?=$|[/_.:])")


class Fingerprints:
    """Makes the fingerprints of the findings of one model, and tells where they stand; once for each node."""

    def __init__(self) -> None:
        self._neighbourhoods = Neighbourhoods()
        self._around: dict[NodeView, str] = {}
        self._contexts: dict[NodeView, str] = {}

    def of(self, finding: Finding, node: NodeView | None) -> tuple[str, str]:
        """The fingerprint by names, and the one by structure alone.

        Both hold the rule and the value found. The first adds scope, node and tensor by name; names that an exporter
        counts up (``onnx::Conv_123``, ``val_7``, ``42``) are replaced by the operators around the node. The second
        holds only those. Findings that look alike share fingerprints and are told apart by their number.
        """
        salient = (finding.code, finding.found or "")
        if node is None:
            # a target that refuses the model as a whole has no structure to go by
            return digest(*salient, finding.tensor or ""), digest(*salient)
        around = self._hash(node)
        names = (_canonical(name, around) for name in (finding.graph, _name(node), finding.tensor or ""))
        return digest(*salient, *names), digest(*salient, around)

    def context(self, node: NodeView) -> str:
        """A node between what it reads from and what reads it, in one line."""
        if node not in self._contexts:
            self._contexts[node] = context(node)
        return self._contexts[node]

    def _hash(self, node: NodeView) -> str:
        if node not in self._around:
            self._around[node] = self._neighbourhoods.around(node)
        return self._around[node]


def _name(node: NodeView) -> str:
    return node.proto.name or next(filter(None, node.proto.output), "")


def _canonical(name: str, around: str) -> str:
    return _COUNTED.sub(f"<{around}>", name)
