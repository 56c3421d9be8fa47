"""QM604: stored weights that are quantized twice, or for only some of their readers."""

import hashlib
from collections import defaultdict

import numpy as np

from qdqtool.errors import ModelError
from qdqtool.linting.findings import Extent
from qdqtool.linting.rules.support.extents import octaves
from qdqtool.linting.rules.support.rule import CAUTION, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext, as_reals
from qdqtool.linting.rules.support.words import FLOAT_TYPES, places
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode, same_constant
from qdqtool.models.graph.index.view import Use, Value
from qdqtool.models.graph.io.tensors import element_count, read_array
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import PerTensor

LEAST_COUNT = 1024
"""Smaller tensors (in elements) are not compared, because they may be equal by chance."""


class TiedWeight(Rule):
    """A weight that several operators share has one pair for all of them.

    Why it matters: a weight that one reader reads quantized and another as float is kept twice, and the two compute
    with different weights. Two pairs with different scales along one axis make two sets of codes. The same happens if
    an exporter stores a weight twice, under two names. There is no fix: only the author knows which of the two forms is
    right.

    Bad: a Q on the weight of one MatMul, while another MatMul reads the same initializer as float.

    Good: one pair that both read. Two pairs are right only if the readers need scales along different axes.
    """

    code = "QM604"
    name = "model.tied-weight"
    affects = impacts(onnx=CAUTION, ort_cpu=CAUTION, tensorrt=CAUTION)
    remedy = "let all readers read one pair"
    VALID = examples("""
        one pair for both readers:
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                m = MatMul (x, wd)
                y = MatMul (m, wd)
            }
    """)
    INVALID = examples("""
        quantized for one reader only:
            agraph (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (w, ws, z)
                wd = DequantizeLinear (q, ws, z)
                m = MatMul (x, wd)
                y = MatMul (m, w)
            }
        codes with two scales:
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float a = {0.1}, float b = {0.2}> {
                wd = DequantizeLinear (w, a)
                m = MatMul (x, wd)
                wd2 = DequantizeLinear (w, b)
                y = MatMul (m, wd2)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at every initializer that a Q or DQ reads as data: at its readers and the readers of its copies."""
        seen: set[Value] = set()
        yield from _copies(context)
        for entry in context.qdq.nodes:
            value = entry.data
            if value is None or value.initializer is None or value in seen:
                continue
            seen.add(value)
            problem = _problem(context, value)
            if problem is not None:
                message = f"the weight '{value.name}' {problem}"
                expected = "one pair for all readers"
                extent = _extent(context, value)
                yield Fault(message, entry.node, value, found=problem, expected=expected, extent=extent)


def _problem(context: RuleContext, value: Value) -> str | None:
    entries = [entry for use in value.uses if use.index == 0 and (entry := context.qdq.get(use.node)) is not None]
    others = [use.node for use in value.uses if context.qdq.get(use.node) is None]
    if others and context.elem_type(value) in FLOAT_TYPES:
        return f"is quantized for one reader and float for {others[0].op_type} '{others[0].label}'"
    first = entries[0]
    if any(_same_axis(context, first, entry) and _differs(context, first, entry) for entry in entries[1:]):
        return "is quantized twice along one axis, with different scales"
    return None


def _extent(context: RuleContext, value: Value) -> Extent | None:
    """Return the largest difference of the scales of a weight in powers of two; None if they cannot be compared."""
    entries = [entry for use in value.uses if use.index == 0 and (entry := context.qdq.get(use.node)) is not None]
    scales = [context.array(entry.scale) for entry in entries]
    reals = [as_reals(each).reshape(-1) for each in scales if each is not None]
    if len(reals) < max(2, len(value.uses)) or len({each.size for each in reals}) > 1:
        return None
    return Extent("scales", degree=float(max(octaves(each, reals[0]).max(initial=0.0) for each in reals)))


def _same_axis(context: RuleContext, first: QdqNode, second: QdqNode) -> bool:
    whole = first.granularity == second.granularity == PerTensor()
    return whole or (first.scale_shape == second.scale_shape and context.axis(first) == context.axis(second))


def _differs(context: RuleContext, first: QdqNode, second: QdqNode) -> bool:
    return same_constant(first.scale, second.scale, context.constants) is False


def _copies(context: RuleContext) -> Faults:
    """Yield float weights with the same values as a quantized weight."""
    alike: dict[tuple[object, ...], list[Value]] = defaultdict(list)
    for value in context.view.values():
        stored = value.initializer
        if stored is None or stored.data_type not in FLOAT_TYPES or element_count(stored) < LEAST_COUNT:
            continue
        if any(_reads_weight(context, use) for use in value.uses):
            alike[stored.data_type, tuple(stored.dims)].append(value)
    for group in (each for each in alike.values() if len(each) > 1 and any(_quantized(context, one) for one in each)):
        same: dict[bytes, list[Value]] = defaultdict(list)
        for value in group:
            print_ = _digest(context, value)
            if print_ is not None:
                same[print_].append(value)
        yield from (fault for values in same.values() for fault in _unlike(context, values))


def _unlike(context: RuleContext, values: list[Value]) -> Faults:
    first = next((value for value in values if _quantized(context, value)), None)
    for value in values:
        if first is not None and not _quantized(context, value):
            reader = value.uses[0].node
            message = f"the weight '{value.name}' has the values of '{first.name}', which is quantized"
            found = f"float for {reader.op_type} '{reader.label}'"
            yield Fault(message, reader, value, found=found, expected="one pair for all readers")


def _quantized(context: RuleContext, value: Value) -> bool:
    return any(use.index == 0 and context.qdq.get(use.node) is not None for use in value.uses)


def _reads_weight(context: RuleContext, use: Use) -> bool:
    """Return whether a use is the data of a Q or DQ, the weight of a product, or the table of a Gather."""
    product = ops.product(use.node)
    weight = product is not None and product.weight_input == use.index
    return weight or (use.index == 0 and (context.qdq.get(use.node) is not None or use.node.is_op("Gather")))


def _digest(context: RuleContext, value: Value) -> bytes | None:
    """Return a hash of a sample of a weight; None for unreadable weights, and for weights with a single value."""
    assert value.initializer is not None
    try:
        weight = read_array(context.model, value.initializer).reshape(-1)
    except ModelError:
        return None
    sample = weight[places(weight.size)]
    return hashlib.sha256(sample.tobytes()).digest() if np.any(sample != sample[0]) else None
