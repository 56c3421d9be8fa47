"""Operators that only move or select values, so Q/DQ commutes with them (with per-tensor scales)."""

from qdqtool.ops._op import QuantizableOp


class _Layout(QuantizableOp):
    """One tensor goes through; every output value is an input value. MaxPool counts: quantizing keeps the order."""

    op_types = (
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "GlobalMaxPool",
        "Identity",
        "MaxPool",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    )
    commutes = True


OP = _Layout()
