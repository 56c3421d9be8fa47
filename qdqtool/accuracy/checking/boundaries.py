"""Compare the quantized tensors of a model with the same tensors of a baseline."""

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from qdqtool.accuracy.checking.gptq_check import GptqCheck, noted_rounding
from qdqtool.accuracy.checking.pair_error import PairError, leads_to_softmax
from qdqtool.accuracy.checking.qdq_reference import format_of, largest
from qdqtool.accuracy.checking.report import BoundaryResult
from qdqtool.accuracy.layers.baseline_matcher import BaselineMatcher
from qdqtool.accuracy.layers.float_form import Counterpart
from qdqtool.errors import ArgumentError
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.scope import display
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, ImposedBounds, UnknownBoundsError, imposed_bounds
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.own_nodes import granularity_of
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import expand
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.rounding import step_widths, unit_roundoff

ROUNDINGS = 4
"""Number of roundings between a weight and its dequantized code. The reciprocal or the scale, the quotient and the
product are rounded. Tools that keep scales in double precision round once more."""


@dataclass(slots=True)
class Boundary:
    """One quantized tensor: a Q, or the DQ of a packed constant, with its counterpart in the baseline.

    Attributes:
        entry: The Q or DQ.
        codes: The quantized tensor.
        baseline: The tensor of the baseline.
        fmt: Format of the quantized tensor.
        is_weight: Whether the tensor is a constant.
        is_bias: Whether the tensor is a bias; its scale is not chosen, but given by the sums that it is added to.
        bounds: Bounds that the Q imposes in place of a Relu or Clip; the tensor of the baseline is not clipped to them.
        error: Error of the dequantized tensor against the baseline.
        max_steps: Largest distance from the baseline, in quantization steps.
        sum_steps: Sum of the distances, in quantization steps.
        index: Index of the element with the largest distance.
        clipped: Elements whose baseline value lies outside the range.
        bad_weights: Elements of a packed weight whose distance is too large for rounding.
        worst_weight: The largest distance of these elements and its index, in words.
        by_data: The note of the model and the findings, for a packed weight with codes chosen with data; None for
            others.
        fit: The error of the baseline's weight with the scale of a packed weight; None for others.
        problem: Why nothing was compared; empty if something was.
    """

    entry: QdqNode
    codes: Value
    baseline: Value
    fmt: NumberFormat
    is_weight: bool
    is_bias: bool = False
    bounds: ImposedBounds = NO_BOUNDS
    error: AccumulatedError = field(default_factory=AccumulatedError)
    max_steps: float = 0.0
    sum_steps: float = 0.0
    index: tuple[int, ...] = ()
    clipped: int = 0
    bad_weights: int = 0
    worst_weight: str = ""
    by_data: GptqCheck | None = None
    fit: PairError | None = None
    problem: str = ""

    @property
    def is_packed(self) -> bool:
        """Whether the model stores codes, so that only the baseline has the float values."""
        return not self.entry.is_quantize

    @property
    def clipped_share(self) -> float:
        """Share of the values of the baseline outside the range."""
        return self.clipped / max(1, self.error.elements)

    @property
    def baseline_clips(self) -> bool:
        """Whether a Relu or Clip makes the tensor of the baseline, or reads it."""
        makers = (each.producer for each in ops.moved_from(self.baseline))
        nodes = (*makers, *(use.node for use in self.baseline.uses))
        return any(node is not None and node.is_op("Relu", "Clip") for node in nodes)

    @property
    def is_judged_by_data(self) -> bool:
        """Whether the model notes that data chose the codes, which need not be the nearest: another check applies."""
        return bool(self.bad_weights) and self.by_data is not None

    @property
    def is_unexplained(self) -> bool:
        """Whether neither rounding nor the model's note on data explains the distance of the codes."""
        return bool(self.bad_weights) and bool(self.by_data is None or self.data_fault)

    @property
    def data_fault(self) -> str:
        """Why a weight contradicts the model's note that its codes were chosen with data; empty if it agrees."""
        return self.by_data.fault(self.error, ROUNDINGS) if self.by_data is not None else ""

    def add(self, codes: Array, scale: Array, zero_point: Array | None, x: Array, weight_steps: float | None) -> None:
        """Count one array.

        Args:
            codes: The quantized tensor.
            scale: Its scale.
            zero_point: Its zero point, or None.
            x: The baseline's tensor.
            weight_steps: Largest legal distance of a packed weight, in steps; None for no limit.
        """
        if x.shape != codes.shape:
            self.problem = f"its shape is {list(codes.shape)}, the baseline's is {list(x.shape)}"
            return
        try:
            granularity = granularity_of(self.entry, scale)
            real = dequantize(codes, scale, granularity, zero_point, output_dtype=FLOAT32)
        except ArgumentError as error:
            self.problem = error.message
            return
        if self.bounds != NO_BOUNDS:
            x = np.clip(x, x.dtype.type(self.bounds.low), x.dtype.type(self.bounds.high))
        self.error.add(x, real)
        zero = 0.0 if zero_point is None else expand(zero_point, x.shape, granularity).astype(FLOAT64)
        spread = expand(scale, x.shape, granularity)
        found = _Distances.of(real, x, spread, self.fmt)
        if self.by_data is not None:
            widths = np.abs(spread.astype(FLOAT64)) * step_widths(found.quotient, self.fmt)
            self.by_data.float_type, self.by_data.scale_type = x.dtype.name, scale.dtype.name
            difference = real.astype(FLOAT64) - x.astype(FLOAT64)
            self.by_data.add(difference, np.broadcast_to(widths, x.shape), granularity)
            self.by_data.add_scales(scale, difference * real, granularity)
        self._add_steps(found, found.quotient + zero)
        if self.fit is not None:
            self.fit.add(x, codes, scale, zero_point)
        if self.is_packed and weight_steps is not None:
            self._add_bad_weights(found, found.quotient + zero, codes.astype(FLOAT64), weight_steps)

    def _add_steps(self, found: "_Distances", position: Array) -> None:
        self.sum_steps += float(np.sum(found.steps))
        if found.steps.size and float(np.max(found.steps)) > self.max_steps:
            self.max_steps = float(np.max(found.steps))
            self.index = largest(found.steps)
        half = float(step_widths(np.asarray(self.fmt.high, FLOAT64), self.fmt)) / 2
        self.clipped += int(np.count_nonzero((position < self.fmt.low - half) | (position > self.fmt.high + half)))

    def _add_bad_weights(self, found: "_Distances", position: Array, codes: Array, limit: float) -> None:
        rounding = ROUNDINGS * found.roundoff * (np.abs(found.quotient) / step_widths(found.quotient, self.fmt) + 1)
        # Where the float value lies beyond a code at the end of the range, it was clipped. Clipping is a choice, not
        # a fault. The symmetric range of integers may end at -127, hence max(low, -high).
        clipped = (codes >= self.fmt.high) & (position > codes)
        clipped |= (codes <= max(self.fmt.low, -self.fmt.high)) & (position < codes)
        bad = (found.steps > limit + rounding) & ~clipped
        self.bad_weights += int(np.count_nonzero(bad))
        if bad.any() and not self.worst_weight:
            index = largest(np.where(bad, found.steps, 0.0))
            self.worst_weight = f"{found.steps[index]:.3g} steps at {list(index)}"

    @property
    def counterpart(self) -> Counterpart:
        """The tensor, as the comparison without Q and DQ reads it."""
        steps = self.max_steps if self.is_weight else None
        return Counterpart(self.entry, self.baseline, self.bounds, steps, self.problem)

    def result(self) -> BoundaryResult:
        """Return the entry of the report."""
        node = self.entry.node
        return BoundaryResult(
            node=node.label,
            graph=display(node.scope.path),
            tensor=self.baseline.name,
            kind="bias" if self.is_bias else "weight" if self.is_weight else "activation",
            format=self.fmt.name,
            granularity=str(self.entry.granularity or ""),
            max_steps=self.max_steps,
            mean_steps=self.sum_steps / max(1, self.error.elements),
            index=self.index,
            sqnr_db=self.error.sqnr_db,
            clipped=self.clipped,
            elements=self.error.elements,
            judged_by_data=self.is_judged_by_data,
        )


@dataclass(frozen=True, slots=True)
class _Distances:
    """The distances of a dequantized array from its float counterpart.

    Attributes:
        quotient: The float values divided by their scale, float64.
        steps: Distance in steps, float64; 0 where either value is not finite.
        roundoff: Unit roundoff of the coarser of two types: the type of the values and the type of the scale.
    """

    quotient: Array
    steps: Array
    roundoff: float

    @classmethod
    def of(cls, real: Array, x: Array, scale: Array, fmt: NumberFormat) -> "_Distances":
        step = scale.astype(FLOAT64)
        with np.errstate(all="ignore"):
            quotient = x.astype(FLOAT64) / step
            steps = np.abs(quotient - real.astype(FLOAT64) / step) / step_widths(quotient, fmt)
        steps = np.where(np.isfinite(steps), steps, 0.0)
        return cls(quotient, steps, max(unit_roundoff(scale.dtype), unit_roundoff(x.dtype)))


def bounds_of(entry: QdqNode, index: ModelIndex) -> ImposedBounds:
    """Return the bounds that a Q imposes in place of a Relu or Clip, or no bounds if they are unknown."""
    with suppress(UnknownBoundsError):
        return imposed_bounds(entry, index)
    return NO_BOUNDS


def find_boundaries(
    index: ModelIndex, matcher: BaselineMatcher | None, *, judges_scales: bool
) -> tuple[list[Boundary], list[QdqNode]]:
    """Return every quantized tensor of a model with its counterpart in a baseline, and the nodes without one."""
    found: list[Boundary] = []
    lonely: list[QdqNode] = []
    if matcher is None:
        return found, lonely
    notes = noted_rounding(index.model)
    for entry in index.qdq.nodes:
        codes, fmt = _codes(index, entry), format_of(entry)
        if codes is None or fmt is None:
            continue
        counterpart = next(matcher.of(index.qdq, entry), None)
        if counterpart is None:
            lonely.append(entry)
            continue
        is_weight = entry.data is not None and index.is_constant(entry.data)
        boundary = Boundary(entry, codes, counterpart, fmt, is_weight, _is_bias(index, entry))
        noted = notes.get((counterpart.scope.path, counterpart.name))
        if not is_weight and boundary.baseline_clips:
            boundary.bounds = bounds_of(entry, index)
        if boundary.is_packed:
            boundary.by_data = GptqCheck(noted) if noted is not None else None
            fit = PairError(entry, fmt, is_masked=leads_to_softmax(entry), is_weight=judges_scales)
            boundary.fit = None if boundary.is_bias else fit
        found.append(boundary)
    return found, lonely


def _is_bias(index: ModelIndex, entry: QdqNode) -> bool:
    """Return whether stored codes are biases whose scale is the product of the scales of the input and the weight."""
    scale = index.constant(entry.scale) if entry.scale is not None and not entry.is_quantize else None
    for use in entry.uses:
        op = ops.product(use.node)
        if scale is None or op is None or op.bias_input != use.index:
            return False
        sides = [index.qdq.dequantizer_of(use.node.input(at)) for at in (0, op.weight_input)]
        one, other = (None if side is None or side.scale is None else index.constant(side.scale) for side in sides)
        if one is None or other is None or one.size != 1 or other.size not in {1, scale.size}:
            return False
        if not np.allclose(scale.reshape(-1), one.reshape(-1) * other.reshape(-1), rtol=SAME_SCALE, atol=0):
            return False
    return scale is not None and bool(entry.uses)


SAME_SCALE = 1e-3
"""Largest relative difference of the scale of a bias from the product of the two scales: tools round differently."""


def _codes(index: ModelIndex, entry: QdqNode) -> Value | None:
    """Return the quantized tensor of a Q, or of a DQ of stored weights; None for other nodes."""
    if entry.is_quantize:
        return entry.output
    if entry.data is None or index.qdq.quantizer_of(entry) is not None or index.qdq.makes_scales(entry):
        return None
    return entry.data if index.is_constant(entry.data) else None
