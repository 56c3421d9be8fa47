"""Find float arithmetic whose results become indices and shapes: float16 counts to 2048, so it stays float32.

Such numbers end in a ``Cast`` to an integer, or in inputs that ONNX defines as float32, such as the scales of a
``Resize``. The search goes from there backwards, through nodes that nothing else reads.
"""

from collections.abc import Mapping

from onnx import TensorProto

from qdqtool.models import ops
from qdqtool.models.graph.index.view import GraphView, NodeView, Use
from qdqtool.models.transforms.float16.operands import Kind, Operands

_INTEGERS = frozenset(value for name, value in TensorProto.DataType.items() if name.startswith(("INT", "UINT")))


def index_arithmetic(view: GraphView, operands: Mapping[NodeView, Operands]) -> frozenset[NodeView]:
    """Return the nodes with float32 operands whose results become only indices or shapes.

    Args:
        view: The index of the model.
        operands: The float32 operands of its nodes.
    """
    found: set[NodeView] = set()
    for scope in reversed(view.scopes):
        for node in reversed(scope.nodes):
            own = operands.get(node)
            if own is None or own.kind is not Kind.COMPUTES or ops.traits(node).is_layer:
                continue
            if _feeds_only_indices(node, own, operands, found):
                found.add(node)
    return frozenset(found)


def _feeds_only_indices(
    node: NodeView, own: Operands, operands: Mapping[NodeView, Operands], found: set[NodeView]
) -> bool:
    outputs = [value for index in own.outputs if (value := node.output(index)) is not None]
    uses = [use for value in outputs for use in value.uses]
    if not uses or any(value.is_output for value in outputs):
        return False
    return all(use.node in found or _is_index(use, operands) for use in uses)


def _is_index(use: Use, operands: Mapping[NodeView, Operands]) -> bool:
    """Return whether a use converts a number to an integer, or needs float32 by the definition of its operator."""
    if use.node.is_op("Cast"):
        return use.node.attribute("to") in _INTEGERS
    own = operands.get(use.node)
    return own is not None and own.kind is Kind.COMPUTES and not own.problem and use.index not in own.inputs
