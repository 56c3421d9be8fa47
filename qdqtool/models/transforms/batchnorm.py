"""Find BatchNormalization in inference mode, and fold it into the operator before it.

``BN(Conv(x, W, b)) = Conv(x, W * f, (b - mean) * f + B)`` with ``f = scale / sqrt(var + epsilon)`` for each output
channel, by the definition of the operator. All arithmetic is in float64, rounded once to the type of the weight.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt
import onnx

from qdqtool.models import ops
from qdqtool.models.graph.edits.edit import AddInitializer, Edit, RemoveNode, RenameOutput, SetInput, SetNodeName
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.model_index import FLOATS, ModelIndex
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.io.tensors import computed_tensor, make_tensor, read_array
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import display

Array = npt.NDArray[np.generic]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ChannelAffine:
    """The function of BatchNormalization in inference: ``y = (x - mean) * factor + shift`` for each channel.

    Attributes:
        factor: ``scale / sqrt(var + epsilon)``.
        mean: Mean of the channel.
        shift: Input ``B`` of the operator.
    """

    factor: Float64
    mean: Float64
    shift: Float64

    @classmethod
    def of(cls, parameters: Sequence[Array], epsilon: float) -> Self | None:
        """Return the function for scale, B, mean and var of shape ``(C,)``; None if one is malformed or not finite."""
        scale, shift, mean, var = (np.asarray(array).astype(np.float64) for array in parameters)
        if scale.ndim != 1 or not scale.shape == shift.shape == mean.shape == var.shape:
            return None
        with np.errstate(all="ignore"):
            factor = scale / np.sqrt(var + epsilon)
        if not all(np.isfinite(array).all() for array in (factor, mean, shift)):
            return None
        return cls(factor, mean, shift)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.factor.size)


def folded_weight(weight: Array, affine: ChannelAffine, axis: int, groups: int = 1) -> Float64:
    """Return ``weight`` multiplied by the factor of each output channel.

    Args:
        weight: A float weight of any shape.
        affine: The function of the output channels.
        axis: Axis of the weight that counts the output channels of one group.
        groups: Number of groups along axis 0 if ``axis`` is not 0 (ConvTranspose), otherwise 1.
    """
    split = weight.astype(np.float64).reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    factor_shape = [1] * split.ndim
    factor_shape[0], factor_shape[axis + 1] = groups, split.shape[axis + 1]
    return (split * affine.factor.reshape(factor_shape)).reshape(weight.shape)


def folded_bias(bias: Array | None, affine: ChannelAffine, beta: float = 1.0) -> Float64:
    """Return the folded bias: ``((beta * bias - mean) * factor + shift) / beta``, with channels on the last axis.

    Args:
        bias: The original bias, or None for zero. It broadcasts against the channels.
        affine: The function of the output channels.
        beta: Factor by which the operator (Gemm) multiplies the bias; not 0.
    """
    before = np.zeros(1) if bias is None else bias.astype(np.float64)
    return np.asarray(((beta * before - affine.mean) * affine.factor + affine.shift) / beta, np.float64)


FIRST_OPSET_WITHOUT_SPATIAL = 9
FIRST_OPSET_WITHOUT_IS_TEST = 7


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """One BatchNormalization and the node that it is folded into.

    Attributes:
        norm: The BatchNormalization.
        node: The node before the BatchNormalization.
        affine: The factor and offset that the BatchNormalization applies to each channel.
        weight: The stored weight of ``node``.
        axis: Axis of the weight that counts the output channels of one group.
        groups: Number of groups, for :func:`~qdqtool.models.transforms.batchnorm.folded_weight`.
        bias: Values of the folded bias.
    """

    norm: NodeView
    node: NodeView
    affine: ChannelAffine
    weight: onnx.TensorProto
    axis: int
    groups: int
    bias: Array


class Matcher:
    """Finds the BatchNormalization nodes of one model that can be folded."""

    def __init__(self, index: ModelIndex) -> None:
        self._index = index

    def matches(self) -> Iterator[Match]:
        """Yield every BatchNormalization that can be folded; for two in sequence, only the first one."""
        for node in self._index.view.nodes():
            if node.is_op("BatchNormalization") and not node.is_parametric and _in_inference_mode(node):
                found = self._match(node)
                if found is not None:
                    yield found

    def _match(self, norm: NodeView) -> Match | None:
        node = _sole_producer(norm)
        weight = self._stored(node.input(1)) if node is not None else None
        affine = self._affine(norm)
        if node is None or weight is None or affine is None:
            return None
        layout = _layout(node, weight)
        if layout is None:
            return None
        axis, groups, channels = layout
        bias = self._bias(node, affine) if channels == affine.channels else None
        if bias is None or not self._stays_finite(weight, affine, axis, groups):
            return None
        return Match(norm, node, affine, weight, axis, groups, bias)

    def _affine(self, norm: NodeView) -> ChannelAffine | None:
        inputs = range(1, 5)
        arrays = [array for index in inputs if (array := self._constant(norm.input(index))) is not None]
        return ChannelAffine.of(arrays, norm.attribute("epsilon", 1e-5)) if len(arrays) == len(inputs) else None

    def _stored(self, value: Value | None) -> onnx.TensorProto | None:
        stored = self._index.constants.direct(value) if value is not None else None
        return stored if stored is not None and stored.data_type in FLOATS else None

    def _constant(self, value: Value | None) -> Array | None:
        return self._index.constants.array(value) if value is not None else None

    def _bias(self, node: NodeView, affine: ChannelAffine) -> Array | None:
        # Gemm multiplies the bias by beta, so the folded bias is divided by beta.
        beta = _product(node).term_factors(node)[1]
        before = self._constant(node.input(2))
        if beta == 0 or (before is None and node.input_name(2)):
            return None
        bias = folded_bias(before, affine, beta)
        return bias if np.isfinite(bias).all() else None

    def _stays_finite(self, weight: onnx.TensorProto, affine: ChannelAffine, axis: int, groups: int) -> bool:
        """Return whether the folded weights fit in their type; only float16, which ends at 65504, is checked."""
        if weight.data_type != onnx.TensorProto.FLOAT16:
            return True
        values = folded_weight(read_array(self._index.model, weight), affine, axis, groups)
        return bool(np.abs(values).max(initial=0.0) <= np.finfo(np.float16).max)


def _in_inference_mode(norm: NodeView) -> bool:
    """Return whether a BatchNormalization uses the stored mean and variance, with one value for each channel."""
    if norm.attribute("training_mode", 0) or any(norm.proto.output[1:]):
        return False
    # Below opset 7, BatchNormalization is in training mode unless is_test is set. Below opset 9 with spatial = 0, mean
    # and variance have a value for each element.
    if norm.scope.opset < FIRST_OPSET_WITHOUT_IS_TEST and not norm.attribute("is_test", 0):
        return False
    return norm.scope.opset >= FIRST_OPSET_WITHOUT_SPATIAL or bool(norm.attribute("spatial", 1))


def _sole_producer(norm: NodeView) -> NodeView | None:
    """Return the producer of the input of ``norm``, or None if it cannot absorb ``norm`` or has other consumers."""
    value = norm.input(0)
    if value is None or value.producer is None or value.is_output or len(value.uses) != 1:
        return None
    node = value.producer
    alone = node.scope is norm.scope and len(node.proto.output) == 1
    product = ops.product(node)
    takes = product is not None and product.takes_batchnorm
    return node if takes and alone and not node.is_parametric else None


def _layout(node: NodeView, weight: onnx.TensorProto) -> tuple[int, int, int] | None:
    """Return channel axis, groups along axis 0 and number of output channels, or None for a wrong rank."""
    rank, product = len(weight.dims), _product(node)
    axis = product.output_axis(node, rank) if rank >= 2 else None
    if axis is None:
        return None
    groups = product.output_groups(node)
    return axis, groups, weight.dims[axis] * groups


def _product(node: NodeView) -> ops.ProductOp:
    """Return the weighted operator of a node that :func:`_sole_producer` returned."""
    product = ops.product(node)
    assert product is not None
    return product


MAX_PASSES = 8
"""Each pass folds one BatchNormalization of a sequence. Longer sequences are not folded completely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedNode:
    """A BatchNormalization that was folded.

    Attributes:
        node: Label of the BatchNormalization.
        graph: Scope of the BatchNormalization; empty for the main graph.
        into: Label of the node that it was folded into.
        op_type: Operator type of that node.
    """

    node: str
    graph: str
    into: str
    op_type: str


def fold_batchnorm(model: Model) -> Transformed[tuple[FoldedNode, ...]]:
    """Fold every BatchNormalization that directly follows a Conv, ConvTranspose or Gemm with a stored weight.

    In every scope, a BatchNormalization in inference mode with constant parameters is folded if nothing else reads its
    input. An initializer is constant even if it is also a graph input, as IR versions below 4 require; that graph input
    is removed too. If a weight has other consumers, they keep the original. Weights are folded while saving.

    Returns:
        The model, and every BatchNormalization that was folded. Outputs keep their names; values change only by
        rounding. The node's output gets the name of the normalization's output. An unnamed node is named after its
        former output, because options and reports identify the node by that name.
    """
    done: list[FoldedNode] = []
    for _ in range(MAX_PASSES):
        index = ModelIndex.of(model.fork())
        matches = tuple(Matcher(index).matches())
        if not matches:
            break
        model = apply_edits(index.model, _edits(index.view, matches))
        done += [_folded(match) for match in matches]
    return Transformed(model, tuple(done))


def _edits(view: GraphView, matches: tuple[Match, ...]) -> list[Edit]:
    edits: list[Edit] = []
    namer, dead = Namer(view), DeadCode(view)
    for match in matches:
        path, key = match.node.scope.path, match.node.key
        edits += _new_parameters(view.model, match, namer)
        edits.append(RemoveNode(path, match.norm.key))
        edits.append(RenameOutput(path, key, 0, match.norm.key[0]))
        if not match.node.proto.name:
            edits.append(SetNodeName(path, key, namer.node(key[0])))
        for node, index in (*((match.node, i) for i in (1, 2)), *((match.norm, i) for i in (1, 2, 3, 4))):
            dead.drop_use(node, index)
    return edits + dead.edits()


def _new_parameters(model: Model, match: Match, namer: Namer) -> list[Edit]:
    path, node = match.node.scope.path, match.node
    weight_name = namer.tensor(f"{node.input_name(1)}_folded")
    bias_name = namer.tensor(f"{node.input_name(2) or node.input_name(1) + '_bias'}_folded")
    onnx_type = match.weight.data_type
    fold = partial(folded_weight, affine=match.affine, axis=match.axis, groups=match.groups)
    weight = computed_tensor(model, match.weight, weight_name, fold)
    return [
        AddInitializer(path, weight),
        AddInitializer(path, make_tensor(bias_name, match.bias, onnx_type)),
        SetInput(path, node.key, 1, weight_name),
        SetInput(path, node.key, 2, bias_name),
    ]


def _folded(match: Match) -> FoldedNode:
    return FoldedNode(
        node=match.norm.label, graph=display(match.norm.scope.path), into=match.node.label, op_type=match.node.op_type
    )
