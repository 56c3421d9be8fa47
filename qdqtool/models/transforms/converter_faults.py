"""Detect and correct the faults of onnx's version converter: silent changes of meaning, and crashes.

Measured with onnx 1.23.2 by running about 100 one-node models (``tests/models/transforms/test_opset.py``) in ONNX
Runtime 1.31 before and after conversion: all other results were bit-equal. The converter reads attributes without
checking their type, and ends the process where a string stands in place of a list.
"""

import functools
from collections.abc import Iterable, Mapping

import numpy as np
import onnx

from qdqtool.errors import ModelError
from qdqtool.models.graph.index.inference import is_endless
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.signature import signature_of
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.tensors import make_tensor

_GRAPHS = {onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS}

# Hardmax is copied although its default axis and the flattening change at opset 13; Softmax, which changed alike, is
# rewritten correctly (Flatten, Softmax, Reshape).
_CHANGED_MEANING = {"Scan": 9, "Hardmax": 13, "GroupNormalization": 21}
"""Operators that the converter copies, or changes wrongly, and the version that redefined them."""

_MENDED = {"Upsample": 11, "Resize": 11}
"""Operators whose conversion :func:`repair_conversion` corrects, and the version that redefined them."""


def check_convertible(node: NodeView, version: int) -> None:
    """Refuse a node on which the converter would crash, or whose meaning it would silently change.

    Raises:
        ModelError: It is such a node, or not an operator of its opset.
    """
    if node.domain:
        return
    _check_attribute_types(node)
    if is_endless(node.proto):
        raise _refusal(node, version, "a term of its equation has more than one ellipsis")
    if _passes(node, version, _CHANGED_MEANING) and not _means_the_same(node):
        raise _refusal(node, version, "the operator means something else there")
    if _passes(node, version, _MENDED) and node.is_parametric:
        raise _refusal(node, version, "it takes an attribute from the caller of the function")


def _passes(node: NodeView, version: int, limits: Mapping[str, int]) -> bool:
    return not node.domain and node.scope.opset < limits.get(node.op_type, 0) <= version


def _refusal(node: NodeView, version: int, reason: str) -> ModelError:
    step = f"from opset {node.scope.opset} to {version}"
    return ModelError(
        f"node '{node.label}' ({node.op_type}) cannot be converted {step}: {reason}",
        hint=f"export the model again with opset {version} or later",
    )


def _check_attribute_types(node: NodeView) -> None:
    signature = signature_of(node.op_type, node.scope.opset)
    if signature is None:
        raise ModelError(
            f"node '{node.label}' ({node.op_type}) cannot be converted: opset {node.scope.opset} has no such operator"
        )
    for attribute in node.proto.attribute:
        # An unknown body would be converted without a schema. Other unknown attributes are copied.
        unknown = None if attribute.type in _GRAPHS else attribute.type
        if attribute.type != signature.types.get(attribute.name, unknown):
            raise ModelError(f"attribute '{attribute.name}' of node '{node.label}' ({node.op_type}) has the wrong type")


def _means_the_same(node: NodeView) -> bool:
    return node.op_type == "Hardmax" and not node.is_parametric and node.attribute("axis", 1) == -1


def repair_conversion(index: ModelIndex, node: NodeView, converted: onnx.NodeProto, version: int) -> None:
    """Correct the converter's result for ``node``.

    Before opset 11, Upsample and Resize map coordinates by division alone (``asymmetric``), and round them down (up
    where they shrink). The converter omits both attributes, and the defaults of opset 11 are different ones.
    """
    if not _passes(node, version, _MENDED):
        return
    converted.attribute.append(onnx.helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    if node.attribute("mode", b"nearest") == b"nearest":
        converted.attribute.append(onnx.helper.make_attribute("nearest_mode", _nearest_mode(index, node, version)))


def _nearest_mode(index: ModelIndex, node: NodeView, version: int) -> str:
    if node.op_type == "Upsample":
        return "floor"
    scales = node.input(1)
    found = index.constants.array(scales) if scales is not None else None
    if found is not None and np.all(np.greater_equal(found, 1)):
        return "floor"
    if found is not None and np.all(np.less_equal(found, 1)):
        return "ceil"
    raise _refusal(
        node,
        version,
        "its scales are not constant, or grow the image one way and shrink it another, rounding differently",
    )


def retype_constants(
    index: ModelIndex, node: NodeView, converted: onnx.NodeProto, made: Iterable[onnx.NodeProto], version: int
) -> None:
    """Give constants that the converter made of attributes the type of the node's first input, where ONNX asks for it.

    The converter stores the bounds of a Clip and the value of a Pad as float32. With a float16 or double input no
    consumer loads the result. Where the type of the input is unknown, they stay float32.

    Args:
        index: The index of the model.
        node: The node before the conversion.
        converted: The node after it.
        made: The nodes that the converter put in front of it; their values are changed.
        version: The version that the node is converted to.
    """
    constants = [each for each in made if each.op_type == "Constant"]
    first = node.input(0)
    if not constants or first is None:
        return
    same_type = {
        converted.input[position]
        for position in _typed_like_first(converted.op_type, version)
        if position < len(converted.input)
    }
    for constant in constants:
        if constant.output[0] in same_type:
            _retype(constant.attribute[0].t, index.types.elem_type(first) or onnx.TensorProto.FLOAT)


@functools.cache
def _typed_like_first(op_type: str, version: int) -> tuple[int, ...]:
    """Return the positions of the inputs that must have the type of the first one."""
    formals = onnx.defs.get_schema(op_type, version).inputs
    return tuple(position for position in range(1, len(formals)) if formals[position].type_str == formals[0].type_str)


def _retype(tensor: onnx.TensorProto, elem_type: int) -> None:
    # A bound of -3.4e38, which stands for "none", overflows to infinity in float16.
    with np.errstate(over="ignore"):
        tensor.CopyFrom(make_tensor(tensor.name, onnx.numpy_helper.to_array(tensor), elem_type))
