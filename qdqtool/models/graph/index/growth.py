"""Refuse a model whose tensors would not fit into the memory, before anything runs or folds it.

A file of 2 kB can double a tensor 34 times. The sizes come from shape inference with the shapes of the data; a dynamic
extent without data counts as 1. Declared shapes of node outputs are ignored.

If the number of iterations of a Loop is constant and no condition can end it, its body is inferred once for each
iteration, with the shapes from the previous one. For other loops, and for operators that shape inference does not know,
only :mod:`qdqtool.cli.supervisor` limits the memory.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import inliner

from qdqtool.errors import human_bytes
from qdqtool.models.graph.index.inference import infer_types
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.copying import KEPT_BYTES, copy_model, without_weights
from qdqtool.models.graph.io.load import check_growth
from qdqtool.models.graph.io.tensors import nbytes
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import all_nodes, body_path, walk
from qdqtool.numerics.cores import machine_memory

SHARE = 4
"""A tensor may take the machine's memory divided by this: a run needs its inputs too, and often a copy."""

MOST_ITERATIONS = 48
"""Most iterations of a loop that are inferred; the growth in further iterations is extrapolated."""

MOST_BODIES = 256
"""Most bodies of loops that are inferred; nested loops multiply their iterations."""

MOST_WINDOW = 1 << 24
"""Most elements in the window of a pooling. ONNX Runtime's AveragePool visits the padded ones too: 25 s for 2^31."""


def require_bounded(model: Model, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
    """Refuse a model with a tensor that takes more than a quarter of the machine's memory, or with a huge window.

    Args:
        model: The model that is to be run, folded or built.
        shapes: Shapes of its inputs; by default, those that the model declares.

    Raises:
        ModelError: A tensor takes more, or the window of a pooling has too many elements.
    """
    proto = without_weights(model.proto)
    # The sizes of tensors inside functions depend on the call. A model that cannot be inlined cannot run either.
    with contextlib.suppress(Exception):
        proto = inliner.inline_local_functions(proto) if proto.functions else proto
    for value in proto.graph.input:
        shape = value.type.tensor_type.shape
        given = (shapes or {}).get(value.name, [max(dim.dim_value, 1) for dim in shape.dim])
        if shape.dim or value.name in (shapes or {}):
            shape.CopyFrom(onnx.helper.make_tensor_type_proto(1, given).tensor_type.shape)
    for node in all_nodes(proto):
        window = max((math.prod(each.ints) for each in node.attribute if each.name == "kernel_shape"), default=0)
        check_growth(
            f"the window of the {node.op_type} that makes '{next(iter(node.output), '')}' is too large",
            window,
            MOST_WINDOW,
        )
    _Growth().check(proto)


@dataclass(slots=True)
class _Growth:
    """The check of one model; ``bodies`` counts the bodies of loops that were inferred."""

    bodies: int = 0

    def check(self, proto: onnx.ModelProto) -> onnx.GraphProto:
        """Check all tensors of a model that is changed, and return its graph with all shapes that can be inferred."""
        for _, container in walk(proto):
            container.ClearField("value_info")
            for output in container.output if isinstance(container, onnx.GraphProto) else ():
                output.type.tensor_type.ClearField("shape")
        return self._infer(proto)

    def _infer(self, proto: onnx.ModelProto, done: frozenset[tuple[str, ...]] = frozenset()) -> onnx.GraphProto:
        inferred = infer_types(proto).proto
        graphs = [graph for _, graph in walk(inferred) if isinstance(graph, onnx.GraphProto)]
        values = [value for graph in graphs for value in (*graph.input, *graph.value_info, *graph.output)]
        largest = max(values, key=_bytes, default=onnx.ValueInfoProto())
        _check_size(largest, _bytes(largest))
        if any(node.op_type == "Loop" for node in all_nodes(inferred)):
            index = ModelIndex.of(Model(inferred))
            for node in index.view.nodes():
                made: list[onnx.ValueInfoProto] = []
                # A Loop may lack its body, or the body an input or output. No library runs such a model.
                with contextlib.suppress(IndexError, KeyError, ValueError):
                    made = self._check_loop(index, node) if node.is_op("Loop") and node.key not in done else []
                if made and node.scope is index.view.main:
                    _declare(proto.graph, made)
                    return self._infer(proto, done | {node.key})
        return inferred.graph

    def _check_loop(self, index: ModelIndex, node: NodeView) -> list[onnx.ValueInfoProto]:
        """Check the tensors of a loop in all iterations; return its carried tensors after the last one if known."""
        trips, count = _iterations(index, node), len(node.proto.input) - 2
        kinds = [index.types.type_proto(value) if value is not None else None for value in node.inputs[2:]]
        if not trips or None in kinds:
            return []
        body, done = _standalone(index, node), 0
        carried, made = body.graph.input[2 : count + 2], onnx.GraphProto().output[:]
        while done < min(trips, MOST_ITERATIONS) and self.bodies < MOST_BODIES:
            for formal, kind in zip(carried, kinds, strict=False):
                formal.type.CopyFrom(kind or formal.type)
            made, done, self.bodies = self.check(copy_model(body)).output[1:], done + 1, self.bodies + 1
            kinds = [value.type for value in made[:count]]
            if [formal.type for formal in carried] == kinds:
                done = trips
        for before, after in zip(carried, made, strict=False):
            _check_size(after, _bytes(after) + max(_bytes(after) - _bytes(before), 0) * (trips - done))
        for stacked in made[count:]:
            _check_size(stacked, _bytes(stacked) * trips)
        pairs = zip(node.key, made[:count], strict=False) if done == trips else ()
        return [onnx.ValueInfoProto(name=name, type=value.type) for name, value in pairs if name]


def _declare(graph: onnx.GraphProto, values: list[onnx.ValueInfoProto]) -> None:
    """Declare types of tensors of a graph; an output of the graph is declared in one place only."""
    outputs = {output.name: output for output in graph.output}
    for value in values:
        place = outputs[value.name] if value.name in outputs else graph.value_info.add()
        place.CopyFrom(value)


def _bytes(value: onnx.ValueInfoProto) -> int:
    kind = value.type.tensor_type
    dims = [max(dim.dim_value, 1) if dim.HasField("dim_value") else 1 for dim in kind.shape.dim]
    return nbytes(onnx.TensorProto(data_type=kind.elem_type, dims=dims)) if kind.elem_type else 0


def _check_size(value: onnx.ValueInfoProto, size: int) -> None:
    check_growth(f"tensor '{value.name}' is too large for this machine", size, machine_memory() // SHARE, human_bytes)


def _iterations(index: ModelIndex, node: NodeView) -> int:
    """Return the number of iterations of a Loop, or 0 if it is not constant or a condition may end the loop."""
    trips, first = (index.shape_constants.readable(value) if value else None for value in node.inputs[:2])
    body = index.view.scope(body_path(node.scope.path, node.proto, "body"))
    condition = body.resolve(body.output_names()[0])
    while condition is not None and condition.producer is not None and condition.producer.is_op("Identity"):
        condition = condition.producer.input(0)
    always = index.constants.readable(condition) if condition is not None else None
    goes_on = condition is not None and (
        condition.name == body.input_names()[1] or (always is not None and always.all())
    )
    starts = node.input(1) is None or (first is not None and first.all())
    return int(trips.reshape(-1)[0]) if trips is not None and goes_on and starts else 0


def _standalone(index: ModelIndex, node: NodeView) -> onnx.ModelProto:
    """Return the body of a Loop as a model; tensors from outside become constants or inputs of it."""
    source = index.model.proto
    model = onnx.ModelProto(
        ir_version=source.ir_version, graph=node.attribute("body"), opset_import=source.opset_import
    )
    graphs = [graph for _, graph in walk(model) if isinstance(graph, onnx.GraphProto)]
    made = {name for inner in all_nodes(model) for name in inner.output}
    made.update(each.name for graph in graphs for each in graph.input)
    made.update(each.name for graph in graphs for each in graph.initializer)
    used = dict.fromkeys(name for inner in all_nodes(model) for name in inner.input if name and name not in made)
    for name in used:
        value = node.scope.resolve(name)
        array = index.shape_constants.readable(value) if value is not None else None
        kind = index.types.type_proto(value) if value is not None else None
        if array is not None and array.nbytes <= KEPT_BYTES:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        elif kind is not None:
            model.graph.input.add(name=name).type.CopyFrom(kind)
    return model
