"""QS014: inputs whose shapes do not fit their operator. onnx's shape inference does not check these."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext, Shape
from qdqtool.linting.rules.support.words import dims
from qdqtool.models.graph.index.types import static_shape
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target


class OperandShape(Rule):
    """The inputs of a node have the extents that its operator demands.

    Why it matters: after a weight is replaced or pruned, its channels may not fit the activation or the bias. The shape
    inference of onnx does not check this. ONNX Runtime refuses the model when it loads or runs it, TensorRT when it
    parses or builds it.

    Bad: a Conv on 3 channels whose weight has 2; a bias of 3 elements for 4 output channels; a kernel larger than the
    padded input; PRelu with one slope too many; a Reshape from 6 to 8 elements.

    Good: weights whose extents fit the other inputs.
    """

    code = "QS014"
    name = "spec.operand-shape"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "give the input the shape that the operator needs; for a weight, restore the shape of the trained model"
    VALID = examples("""
        two groups:
            agraph (float[1,4,8,8] x, float[6,2,3,3] w, float[6] b) => (float[1,6,6,6] y) {
                y = Conv <group = 2> (x, w, b)
            }
        a bias for every group of a ConvTranspose:
            agraph (float[1,4,8,8] x, float[4,3,3,3] w, float[6] b) => (float[1,6,10,10] y) {
                y = ConvTranspose <group = 2> (x, w, b)
            }
    """)
    INVALID = examples("""
        a weight of other channels:
            agraph (float[1,3,8,8] x, float[4,2,3,3] w) => (float[1,4,6,6] y) {
                y = Conv (x, w)
            }
        a bias of another length:
            agraph (float[1,3,8,8] x, float[3,4,3,3] w, float[3] b) => (float[1,4,10,10] y) {
                y = ConvTranspose (x, w, b)
            }
        a kernel larger than the padded input:
            agraph (float[1,3,4,4] x, float[4,3,3,3] w) => (float[1,4,0,0] y) {
                y = Conv <dilations = [2, 2]> (x, w)
            }
        a scale for another number of channels:
            agraph (float[1,3,8,8] x, float[4] s, float[3] b) => (float[1,3,8,8] y) {
                y = InstanceNormalization (x, s, b)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the extents that are known."""
        # If a declared shape contradicts others, rule QS013 reports it. It is unknown which shape is right.
        if context.types.contradictions:
            return
        for node, _ in context.operators:
            find = _MISFITS.get(node.op_type)
            misfit = None if find is None else next(find(_At(context, node, target)), None)
            if misfit is not None:
                message = f"{node.op_type} has {misfit.found}"
                yield Fault(message, node, node.input(misfit.index), found=misfit.found, expected=misfit.expected)


@dataclass(frozen=True, slots=True)
class _Misfit:
    """An input that does not fit its node: its index, and values in words."""

    index: int
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class _At:
    """A node, with access to the shapes of its inputs and outputs."""

    context: RuleContext
    node: NodeView
    target: Target

    def shape(self, index: int) -> Shape | None:
        """Return the shape of an input; None if the input is absent or its rank is unknown."""
        return self.context.shape(self.node.input(index))

    def extent(self, index: int, axis: int) -> int | None:
        """Return one extent of an input, or None if it is unknown."""
        shape = self.shape(index)
        extent = shape[axis] if shape is not None and axis < len(shape) else None
        return extent if isinstance(extent, int) else None

    def of_shape(self, index: int, what: str, expected: Shape) -> Iterator[_Misfit]:
        """Compare an input with the shape that it must have; an unknown extent fits any extent."""
        found = self.shape(index)
        if found is not None and (len(found) != len(expected) or any(map(_differ, found, expected))):
            yield _Misfit(index, f"a {what} of shape {dims(found)}", dims(expected))

    def broadcast(self, index: int, what: str, wanted: Shape, *, both_ways: bool = False) -> Iterator[_Misfit]:
        """Check that an input broadcasts to a shape, or with ``both_ways`` that the two broadcast to each other."""
        found = self.shape(index)
        if found is None:
            return
        fitting = {1} if both_ways else set[object]()
        pairs = zip(reversed(found), reversed(wanted), strict=False)
        differ = any(mine != 1 and theirs not in fitting and _differ(mine, theirs) for mine, theirs in pairs)
        if differ or (len(found) > len(wanted) and not both_ways):
            yield _Misfit(index, f"a {what} of shape {dims(found)}", f"one that broadcasts to {dims(wanted)}")


def _differ(left: int | str | None, right: int | str | None) -> bool:
    return isinstance(left, int) and isinstance(right, int) and left != right


def _elements(shape: Shape) -> int | None:
    extents = static_shape(shape)
    return None if extents is None else math.prod(extents)


def _times(extent: int | None, factor: int | None) -> int | None:
    return None if extent is None or factor is None else extent * factor


def _groups(at: _At, weight: int, channels: Mapping[tuple[int, str], int | None]) -> Iterator[_Misfit]:
    """Find inputs whose number of channels is not a multiple of the groups of a convolution."""
    group = at.node.attribute("group", 1)
    if group < 1:
        yield _Misfit(weight, f"{group} groups", "1 or more")
        return
    for (index, side), count in channels.items():
        if count is not None and count % group:
            yield _Misfit(index, f"{count} {side} channels", f"a multiple of {group}, the number of groups")


def _conv(at: _At, weight: int = 1, bias: int = 2) -> Iterator[_Misfit]:
    channels, made = at.extent(0, 1), at.extent(weight, 0)
    yield from _groups(at, weight, {(0, "input"): channels, (weight, "output"): made})
    per_group = None if channels is None else channels // max(at.node.attribute("group", 1), 1)
    yield from at.of_shape(weight, "weight", (made, per_group, *_kernel(at, weight)))
    yield from at.of_shape(bias, "bias", (made,))
    yield from _windows(at, weight)


def _kernel(at: _At, weight: int) -> Shape:
    kernel: Shape = tuple(at.node.attribute("kernel_shape", (at.shape(weight) or ())[2:]))
    return kernel


def _windows(at: _At, weight: int) -> Iterator[_Misfit]:
    """Check that the kernel fits into the padded input: otherwise there is no output."""
    kernel, node = _kernel(at, weight), at.node
    none, ones = [0] * 2 * len(kernel), [1] * len(kernel)
    if node.attribute("auto_pad", b"NOTSET") in _PADS_AS_NEEDED:
        return
    pads = node.attribute("pads", none) if node.attribute("auto_pad", b"NOTSET") == b"NOTSET" else none
    dilations = node.attribute("dilations", ones)
    if (len(pads), len(dilations)) != (len(none), len(ones)):
        return
    for axis, extent in enumerate(kernel):
        space = at.extent(0, axis + 2)
        if space is None or not isinstance(extent, int):
            continue
        padded, span = space + pads[axis] + pads[axis + len(kernel)], (extent - 1) * dilations[axis] + 1
        if padded < span:
            expected = f"at most {padded}, the extent of the padded input"
            yield _Misfit(weight, f"a kernel that spans {span} elements of axis {axis + 2}", expected)


def _conv_transpose(at: _At) -> Iterator[_Misfit]:
    channels, per_group = at.extent(0, 1), at.extent(1, 1)
    yield from _groups(at, 1, {(0, "input"): channels})
    yield from at.of_shape(1, "weight", (channels, per_group, *_kernel(at, 1)))
    yield from at.of_shape(2, "bias", (_times(per_group, at.node.attribute("group", 1)),))


def _instance_normalization(at: _At) -> Iterator[_Misfit]:
    for index, what in ((1, "scale"), (2, "bias")):
        yield from at.of_shape(index, what, (at.extent(0, 1),))


def _group_normalization(at: _At) -> Iterator[_Misfit]:
    channels, groups = at.extent(0, 1), at.node.attribute("num_groups", 1)
    if groups < 1 or (channels is not None and channels % groups):
        yield _Misfit(0, f"{channels} channels", f"a multiple of {groups}, the number of groups")
    length = channels if at.node.scope.opset >= _CHANNELWISE_GROUPS else groups
    for index, what in ((1, "scale"), (2, "bias")):
        yield from at.of_shape(index, what, (length,))


def _layer_normalization(at: _At) -> Iterator[_Misfit]:
    shape, axis = at.shape(0), at.node.attribute("axis", -1)
    if shape is None:
        return
    # onnx's shape inference checks the lower bound.
    if axis >= len(shape):
        yield _Misfit(0, f"axis {axis}", f"{-len(shape)} to {len(shape) - 1}")
    for index, what in ((1, "scale"), (2, "bias")):
        yield from at.broadcast(index, what, shape)


def _prelu(at: _At) -> Iterator[_Misfit]:
    shape = at.shape(0)
    if shape is not None and at.node.scope.opset >= _BROADCASTS:
        # ONNX Runtime 1.31.1 also broadcasts the data to the slope.
        yield from at.broadcast(1, "slope", shape, both_ways=at.target.family == "ort-cpu")


def _gemm(at: _At) -> Iterator[_Misfit]:
    if at.node.scope.opset >= _BROADCASTS:
        rows, columns = bool(at.node.attribute("transA", 0)), not at.node.attribute("transB", 0)
        yield from at.broadcast(2, "bias", (at.extent(0, rows), at.extent(1, columns)))


def _reshape(at: _At) -> Iterator[_Misfit]:
    shape, data, output = at.node.input(1), at.shape(0), at.context.shape(at.node.output())
    if shape is None or data is None or output is None or not at.context.is_constant(shape):
        return
    before, after = _elements(data), _elements(output)
    if _differ(before, after):
        yield _Misfit(1, f"{after} elements in {dims(output)}", f"{before}, the elements of {dims(data)}")


def _recurrent(at: _At) -> Iterator[_Misfit]:
    gates = _GATES[at.node.op_type]
    directions = 2 if at.node.attribute("direction", b"forward") == b"bidirectional" else 1
    hidden = at.node.attribute("hidden_size", at.extent(2, 2))
    rows = _times(hidden, gates)
    yield from at.of_shape(1, "weight", (directions, rows, at.extent(0, 2)))
    yield from at.of_shape(2, "recurrence weight", (directions, rows, hidden))
    yield from at.of_shape(3, "bias", (directions, _times(rows, 2)))


_CHANNELWISE_GROUPS = 21
"""From this opset on, a GroupNormalization has a scale for each channel; before, it had one for each group."""

_PADS_AS_NEEDED = {b"SAME_UPPER", b"SAME_LOWER"}

_BROADCASTS = 7
"""From this opset on, PRelu and Gemm broadcast as NumPy does."""

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

_MISFITS: Mapping[str, Callable[[_At], Iterator[_Misfit]]] = {
    "Conv": _conv,
    # ConvInteger has no bias: its third input is a zero point. No node has an input 9.
    "ConvInteger": partial(_conv, bias=9),
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "LayerNormalization": _layer_normalization,
    "PRelu": _prelu,
    "QLinearConv": partial(_conv, weight=3, bias=8),
    "Reshape": _reshape,
    **dict.fromkeys(_GATES, _recurrent),
}
"""For each operator, the check of its shapes that onnx's shape inference lacks (onnx 1.23.2)."""
