"""Decide which nodes of a model compute in half precision, and record why other nodes do not."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

import numpy as np

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Use, Value
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half.magnitudes import InfinityConstants, Magnitudes, find_infinity_constants
from qdqtool.models.transforms.half.operands import Operands, TypeRule, index_arithmetic, is_float32, operands_of
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT16

LARGEST_ANGLE = 8.0
"""Largest measured angle that may be half precision. The error of an angle is a share of the angle: in float16, 1,000
radians are off by up to a quarter, and the time steps and positions of networks reach that. Measured on a diffusion
model: 38 dB with angles in float16, 62 dB in float32."""


BETWEEN = "it is between nodes that stay float32, so two Casts would gain nothing"

DTYPES = {HalfType.FP16: FLOAT16, HalfType.BF16: BFLOAT16}

FIRST_OPSET_WITH_HALF_PAIRS = 19
"""The first opset in which Q and DQ accept half precision."""

FIRST_OPSET_WITH_MIXED_PAIRS = 23
"""The first opset in which data and scale of a Q or DQ may have different float types."""


@dataclass(slots=True)
class Decisions:
    """The type that each float32 operand will have.

    Attributes:
        index: The index of the model.
        half: The type that replaces float32.
        operands: By node, its float32 operands; other nodes are left out.
        infinity_constants: Constants that represent infinity.
        kept: Nodes that stay in float32, with the reason.
        returned: Outputs of the graph and of subgraphs; their names and types do not change.
    """

    index: ModelIndex
    half: HalfType
    operands: Mapping[NodeView, Operands]
    infinity_constants: InfinityConstants
    kept: dict[NodeView, str] = field(default_factory=dict)
    returned: frozenset[Value] = frozenset()
    _known: dict[Value, tuple[bool, bool]] = field(default_factory=dict)

    def computing(self) -> Iterator[NodeView]:
        """Return every node whose own type must be decided."""
        return (node for node, own in self.operands.items() if own.kind is TypeRule.COMPUTES)

    def is_half(self, value: Value) -> bool:
        """Return whether a float32 tensor that a node produces will be half precision."""
        node = value.producer
        own = self.operands.get(node) if node is not None else None
        if node is None or own is None:
            return False
        if own.kind is TypeRule.MAKES:
            return self._is_made_half(value)
        return node not in self.kept and list(node.proto.output).index(value.name) in own.outputs

    def wants_half(self, use: Use) -> bool | None:
        """Return True if a use of a float32 tensor needs half precision, False if float32, None if either fits."""
        own, entry = self.operands.get(use.node), self.index.qdq.get(use.node)
        if own is None or use.index not in own.inputs:
            return entry is not None and self._has_half_scale(entry)
        if entry is not None and self.is_stored(entry.data):
            return self._has_half_scale(entry)
        if entry is not None and not self.takes_either(use.node):
            return False
        if own.kind is not TypeRule.COMPUTES:
            return None
        return use.node not in self.kept

    def takes_either(self, node: NodeView) -> bool:
        """Return whether a Q or DQ can have either type: the scale can, or may differ in type."""
        entry = self.index.qdq.get(node)
        assert entry is not None
        if node.scope.opset < FIRST_OPSET_WITH_HALF_PAIRS:
            return False
        if self.is_stored(entry.scale) and not self.index.qdq.makes_scales(entry):
            return self._fits(entry.scale, rounded=self._is_packed_weight(entry))
        return node.scope.opset >= FIRST_OPSET_WITH_MIXED_PAIRS

    def _is_packed_weight(self, entry: QdqNode) -> bool:
        """Return whether a DQ reads stored codes below 8 bits: TensorRT takes their scales in the type of the data."""
        fmt = formats.by_onnx_type(entry.quantized_type or 0)
        packed = fmt is not None and fmt.bits < 8
        return packed and not entry.is_quantize and entry.data is not None and self.index.is_constant(entry.data)

    def _fits(self, scale: Value, *, rounded: bool) -> bool:
        """Return whether a stored scale is exact in half precision: the codes of a pair hold for its scale.

        Args:
            scale: The scale.
            rounded: Whether it may also be rounded as any weight, to a normal number.
        """
        if scale not in self._known:
            array = self.index.constants.array(scale)
            assert array is not None
            half = array.astype(DTYPES[self.half]).astype(array.dtype)
            normal = (np.abs(half) >= self.half.normal) & (np.abs(half) <= self.half.finite)
            self._known[scale] = np.array_equal(half, array), bool(np.all(normal))
        is_exact, is_normal = self._known[scale]
        return is_exact or (rounded and is_normal)

    def _has_half_scale(self, entry: QdqNode) -> bool:
        """Return whether a computed scale becomes half precision: that of a DQ with such an output, or of its Q."""
        if self.is_stored(entry.scale):
            return False
        if not entry.is_quantize:
            return entry.output is not None and self.is_half(entry.output)
        readers = [reader.output for reader in self.index.qdq.readers(entry)]
        return self.is_stored(entry.data) and all(made is not None and self.is_half(made) for made in readers)

    def is_stored(self, value: Value | None) -> TypeGuard[Value]:
        """Return whether a tensor is a stored float32 constant, not one that is computed from constants."""
        return value is not None and is_float32(value, self.index.types) and value.is_stored

    def _is_made_half(self, value: Value) -> bool:
        """Return whether all readers accept half precision."""
        assert value.producer is not None
        pair = self.index.qdq.get(value.producer) is not None
        if value in self.returned or (pair and not self.takes_either(value.producer)):
            return False
        return all(self.wants_half(use) is not False for use in value.uses)


def decide(
    index: ModelIndex,
    half: HalfType,
    measured: Mapping[TensorKey, float],
    refuse: Callable[[NodeView], str],
    *,
    saves_casts: bool = True,
    reserve: float = 1.0,
) -> Decisions:
    """Decide the type of every node of a model.

    Args:
        index: The index of the model.
        half: The type that replaces float32.
        measured: The largest finite magnitude of measured tensors, by scope and name.
        refuse: Returns why a node must stay float32, or "" if it may be half precision.
        saves_casts: Whether light nodes between nodes that stay float32 stay float32 too.
        reserve: How many times larger values may be than the measured ones.
    """
    view = index.view
    operands = {node: own for node in view.nodes() if (own := operands_of(node, index.types, half)) is not None}
    outputs = frozenset(value for value in view.values() if value.is_output)
    decisions = Decisions(
        index, half, operands, find_infinity_constants(index, half.largest / reserve), returned=outputs
    )
    limits = _Limits(decisions, Magnitudes(measured, index), measured, reserve)
    indices = index_arithmetic(index, operands)
    angles = index_arithmetic(index, operands, [node for node in decisions.computing() if limits.has_large_angle(node)])
    carried = f"its results become indices or shapes, and {half.onnx_name} holds integers only up to {half.integers}"
    turned = (
        f"it computes angles that exceed {LARGEST_ANGLE:g} or were not measured; {half.onnx_name} rounds them too much"
    )
    reasons = dict.fromkeys(angles, turned) | dict.fromkeys(indices, carried)
    for node in decisions.computing():
        reason = operands[node].problem or refuse(node) or reasons.get(node) or limits.problem(node)
        if reason:
            decisions.kept[node] = reason
    if saves_casts:
        _keep_between(decisions)
    return decisions


_LOG_OF_LARGEST = math.log(np.finfo(np.float64).max)


class _Limits:
    """Checks whether the inputs and outputs of nodes fit in half precision."""

    def __init__(
        self, decisions: Decisions, magnitudes: Magnitudes, measured: Mapping[TensorKey, float], reserve: float
    ) -> None:
        self._decisions = decisions
        self._half = decisions.half
        self._magnitudes = magnitudes
        self._measured = measured
        self._reserve = reserve
        self._largest = decisions.half.largest / reserve

    def has_large_angle(self, node: NodeView) -> bool:
        """Return whether a node reads an angle that is large, or may be."""
        angle = node.input(0) if node.is_op("Cos", "Sin", "Tan") else None
        magnitude = self._magnitudes.of(angle) if angle is not None else 0.0
        return magnitude is None or magnitude * self._reserve > LARGEST_ANGLE

    def problem(self, node: NodeView) -> str:
        """Describe the first operand that does not fit in half precision; empty if all fit."""
        own = self._decisions.operands[node]
        values = [node.input(index) for index in sorted(own.inputs)]
        values += [node.output(index) for index in sorted(own.outputs)]
        found = (self._misfit(value) for value in values if value is not None)
        return next(filter(None, found), "") or self._inner_misfit(node)

    def _misfit(self, value: Value) -> str:
        infinity_constants = self._decisions.infinity_constants
        if value in infinity_constants.roots or value in infinity_constants.carried:
            return ""
        magnitude = self._magnitudes.of(value)
        if magnitude is None:
            return ""
        if self._decisions.index.constants.is_constant(value):
            is_beyond = magnitude > self._half.finite
            return f"constant '{value.name}' has {magnitude:.3g}, beyond {self._half.finite:g}" if is_beyond else ""
        name, limit = self._half.onnx_name, self._largest
        if magnitude > limit:
            share = "a quarter" if self._reserve == 1 else f"1/{4 * self._reserve:g}"
            return f"'{value.name}' reaches {magnitude:.3g}: more than {limit:g}, {share} of what {name} holds"
        if 0 < magnitude < self._half.normal and tensor_key(value) in self._measured:
            return f"'{value.name}' is at most {magnitude:.3g} in magnitude, where {name} has fewer bits"
        return ""

    def _inner_misfit(self, node: NodeView) -> str:
        """Describe an intermediate result that does not fit in half precision; empty if all fit."""
        # Builders compute these in the type of the input: squares before the root, sums before the division, and
        # exponentials before the logarithm.
        value = node.input(0) if node.op_type == "LpNormalization" else node.output()
        magnitude = self._magnitudes.of(value) if value is not None else None
        if magnitude is None:
            return ""
        if node.op_type == "LogSoftmax":
            least = math.exp(-magnitude)
            few = f"it takes the logarithm of {least:.3g}, where {self._half.onnx_name} has fewer bits"
            return few if least < self._half.normal else ""
        match node.op_type:
            case "ReduceL2" | "LpNormalization":
                what, total = "squares", magnitude**2
            case "ReduceMean" | "GlobalAveragePool":
                what, total = "numbers", magnitude * self._averaged(node)
            case "ReduceLogSum" | "ReduceLogSumExp":
                what, total = "numbers", math.inf if magnitude > _LOG_OF_LARGEST else math.exp(magnitude)
            case _:
                return ""
        is_beyond = total > self._largest
        return f"it adds up {what}, which reach {total:.3g}: more than {self._largest:g}" if is_beyond else ""

    def _averaged(self, node: NodeView) -> float:
        """Return how many numbers make one result of a mean; 1 if a shape is unknown."""
        shapes = [self._decisions.index.types.full_shape(value) for value in (node.input(0), node.output()) if value]
        before, after = (math.prod(shape) if shape is not None else 0 for shape in shapes)
        return before / after if before and after else 1


def _keep_between(decisions: Decisions) -> None:
    """Keep light nodes in float32 if all their neighbors are float32; repeat until no more are found."""
    light = (node for node in decisions.computing() if not ops.traits(node).is_layer)
    waiting = [node for node in light if node not in decisions.kept]
    while True:
        found = [node for node in waiting if _is_between(node, decisions)]
        if not found:
            return
        decisions.kept.update(dict.fromkeys(found, BETWEEN))
        waiting = [node for node in waiting if node not in decisions.kept]


def _is_between(node: NodeView, decisions: Decisions) -> bool:
    own = decisions.operands[node]
    reads = [value for index in own.inputs if (value := node.input(index)) is not None]
    made = [value for value in reads if not decisions.index.constants.is_constant(value)]
    makes = [value for index in own.outputs if (value := node.output(index)) is not None]
    if not made or any(decisions.is_half(value) for value in made):
        return False
    return all(_is_wanted_in_full(value, decisions) for value in makes)


def _is_wanted_in_full(value: Value, decisions: Decisions) -> bool:
    wants = {decisions.wants_half(use) for use in value.uses}
    return value in decisions.returned or (wants == {False})
