"""Fingerprints that recognize a finding in the next run, also in a renumbered, reordered or renamed model."""

import re

from qdqtool.linting.findings import Finding
from qdqtool.models.graph.index.structure import Neighbourhoods, context, digest
from qdqtool.models.graph.index.view import NodeView

# Names that exporters number, such as onnx::Conv_123, %42, val_7, add_3, or a plain number. One inserted node
# renumbers all that follow.
_COUNTED = re.compile(r"(?:^|(?<=[/.:]))(?:onnx::\w+_|%|(?:val|value|tensor|node|add|mul)_|)\d+(?=$|[/_.:])")


class Fingerprints:
    """Computes fingerprints and contexts of the findings of one model, once for each node."""

    def __init__(self) -> None:
        self._neighbourhoods = Neighbourhoods()
        self._around: dict[NodeView, str] = {}
        self._contexts: dict[NodeView, str] = {}

    def of(self, finding: Finding, node: NodeView | None) -> tuple[str, str]:
        """Return the fingerprint by names, and the fingerprint by structure alone.

        Both depend on the rule, the effect and the value found; of a finding with an extent on its kind alone, since
        the numbers are compared (:mod:`qdqtool.linting.baseline`). The first adds the names of scope, node and tensor,
        where names that an exporter numbers (``onnx::Conv_123``, ``val_7``, ``42``) are replaced by the operators
        around the node. The second adds only these operators. Findings that look alike share fingerprints; their count
        tells them apart.
        """
        value = finding.extent.kind if finding.extent is not None else finding.found or ""
        salient = (finding.code, finding.effect, value)
        if node is None:
            # A finding about the model as a whole has no node, and so no structure.
            return digest(*salient, finding.tensor or ""), digest(*salient)
        around = self._hash(node)
        names = (_canonical(name, around) for name in (finding.graph, _name(node), finding.tensor or ""))
        return digest(*salient, *names), digest(*salient, around)

    def context(self, node: NodeView) -> str:
        """Show a node between its producers and its consumers, in one line."""
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
