"""What onnx's version converter gets wrong without saying so; found by running each operator before and after in ORT.

Measured with onnx 1.23.2 against ONNX Runtime 1.31 on some 150 one-node models (``tests/graph/test_opset.py``):
everything else came out bit-equal.
"""

import numpy as np
import onnx

from qdqtool.errors import ModelError
from qdqtool.graph.constants import Constants
from qdqtool.graph.view import GraphView, NodeView

_CHANGED_MEANING = {"Scan": 9, "Hardmax": 13, "GroupNormalization": 21}
"""Operators that the converter hands on unchanged, or wrongly changed, past the version that redefined them."""

_RESIZE_WITH_COORDINATES = 11


def check_convertible(node: NodeView, version: int) -> None:
    """Raise for an operator that the converter would silently give another meaning.

    Raises:
        ModelError: It is one of those.
    """
    limit = _CHANGED_MEANING.get(node.op_type) if not node.domain else None
    if limit is None or not node.scope.opset < limit <= version or _means_the_same(node):
        return
    raise ModelError(
        f"node '{node.label}' ({node.op_type}) cannot be converted from opset {node.scope.opset} to {version}: "
        f"opset {limit} gave the operator another meaning",
        hint=f"export the model again with opset {version} or later",
    )


def _means_the_same(node: NodeView) -> bool:
    return node.op_type == "Hardmax" and node.attribute("axis", 1) == -1


def mend(view: GraphView, node: NodeView, converted: onnx.NodeProto, version: int) -> None:
    """Correct what the converter made of ``node``.

    Before opset 11, Upsample and Resize map coordinates by division alone, and round them down (up where they shrink);
    the converter leaves both to the new defaults, which are others.

    Raises:
        ModelError: A Resize whose rounding no single mode of the new operator expresses.
    """
    if node.op_type not in {"Upsample", "Resize"} or not node.scope.opset < _RESIZE_WITH_COORDINATES <= version:
        return
    converted.attribute.append(onnx.helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    if node.attribute("mode", b"nearest") == b"nearest":
        converted.attribute.append(onnx.helper.make_attribute("nearest_mode", _nearest_mode(view, node)))


def _nearest_mode(view: GraphView, node: NodeView) -> str:
    if node.op_type == "Upsample":
        return "floor"
    scales = node.input(1)
    found = Constants(view).array(scales) if scales is not None else None
    if found is not None and np.all(np.greater_equal(found, 1)):
        return "floor"
    if found is not None and np.all(np.less_equal(found, 1)):
        return "ceil"
    raise ModelError(
        f"node '{node.label}' (Resize) cannot be converted from opset 10: its scales are not constant, or both grow "
        "and shrink the image, and later opsets round these alike",
        hint="export the model again with opset 11 or later",
    )
