"""Choose unused names for new tensors and nodes: the same model and the same requests give the same names.

Users know the words from ONNX Runtime's quantizer: ``<t>_QuantizeLinear`` and ``<t>_DequantizeLinear`` for nodes,
with ``_Output`` for outputs, ``<t>_scale``, ``<t>_zero_point`` and ``<t>_quantized`` for constants.
"""

from collections.abc import Iterator

from qdqtool.models.graph.index.view import GraphView, Scope


class Namer:
    """Gives names that are not in use in the model, and remembers them.

    Args:
        view: The index of the model. A name is unused in all scopes, so that a new name never hides another.
    """

    def __init__(self, view: GraphView) -> None:
        self._tensors = _Pool({name for scope in view.scopes for name in _tensor_names(scope)})
        self._nodes = _Pool({node.proto.name for node in view.nodes()})

    def tensor(self, base: str) -> str:
        """``base``, or ``base_1``, ``base_2``, … where a tensor of any scope has that name already."""
        return self._tensors.take(base)

    def node(self, base: str) -> str:
        """``base``, or ``base_1``, ``base_2``, … where a node of any scope has that name already."""
        return self._nodes.take(base)


class _Pool:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken | {""}
        self._next: dict[str, int] = {}

    def take(self, base: str) -> str:
        name, number = base, self._next.get(base, 0)
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._next[base] = number
        self._taken.add(name)
        return name


def _tensor_names(scope: Scope) -> Iterator[str]:
    yield from scope.values
    yield from scope.output_names()
    for node in scope.nodes:
        # A malformed model may read a name that nothing defines.
        yield from node.proto.input
