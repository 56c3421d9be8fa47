"""Fix the shapes and values of inputs, and fold what becomes constant: shape arithmetic and If nodes."""

import math
from collections.abc import Iterator, Mapping, Sequence

import onnx

from qdqtool.errors import UsageError
from qdqtool.models.graph.edits.edit import Edit
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.constants import Array
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.types import known_size
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import walk
from qdqtool.models.report import Specialized
from qdqtool.models.transforms.computed_weights import storing_edits
from qdqtool.models.transforms.interface import required_inputs
from qdqtool.models.transforms.specialize_branches import inline_branches
from qdqtool.models.transforms.specialize_values import fix_inputs, fix_values, fixed_values

MAX_ELEMENTS = 1024
"""A result with more elements is not folded: shapes, axes and pads have few elements, so larger results are data."""


def fold_shape_arithmetic(model: Model) -> Transformed[None]:
    """Replace each constant result of shape arithmetic by an initializer, if other nodes read it."""
    while True:
        edits = _edits(ModelIndex.of(model))
        if not edits:
            return Transformed(model, None)
        model = apply_edits(model, edits)


def _edits(index: ModelIndex) -> list[Edit]:
    foldable = dict(_foldable(index))
    # A node that is not folded reads these results.
    wanted = (value for value in foldable if any(use.node.output() not in foldable for use in value.uses))
    return storing_edits(index.view, {value: foldable[value] for value in wanted})


def _foldable(index: ModelIndex) -> Iterator[tuple[Value, Array]]:
    for value in index.view.values():
        node = value.producer
        if node is None or node.is_op("Constant") or value.is_output or sum(map(bool, node.proto.output)) != 1:
            continue
        if _is_large(value, index):
            continue
        array = index.shape_constants.array(value)
        if array is None or array.size > MAX_ELEMENTS:
            continue
        if array.dtype.kind in "iub" or (array.dtype.kind == "f" and _comes_from_shape(value)):
            yield value, array


def _is_large(value: Value, index: ModelIndex) -> bool:
    """Return whether the known shape of a tensor has too many elements to fold. Then its value is not computed."""
    shape = index.types.full_shape(value)
    return shape is not None and math.prod(shape) > MAX_ELEMENTS


def _comes_from_shape(value: Value) -> bool:
    seen: set[Value] = set()
    waiting = [value]
    while waiting:
        node = waiting.pop().producer
        if node is None:
            continue
        if node.is_op("Shape", "Size"):
            return True
        sources = set(node.present_inputs)
        waiting += sources - seen
        seen |= sources
    return False


MAX_ROUNDS = 64
"""Each round inlines one level of nested branches and folds constant results. Deeper levels are not inlined."""


def specialize(
    model: Model, input_shapes: Mapping[str, tuple[int, ...]], input_values: Mapping[str, Sequence[float]] | None = None
) -> Transformed[Specialized]:
    """Fix the shapes and values of inputs, and fold results that become constant.

    The dimensions are written into the inputs, outputs and inferred types. An input with given values becomes a
    constant, and the model's metadata record this (:mod:`qdqtool.models.transforms.specialize_values`). Shape
    arithmetic that becomes constant is replaced by its value; an ``If`` whose condition becomes constant is replaced by
    the branch that is taken. This is repeated in every scope until nothing changes. Dead code is removed. Everything
    else stays unchanged, and outputs keep their names.

    Args:
        model: The model; it is not changed.
        input_shapes: Shapes by input name. A symbolic dimension in another input gets the same extent as the dimension
            with its name; otherwise other inputs keep their shapes.
        input_values: Elements by input name, in row-major order, or one value for all elements.
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


def require_fitting(model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse input shapes with which a node contradicts its operator, if no node does so without them."""
    index = ModelIndex.of(fix_inputs(model, input_shapes).model)
    wrong = index.types.contradictions_of_inferred
    if not input_shapes or not wrong or ModelIndex.of(model).types.contradictions_of_inferred:
        return
    node = index.view.scope(wrong[0].scope).nodes[wrong[0].position]
    raise UsageError(
        f"the shapes of the inputs do not fit together at {node.op_type} node '{node.label}': {wrong[0].text}",
        hint="leave the shapes out: then the shapes of the data are used, and a command without data proposes shapes",
    )


def specialize_like(quantized: Model, baseline: Model) -> Transformed[Specialized | None]:
    """Return a baseline, specialized like its quantized form, so that the nodes of both match.

    Shapes come from the inputs of the quantized model, and constant inputs from its metadata. The baseline is
    returned unchanged if it has no branches, or if the quantized model still has branches.
    """
    if not _has_branches(baseline) or _has_branches(quantized):
        return Transformed(baseline, None)
    inputs = {value.name: value for value in required_inputs(baseline.proto)}
    noted = {name: array for name, array in fixed_values(quantized).items() if name in inputs}
    shapes = {name: array.shape for name, array in noted.items() if array.ndim}
    for value in required_inputs(quantized.proto):
        dims = [known_size(dim) for dim in value.type.tensor_type.shape.dim]
        if value.name in inputs and dims and all(dims):
            shapes[value.name] = tuple(extent for extent in dims if extent is not None)
    found = specialize(baseline, shapes, {name: array.reshape(-1).tolist() for name, array in noted.items()})
    return Transformed(found.model, found.report)


def _has_branches(model: Model) -> bool:
    return any(node.op_type == "If" for _, container in walk(model.proto) for node in container.node)


def _count_nodes(model: Model) -> int:
    return sum(len(container.node) for _, container in walk(model.proto))


def _with_inferred_shapes(model: Model) -> Model:
    """Replace declared shapes by inferred shapes that are now completely known."""
    index = ModelIndex.of(model)
    special = model.fork(copy_model(model.proto))
    for value in (*special.proto.graph.value_info, *special.proto.graph.output):
        known = index.view.main.values.get(value.name)
        shape = index.types.full_shape(known) if known is not None else None
        if shape is not None:
            elem_type = value.type.tensor_type.elem_type
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(elem_type, list(shape)))
    return special
