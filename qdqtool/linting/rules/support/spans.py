"""Compute bounds for the values of each activation of a model, from the ranges of the pairs and the weights alone.

Every DQ bounds its tensor, since its codes have a range. The bounds are followed forward through operators, by the
rules of :mod:`qdqtool.models.ops`, and through products with constant weights, up to the next Q.
"""

import contextlib
import math

import numpy as np

from qdqtool.errors import ArgumentError, ModelError
from qdqtool.linting.rules.support.rule_context import Array, Bounds, RuleContext
from qdqtool.linting.rules.support.words import format_of, has_its_inputs
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import element_count
from qdqtool.models.ops import ProductOp, Span, constant_span, same_span, summed_span
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.granularity import Blocked, PerAxis, normalize_axis

MOST_READ = 1 << 23
"""Largest number of elements of a constant that is read. Larger constants count as unknown."""
MOST_READ_TOGETHER = 1 << 25
"""Most elements that are read of all constants together, in half a second. ResNet-50 has 25 million weights."""
MOST_KEPT = 1 << 16
"""Larger arrays (in elements) are not kept in memory, because the weight of a product is needed only once."""
MAX_STEPS = 8


class StoredValues:
    """Reads constants up to a limit, and keeps the small ones."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._left = MOST_READ_TOGETHER
        self._arrays: dict[Value | None, Array | None] = {}

    def is_constant(self, value: Value | None) -> bool:
        """Return whether a tensor is constant, or computed from a constant by Q, DQ and nodes that only move values."""
        source, _ = self._traced(value)
        return source is not None and self._context.constants.is_constant(source)

    def array(self, value: Value | None) -> Array | None:
        """Return the real numbers of a constant; None if it is computed, too large or unreadable."""
        if value in self._arrays:
            return self._arrays[value]
        found = None
        # Other rules report unreadable constants.
        with contextlib.suppress(ModelError, ArgumentError, ValueError):
            found = self._computed(value)
        if found is None or found.size <= MOST_KEPT:
            self._arrays[value] = found
        return found

    def _traced(self, value: Value | None) -> tuple[Value | None, list[NodeView]]:
        """Follow a tensor back through Q, DQ and nodes that only move values; return the source and these nodes."""
        # Only a few steps are followed: a damaged model may have a cycle, and a hostile model a chain of any length.
        source = value
        nodes: list[NodeView] = []
        while source is not None and source.producer is not None and len(nodes) < MAX_STEPS:
            node = source.producer
            if self._context.qdq.get(node) is None and not ops.traits(node).reorders_axes:
                break
            nodes.append(node)
            source = node.input(0)
        return source, nodes[::-1]

    def _computed(self, value: Value | None) -> Array | None:
        source, nodes = self._traced(value)
        found, are_codes = self._read(source) if source is not None else None, True
        for node in nodes:
            if found is None:
                return None
            entry = self._context.qdq.get(node)
            if entry is None:
                found = _reordered(node, found)
                continue
            # The rounding of a Q is ignored: it changes no bound.
            if are_codes and not entry.is_quantize:
                found = self._dequantized(entry, found)
            are_codes = False
        return found

    def _read(self, value: Value) -> Array | None:
        stored = self._context.constants.direct(value)
        size = element_count(stored) if stored is not None else 0
        if size > min(MOST_READ, self._left):
            return None
        self._left -= size
        found = self._context.constants.array(value)
        return found if found is not None and found.dtype.kind in "fiuV" else None

    def _dequantized(self, entry: QdqNode, data: Array) -> Array | None:
        scale, zero = self._context.array(entry.scale), self._context.array(entry.zero_point)
        granularity, is_known = entry.granularity, format_of(entry.quantized_type) is not None
        if not is_known or scale is None or granularity is None or (zero is None and entry.zero_point is not None):
            return None
        if isinstance(granularity, Blocked) or (zero is not None and zero.any()):
            return dequantize(data, scale, granularity, zero, output_dtype="float32")
        # This is the case of most weights. For small weights, the general function takes five times as long.
        steps = scale.astype(np.float32)
        if isinstance(granularity, PerAxis):
            steps = steps.reshape(-1, *[1] * (data.ndim - 1 - normalize_axis(granularity.axis, data.ndim)))
        # If the scale does not fit, the product is larger, and reshape raises an error.
        return np.multiply(data, steps, dtype=np.float32).reshape(data.shape)


def _reordered(node: NodeView, array: Array) -> Array | None:
    order = [axis for each in range(array.ndim) if (axis := ops.source_axis(node, each, array.ndim)) is not None]
    return np.transpose(array, order)


NO_ZERO_POINT = Bounds(0.0, 0.0)


class Spans:
    """The values that the tensors of a model can have."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._stored = StoredValues(context)
        self._known: dict[Value | None, Span | None] = {None: None}
        for node in context.nodes:
            for index, value in enumerate(node.outputs):
                # Constants are read only when they are needed: the weight of a product is not needed here.
                if value not in self._known and not self._stored.is_constant(value):
                    self._known[value] = self._made(node, index)

    def of(self, value: Value | None) -> Span | None:
        """Return the values that a tensor can have, or None if nothing is known."""
        if value not in self._known:
            # This is a constant, an input of the graph, or a tensor that is read before its producer.
            self._known[value] = self._constant(value)
        return self._known[value]

    def range_of(self, entry: QdqNode) -> Span | None:
        """Return the range of values that the codes of a Q or DQ represent; None if its parameters are not constant."""
        fmt, step = format_of(entry.quantized_type), self._bounds(entry.scale)
        zero = NO_ZERO_POINT if entry.zero_point is None else self._bounds(entry.zero_point)
        # Codes of 32 bits are sums: no calibration chose their range. Per-channel scales are rare for activations.
        if fmt is None or fmt.bits > 16 or step is None or zero is None or zero.low != zero.high:
            return None
        if not 0 < step.high < math.inf:
            return None
        return Span((fmt.low - zero.low) * step.high, (fmt.high - zero.low) * step.high, source=entry.node)

    def _bounds(self, value: Value | None) -> Bounds | None:
        array = self._context.array(value)
        if array is None or not array.size:
            return None
        assert value is not None
        return self._context.bounds(value, array)

    def _constant(self, value: Value | None) -> Span | None:
        array = self._stored.array(value)
        return constant_span(array) if array is not None else None

    def _made(self, node: NodeView, index: int) -> Span | None:
        entry, product = self._context.qdq.get(node), ops.product(node)
        if entry is not None:
            return None if entry.is_quantize else self.range_of(entry)
        return self._product(node, product) if product is not None else self._followed(node, index)

    def _followed(self, node: NodeView, index: int) -> Span | None:
        """Return the values of an output of a node that is not a Q, DQ or product."""
        known = ops.traits(node)
        # A second output may be indices instead of values, as for MaxPool.
        if index and self._context.elem_type(node.output(index)) != self._context.elem_type(node.input(0)):
            return None
        if known.moves_values or known.span is same_span:
            return self._moved(node)
        if known.passes_values:
            return self.of(node.input(0))
        # Attributes that a call passes to a local function are unknown here.
        if known.span is None or index or node.is_parametric or not has_its_inputs(node):
            return None
        spans = [self.of(value) for value in node.inputs]
        return known.span(node, spans, lambda each: self._stored.array(node.input(each)))

    def _moved(self, node: NodeView) -> Span | None:
        """Return the values after a node that only moves them, per channel if the traits of the node allow it."""
        span, rule = self.of(node.input(0)), ops.traits(node).factor_rule
        if span is None or span.axis is None:
            return span
        axis = rule(node, span.axis, self._context.index) if rule is not None else None
        return Span(span.low, span.high, span.width, axis, span.source) if axis is not None else span.on(None)

    def _product(self, node: NodeView, product: ProductOp) -> Span | None:
        """Return the values of a product with a constant weight, or of two activations."""
        data, weight = self.of(node.input(0)), self._stored.array(node.input(product.weight_input))
        if data is None or weight is None or not weight.size:
            return self._of_two(node, product)
        layout, axis = product.product_layout(node, weight.shape), product.channel_layout
        if layout is None:
            return self._of_two(node, product)
        # A convolution reads zeros as padding.
        data = data.on(axis).including(0) if product.is_convolution else data.on(axis)
        with np.errstate(all="ignore"):
            canonical = layout.canonical(weight.astype(np.float32, copy=False))
            total, magnitudes = (np.add.reduce(each, (2, 3), np.float64) for each in (canonical, np.abs(canonical)))
        most = float(magnitudes.max())
        if not all(map(math.isfinite, (most, data.low, data.high))):
            return None
        rising, falling = (magnitudes + total) / 2, (total - magnitudes) / 2
        low, high = rising * data.low + falling * data.high, rising * data.high + falling * data.low
        width = most * data.width
        span = Span(float(low.min()), float(high.max()), width, axis, data.source)
        return self._biased(node, product, span.times(float(node.attribute("alpha", 1.0))))

    def _biased(self, node: NodeView, product: ProductOp, span: Span) -> Span | None:
        index = product.bias_input
        if index is None or not node.input_name(index):
            return span
        bias = self.of(node.input(index))
        if bias is None:
            return None
        if product.is_convolution:
            # Each channel has one bias value, in whatever shape the bias is stored.
            bias = Span(bias.low, bias.high, 0.0, product.channel_layout)
        return summed_span(span, bias.times(float(node.attribute("beta", 1.0))))

    def _of_two(self, node: NodeView, product: ProductOp) -> Span | None:
        """Return the values of a product of two activations, from their largest magnitudes."""
        left, right = self.of(node.input(0)), self.of(node.input(product.weight_input))
        shape = self._context.shape(node.input(0))
        terms = shape[-1] if shape and product.is_matrix_product and not node.attribute("transA", 0) else None
        if left is None or right is None or not isinstance(terms, int):
            return None
        most = terms * left.most * right.most
        span = Span(-most, most, source=left.source or right.source)
        return self._biased(node, product, span.times(float(node.attribute("alpha", 1.0))))
