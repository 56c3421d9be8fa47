"""Find the tensors, nodes and scopes of a float model that correspond to those of a quantized one."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from qdqtool.models.diff.matching import match
from qdqtool.models.graph.index.qdq import QdqIndex, QdqNode
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope, Use, Value
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.transforms.taps import Hop, Tap

_ADDED_WORDS = ("_DequantizeLinear_Output", "_QuantizeLinear_Output", "_quantized", "_float", "_QuantizeInput")
"""Suffixes that this tool and ONNX Runtime's quantizer append to the name of a tensor that they quantize."""


class BaselineMatcher:
    """Finds the scopes, nodes and tensors of a baseline that correspond to those of a quantized model.

    Nodes are matched by structure first, as ``diff`` does. So a renamed tensor is found, and a name that moved to
    another tensor causes no wrong match. The other nodes are matched by name. Tools may rename the output of a
    quantized node, and a control-flow body is named after the output of its node. So an unknown name is tried again
    without the suffixes that tools append.
    """

    def __init__(self, baseline: GraphView, model: GraphView) -> None:
        self._scopes = {scope.path: scope for scope in baseline.scopes}
        self._nodes = {(node.scope.path, node.key): node for node in baseline.nodes()}
        self._segments = {segment for path in self._scopes for segment in path}
        self._callers = {node.key[0] for node in baseline.nodes() if node.key}
        pairs, scopes = match(baseline, model)
        self._matched: Mapping[NodeView, NodeView] = {after: before for before, after in pairs.items()}
        self._renamed = _renamed_outputs(scopes)
        self._renamed_calls = {
            after.key[0]: before.key[0] for before, after in pairs.items() if after.key and before.key
        }

    def of(self, qdq: QdqIndex, entry: QdqNode) -> Iterator[Value]:
        """Yield candidates: inputs of the matched consumers, the output of the matched producer, then matches by name.

        Matches by name are the baseline's tensor of the same name, the same input of the baseline's node with the same
        output names, and tensors named like the pair without the suffix of a tool.
        """
        readers = qdq.readers(entry) if entry.is_quantize else [entry]
        uses = [use for reader in readers for use in reader.uses]
        yield from (value for use in uses if (value := self._read_by_match(use)) is not None)
        made = self._made_by_match(entry.data)
        if made is not None:
            yield made
        here = self._scopes.get(self._path(entry.node.scope.path))
        if here is None:
            return
        if entry.is_quantize and entry.data is not None and entry.data.name in here.values:
            yield here.values[entry.data.name]
        yield from (value for use in uses if (value := self._read_by(use)) is not None)
        for name in _names(entry, readers):
            value = here.resolve(name)
            if value is not None:
                yield value

    def tap(self, tap: Tap) -> Tap:
        """Return the same place in the baseline."""
        return Tap(tap.output, tuple(self._hop(hop) for hop in tap.hops), tap.stacked)

    def _read_by_match(self, use: Use) -> Value | None:
        """Return the input with the same index of the node in the baseline that matches the consumer."""
        counterpart = self._matched.get(use.node)
        return counterpart.input(use.index) if counterpart is not None else None

    def _made_by_match(self, value: Value | None) -> Value | None:
        """Return the output with the same index of the node in the baseline that matches the producer."""
        if value is None or value.producer is None:
            return None
        counterpart = self._matched.get(value.producer)
        return counterpart.output(value.producer.key.index(value.name)) if counterpart is not None else None

    def _path(self, path: ScopePath) -> ScopePath:
        return path if path in self._scopes else tuple(self._segment(segment) for segment in path)

    def _hop(self, hop: Hop) -> Hop:
        """Translate one step of a path."""
        if not hop.is_call:
            return Hop(self._segment(hop.label))
        label = self._renamed_calls.get(hop.label, hop.label)
        return Hop(_first_known([label, *_plain(hop.label)], self._callers) or hop.label, is_call=True)

    def _segment(self, segment: str) -> str:
        """Translate a segment of a scope path, ``output.attribute``."""
        name, dot, attribute = segment.rpartition(".")
        plain = (f"{each}{dot}{attribute}" for each in _plain(name))
        known = [self._renamed[segment]] if segment in self._renamed else []
        return _first_known([*known, segment, *plain], self._segments) or segment

    def _read_by(self, use: Use) -> Value | None:
        """Return the input with the same index of the node in the baseline that has the same outputs."""
        path, key = self._path(use.node.scope.path), use.node.key
        counterpart = self._nodes.get((path, key))
        if counterpart is None:
            plain = tuple(next(_plain(name), name) for name in key)
            counterpart = self._nodes.get((path, plain))
        is_same = counterpart is not None and counterpart.op_type == use.node.op_type
        return counterpart.input(use.index) if counterpart is not None and is_same else None


def _renamed_outputs(scopes: Mapping[Scope, Scope]) -> dict[str, str]:
    """Map each segment of a scope path in the model to the segment of its counterpart."""
    pairs = ((before.path, after.path) for before, after in scopes.items())
    return {
        new: old for before, after in pairs if len(before) == len(after) for old, new in zip(before, after, strict=True)
    }


def _names(entry: QdqNode, readers: list[QdqNode]) -> Iterator[str]:
    outputs = [reader.output.name for reader in readers if reader.output is not None]
    for name in (*outputs, entry.data.name if entry.data is not None else ""):
        yield name
        yield from _plain(name)


def _first_known(names: Iterable[str], known: Collection[str]) -> str | None:
    return next((name for name in names if name in known), None)


def _plain(name: str) -> Iterator[str]:
    return (name.removesuffix(word) for word in _ADDED_WORDS if name.endswith(word))
