"""QL318: float32 nodes between Casts that only move half-precision values."""

from collections.abc import Iterator

from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.reach import reachable
from qdqtool.linting.rules.support.rule import FALLBACK, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models import ops
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops import CodePath
from qdqtool.models.options import HalfType
from qdqtool.models.targets import Target
from qdqtool.models.transforms.half.operands import Operands, operands_of

UNCAST = Offer("safe", "moves the values in half precision and removes the Casts; both ways give the same bits")


class Float32Island(Rule):
    """Nodes that only move half-precision values have no Casts to float32 and back around them.

    Why it matters: every output value of a MaxPool, Slice, Concat, Gather, Split or Tile is an input value, so float32
    adds no accuracy. TensorRT for RTX still stores the values in float32, in up to two more kernels. Behind a DQ, the
    next Conv or MatMul then computes in float instead of on codes.

    Bad: Cast to float32, MaxPool, Cast to float16.

    Good: the MaxPool in float16.
    """

    code = "QL318"
    name = "placement.float32-island"
    affects = impacts(tensorrt=FALLBACK)
    remedy = "remove the Casts in front of the nodes and behind them"
    offers = (UNCAST,)
    VALID = examples("""
        Casts around a Softmax, which is more accurate in float32:
            agraph (float16[1,2,4,4] x) => (float16[1,2,2,2] y) {
                f = Cast <to = 1> (x)
                s = Softmax (f)
                m = MaxPool <kernel_shape = [3,3]> (s)
                y = Cast <to = 10> (m)
            }
        a MaxPool in float16:
            agraph (float16[1,2,4,4] x) => (float16[1,2,2,2] y) {
                y = MaxPool <kernel_shape = [3,3]> (x)
            }
    """)
    INVALID = examples("""
        a MaxPool in float32:
            agraph (float16[1,2,4,4] x) => (float16[1,2,2,2] y) {
                f = Cast <to = 1> (x)
                m = MaxPool <kernel_shape = [3,3]> (f)
                y = Cast <to = 10> (m)
            }
        a Concat of two tensors in float32:
            agraph (float16[1,4] x, float16[1,4] z) => (float16[1,8] y) {
                f = Cast <to = 1> (x)
                g = Cast <to = 1> (z)
                c = Concat <axis = 1> (f, g)
                h = Cast <to = 10> (c)
                y = Neg (h)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for connected moving nodes that only read and feed Casts."""
        for half in HalfType:
            seen = set[NodeView]()
            for node in context.nodes:
                # Measured with TensorRT for RTX: Casts around the other nodes cost nothing.
                if node in seen or not _is_exact(node) or ops.traits(node).passes_casts:
                    continue
                island = _Island(context, half, node)
                seen.update(island.nodes)
                if island.is_between_casts():
                    message = f"{node.op_type} moves {half.onnx_name} values in float32, between Casts"
                    found, expected = f"Cast, {node.op_type}, Cast", f"{node.op_type} in {half.onnx_name}"
                    fix = UNCAST.fix(f"computes in {half.onnx_name} and removes the Casts", _uncast, island)
                    yield Fault(message, node, node.output(), found=found, expected=expected, fixes=(fix,))


class _Island:
    """Connected float32 nodes that only move values.

    Attributes:
        half: The type that is expected before and behind them.
        nodes: The nodes, each with its float operands.
        entries: The inputs that read a Cast, each with the tensor before the Cast.
        exits: The Casts behind the nodes.
    """

    def __init__(self, context: RuleContext, half: HalfType, first: NodeView) -> None:
        self._types = context.types
        self.half = half
        self.nodes: dict[NodeView, Operands | None] = {}
        self.entries: list[tuple[NodeView, int, Value]] = []
        self.exits: list[NodeView] = []
        list(reachable([first], self._neighbors))

    def is_between_casts(self) -> bool:
        """Return whether the nodes read and feed only Casts from and to half precision."""
        scopes = {node.scope for node in self.nodes}
        return len(scopes) == 1 and all(self._is_bounded(node) for node in self.nodes) and bool(self.exits)

    def outputs(self) -> Iterator[Value]:
        """Yield the float tensors that the nodes make."""
        for node, own in self.nodes.items():
            for index in own.outputs if own is not None else ():
                if (value := node.output(index)) is not None:
                    yield value

    def _neighbors(self, node: NodeView) -> Iterator[NodeView]:
        own = self.nodes[node] = operands_of(node, self._types, self.half)
        if own is None:
            return
        for value in map(node.input, own.inputs):
            if value is not None and value.producer is not None and _is_exact(value.producer):
                yield value.producer
        for value in map(node.output, own.outputs):
            yield from (use.node for use in (value.uses if value is not None else ()) if _is_exact(use.node))

    def _is_bounded(self, node: NodeView) -> bool:
        own = self.nodes[node]
        if own is None or own.problem:
            return False
        for index in own.inputs:
            value = node.input(index)
            maker = value.producer if value is not None else None
            if maker in self.nodes:
                continue
            source = maker.input(0) if maker is not None and maker.is_op("Cast") else None
            if source is None or self._types.elem_type(source) != self.half.elem_type:
                return False
            self.entries.append((node, index, source))
        for value in map(node.output, own.outputs):
            behind = [use.node for use in value.uses if use.node not in self.nodes] if value is not None else []
            narrows = all(each.is_op("Cast") and each.attribute("to") == self.half.elem_type for each in behind)
            if value is None or value.is_output or not narrows:
                return False
            self.exits += behind
        return True


def _is_exact(node: NodeView) -> bool:
    """Return whether the float outputs of a node are values of its float inputs."""
    known = ops.traits(node)
    return known.moves_values or known.codes is CodePath.SELECTED or node.is_op("Concat")


def _uncast(island: _Island, draft: Draft) -> None:
    for node, index, source in island.entries:
        draft.require_visible(source, [node])
        draft.set_input(node, index, source.name)
    for made in island.outputs():
        draft.set_type(made, island.half.elem_type)
    for cast in island.exits:
        narrow, value = cast.output(), cast.input(0)
        # A Cast that makes an output of the graph stays, and does nothing any more.
        if narrow is not None and value is not None and not narrow.is_output:
            draft.require_visible(value, [use.node for use in narrow.uses])
            draft.replace(narrow, value.name)
