"""QL306: pairs on numbers that are shapes or indices."""

from collections.abc import Iterator

from qdqtool.linting.rules.fixes.unquantize import FLOAT_TENSOR, float_tensor
from qdqtool.linting.rules.support.rule import SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.targets import Target

MAX_STEPS = 16


class IndexPath(Rule):
    """Shapes, indices and conditions are computed without pairs.

    Why it matters: a pair rounds to multiples of its scale and clips at 127 times the scale. For measured values the
    error is small. But an index or extent becomes another number, and the model reads the wrong rows without an error.

    Bad: Q and DQ on float numbers that are then cast to the indices of a Gather.

    Good: pairs on data only.
    """

    code = "QL306"
    name = "placement.index-path"
    affects = impacts(onnx=SUSPECT, ort_cpu=SUSPECT, tensorrt=SUSPECT)
    remedy = "remove the pair"
    offers = (FLOAT_TENSOR,)
    VALID = examples("""
        the data of a Gather is quantized, its indices are not:
            agraph (float[4,2] x, float[3] i) => (float[3,2] y) <float s = {0.1}, int8 z = {0}> {
                $PAIR_TO_XD
                n = Cast <to = 7> (i)
                y = Gather (xd, n)
            }
    """)
    INVALID = examples("""
        indices, rounded to multiples of 0.3:
            agraph (float[3] x) => (float[3] y) <float[4] table = {0, 10, 20, 30}, float s = {0.3}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                i = DequantizeLinear (q, s, z)
                n = Cast <to = 7> (i)
                y = Gather (table, n)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Follow every shape and index input back to the DQs that it depends on; report each DQ once."""
        seen: set[Value] = set()
        for node in context.nodes:
            for index in ops.traits(node).index_inputs:
                for entry in _quantized(context, node.input(index), seen, MAX_STEPS):
                    message = f"{node.op_type} '{node.label}' reads the output of this DQ as {_role(node, index)}"
                    fix = float_tensor(entry)
                    yield Fault(message, entry.node, entry.output, found="a pair", expected="no pair", fixes=(fix,))


def _quantized(context: RuleContext, value: Value | None, seen: set[Value], steps: int) -> Iterator[QdqNode]:
    if value is None or value in seen or value.producer is None or not steps:
        return
    seen.add(value)
    entry = context.qdq.dequantizer_of(value)
    if entry is not None:
        yield entry
        return
    node = value.producer
    if ops.moves_values(node):
        yield from _quantized(context, node.input(0), seen, steps - 1)
    elif ops.traits(node).computes_indices:
        for read in node.inputs:
            yield from _quantized(context, read, seen, steps - 1)


def _role(node: NodeView, index: int) -> str:
    return f"'{node.input_name(index)}', a shape, index or condition"
