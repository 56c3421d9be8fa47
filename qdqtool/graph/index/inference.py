"""ONNX's shape inference, kept from using more memory than the model deserves.

Data propagation follows the numbers that shapes are computed from: without it nothing behind a Shape node has a shape.
It spells out every vector that such operators read, 250 bytes for each element, whatever the vector is: a graph input
of 2^40 elements behind a Cast takes the machine down. So it runs only where numbers may become shapes, and where no
vector is longer than a shape can be.
"""

import onnx

from qdqtool.graph.scope import walk

LONGEST = 1 << 14
"""Elements of a vector that may be followed."""

CARRIERS = frozenset({"Cast", "Concat", "Gather", "Range", "Shape", "Size", "Squeeze", "Unsqueeze"})
"""A model without any of these computes no shapes, or from constants alone."""


def infer_types(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with all types and shapes that can be told; the model itself where inference fails."""
    plain = _infer(proto, follow_numbers=False)
    if plain is None:
        return proto
    if not _computes_shapes(plain) or _has_long_vector(plain):
        return plain
    return _infer(proto, follow_numbers=True) or plain


def _infer(proto: onnx.ModelProto, *, follow_numbers: bool) -> onnx.ModelProto | None:
    try:
        return onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=follow_numbers)
    except Exception:  # noqa: BLE001  inference raises many types on odd models
        return None


def _computes_shapes(proto: onnx.ModelProto) -> bool:
    return any(node.op_type in CARRIERS for _, container in walk(proto) for node in container.node)


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
