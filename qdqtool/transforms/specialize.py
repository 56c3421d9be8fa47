"""Fixing the input shapes of a model, and what follows from them: constant shape arithmetic, branches never taken."""

from collections.abc import Mapping

import onnx

from qdqtool.graph.index.types import TensorTypes
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.model import Model
from qdqtool.transforms.specialize_branches import inline_branches
from qdqtool.transforms.specialize_folding import fold_shape_arithmetic
from qdqtool.transforms.specialize_inputs import fix_inputs

MAX_ROUNDS = 64
"""Each round takes in one level of nested branches and what it made constant; deeper nests stay as they are."""


def specialize(model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Model:
    """The model for inputs of these shapes only.

    The dimensions are written into the inputs, outputs and inferred types. Shape arithmetic that becomes constant is
    replaced by its value, and an ``If`` whose condition becomes constant by the branch that is taken, in every scope,
    until nothing changes. What only served the rest goes. All else stays as it is, and outputs keep their names.

    Args:
        model: The model; it is not changed.
        input_shapes: Extents by input name. An input that is not named keeps its shape, but a symbolic dimension that
            it shares by name with one that is gets the same extent.

    Raises:
        UsageError: A name is no input, or a shape contradicts the model.
    """
    model = fix_inputs(model, input_shapes)
    for _ in range(MAX_ROUNDS):
        model = fold_shape_arithmetic(model)
        inlined = inline_branches(model)
        if inlined is None:
            break
        model = inlined
    return _with_inferred_shapes(model)


def _with_inferred_shapes(model: Model) -> Model:
    """Write the shapes that are now known in full over those that were declared when they were not."""
    view = GraphView(model)
    types = TensorTypes(view)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for value in (*proto.graph.value_info, *proto.graph.output):
        known = view.main.values.get(value.name)
        shape = types.shape(known) if known is not None else None
        if shape is not None and all(isinstance(dim, int) for dim in shape):
            elem_type = value.type.tensor_type.elem_type
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(elem_type, list(shape)))
    return Model(proto, model.path, dict(model.payloads))
