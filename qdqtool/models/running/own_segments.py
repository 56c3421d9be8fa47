"""Order the nodes of a divided model in stages, and turn each stage into a model that ONNX Runtime can run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper

from qdqtool.errors import CapabilityError
from qdqtool.models.graph.edits.copy_changes import Container, names_read
from qdqtool.models.graph.index.view import DEFAULT_DOMAINS
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN, ScopePath, body_path, function_path, node_bodies
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.running.own_support import (
    ABSENT_TYPES,
    NEWEST_OPSET,
    EvaluatorSplit,
    OwnNode,
    divides_in_bfloat16,
)
from qdqtool.models.targets import type_name
from qdqtool.models.transforms.opset import NEWEST_IR
from qdqtool.models.transforms.taps import READABLE_AS
from qdqtool.numerics.dtypes import Array

CONSTANT = -1
"""The stage number of tensors that are known before the first stage."""

_TYPE_ATTRIBUTES = frozenset(
    {"dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "stash_type"}
)
"""Attributes that name the type in which a node computes, or the type of its output."""


@dataclass(slots=True)
class Stage:
    """One stage: ONNX Runtime runs its nodes first, then our own core evaluates the others.

    Attributes:
        nodes: The nodes that ONNX Runtime runs, in order.
        own: The nodes that our own core evaluates after them, in order.
        needed: Tensors that a later stage or the caller reads.
    """

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    own: list[OwnNode] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Stages:
    """All stages.

    Attributes:
        stages: The stages in order.
        constant: Nodes that our own core evaluates once, before the stages.
    """

    stages: list[Stage]
    constant: list[OwnNode]


def make_stages(proto: onnx.ModelProto, split: EvaluatorSplit) -> Stages:
    """Divide the nodes of a model into stages; each node is in the earliest stage that its inputs allow."""
    planner = _StagePlanner(split)
    for node in proto.graph.node:
        planner.add(node)
    for output in proto.graph.output:
        planner.mark_needed(output.name, len(planner.stages))
    return Stages(planner.stages, planner.constant)


class _StagePlanner:
    def __init__(self, split: EvaluatorSplit) -> None:
        self.stages: list[Stage] = []
        self.constant: list[OwnNode] = []
        self._split = split
        self._made: dict[str, int] = {}
        self._by_own: set[str] = set()

    def add(self, node: onnx.NodeProto) -> None:
        own = self._split.own.get(tuple(node.output))
        read = names_read(node)
        number = max((self._ready(name, own=own is not None) for name in read), default=CONSTANT)
        if own is None:
            number = max(number, 0)
            self._stage(number).nodes.append(node)
        elif number == CONSTANT:
            self.constant.append(own)
        else:
            self._stage(number).own.append(own)
            self._by_own.update(node.output)
        for name in read:
            self.mark_needed(name, number if own is None else number + 1)
        self._made.update(dict.fromkeys(filter(None, node.output), number))

    def mark_needed(self, name: str, reader: int) -> None:
        """Note that stage ``reader`` reads ``name``. Own nodes run last, so they count as the next stage."""
        made = self._made.get(name, CONSTANT)
        if CONSTANT < made < reader and name not in self._by_own:
            self.stages[made].needed.add(name)

    def _ready(self, name: str, *, own: bool) -> int:
        made = self._made.get(name)
        if made is None:
            return CONSTANT if own and self._is_known(name) else 0
        if made == CONSTANT:
            return CONSTANT
        if own and self._is_known(name):
            return CONSTANT
        return made + 1 if name in self._by_own and not own else made

    def _is_known(self, name: str) -> bool:
        """Return whether a tensor is a constant that our own core can read directly."""
        value = self._split.index.view.main.values.get(name)
        constants = self._split.index.constants
        if value is None or not constants.is_constant(value):
            return False
        return constants.direct(value) is not None or constants.array(value) is not None

    def _stage(self, number: int) -> Stage:
        while len(self.stages) <= number:
            self.stages.append(Stage())
        return self.stages[number]


@dataclass(slots=True)
class Segment:
    """A part of a model.

    Attributes:
        model: The model of the part. Tensors that are external or pending in the whole model stay so.
        inputs: By input name, the tensor of the whole model to feed. It is widened if NumPy lacks its type.
        outputs: By output name, the tensor of the whole model that the output holds. If it was widened, also its
            original type; otherwise None.
    """

    model: Model
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, tuple[str, np.dtype[np.generic] | None]] = field(default_factory=dict)


def segment_model(model: Model, split: EvaluatorSplit, stage: Stage, known: Mapping[str, Array]) -> Segment:
    """Return the model of the nodes that ONNX Runtime runs in one stage."""
    builder = _Builder(model, split, stage)
    for name in dict.fromkeys(name for node in stage.nodes for name in names_read(node)):
        if name not in builder.made and name in known:
            builder.add_input(name, int(helper.np_dtype_to_tensor_dtype(known[name].dtype)))
    for node in stage.nodes:
        builder.add_node(node)
    for name in sorted(stage.needed):
        builder.add_output(name)
    return builder.segment


def run_segment(segment: Segment, session: Session, known: Mapping[str, Array]) -> dict[str, Array]:
    """Run a part of a model in its session.

    Returns:
        The tensors of the whole model that the part makes, in their own types, which may be ml_dtypes types.
    """
    made = session.run({inner: _readable(known[name]) for inner, name in segment.inputs.items()})
    return {
        name: made[inner] if dtype is None else made[inner].astype(dtype)
        for inner, (name, dtype) in segment.outputs.items()
    }


def _readable(array: Array) -> Array:
    """Widen an array exactly to a type that ONNX Runtime accepts from NumPy; the segment converts it back."""
    wide = READABLE_AS.get(int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype)))
    return array if wide is None else array.astype(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(wide)))


class _Builder:
    def __init__(self, model: Model, split: EvaluatorSplit, stage: Stage) -> None:
        self.made = {name for node in stage.nodes for name in node.output if name}
        self._split = split
        self._names = {value.name for value in split.index.view.values()} | self.made
        proto = onnx.ModelProto(ir_version=min(model.proto.ir_version, NEWEST_IR))
        proto.opset_import.extend(model.proto.opset_import)
        proto.functions.extend(model.proto.functions)
        importers: list[onnx.ModelProto | onnx.FunctionProto] = [proto, *proto.functions]
        for importer in importers:
            for entry in importer.opset_import:
                if entry.domain in DEFAULT_DOMAINS:
                    # ONNX Runtime 1.31 refuses opsets above 26; plan_split has checked that every operator means the
                    # same at opset 26.
                    entry.version = min(entry.version, NEWEST_OPSET)
        self._graph = proto.graph
        self._graph.name = "part"
        self._widened: dict[str, str] = {}
        for function in proto.functions if split.widened else ():
            self._rebuild(function, function_path(function), {})
        self._add_constants(model.proto.graph, {name for node in stage.nodes for name in names_read(node)})
        self.segment = Segment(Model(proto, model.path, model.payloads))

    def _add_constants(self, graph: onnx.GraphProto, read: set[str]) -> None:
        self._graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
        self._graph.sparse_initializer.extend(
            tensor for tensor in graph.sparse_initializer if tensor.values.name in read
        )

    def add_input(self, name: str, elem_type: int) -> None:
        """Add an input for a tensor, and a Cast back to the tensor's type if NumPy lacks this type."""
        _check_crossing(name, elem_type)
        wide = READABLE_AS.get(elem_type)
        inner = name if wide is None else self._fresh(name, "wide")
        info = onnx.ValueInfoProto(name=inner)
        info.type.tensor_type.elem_type = elem_type if wide is None else wide
        self._graph.input.append(info)
        self.segment.inputs[inner] = name
        if wide is not None:
            self._cast(self._graph, inner, name, elem_type)

    def add_node(self, node: onnx.NodeProto) -> None:
        """Add a node. A node without a kernel of its half-precision type runs in float32; its results are rounded."""
        self._add(self._graph, node, MAIN, self._widened)

    def _add(self, container: Container, node: onnx.NodeProto, path: ScopePath, widened: dict[str, str]) -> None:
        """Add a node to a scope, with Casts around it, or around nodes of its subgraphs, if they run in float32.

        ``widened`` has the float32 form of each half-precision tensor, in this scope or around it; forms are added.
        """
        copy = container.node.add()
        copy.CopyFrom(node)
        if not self._split.widened:
            return
        for name, body in node_bodies(copy):
            self._rebuild(body, body_path(path, node, name), dict(widened))
        half = self._split.widened.get((path, tuple(node.output)))
        if half is not None:
            container.node.pop()
            self._add_widened(container, copy, path, half, widened)

    def _add_widened(
        self, container: Container, node: onnx.NodeProto, path: ScopePath, half: int, widened: dict[str, str]
    ) -> None:
        rounded = {index: node.output[index] for index in self._positions(half, path, node.output)}
        for index in self._positions(half, path, node.input):
            name = node.input[index]
            if name not in widened:
                widened[name] = self._fresh(name, "float32")
                self._cast(container, name, widened[name], TensorProto.FLOAT)
            node.input[index] = widened[name]
        if half == TensorProto.BFLOAT16 and node.op_type == "QuantizeLinear":
            self._round_quotients(container, node, path)
        for index, name in rounded.items():
            node.output[index] = self._fresh(name, "float32")
        for attribute in node.attribute:
            if attribute.name in _TYPE_ATTRIBUTES and attribute.i == half:
                attribute.i = TensorProto.FLOAT
        container.node.append(node)
        for index, name in rounded.items():
            self._cast(container, node.output[index], name, half)

    def _round_quotients(self, container: Container, node: onnx.NodeProto, path: ScopePath) -> None:
        """Let a Q read quotients that are rounded to bfloat16, as ONNX defines it, with a scale of one."""
        view = self._split.index.view.scope(path).values[node.output[0]].producer
        if view is None or not divides_in_bfloat16(view, self._split.index):
            return
        quotient, rounded, data, one = (
            self._fresh(node.output[0], name) for name in ("quotient", "rounded", "x", "one")
        )
        container.node.append(helper.make_node("Div", node.input[:2], [quotient], name=quotient))
        self._cast(container, quotient, rounded, TensorProto.BFLOAT16)
        self._cast(container, rounded, data, TensorProto.FLOAT)
        container.node.append(helper.make_node("Constant", [], [one], name=one, value_float=1.0))
        node.input[:2] = [data, one]

    def _rebuild(self, container: Container, path: ScopePath, widened: dict[str, str]) -> None:
        """Add the nodes of a subgraph or function again, with the Casts that they need."""
        nodes = list(container.node)
        del container.node[:]
        for node in nodes:
            self._add(container, node, path, widened)

    def _positions(self, elem_type: int, path: ScopePath, names: Sequence[str]) -> list[int]:
        """Return the positions of the tensors that have a type."""
        index = self._split.index
        values = map(index.view.scope(path).resolve, names)
        return [at for at, value in enumerate(values) if value is not None and index.elem_type(value) == elem_type]

    def add_output(self, name: str) -> None:
        """Add an output for a tensor, widened if NumPy lacks its type."""
        elem_type = self._split.types.get(name)
        _check_crossing(name, elem_type)
        wide = READABLE_AS.get(elem_type or 0)
        inner = name if wide is None else self._fresh(name, "out")
        if wide is not None:
            self._cast(self._graph, name, inner, wide)
        self._graph.output.append(onnx.ValueInfoProto(name=inner))
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(elem_type)) if wide is not None and elem_type else None
        self.segment.outputs[inner] = name, dtype

    def _cast(self, container: Container, source: str, target: str, to: int) -> None:
        # A Cast to fp8 saturates infinities by default. With saturate=0 they remain infinite; no other value is out of
        # range here.
        node = helper.make_node("Cast", [source], [target], name=f"to {target}", to=to)
        if type_name(to).startswith("float8"):
            node.attribute.append(helper.make_attribute("saturate", 0))
        container.node.append(node)

    def _fresh(self, name: str, purpose: str) -> str:
        found = f"{name}_{purpose}"
        while found in self._names:
            found += "_"
        self._names.add(found)
        return found


def _check_crossing(name: str, elem_type: int | None) -> None:
    if elem_type in ABSENT_TYPES:
        raise CapabilityError(
            f"tensor '{name}' of type {type_name(elem_type)} is read in a body or function; only ONNX Runtime "
            "evaluates these, and it lacks this type"
        )
