"""Order the nodes of a divided model in stages that alternate ONNX Runtime segments and our own nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx

from qdqtool.models.graph.scope import node_bodies
from qdqtool.models.running.own_support import OwnNode, Split

CONSTANT = -1
"""The stage number of tensors that are known before any run."""


@dataclass(slots=True)
class Stage:
    """One stage: ONNX Runtime runs first, then our own core.

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


def make_stages(proto: onnx.ModelProto, split: Split) -> Stages:
    """Divide the nodes of a model into stages, each node as early as its inputs allow."""
    planner = _Planner(split)
    for node in proto.graph.node:
        planner.add(node)
    for output in proto.graph.output:
        planner.mark_needed(output.name, len(planner.stages))
    return Stages(planner.stages, planner.constant)


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield every name that a node or one of its bodies reads, including names that a body defines itself."""
    yield from filter(None, node.input)
    for _, graph in node_bodies(node):
        yield from (output.name for output in graph.output)
        for inner in graph.node:
            yield from names_read(inner)


class _Planner:
    def __init__(self, split: Split) -> None:
        self.stages: list[Stage] = []
        self.constant: list[OwnNode] = []
        self._split = split
        self._made: dict[str, int] = {}
        self._by_own: set[str] = set()

    def add(self, node: onnx.NodeProto) -> None:
        own = self._split.own.get(tuple(node.output))
        read = list(names_read(node))
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
        """Note that a stage reads ``name``; reading by own nodes of the stage that makes it counts as a later stage."""
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
        """Whether a tensor is a constant that our own core can read by itself."""
        value = self._split.index.view.main.values.get(name)
        constants = self._split.index.constants
        if value is None or not constants.is_constant(value):
            return False
        return constants.direct(value) is not None or constants.array(value) is not None

    def _stage(self, number: int) -> Stage:
        while len(self.stages) <= number:
            self.stages.append(Stage())
        return self.stages[number]


def produced(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Return every name that the nodes make."""
    return {name for node in nodes for name in node.output if name}
