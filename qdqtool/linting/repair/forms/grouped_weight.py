"""Rewrite stored codes that are reshaped into groups, cast, scaled for each group and reshaped back, as a block DQ.

torchao exports int4 weights in this form: Reshape [N, G, B], Cast, Sub of zero points [N, G, 1], Mul by scales
[N, G, 1], Reshape [N, K]. The first Reshape may also follow the Cast, or be missing if the codes are stored in groups.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.linting.repair.forms._block_codes import (
    BlockCodes,
    Integers,
    stored_tensor,
    whole_numbers,
    write_dequantize,
)
from qdqtool.linting.repair.forms._chain import fitting, float_casts, next_node, other_operand
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError
from qdqtool.models.graph.index.types import static_shape
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import element_count, read_array
from qdqtool.numerics.dtypes import FLOAT32, Array

BLOCKS = Offer("safe", "writes stored codes that are scaled in groups as a block DQ")

CODES = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4)


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Codes in groups.

    Attributes:
        tensor: The stored codes.
        end: The Reshape that joins the groups.
        shape: The output shape of this Reshape.
        scale: A scale for each group; the array has no axis for the elements of a group.
        zero_point: Zero points in the shape of ``scale``.
        size: Elements of a group.
    """

    tensor: onnx.TensorProto
    end: NodeView
    shape: tuple[int, ...]
    scale: Array
    zero_point: Array
    size: int


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every chain of this form."""
    for node, groups in fitting(float_casts(context), partial(_groups, context)):
        words = f"writes Cast and Mul of codes in groups of {groups.size} as a DQ in blocks"
        yield node, BLOCKS.fix(words, _write, groups)


def _write(groups: _Groups, draft: Draft) -> None:
    output = groups.end.output()
    assert output is not None

    def read() -> Integers:
        return read_array(draft.context.model, groups.tensor).astype(np.int16).reshape(groups.shape)

    codes = read()
    limits = (int(codes.min()), int(codes.max()))
    zero, axis = whole_numbers(groups.zero_point), len(groups.shape) - 1
    blocks = BlockCodes(groups.tensor, read, groups.shape, limits, groups.scale, zero, axis, groups.size)
    made = write_dequantize(draft, groups.end, blocks)
    draft.remove(groups.end)
    draft.replace(output, made)


def _groups(context: RuleContext, cast: NodeView) -> _Groups:
    tensor, node, grouped = _codes(context, cast)
    before, zero = grouped, np.zeros((), FLOAT32)
    if node.is_op("Sub"):
        zero, before, node = other_operand(context, node, before), node.output(), next_node(node)
    if not node.is_op("Mul"):
        raise UnfitError("no Mul scales the codes")
    scale, end = other_operand(context, node, before), next_node(node)
    if not end.is_op("Reshape") or end.input(0) is not node.output():
        raise UnfitError("no Reshape joins the groups")
    shape, joined = _extents(context, grouped), _extents(context, end.output())
    if len(shape) < 3 or joined != (*shape[:-2], shape[-2] * shape[-1]) or 0 in joined:
        raise UnfitError("the Reshape must join exactly the last two axes: the groups, and the elements of a group")
    if element_count(tensor) != math.prod(joined):
        raise UnfitError("the number of codes differs from that of the elements in the groups")
    if scale.dtype != FLOAT32:
        raise UnfitError("the scales are not float32")
    return _Groups(tensor, end, joined, _of_groups(scale, shape), _of_groups(zero, shape), shape[-1])


def _codes(context: RuleContext, cast: NodeView) -> tuple[onnx.TensorProto, NodeView, Value | None]:
    """Return the stored codes, the node that reads them as floats in groups, and the input that this node reads."""
    value, grouped, node = cast.input(0), cast.output(), next_node(cast)
    maker = value.producer if value is not None else None
    if maker is not None and maker.is_op("Reshape") and next_node(maker) is cast:
        value = maker.input(0)
    elif node.is_op("Reshape"):
        if node.input(0) is not grouped:
            raise UnfitError("a Reshape reads it as a shape")
        grouped, node = node.output(), next_node(node)
    return stored_tensor(context, value, *CODES), node, grouped


def _extents(context: RuleContext, value: Value | None) -> tuple[int, ...]:
    extents = static_shape(context.shape(value) or ())
    if extents is None:
        raise UnfitError("a shape is not known")
    return extents


def _of_groups(array: Array, shape: tuple[int, ...]) -> Array:
    """Return a constant as one number for each group."""
    try:
        return np.broadcast_to(array, (*shape[:-1], 1))[..., 0]
    except ValueError:
        raise UnfitError("a constant differs within a group") from None
