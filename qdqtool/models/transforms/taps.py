"""Make inner tensors readable by adding outputs to a copy of the model; the copy computes everything else as before.

A tensor of the main graph becomes an additional graph output. A tensor of a subgraph is returned through the owning
node. An If gets an additional output (the other branch returns an empty constant). A Loop or Scan gets an additional
stacked output. A tensor of a local function is returned through an additional output of the function, at every call. No
node is moved, renamed or removed.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import onnx
from onnx import TensorProto

from qdqtool.models.graph.index.view import GraphView, NodeView, Scope, Value
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Transformed
from qdqtool.models.graph.scope import ScopePath, body_path, display, node_bodies

TensorKey = tuple[ScopePath, str]
"""Scope and name of a tensor."""

# Scan of opset 8 has a batch axis and a sequence_lens input, so its stacked outputs are laid out differently.
FIRST_SCAN_WITHOUT_BATCH = 9
MAX_TAPS = 1024
"""Most places at which one tensor of a local function is read; nested calls multiply the places."""

# ONNX Runtime 1.31.1 raises "No corresponding Numpy type" for bfloat16 and 4-bit outputs, and returns fp8 as uint8.
READABLE_AS: dict[int, int] = {
    TensorProto.INT4: TensorProto.INT8,
    TensorProto.UINT4: TensorProto.UINT8,
    TensorProto.INT2: TensorProto.INT8,
    TensorProto.UINT2: TensorProto.UINT8,
    TensorProto.BFLOAT16: TensorProto.FLOAT,
    TensorProto.FLOAT8E4M3FN: TensorProto.FLOAT,
    TensorProto.FLOAT8E4M3FNUZ: TensorProto.FLOAT,
    TensorProto.FLOAT8E5M2: TensorProto.FLOAT,
    TensorProto.FLOAT8E5M2FNUZ: TensorProto.FLOAT,
}
"""Types that ONNX Runtime cannot return as NumPy arrays. Each maps to a type that holds all its values exactly."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One step on the path from the main graph to a tensor: into a subgraph, or into a local function.

    Attributes:
        label: For a subgraph, the last segment of its scope path; for a function, the first output of the calling node.
        is_call: Whether the step enters a function.
    """

    label: str
    is_call: bool = False


@dataclass(frozen=True, slots=True)
class Tap:
    """One place where an inner tensor can be read.

    Attributes:
        output: Name of the graph output that holds the tensor.
        hops: The path from the main graph to the tensor: a hop for each subgraph and call, outermost first. Empty in
            the main graph. Tensors of one scope that are read in one place have equal hops. Tensors of an enclosing
            scope have a prefix of these hops.
        stacked: Number of leading axes that count loop iterations, outermost first. If no iteration or branch with the
            tensor ran, the output is empty.
    """

    output: str
    hops: tuple[Hop, ...] = ()
    stacked: int = 0


@dataclass(frozen=True, slots=True)
class Taps:
    """The places where inner tensors of a model can be read.

    Attributes:
        places: The taps of each tensor; a tensor of a function has one tap for each path of calls.
        unreachable: Why a tensor, or one of its places, cannot be read.
    """

    places: Mapping[TensorKey, tuple[Tap, ...]]
    unreachable: Mapping[TensorKey, str]


def tap_tensors(
    view: GraphView, values: Iterable[Value], elem_type: Callable[[Value], int | None]
) -> Transformed[Taps]:
    """Return a copy of a model that returns inner tensors in addition to its outputs.

    Args:
        view: The model; it is not changed.
        values: Tensors of any scope except constants, which can be read without a run.
        elem_type: Returns the ``TensorProto.DataType`` of a tensor, or None if it is unknown.

    Returns:
        The model, with the outputs for each tensor and the reasons for tensors that cannot be read.
    """
    tapped = view.model.fork(copy_model(view.model.proto))
    lifter = _Lifter(GraphView(tapped))
    places: dict[TensorKey, tuple[Tap, ...]] = {}
    unreachable: dict[TensorKey, str] = {}
    for value in values:
        key = tensor_key(value)
        if key in places or key in unreachable:
            continue
        taps, problems = lifter.expose(value, elem_type(value))
        if taps:
            places[key] = taps
        if problems:
            unreachable[key] = problems[0]
    return Transformed(tapped, Taps(places, unreachable))


def tensor_key(value: Value) -> TensorKey:
    """Return the key of a tensor: its scope and name."""
    return value.scope.path, value.name


def hop_into(scope: Scope, node: NodeView) -> Hop:
    """Return the hop in :attr:`~Tap.hops` from ``node`` into ``scope``, its subgraph or called function."""
    if scope.is_function:
        return Hop(node.key[0] if node.key else node.op_type, is_call=True)
    return Hop(scope.path[-1])


class _Lifter:
    """Makes inner tensors outputs of the main graph; each enclosing scope returns them as additional outputs."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._names = {value.name for value in view.values()}
        self._numbers = itertools.count()
        self._open: set[ScopePath] = set()
        self._formal = {scope.path: {*scope.input_names(), *scope.output_names()} for scope in view.scopes}
        self._returned = set(view.main.output_names())
        self._problems: list[str] = []

    def expose(self, value: Value, elem_type: int | None) -> tuple[tuple[Tap, ...], list[str]]:
        """Return the taps of one tensor, and the reasons why places of it cannot be read."""
        self._problems = []
        scope = self._view.scope(value.scope.path)
        name = value.name
        if elem_type in READABLE_AS:
            name = self._cast(scope, name, READABLE_AS[elem_type])
            elem_type = READABLE_AS[elem_type]
        taps = self._lift(scope, name, elem_type)
        return tuple(taps[:MAX_TAPS]), self._problems

    def _lift(self, scope: Scope, name: str, elem_type: int | None) -> list[Tap]:
        if scope.is_function:
            return self._through_calls(scope, name, elem_type)
        if scope.owner is None:
            return [self._graph_output(scope, name)]
        if scope.owner.is_op("If"):
            return self._through_if(scope, scope.owner, name, elem_type)
        if scope.owner.is_op("Loop"):
            return self._through_loop(scope, scope.owner, name, elem_type)
        if scope.owner.is_op("Scan") and scope.opset >= FIRST_SCAN_WITHOUT_BATCH:
            _extend_scan(scope.owner.proto)
            return self._through_loop(scope, scope.owner, name, elem_type)
        self._problems.append(f"it is in a body of {scope.owner.op_type}, which cannot return more outputs")
        return []

    def _graph_output(self, scope: Scope, name: str) -> Tap:
        if name not in self._returned:
            self._returned.add(name)
            _outputs(scope).append(onnx.ValueInfoProto(name=name))
        return Tap(name)

    def _through_if(self, scope: Scope, owner: NodeView, name: str, elem_type: int | None) -> list[Tap]:
        if elem_type is None:
            self._problems.append("it is in a branch of If, and its type is unknown")
            return []
        parent = _parent(scope)
        for attribute, graph in node_bodies(owner.proto):
            if body_path(parent.path, owner.proto, attribute) == scope.path:
                outer = self._new_output(owner.proto, len(graph.output))
                graph.output.append(onnx.ValueInfoProto(name=self._returnable(scope, name)))
            else:
                graph.output.append(onnx.ValueInfoProto(name=self._empty_constant(graph, elem_type)))
        return [replace(tap, hops=(*tap.hops, hop_into(scope, owner))) for tap in self._lift(parent, outer, elem_type)]

    def _through_loop(self, scope: Scope, owner: NodeView, name: str, elem_type: int | None) -> list[Tap]:
        conditions = 1 if owner.op_type == "Loop" else 0
        # The first output of a Loop body is the condition, which is not an output of the Loop.
        outer = self._new_output(owner.proto, len(_outputs(scope)) - conditions)
        _outputs(scope).append(onnx.ValueInfoProto(name=self._returnable(scope, name)))
        return [
            replace(tap, hops=(*tap.hops, hop_into(scope, owner)), stacked=tap.stacked + 1)
            for tap in self._lift(_parent(scope), outer, elem_type)
        ]

    def _through_calls(self, scope: Scope, name: str, elem_type: int | None) -> list[Tap]:
        assert isinstance(scope.container, onnx.FunctionProto)
        if scope.path in self._open:
            self._problems.append(f"function {display(scope.path)} calls itself")
            return []
        if not scope.calls:
            self._problems.append(f"function {display(scope.path)} is never called")
        before = len(scope.container.output)
        scope.container.output.append(self._returnable(scope, name))
        outers = [(call, self._new_output(call.proto, before)) for call in scope.calls]
        self._open.add(scope.path)
        taps = [
            replace(tap, hops=(*tap.hops, hop_into(scope, call)))
            for call, outer in outers
            for tap in self._lift(call.scope, outer, elem_type)
        ]
        self._open.discard(scope.path)
        if len(taps) > MAX_TAPS:
            self._problems.append(f"its function is called in {len(taps)} ways; the first {MAX_TAPS} are read")
        return taps

    def _new_output(self, owner: onnx.NodeProto, before: int) -> str:
        """Add an output to ``owner`` at position ``before`` or later; missing outputs before it are also added."""
        while len(owner.output) < before:
            owner.output.append(self._fresh())
        owner.output.append(self._fresh())
        return owner.output[-1]

    def _returnable(self, scope: Scope, name: str) -> str:
        """Return ``name``, or the name of a copy if ``name`` is a formal input or output already."""
        formal = self._formal[scope.path]
        if name not in formal:
            formal.add(name)
            return name
        copy = self._fresh()
        scope.container.node.append(onnx.helper.make_node("Identity", [name], [copy], name=copy))
        return copy

    def _cast(self, scope: Scope, name: str, to: int) -> str:
        copy = self._fresh()
        scope.container.node.append(onnx.helper.make_node("Cast", [name], [copy], name=copy, to=to))
        return copy

    def _empty_constant(self, graph: onnx.GraphProto, elem_type: int) -> str:
        name = self._fresh()
        # Branches of an If may return different shapes; an empty constant marks that the other branch ran.
        empty = TensorProto(data_type=elem_type, dims=[0], raw_data=b"")
        graph.node.append(onnx.helper.make_node("Constant", [], [name], name=name, value=empty))
        return name

    def _fresh(self) -> str:
        return next(n for n in (f"qdqtool_tap_{number}" for number in self._numbers) if n not in self._names)


def _parent(scope: Scope) -> Scope:
    assert scope.parent is not None
    return scope.parent


def _outputs(scope: Scope) -> Any:
    assert isinstance(scope.container, onnx.GraphProto)
    return scope.container.output


def _extend_scan(scan: onnx.NodeProto) -> None:
    """Add an entry for a new output to the attributes that need one entry for each scan output."""
    for attribute in scan.attribute:
        if attribute.name in {"scan_output_axes", "scan_output_directions"}:
            attribute.ints.append(0)
