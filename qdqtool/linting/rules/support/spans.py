"""Which values each activation of a model can have, from the ranges of the pairs and the weights alone.

Every DQ bounds its tensor: its codes have a range. From there the values are followed forward through the operators,
whose rules stand in :mod:`qdqtool.models.ops`, and through products with constant weights, up to the next Q.
"""

import math

import numpy as np

from qdqtool.linting.rules.support.rule_context import Bounds, RuleContext
from qdqtool.linting.rules.support.stored_values import StoredValues
from qdqtool.linting.rules.support.words import format_of, has_its_inputs
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops import ProductOp, Span, constant_span, same_span, summed_span

NO_ZERO_POINT = Bounds(0.0, 0.0)


class Spans:
    """The values that the tensors of a model can have.

    Args:
        context: The model.
    """

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._stored = StoredValues(context)
        self._known: dict[Value | None, Span | None] = {None: None}
        for node in context.nodes:
            for index in range(len(node.proto.output)):
                value = node.output(index)
                # A constant is read when somebody asks for it: the weight of a product is not.
                if value not in self._known and not self._stored.is_constant(value):
                    self._known[value] = self._made(node, index)

    def of(self, value: Value | None) -> Span | None:
        """Return the values that a tensor can have; None where nothing is known."""
        if value not in self._known:
            # A constant, an input of the graph, or a tensor that a node before its producer reads.
            self._known[value] = self._constant(value)
        return self._known[value]

    def range_of(self, entry: QdqNode) -> Span | None:
        """Return the values that the codes of a Q or DQ stand for; None where its parameters are not constant."""
        fmt, step = format_of(entry.quantized_type), self._bounds(entry.scale)
        zero = NO_ZERO_POINT if entry.zero_point is None else self._bounds(entry.zero_point)
        # Codes of 32 bits are sums, whose range nobody chose. A scale for each channel is rare for an activation.
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
        """Return the values behind a node that is neither Q, DQ nor product."""
        known = ops.traits(node)
        # A second output may have indices, as that of a MaxPool, and no values.
        if index and self._context.elem_type(node.output(index)) != self._context.elem_type(node.input(0)):
            return None
        if known.moves_values or known.span is same_span:
            return self._moved(node)
        if known.passes_values:
            return self.of(node.input(0))
        # An attribute of a local function's caller is not known here.
        if known.span is None or index or node.is_parametric or not has_its_inputs(node):
            return None
        spans = [self.of(node.input(each)) for each in range(len(node.proto.input))]
        return known.span(node, spans, lambda each: self._stored.array(node.input(each)))

    def _moved(self, node: NodeView) -> Span | None:
        """Return the values behind a node that moves them: channels stay apart where its traits say so."""
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
        # A convolution reads zeros beyond the edge.
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
            # One number for each channel, however it is stored.
            bias = Span(bias.low, bias.high, 0.0, product.channel_layout)
        return summed_span(span, bias.times(float(node.attribute("beta", 1.0))))

    def _of_two(self, node: NodeView, product: ProductOp) -> Span | None:
        """Return the values of a product of two activations, of which only the magnitudes are used."""
        left, right = self.of(node.input(0)), self.of(node.input(product.weight_input))
        shape = self._context.shape(node.input(0))
        terms = shape[-1] if shape and product.is_matrix_product and not node.attribute("transA", 0) else None
        if left is None or right is None or not isinstance(terms, int):
            return None
        most = terms * left.most * right.most
        span = Span(-most, most, source=left.source or right.source)
        return self._biased(node, product, span.times(float(node.attribute("alpha", 1.0))))
