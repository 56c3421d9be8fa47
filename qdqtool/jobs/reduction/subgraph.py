"""Cut models out of the main graph of another model, each with some of its nodes.

A tensor that a kept node reads, but no kept node makes, becomes a graph input; shape inference gives its type and
shape. An output that no kept node reads becomes a graph output. Constants stay.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.models.graph.io.copying import copy_fields
from qdqtool.models.graph.io.save import SavedFiles, save_model
from qdqtool.models.graph.io.tensors import is_external, iter_tensors, nbytes
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import node_bodies, walk
from qdqtool.models.options import ExternalData


def pruned(proto: onnx.ModelProto, kept_unused: Collection[str]) -> onnx.ModelProto:
    """Remove nodes, inputs, initializers and declarations of the main graph that nothing reads.

    Returns:
        The same model.
    """
    graph = proto.graph
    while True:
        read = _read(proto)
        dead = [node for node in graph.node if not read.intersection(node.output)]
        if not dead:
            break
        for node in dead:
            graph.node.remove(node)
    made = {name for node in graph.node for name in node.output}
    _retain(graph.input, read)
    _retain(graph.initializer, {*read, *kept_unused})
    _retain(graph.value_info, made)
    return proto


def _read(proto: onnx.ModelProto) -> set[str]:
    """Return the names that nodes and outputs of any scope read."""
    found = {name for _, container in walk(proto) for node in container.node for name in node.input if name}
    for _, container in walk(proto):
        found |= {value if isinstance(value, str) else value.name for value in container.output}
    return found


def _retain(values: Any, names: Iterable[str]) -> None:
    """Remove the values of a repeated field whose names are not in ``names``."""
    wanted = set(names)
    left = [value for value in values if value.name in wanted]
    del values[:]
    values.extend(left)


INLINE_BYTES = 1 << 26
"""A smaller model is stored in one file, even if the given model has external data."""


def store(model: Model, path: Path) -> SavedFiles:
    """Write a model, into one file if its weights are small."""
    weights = sum(nbytes(tensor) for tensor in iter_tensors(model.proto) if is_external(tensor))
    inline = weights + model.proto.ByteSize() < INLINE_BYTES
    return save_model(model, path, external_data=ExternalData.NEVER if inline else ExternalData.AUTO)


_OWN_LISTS = ("node", "initializer", "sparse_initializer", "input", "output", "value_info", "quantization_annotation")


class Subgraphs:
    """Cuts models out of one model.

    Args:
        model: The model.
        kept_unused: Initializers that are kept although no node reads them.
        cuts: Names of the tensors that may become inputs and outputs; None for all tensors.

    Attributes:
        index: Index of the model.
        nodes: The nodes of its main graph.
    """

    def __init__(self, model: Model, kept_unused: frozenset[str], cuts: frozenset[str] | None = None) -> None:
        self.model = model
        self.index = ModelIndex.of(model)
        self._main: Scope = self.index.view.main
        self.kept_unused = kept_unused
        self._cuts = cuts
        self.nodes: Sequence[NodeView] = self._main.nodes

    @cached_property
    def reads(self) -> list[list[Value]]:
        """For each node, the tensors of the main graph that the node or its bodies read."""
        found: list[dict[str, Value]] = [{} for _ in self.nodes]
        for value in self._main.values.values():
            for use in value.uses:
                found[_outermost(use.node).index][value.name] = value
        for scope in self.index.view.scopes:
            if scope.owner is None or scope.in_function:
                continue
            # A body may return an unchanged tensor of the outer graph: TensorRT's parser accepts this.
            returned = [scope.resolve(name) for name in scope.output_names()]
            captured = {each.name: each for each in returned if each is not None and each.scope is self._main}
            found[_outermost(scope.owner).index].update(captured)
        return [list(values.values()) for values in found]

    @cached_property
    def constant(self) -> frozenset[int]:
        """The nodes that compute their results only from constants."""
        found: set[int] = set()
        for index, values in enumerate(self.reads):
            makers = (value.producer.index if value.producer is not None else None for value in values)
            if all(
                maker in found if maker is not None else value.initializer is not None and not value.is_input
                for maker, value in zip(makers, values, strict=True)
            ):
                found.add(index)
        return frozenset(found)

    @cached_property
    def attached(self) -> frozenset[int]:
        """The nodes that are kept if a reader is kept: constant nodes, and nodes whose outputs must not be cut."""
        if self._cuts is None:
            return self.constant
        return self.constant | {node.index for node in self.nodes if self._cuts.isdisjoint(node.proto.output)}

    @cached_property
    def layers(self) -> list[int]:
        """The nodes that are not attached to another node; all nodes if every node is attached."""
        return [node.index for node in self.nodes if node.index not in self.attached] or [*range(len(self.nodes))]

    def with_attached(self, indices: Iterable[int]) -> frozenset[int]:
        """Return nodes together with the nodes that are attached to them."""
        kept = set(indices)
        waiting = list(kept)
        while waiting:
            for value in self.reads[waiting.pop()]:
                maker = value.producer
                if maker is not None and maker.index in self.attached and maker.index not in kept:
                    kept.add(maker.index)
                    waiting.append(maker.index)
        return frozenset(kept)

    def keep(self, indices: Collection[int], outputs: Sequence[Value] | None = None) -> Model | None:
        """Return the model of these nodes, or None if there is none, or if the type of a tensor is unknown.

        Args:
            indices: Positions of the nodes in the main graph.
            outputs: The graph outputs; None for outputs of the model, and for outputs that no kept node reads.
        """
        kept = set(indices)
        read = {value.name: value for index in sorted(kept) for value in self.reads[index]}
        made = {name for index in kept for name in self.nodes[index].proto.output if name}
        inputs = [value for name, value in read.items() if name not in made and not _is_stored(value)]
        inputs.sort(key=lambda value: not value.is_input)
        if outputs is None:
            outputs = [value for index in sorted(kept) for value in self._outputs(self.nodes[index], read)]
        infos = [self._info(value) for value in (*inputs, *outputs)]
        if not kept or not outputs or any(info is None for info in infos):
            return None
        proto = onnx.ModelProto()
        copy_fields(self.model.proto, proto, "graph")
        proto.ClearField("training_info")
        source = self.model.proto.graph
        for field, value in source.ListFields():
            if field.name not in _OWN_LISTS and not field.is_repeated:
                setattr(proto.graph, field.name, value)
        proto.graph.metadata_props.extend(source.metadata_props)
        proto.graph.node.extend(self.nodes[index].proto for index in sorted(kept))
        proto.graph.input.extend(info for info in infos[: len(inputs)] if info is not None)
        proto.graph.input.extend(info for info in source.input if info.name in read and _is_stored(read[info.name]))
        proto.graph.output.extend(info for info in infos[len(inputs) :] if info is not None)
        wanted = read.keys() | self.kept_unused
        proto.graph.initializer.extend(each for each in source.initializer if each.name in wanted)
        proto.graph.sparse_initializer.extend(each for each in source.sparse_initializer if each.values.name in wanted)
        inner = made - {value.name for value in outputs}
        proto.graph.value_info.extend(info for info in source.value_info if info.name in inner)
        there = made | read.keys()
        proto.graph.quantization_annotation.extend(
            each for each in source.quantization_annotation if each.tensor_name in there
        )
        _drop_functions(proto)
        return with_proto(self.model, proto)

    def _outputs(self, node: NodeView, read: Collection[str]) -> list[Value]:
        """Return the outputs of a kept node that become graph outputs: those of the model, or else an unread one."""
        values = node.present_outputs
        given = self._main.output_names()
        found = [value for value in values if value.name in given]
        if not found and not any(value.name in read for value in values):
            found = [value for value in values if value.uses] or values[:1]
        return found

    def _info(self, value: Value) -> onnx.ValueInfoProto | None:
        """Return the declaration of a tensor as graph input or output, or None if its type is unknown."""
        graph = self.model.proto.graph
        given = next((info for info in (*graph.input, *graph.output) if info.name == value.name), None)
        if given is not None:
            return given
        kind = self.index.types.type_proto(value)
        return None if kind is None else onnx.ValueInfoProto(name=value.name, type=kind)


def with_proto(model: Model, proto: onnx.ModelProto) -> Model:
    """Return a model with another proto; data that is not in the proto is read as in ``model``."""
    return Model(proto, model.path, model.payloads, any(map(is_external, iter_tensors(proto))) and model.stored_outside)


def _outermost(node: NodeView) -> NodeView:
    """Return the main-graph node that contains a node in one of its bodies, or the node itself."""
    while node.scope.owner is not None:
        node = node.scope.owner
    return node


def _is_stored(value: Value) -> bool:
    return value.initializer is not None or (value.producer is None and not value.is_input)


def _drop_functions(proto: onnx.ModelProto) -> None:
    """Remove the local functions that no node calls, directly or through others."""
    functions = {(each.domain, each.name, each.overload): each for each in proto.functions}
    called: set[tuple[str, str, str]] = set()
    waiting: list[onnx.GraphProto | onnx.FunctionProto] = [proto.graph] if functions else []
    while waiting:
        for node in waiting.pop().node:
            waiting += [graph for _, graph in node_bodies(node)]
            key = (node.domain, node.op_type, node.overload)
            if key in functions and key not in called:
                called.add(key)
                waiting.append(functions[key])
    left = [function for key, function in functions.items() if key in called]
    del proto.functions[:]
    proto.functions.extend(left)


class BaselineCuts:
    """Cuts parts out of a baseline."""

    def __init__(self, baseline: Model) -> None:
        self._graph = Subgraphs(baseline, frozenset())
        self.tensors = frozenset(self._graph.index.view.main.values)

    def like(self, candidate: onnx.ModelProto) -> Model | None:
        """Return the nodes of the baseline between the inputs and the outputs of a candidate.

        Args:
            candidate: A model that was cut out of the quantized form of the baseline.

        Returns:
            None if the baseline lacks one of the tensors, or if its part needs other inputs.
        """
        main = self._graph.index.view.main.values
        stored = {tensor.name for tensor in candidate.graph.initializer}
        inputs = {value.name for value in candidate.graph.input} - stored
        outputs = [value.name for value in candidate.graph.output]
        if not all(name in main for name in (*inputs, *outputs)):
            return None
        kept: set[int] = set()
        waiting = list(outputs)
        while waiting:
            value = main[waiting.pop()]
            if value.name in inputs or value.producer is None or value.producer.index in kept:
                continue
            kept.add(value.producer.index)
            waiting += [each.name for each in self._graph.reads[value.producer.index]]
        cut = self._graph.keep(kept, [main[name] for name in outputs])
        if cut is None or not {value.name for value in cut.proto.graph.input} <= inputs | stored:
            return None
        return cut
