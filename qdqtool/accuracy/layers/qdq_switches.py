"""Add a switch at each pair of a model that has Q/DQ nodes, so that one session runs it with any set of pairs.

A layer that read the DQ of an activation reads ``Where(mask, DQ(Q(x)), x)`` instead. Each such layer has its own mask,
which is an input of the model. A pair that makes an output belongs to the layer before the pair. If the range of a Q
replaces a Relu or Clip, ``x`` is the result of this Relu or Clip.

A weight that is stored as codes is replaced by an input, which gets the dequantized codes or the float weight of the
baseline. A bias that was corrected during quantization is switched with its layer in the same way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import TensorProto

from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.masked_model import Setting
from qdqtool.accuracy.layers.switch_builder import SwitchBuilder, fed
from qdqtool.errors import ArgumentError
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Use, Value
from qdqtool.models.graph.model import Model
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, UnknownBoundsError, imposed_bounds
from qdqtool.models.running.own_nodes import granularity_of, output_type_of
from qdqtool.models.transforms.restored_bounds import check_restorable, restore
from qdqtool.numerics import formats
from qdqtool.numerics.affine import dequantize, fake_quantize
from qdqtool.numerics.derive import scale_from_tensor
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantScheme

FloatWeight = Callable[[QdqNode], Array | None]
"""Returns the float weight that the codes of a DQ represent, or None if it is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class OtherConstant:
    """A float constant whose values differ in the baseline, such as a bias that was corrected during quantization.

    Attributes:
        node: The node of the model that reads it.
        index: The number of the input of the node.
        stored: The values of the model.
        plain: The values of the baseline.
    """

    node: NodeView
    index: int
    stored: Array
    plain: Array

    @property
    def change(self) -> Array:
        """The difference from the baseline, in float64."""
        return self.stored.astype(FLOAT64) - self.plain.astype(FLOAT64)


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """One switch.

    Attributes:
        name: The name of its input.
        on: The value of the input for a pair that is on.
        off: The value for a pair that is off.
        kind: ``activations``, ``weights`` or ``biases``.
        source: The Q of an activation, the DQ of stored codes, or the node that reads another constant.
        per_channel: Makes the weight with one scale for each channel; None if it has such scales, or no channels.
    """

    name: str
    on: Array
    off: Array
    kind: str
    source: QdqNode | NodeView
    per_channel: Callable[[], Array] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class QdqSwitches:
    """A model with a switch at each pair that can be switched.

    Attributes:
        model: The model. It has its original inputs, and the inputs of :meth:`feeds`.
        layers: Its layers, in the order of the graph. Their sites are numbers of switches.
        left_out: Pairs that always stay on, with the reason, in words.
        switches: The switches; a pair has one for each reader.
    """

    model: Model
    layers: tuple[Layer, ...]
    left_out: tuple[str, ...]
    switches: Sequence[Switch] = field(default_factory=list)

    @property
    def all_float(self) -> Setting:
        """The setting with every pair switched off."""
        return dict.fromkeys(range(len(self.switches)))

    def per_channel(self) -> "QdqSwitches":
        """Return the same model, in which a weight that is switched on has one scale for each channel."""
        finer = [each if each.per_channel is None else replace(each, on=each.per_channel()) for each in self.switches]
        return replace(self, switches=finer)

    def feeds(self, setting: Setting) -> dict[str, Array]:
        """Return the arrays of the inputs that switch pairs."""
        return {
            switch.name: switch.off if number in setting else switch.on for number, switch in enumerate(self.switches)
        }


def add_switches(index: ModelIndex, float_weight: FloatWeight, others: Sequence[OtherConstant] = ()) -> QdqSwitches:
    """Make the model with a switch at each pair."""
    return _Switcher(index, float_weight).switched(others)


class _Switcher(SwitchBuilder):
    def __init__(self, index: ModelIndex, float_weight: FloatWeight) -> None:
        super().__init__(index.view)
        self._index = index
        self._float_weight = float_weight
        self._switches: list[Switch] = []
        self._sites: dict[NodeView, list[int]] = {}
        self._left_out: list[str] = []
        self._plains: dict[QdqNode, str] = {}

    def switched(self, others: Sequence[OtherConstant]) -> QdqSwitches:
        for entry in self._index.qdq.dequantizers():
            self._add(entry)
        for other in others:
            self._add_constant(other)
        nodes = [node for node in self._index.view.nodes() if node in self._sites]
        layers = tuple(Layer((node,), tuple(self._sites[node])) for node in nodes)
        return QdqSwitches(self.built(), layers, tuple(dict.fromkeys(self._left_out)), self._switches)

    def _add(self, entry: QdqNode) -> None:
        readers = _readers(entry)
        if entry.output is None or not (readers or entry.output.is_output) or self._index.qdq.makes_scales(entry):
            return
        problem = "it is in a local function" if entry.node.scope.in_function else ""
        source = self._index.qdq.quantizer_of(entry)
        if not problem and source is not None:
            problem = self._add_activation(entry, source, readers)
        elif not problem:
            problem = self._add_weight(entry, readers)
        if problem:
            self._left_out.append(f"{entry.node.label}: {problem}")

    def _add_activation(self, entry: QdqNode, quantizer: QdqNode, readers: Mapping[NodeView, list[Use]]) -> str:
        """Add a switch at each reader of a pair; return why that is impossible, or an empty text after success."""
        x, y = quantizer.data, entry.output
        if x is None or y is None or (x.scope is not entry.node.scope and entry.node.scope.resolve(x.name) is not x):
            return "the input of its Q is in another scope"
        before, after = self._index.types.elem_type(x), self._index.types.elem_type(y)
        if before is None or after is None:
            return "the types in front of its Q and behind it are not known"
        try:
            plain = self._plain(quantizer, x)
        except UnknownBoundsError as error:
            return str(error)
        if before != after:
            # A model with a float32 interface has such a pair at an input, if its nodes are half precision.
            plain = self.cast(quantizer.node.scope.path, plain, after)
        dequantized = y.name
        if y.is_output:
            dequantized = self.rename(y, entry.node)
            maker = x.producer if x.producer is not None else entry.node
            self._add_switch(quantizer, maker, (dequantized, plain), y.name)
        for reader, uses in readers.items():
            switched = self._namer.tensor(f"{y.name}_switched")
            self._add_switch(quantizer, reader, (dequantized, plain), switched)
            self._read(uses, switched)
        self._dead.keep(y)
        return ""

    def _add_switch(self, quantizer: QdqNode, layer: NodeView, choice: tuple[str, str], made: str) -> None:
        """Add the switch of one layer between the tensors after and before a pair."""
        mask = self.add_where(quantizer.node.scope.path, choice, made)
        is_weight = quantizer.data is not None and self._index.is_constant(quantizer.data)
        kind = "weights" if is_weight else "activations"
        self._note(layer, Switch(mask, np.array(True), np.array(False), kind, quantizer))

    def _plain(self, quantizer: QdqNode, x: Value) -> str:
        """Return the float tensor that replaces a pair: the input of the Q, after an imposed Relu or Clip."""
        if quantizer not in self._plains:
            bounds = imposed_bounds(quantizer, self._index)
            check_restorable(quantizer, bounds, self._index)
            made = None
            if bounds != NO_BOUNDS:
                made = restore(quantizer, bounds, self._index, self._namer, (x.name, None))
                self._edits += made.edits
            self._plains[quantizer] = x.name if made is None else made.tensor
        return self._plains[quantizer]

    def _add_weight(self, entry: QdqNode, readers: Mapping[NodeView, list[Use]]) -> str:
        if entry.data is None or not self._index.is_constant(entry.data):
            return "no Q stands directly in front of it"
        if entry.output is not None and entry.output.is_output:
            return "an output of the graph is the weight itself"
        plain = self._float_weight(entry)
        if plain is None:
            return "the baseline has no weight that matches it"
        try:
            stored = _dequantized(entry, self._index)
        except ArgumentError as error:
            return error.message
        if stored is None or stored.shape != plain.shape:
            return "the weight of the baseline has another shape"
        for reader, uses in readers.items():
            switch = self._constant(f"{entry.node.key[0]}_weight", (stored, plain), uses, entry)
            self._note(reader, replace(switch, per_channel=_per_channel(entry, reader, uses, plain)))
        return ""

    def _add_constant(self, other: OtherConstant) -> None:
        holder = _layer_of(other.node, self._sites)
        value = other.node.input(other.index)
        if holder is None or value is None or other.node.scope.in_function:
            self._left_out.append(f"{other.node.label}: its constant differs from the baseline, and cannot be switched")
            return
        uses = [use for use in value.uses if use.node is other.node and use.index == other.index]
        self._note(holder, self._constant(f"{value.name}_constant", (other.stored, other.plain), uses, other.node))

    def _constant(
        self, base: str, values: tuple[Array, Array], uses: Sequence[Use], source: QdqNode | NodeView
    ) -> Switch:
        """Replace a constant that some nodes read by an input."""
        on, off = values
        name, read = self.add_array_input(base, on)
        self._read(uses, read)
        is_weight = isinstance(source, QdqNode) and source.quantized_type != TensorProto.INT32
        kind = "weights" if is_weight else "biases"
        return Switch(name, fed(on), fed(off.astype(on.dtype)).reshape(on.shape), kind, source)

    def _read(self, uses: Sequence[Use], tensor: str) -> None:
        self.read([(use.node, use.index) for use in uses], tensor)

    def _note(self, reader: NodeView, switch: Switch) -> None:
        self._sites.setdefault(reader, []).append(len(self._switches))
        self._switches.append(switch)


def _per_channel(entry: QdqNode, reader: NodeView, uses: Sequence[Use], plain: Array) -> Callable[[], Array] | None:
    """Return a function that quantizes a weight by channel, if it is an 8-bit weight with one scale; else None."""
    product = ops.product(reader)
    axis = product.weight_axis(reader, plain.ndim) if product is not None else None
    is_coarse = entry.quantized_type in {TensorProto.INT8, TensorProto.UINT8} and entry.granularity == PerTensor()
    if axis is None or not is_coarse or plain.shape[axis] == 1 or any(use.node is not reader for use in uses):
        return None
    fmt, granularity = formats.get("int8"), PerAxis(axis)

    def values() -> Array:
        real = plain.astype(FLOAT32, copy=False)
        params = scale_from_tensor(real, QuantScheme(fmt, granularity))
        return fed(fake_quantize(real, params.scale, fmt, granularity))

    return values


def _readers(entry: QdqNode) -> Mapping[NodeView, list[Use]]:
    """Return the uses of a DQ by the node that computes with it, which may follow a Cast or Transpose."""
    found: dict[NodeView, list[Use]] = {}
    for use in entry.uses:
        cast = use.node.output() if use.node.is_op("Cast") else None
        reader = cast.uses[0].node if cast is not None and cast.uses else use.node
        found.setdefault(next(ops.computing_nodes(reader), reader), []).append(use)
    return found


def _layer_of(node: NodeView, sites: Mapping[NodeView, list[int]]) -> NodeView | None:
    """Return the layer of a constant: its reader, or the product whose result its reader (an Add) reads."""
    makers = (value.producer for at in range(len(node.proto.input)) if (value := node.input(at)) is not None)
    return next((each for each in (node, *makers) if each is not None and each in sites), None)


def _dequantized(entry: QdqNode, index: ModelIndex) -> Array | None:
    codes, scale, zero = (
        None if value is None else index.constant(value) for value in (entry.data, entry.scale, entry.zero_point)
    )
    if codes is None or scale is None or (zero is None and entry.zero_point is not None):
        return None
    return dequantize(codes, scale, granularity_of(entry, scale), zero, output_dtype=output_type_of(entry, scale))
