"""Fix the shapes and values of inputs and fold the consequences: constant shape arithmetic, and If nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.graph.transformed import Transformed
from qdqtool.models.transforms.specialize_branches import inline_branches
from qdqtool.models.transforms.specialize_folding import fold_shape_arithmetic
from qdqtool.models.transforms.specialize_inputs import fix_inputs
from qdqtool.models.transforms.specialize_values import fix_values

MAX_ROUNDS = 64
"""Each round inlines one level of nested branches and folds what becomes constant; deeper levels are not inlined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialized:
    """The effect of fixed inputs on a model.

    Attributes:
        input_shapes: The shapes that were fixed, by input name.
        input_values: The values that were fixed, likewise.
        nodes_before: Nodes of the model, in all bodies.
        nodes_after: Nodes after shape arithmetic and ``If`` nodes with a constant condition were folded.
    """

    input_shapes: dict[str, tuple[int, ...]]
    input_values: dict[str, tuple[float, ...]] = field(default_factory=dict)
    nodes_before: int
    nodes_after: int


def specialize(
    model: Model,
    input_shapes: Mapping[str, tuple[int, ...]],
    input_values: Mapping[str, Sequence[float]] | None = None,
) -> Transformed[Specialized]:
    """Fix the shapes and values of inputs, and fold what becomes constant.

    The dimensions are written into the inputs, outputs and inferred types. An input with values becomes a constant,
    which the metadata of the model note (:mod:`qdqtool.models.transforms.specialize_values`). Shape arithmetic that
    becomes constant is replaced by its value, and an ``If`` whose condition becomes constant by the taken branch, in
    every scope, until nothing changes. Dead code is removed. All else stays as it is, and outputs keep their names.

    Args:
        model: The model; it is not changed.
        input_shapes: Extents by input name. An input that is not named keeps its shape, but a symbolic dimension that
            it shares by name with one that is gets the same extent.
        input_values: Elements by input name, in row-major order, or one value for all elements.

    Raises:
        UsageError: A name is not an input, or a shape or value contradicts the model.
    """
    values = input_values or {}
    special = fix_values(fix_inputs(model, input_shapes).model, values).model
    for _ in range(MAX_ROUNDS):
        inlined = inline_branches(fold_shape_arithmetic(special).model)
        special = inlined.model
        if not inlined.report:
            break
    special = _with_inferred_shapes(special)
    counts = {"nodes_before": _count_nodes(model), "nodes_after": _count_nodes(special)}
    fixed = {name: tuple(given) for name, given in values.items()}
    return Transformed(special, Specialized(input_shapes=dict(input_shapes), input_values=fixed, **counts))


def _count_nodes(model: Model) -> int:
    return sum(len(container.node) for _, container in walk(model.proto))


def _with_inferred_shapes(model: Model) -> Model:
    """Replace declared shapes by inferred ones that are completely known now."""
    index = ModelIndex.of(model)
    special = model.fork()
    special.proto = proto = copy_model(model.proto, ())
    for value in (*proto.graph.value_info, *proto.graph.output):
        known = index.view.main.values.get(value.name)
        shape = index.types.full_shape(known) if known is not None else None
        if shape is not None:
            elem_type = value.type.tensor_type.elem_type
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(elem_type, list(shape)))
    return special
