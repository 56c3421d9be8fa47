"""Estimate how much of the noise in each channel reaches the outputs of the model.

A product ``y_o = sum_i W_oi x_i`` turns noise of mean square 1 in ``x_i`` into noise of mean square ``W_oi**2`` in
``y_o``. If noises are independent, the importance of channel i of x is therefore ``sum_o importance_o * W_oi**2``. It
is computed from the outputs of the model back to its inputs. It makes the noises of different channels comparable:
factors that move between layers change both the noise of a channel and the weights that read it, and the two cancel.

The estimate is rough. Operators other than products are assumed to pass noise on unchanged. If channels cannot be
followed (a Reshape that mixes them, a product of two activations), each gets the mean of all.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.ops.support.weights import StoredWeight, WeightProblem, stored_weight
from qdqtool.numerics.product import Factors

Importance = Mapping[Value, Factors]
"""For each tensor that reaches an output: one number for each channel, or one number for all channels."""


def channel_importance(index: ModelIndex) -> Importance:
    """Return the channel importance of every activation that reaches an output of its graph or body."""
    walk = _Backward(index)
    for scope in reversed(index.view.scopes):
        for name in scope.output_names():
            result = scope.resolve(name)
            if result is not None:
                walk.add(result, np.ones(1))
        for node in reversed(scope.nodes):
            walk.pass_on(node)
    return walk.found


def of_outputs(importance: Importance, product: NodeView, channels: int) -> Factors:
    """Return the importance of each output channel of a product.

    Args:
        importance: The importance by tensor; empty if nothing is known about the model.
        product: The operator.
        channels: Number of output channels of the operator.

    Returns:
        Shape ``(channels,)``: zeros if no output of the model depends on the channels, ones if nothing is known.
    """
    output = product.output()
    found = importance.get(output, np.zeros(1)) if output is not None and importance else np.ones(1)
    if found.size != channels:
        found = _mean(found)
    return np.asarray(np.broadcast_to(found if np.isfinite(found).all() else 1.0, channels), np.float64)


class _Backward:
    """The importance that is known so far, on the way from the outputs to the inputs."""

    def __init__(self, index: ModelIndex) -> None:
        self._constants = index.constants
        self._weights = dict(_stored_weights(index))
        self._counts = _channel_counts(index.view, self._weights)
        self.found: dict[Value, Factors] = {}

    def add(self, value: Value, more: Factors) -> None:
        """Add one more path on which the noise of a tensor reaches an output."""
        before = self.found.get(value)
        if before is not None and before.size != more.size and 1 not in (before.size, more.size):
            before, more = _mean(before), _mean(more)
        self.found[value] = more if before is None else before + more

    def pass_on(self, node: NodeView) -> None:
        """Pass the importance of a node's results on to its inputs."""
        arriving = [self.found[value] for value in node.present_outputs if value in self.found]
        if not arriving:
            return
        result = arriving[0] if len(node.proto.output) == 1 else _mean(np.concatenate(arriving))
        for value, part in self._parts(node, result):
            if not self._constants.is_constant(value):
                self.add(value, part)

    def _parts(self, node: NodeView, result: Factors) -> Iterator[tuple[Value, Factors]]:
        inputs = node.present_inputs
        if node in self._weights:
            yield inputs[0], self._through(self._weights[node], result)
        elif node.is_op("Concat"):
            yield from self._split(inputs, result)
        elif ops.traits(node).flattens_channels:
            yield inputs[0], self._unflattened(inputs[0], result)
        else:
            same = ops.traits(node).keeps_channels
            yield from ((value, result if same else _mean(result)) for value in inputs)

    def _through(self, weight: StoredWeight, result: Factors) -> Factors:
        layout = weight.layout
        if result.size != layout.outputs:
            result = np.broadcast_to(_mean(result), layout.outputs)
        canonical = layout.canonical(weight.read()).astype(np.float32, copy=False)
        squares = np.einsum("goik,goik->goi", canonical, canonical).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.einsum("goi,go->gi", squares, result.reshape(layout.groups, -1)).reshape(-1))

    def _split(self, inputs: list[Value], result: Factors) -> Iterator[tuple[Value, Factors]]:
        counts = [self._counts.get(value, 0) for value in inputs]
        whole = all(counts) and sum(counts) == result.size
        ends = np.cumsum(counts)[:-1]
        parts = np.split(result, ends) if whole else [_mean(result)] * len(inputs)
        yield from zip(inputs, parts, strict=True)

    def _unflattened(self, value: Value, result: Factors) -> Factors:
        count = self._counts.get(value, 0)
        if not count or result.size % count:
            return _mean(result)
        return np.asarray(result.reshape(count, -1).sum(axis=1))


def _stored_weights(index: ModelIndex) -> Iterator[tuple[NodeView, StoredWeight]]:
    for node in index.view.nodes():
        if ops.product(node) is not None and not node.is_parametric and node.input(0) is not None:
            try:
                yield node, stored_weight(node, index.constants)
            except WeightProblem:
                continue


def _channel_counts(view: GraphView, weights: Mapping[NodeView, StoredWeight]) -> dict[Value, int]:
    """Return the number of channels of each tensor, if the weights determine this number."""
    counts: dict[Value, int] = {}
    for node in view.nodes():
        output = node.output()
        inputs = [counts.get(value, 0) for value in node.present_inputs]
        if output is None or not inputs:
            continue
        if node in weights:
            counts[output] = weights[node].layout.outputs
        elif node.is_op("Concat") and all(inputs):
            counts[output] = sum(inputs)
        elif ops.traits(node).keeps_channels and any(inputs):
            counts[output] = max(inputs)
    return counts


def _mean(values: Factors) -> Factors:
    return np.asarray([values.mean()], np.float64)
