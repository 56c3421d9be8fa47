"""Find constants that differ from those of a baseline. A correction of a bias and a rounded weight are no faults.

Quantizers correct biases. A correction is the mean error of a layer over samples, so it is not larger than that error.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from onnx import numpy_helper

from qdqtool.accuracy.layers.qdq_switches import OtherConstant
from qdqtool.models import ops
from qdqtool.models.diff.matching import match
from qdqtool.models.graph.edits.edit import AddInitializer, Edit, SetInput
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.metadata import CALIBRATION_KEY, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.running.observer import Observer
from qdqtool.numerics.dtypes import FLOAT64, Array

MOST_ERRORS, MOST_ERRORS_ON_RANDOM = 3.0, 10.0
"""Largest correction of a bias, as a multiple of the error of its layer (root mean square). Measured: up to 0.85 on
data like that of the calibration. On random data it was usually up to 10, but 101 once, so no limit is certain."""

LIMITS_OF_FLOAT16 = -65504.0, 65504.0

HALF_STEP = 1 / 14
"""Half a step of 4 bits, as a share of the largest magnitude."""

_Places = Mapping[OtherConstant, tuple[NodeView, NodeView | None]]


def other_constants(
    counterparts: Mapping[NodeView, NodeView], index: ModelIndex, baseline: ModelIndex
) -> Iterator[OtherConstant]:
    """Yield the float constants whose values differ from the baseline's, such as biases that were corrected."""
    for after, before in counterparts.items():
        product = ops.product(after)
        for at, mine in enumerate(after.inputs):
            theirs = before.input(at)
            if mine is None or index.constants.direct(mine) is None or not index.is_float(mine):
                continue
            one, two = index.constants.readable(mine), None
            if theirs is not None:
                two = baseline.constants.readable(theirs) if baseline.constants.direct(theirs) is not None else None
            elif one is not None and product is not None and at == product.bias_input:
                two = np.zeros_like(one)
            if one is None or two is None or one.shape != two.shape:
                continue
            if one.dtype == np.float16:
                two = np.clip(two, *LIMITS_OF_FLOAT16)
            if not np.array_equal(one, two.astype(one.dtype)):
                yield OtherConstant(after, at, one, two)


def with_constants(index: ModelIndex, others: Sequence[OtherConstant]) -> Model:
    """Return a model with the constants of the baseline in place of its own."""
    namer = Namer(index.view)
    edits: list[Edit] = []
    for each in others:
        value = each.node.input(each.index)
        assert value is not None
        tensor = numpy_helper.from_array(each.plain.astype(each.stored.dtype), namer.tensor(value.name))
        edits.append(AddInitializer(each.node.scope.path, tensor))
        edits.append(SetInput(each.node.scope.path, each.node.key, each.index, tensor.name))
    return apply_edits(index.model, edits)


@dataclass(frozen=True, slots=True)
class ConstantFaults:
    """Judges the constants of a model.

    Attributes:
        index: The quantized model.
        baseline: The float model.
        rounded: The largest distance of each float weight that a Q reads from the baseline's, in steps, by name.
        samples: Inputs, to measure the error of each layer.
        most_errors: The limit for corrections: :data:`MOST_ERRORS`, or that for random data.
    """

    index: ModelIndex
    baseline: ModelIndex
    rounded: Mapping[str, float]
    samples: Sequence[Mapping[str, Array]]
    most_errors: float

    def of(
        self, others: Sequence[OtherConstant], before: Mapping[NodeView, NodeView]
    ) -> Iterator[tuple[OtherConstant, str]]:
        """Yield the constants that neither a correction nor rounding explains, with the difference in words.

        Args:
            others: The constants of the float form that differ.
            before: The nodes of the baseline, by those of the float form.
        """
        own = match(self.baseline.view, self.index.view)[0]
        places = {each: (before[each.node], own.get(before[each.node])) for each in others}
        biases = {each: place for each, place in places.items() if is_bias(each) and self._is_new(each, place[0])}
        legal = self._corrections(biases)
        for each, (_, node) in places.items():
            excess = np.abs(each.change) - legal.get(each, 0.0)
            if (excess > 0).any() and not self._is_rounded(each, node):
                place, count = np.unravel_index(int(np.argmax(excess)), excess.shape), np.count_nonzero(excess > 0)
                text = f"'{each.node.input_name(each.index)}' at {each.node.op_type} '{each.node.label}'"
                pair = f"{each.stored[place]:.4g} for {each.plain[place]:.4g} at {list(map(int, place))}"
                yield each, f"{text}: {count} of {excess.size} elements are not the baseline's, such as {pair}"

    def _is_new(self, bias: OtherConstant, before: NodeView) -> bool:
        """Return whether a bias may be a correction: `quantize` gives those that it corrects a new name."""
        by_us = read_metadata(self.index.model, CALIBRATION_KEY) is not None
        return not by_us or bias.node.input_name(bias.index) != before.input_name(bias.index)

    def _is_rounded(self, each: OtherConstant, node: NodeView | None) -> bool:
        """Return whether a float is a quantized weight: a Q reads it, or its Q and DQ were folded."""
        name, product = each.node.input_name(each.index), ops.product(each.node)
        if name in self.rounded:
            # Such a weight may lie on the grid of the Q already, at either of the two nearest codes.
            return self.rounded[name] <= 1
        if product is None or each.index != product.weight_input or node is None:
            return False
        is_small = np.max(np.abs(each.change), initial=0.0) <= HALF_STEP * np.max(np.abs(each.plain), initial=0.0)
        return bool(is_small) and self.index.qdq.maker(node.input(0)) is not None

    def _corrections(self, places: _Places) -> dict[OtherConstant, Array | float]:
        """Return the largest legal correction of each bias, by the error of its layer in the quantized model."""
        pairs = {each: (one.output(), None if two is None else two.output()) for each, (one, two) in places.items()}
        squares: dict[OtherConstant, list[Array]] = {each: [] for each in pairs}
        with ExitStack() as stack:
            read = [list(filter(None, side)) for side in zip(*pairs.values(), strict=True)] or [[], []]
            indices = (self.baseline, self.index)
            sides = [stack.enter_context(Observer(*each)) for each in zip(indices, read, strict=True)]
            for sample in self.samples:
                runs = [observer.run(sample) for observer in sides]
                for each, pair in pairs.items():
                    wanted, found = (
                        None if value is None else observer.output(run, value)
                        for value, observer, run in zip(pair, sides, runs, strict=True)
                    )
                    if wanted is not None and found is not None and wanted.shape == found.shape:
                        squares[each].append(_mean_square(each, found.astype(FLOAT64) - wanted.astype(FLOAT64)))
        # Layers in loops cannot be observed.
        return {
            each: self.most_errors * np.sqrt(np.mean(found, axis=0)) if found else np.inf
            for each, found in squares.items()
        }


def _mean_square(each: OtherConstant, error: Array) -> Array:
    """Return the mean square of the error of a layer without the change of its bias, by element of the bias."""
    product, change = ops.product(each.node), each.change
    tail = (1,) * (error.ndim - 2) if product is not None and product.is_convolution else ()
    wide = (*(1,) * (error.ndim - change.ndim - len(tail)), *change.shape, *tail)
    rest = np.square(error - change.reshape(wide))
    along = tuple(axis for axis, extent in enumerate(wide) if extent == 1)
    found = np.mean(np.where(np.isfinite(rest), rest, 0.0), axis=along).reshape(change.shape)
    # Of few values, those of one channel may be exact by chance.
    return np.asarray(np.maximum(found, np.mean(found)))


def is_bias(each: OtherConstant) -> bool:
    """Return whether a constant is a bias: of a product, or a term of an Add."""
    product = ops.product(each.node)
    return each.node.is_op("Add") if product is None else each.index == product.bias_input
