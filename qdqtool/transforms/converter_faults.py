"""What onnx's version converter gets wrong without saying so, or crashes on.

Measured with onnx 1.23.2 by running some 100 one-node models (``tests/transforms/test_opset.py``) in ONNX
Runtime 1.31 before and after: everything else came out bit-equal. It reads attributes without looking at their type,
and ends the process where a list is a string.
"""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from qdqtool.errors import ModelError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import NodeView

_GRAPHS = {onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS}

_CHANGED_MEANING = {"Scan": 9, "Hardmax": 13, "GroupNormalization": 21}
"""Operators that the converter hands on unchanged, or wrongly changed, past the version that redefined them."""

_MENDED = {"Upsample": 11, "Resize": 11}
"""Operators of which :func:`mend` corrects what the converter makes of them, with the version that redefined them."""


def check_convertible(node: NodeView, version: int) -> None:
    """Raise for a node that the converter would crash on or silently give another meaning.

    Raises:
        ModelError: It is one of those, or no operator of its opset.
    """
    if node.domain:
        return
    _check_attribute_types(node)
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
    expected = _attribute_types(node.op_type, node.scope.opset)
    if expected is None:
        raise ModelError(
            f"node '{node.label}' ({node.op_type}) cannot be converted: opset {node.scope.opset} has no such operator"
        )
    for attribute in node.proto.attribute:
        unknown = None if attribute.type in _GRAPHS else attribute.type  # bodies must be known, others may be extra
        if attribute.type != expected.get(attribute.name, unknown):
            raise ModelError(f"attribute '{attribute.name}' of node '{node.label}' ({node.op_type}) has the wrong type")


@functools.cache
def _attribute_types(op_type: str, opset: int) -> dict[str, int] | None:
    """Type of each attribute of an operator by name; None where that opset has no such operator."""
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a version that no C++ int holds
        return None
    types: dict[str, Any] = {name: attribute.type for name, attribute in schema.attributes.items()}
    return {name: int(kind.value) for name, kind in types.items()}


def _means_the_same(node: NodeView) -> bool:
    return node.op_type == "Hardmax" and not node.is_parametric and node.attribute("axis", 1) == -1


def mend(index: ModelIndex, node: NodeView, converted: onnx.NodeProto, version: int) -> None:
    """Correct what the converter made of ``node``.

    Before opset 11, Upsample and Resize map coordinates by division alone, and round them down (up where they shrink);
    the converter leaves both to the new defaults, which are others.

    Raises:
        ModelError: A Resize whose rounding no single mode of the new operator expresses.
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
