"""Dimensions that are open although they have a number: exporters write 0 or -1 for a size that is not known.

ONNX has no number for it, and libraries differ: ONNX Runtime takes -1 as open and 0 as a size, onnx's shape inference
calculates with both, and NumPy refuses -1.
"""

from collections.abc import Iterator

import onnx


def known_size(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    """Return the size of a dimension of an input; None where it is open."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None


def with_open_dimensions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that says that such dimensions are open; the model itself where no input has any."""
    if not any(_is_odd(dim) for value in proto.graph.input for dim in _dims(value)):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    # What was computed from an input of size 0 has size 0 too.
    for value in (*copy.graph.input, *copy.graph.output, *copy.graph.value_info):
        for dim in filter(_is_odd, _dims(value)):
            dim.ClearField("dim_value")
    return copy


def _is_odd(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return dim.HasField("dim_value") and known_size(dim) is None


def _dims(value: onnx.ValueInfoProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    if value.type.HasField("tensor_type"):
        yield from value.type.tensor_type.shape.dim
