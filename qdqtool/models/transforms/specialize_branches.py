"""Replace an If with a constant condition by the branch that is taken.

Nodes move to another scope with all their fields. No edit of :mod:`qdqtool.models.graph.edits.edit` can express this,
so this module edits a copy of the ModelProto directly.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx

from qdqtool.models.graph.edits.naming import Namer, rename_in_graph
from qdqtool.models.graph.edits.surgeon import IR_WITH_FREE_INITIALIZERS, apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope, Value
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import ScopePath, body_path
from qdqtool.models.transforms.interface import required_inputs

TensorKey = tuple[ScopePath, str]


@dataclass(frozen=True, slots=True)
class _BranchSite:
    """An If with a constant condition: its position, and the attributes of the taken and of the dropped branch."""

    scope: ScopePath
    index: int
    taken: str
    dropped: str


def inline_branches(model: Model) -> Transformed[int]:
    """Replace the outermost If nodes with constant conditions by the branches that are taken.

    The nodes of the taken branch replace the If and keep names, doc strings and metadata. A tensor name that also
    occurs in another scope gets a suffix. Dead code of the condition and of the other branch is removed.

    Returns:
        The model, with the number of replaced If nodes.
    """
    index = ModelIndex.of(model)
    sites = list(_decided(index))
    if not sites:
        return Transformed(model, 0)
    suspects = [key for site in sites for key in _read_by_dropped(index.view, site)]
    result = model.fork(copy_model(model.proto))
    _Inliner(GraphView(result)).run(sites)
    return Transformed(_without_dead_code(result, suspects), len(sites))


def _decided(index: ModelIndex) -> Iterator[_BranchSite]:
    gone: set[NodeView | None] = set()
    # Owners come before their subgraphs, so an If inside a replaced If is left for the next round.
    for scope in index.view.scopes:
        inside = any(around.owner in gone for around in scope.outwards())
        for node in scope.nodes if not inside else ():
            site = _site(node, index.shape_constants)
            if site is not None:
                gone.add(node)
                yield site


def _site(node: NodeView, constants: Constants) -> _BranchSite | None:
    condition = node.input(0) if node.is_op("If") else None
    decided = constants.array(condition) if condition is not None else None
    if decided is None or decided.size != 1:
        return None
    taken, dropped = ("then_branch", "else_branch") if decided.reshape(()) else ("else_branch", "then_branch")
    branch = node.attribute(taken)
    whole = isinstance(branch, onnx.GraphProto) and not branch.sparse_initializer
    return _BranchSite(node.scope.path, node.index, taken, dropped) if whole and any(node.key) else None


def deciding_values(index: ModelIndex) -> dict[str, tuple[float, ...]]:
    """Return a value for each input that alone decides an If: the value with which the condition compares it."""
    inputs = {value.name: value for value in required_inputs(index.model.proto)}
    found: dict[str, tuple[float, ...]] = {}
    for node in index.view.main.nodes:
        condition = node.input(0) if node.is_op("If") else None
        compared = condition.producer if condition is not None else None
        if compared is None or not compared.is_op("Equal"):
            continue
        for value, other in (compared.present_inputs, compared.present_inputs[::-1]):
            constant = index.constant(other)
            if value.name in inputs and constant is not None and constant.size == 1 and constant.dtype.kind in "iub":
                found.setdefault(value.name, (int(constant.item()),))
    return found


def _read_by_dropped(view: GraphView, site: _BranchSite) -> Iterator[TensorKey]:
    """Yield tensors that may have no reader left: condition and outputs of the If, inputs of the dropped branch."""
    node = view.scope(site.scope).nodes[site.index]
    yield from ((site.scope, name) for name in node.key if name)
    condition = node.input(0)
    if condition is not None:
        yield condition.scope.path, condition.name
    dropped = body_path(site.scope, node.proto, site.dropped)
    for scope in view.scopes:
        if scope.path[: len(dropped)] == dropped:
            for value in _read_in(scope):
                if value.scope.path[: len(dropped)] != dropped:
                    yield value.scope.path, value.name


def _read_in(scope: Scope) -> Iterator[Value]:
    names = [*(name for node in scope.nodes for name in node.proto.input if name), *scope.output_names()]
    yield from (value for name in names if (value := scope.resolve(name)) is not None)


def _without_dead_code(model: Model, suspects: Iterable[TensorKey]) -> Model:
    view = GraphView(model)
    dead = DeadCode(view)
    for path, name in dict.fromkeys(suspects):
        value = view.scope(path).values.get(name)
        if value is not None:
            dead.suspect(value)
    edits = dead.edits()
    return apply_edits(model, edits) if edits else model


class _Inliner:
    """Moves branches to the enclosing scope in a copy of the model. ``view`` shows the state before the first move."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._namer = Namer(view)
        self._definers = Counter(value.name for value in view.values())

    def run(self, sites: Iterable[_BranchSite]) -> None:
        by_scope: dict[ScopePath, list[_BranchSite]] = {}
        for site in sites:
            by_scope.setdefault(site.scope, []).append(site)
        # Inner scopes first, because a scope is rebuilt after its subgraphs.
        for path in sorted(by_scope, key=len, reverse=True):
            scope = self._view.scope(path)
            moved = {site.index: self._branch(scope.nodes[site.index], site.taken) for site in by_scope[path]}
            _rebuild(scope, moved, self._view.model.proto)

    def _branch(self, node: NodeView, attribute: str) -> onnx.GraphProto:
        """Copy the branch, with tensor names that are unique in the model and the output names of ``node``."""
        branch = onnx.GraphProto()
        branch.CopyFrom(node.attribute(attribute))
        made = {name for inner in branch.node for name in inner.output if name}
        names: dict[str, str] = {}
        copies: list[tuple[str, str]] = []
        for outer, output in zip(node.proto.output, branch.output, strict=False):
            if outer and output.name in made and output.name not in names:
                names[output.name] = outer
            elif outer:
                copies.append((output.name, outer))
        for name in sorted(made | {tensor.name for tensor in branch.initializer}):
            if name not in names and self._definers[name] > 1:
                names[name] = self._namer.tensor(name)
        rename_in_graph(branch, names)
        branch.node.extend(self._identity(names.get(source, source), outer) for source, outer in copies)
        return branch

    def _identity(self, source: str, target: str) -> onnx.NodeProto:
        return onnx.helper.make_node("Identity", [source], [target], name=self._namer.node(f"{target}_Identity"))


def _rebuild(scope: Scope, moved: Mapping[int, onnx.GraphProto], proto: onnx.ModelProto) -> None:
    """Replace If nodes by the nodes of their branches. Types and annotations of the branches move to the scope."""
    container = scope.container
    nodes: list[onnx.NodeProto] = []
    for node in scope.nodes:
        nodes += moved[node.index].node if node.index in moved else [node.proto]
    # The new GraphProto copies the nodes. Deleting from the container would free the originals.
    rebuilt = onnx.GraphProto(node=[*_constant_nodes(scope, moved.values()), *nodes])
    del container.node[:]
    container.node.extend(rebuilt.node)
    _describe(scope, moved)
    if isinstance(container, onnx.GraphProto):
        for branch in moved.values():
            container.initializer.extend(branch.initializer)
            container.quantization_annotation.extend(branch.quantization_annotation)
            if branch.initializer:
                proto.ir_version = max(proto.ir_version, IR_WITH_FREE_INITIALIZERS)


def _constant_nodes(scope: Scope, branches: Iterable[onnx.GraphProto]) -> list[onnx.NodeProto]:
    """Return Constant nodes for the branches' initializers if the scope is a function, which has no initializers."""
    if not scope.is_function:
        return []
    tensors = [tensor for branch in branches for tensor in branch.initializer]
    return [onnx.helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in tensors]


def _describe(scope: Scope, moved: Mapping[int, onnx.GraphProto]) -> None:
    """Replace the declared types of the If's outputs, which fit both branches, by the types in the taken branch."""
    infos = scope.container.value_info
    old = {name for index in moved for name in scope.nodes[index].key}
    for position in reversed(range(len(infos))):
        if infos[position].name in old:
            del infos[position]
    for branch in moved.values():
        infos.extend(branch.value_info)
