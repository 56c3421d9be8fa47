"""Run ONNX's shape inference with a bound on its memory, and without the nodes on which it never ends.

Data propagation follows the numbers from which shapes are computed: without it, no tensor behind a Shape node has a
shape. It expands every vector that such operators read, with 250 bytes for each element: a graph input of 2^40 elements
in front of a Cast exhausts the memory of the machine. So it runs only where numbers may become shapes, and only where
no vector is longer than a shape can be.
"""

from collections.abc import Iterator

import onnx

from qdqtool.graph.scope import walk

LONGEST = 1 << 14
"""Largest number of elements of a vector with which data propagation runs."""

# Looked up in the bare protobuf, before there is an index whose nodes ops/ could be asked about.
CARRIERS = frozenset({"Cast", "Concat", "Gather", "Range", "Shape", "Size", "Squeeze", "Unsqueeze"})
"""Operators of shape arithmetic. A model without any of them computes no shapes, or only from constants."""


_ELLIPSIS = "..."


def infer_types(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with all types and shapes that can be inferred; the model itself where inference fails."""
    proto = _without_endless(proto)
    plain = _infer(proto, follow_numbers=False)
    if plain is None:
        return proto
    if not _computes_shapes(plain) or _has_long_vector(plain):
        return plain
    return _infer(proto, follow_numbers=True) or plain


def is_endless(node: onnx.NodeProto) -> bool:
    """Whether onnx's shape inference never ends on a node.

    It holds Python's lock meanwhile, so that no signal handler runs. Measured with onnx 1.23.2: an Einsum that has a
    second ellipsis in a term of an input, even one that overlaps with the first ("....").
    """
    if node.op_type != "Einsum":
        return False
    equation = next((each.s for each in node.attribute if each.name == "equation"), b"").decode(errors="replace")
    terms = "".join(equation.split()).split("->")[0].split(",")
    return any(term.find(_ELLIPSIS, term.find(_ELLIPSIS) + 1) > 0 for term in terms)


def _without_endless(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose endless nodes have no attributes, so that nothing is inferred for them."""
    if not any(map(is_endless, _nodes(proto))):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for node in filter(is_endless, _nodes(copy)):
        node.ClearField("attribute")
    return copy


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    return (node for _, container in walk(proto) for node in container.node)


def _infer(proto: onnx.ModelProto, *, follow_numbers: bool) -> onnx.ModelProto | None:
    try:
        return onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=follow_numbers)
    except Exception:  # noqa: BLE001  inference raises many types on odd models
        return None


def _computes_shapes(proto: onnx.ModelProto) -> bool:
    return any(node.op_type in CARRIERS for node in _nodes(proto))


def _has_long_vector(proto: onnx.ModelProto) -> bool:
    for _, container in walk(proto):
        values = [*container.value_info]
        if isinstance(container, onnx.GraphProto):
            values += [*container.output, *container.input]
        if any(_is_long(value) for value in values):
            return True
    return False


def _is_long(value: onnx.ValueInfoProto) -> bool:
    dims = value.type.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > LONGEST
