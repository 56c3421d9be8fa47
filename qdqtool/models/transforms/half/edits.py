"""Turn decisions into edits: constants of the type, Casts where types meet, and scales in the type of their pair."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveNode,
    RenameOutput,
    SetAttribute,
    SetElementType,
    SetInput,
)
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.constants import Array
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import GraphView, NodeView, Use, Value
from qdqtool.models.graph.io.tensors import element_count, make_tensor, pending_tensor, read_array
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.options import HalfType
from qdqtool.models.payload import Payload
from qdqtool.models.transforms.half.decide import DTYPES, Decisions
from qdqtool.models.transforms.half.operands import TypeRule, is_float32

_SMALL = 1 << 10
"""Constants with at most this many elements are converted immediately, larger ones while the model is saved."""


@dataclass(slots=True)
class HalfEdits:
    """Builds the edits of a model.

    Attributes:
        decisions: The decisions on nodes and tensors.
        edits: The edits so far.
        casts: Number of Cast nodes among the edits.
    """

    decisions: Decisions
    edits: list[Edit] = field(default_factory=list)
    casts: int = 0
    _namer: Namer = field(init=False)
    _dead: DeadCode = field(init=False)
    _half_type: HalfType = field(init=False)
    _constants: dict[Value, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._namer = Namer(self.decisions.index.view)
        self._dead = DeadCode(self.decisions.index.view)
        self._half_type = self.decisions.half

    def add_all(self) -> None:
        """Add the edits of every node and tensor."""
        for node, own in self.decisions.operands.items():
            if own.kind is TypeRule.MAKES:
                self._set_type_of_maker(node)
        for entry in self.decisions.index.qdq.quantizers():
            self._set_scale_of_quantizer(entry)
        for value in self.decisions.index.view.values():
            if is_float32(value, self.decisions.index.types) and not value.scope.in_function:
                self._convert(value)
        self.edits += self._dead.edits()

    def _convert(self, value: Value) -> None:
        if self.decisions.is_stored(value):
            self._convert_constant(value)
        elif self.decisions.is_half(value):
            self._convert_half(value)
        else:
            self._convert_full(value)

    def _convert_constant(self, value: Value) -> None:
        """Give half-precision consumers their own constant; the float32 one is removed if no consumer is left."""
        # The constant that a Q reads stays float32, so that the codes are those of the original value.
        for use in value.uses:
            if self.decisions.wants_half(use):
                self._set_input(use, self._constant(value))

    def _set_input(self, use: Use, name: str) -> None:
        self.edits.append(SetInput(use.node.scope.path, use.node.key, use.index, name))
        self._dead.drop_use(use.node, use.index)

    def _constant(self, value: Value) -> str:
        """Return the name of the half-precision copy of a constant; the copy is made on first use."""
        if value not in self._constants:
            name = self._constants[value] = self._namer.tensor(f"{value.name}_{self._half_type.onnx_name}")
            self.edits.append(AddInitializer(value.scope.path, self._half(value, name)))
        return self._constants[value]

    def _half(self, value: Value, name: str) -> onnx.TensorProto:
        model, stored = self.decisions.index.model, self.decisions.index.constants.direct(value)
        clipped = value in self.decisions.infinity_constants.roots
        if stored is None or element_count(stored) <= _SMALL:
            array = self.decisions.index.constants.array(value)
            assert array is not None
            return make_tensor(name, rounded(array, self._half_type, clipped=clipped), self._half_type.elem_type)

        def make() -> bytes:
            return rounded(read_array(model, stored), self._half_type, clipped=clipped).tobytes()

        payload = Payload(2 * element_count(stored), make)
        return pending_tensor(model, name, tuple(stored.dims), self._half_type.elem_type, payload)

    def _convert_half(self, value: Value) -> None:
        """Convert a tensor to half precision. Float32 consumers get a Cast, and so does a graph output."""
        full = [use for use in value.uses if self.decisions.wants_half(use) is False]
        if value in self.decisions.returned:
            self._return(value, full)
            return
        self.edits.append(SetElementType(value.scope.path, value.name, self._half_type.elem_type))
        self._feed(full, value, TensorProto.FLOAT)

    def _convert_full(self, value: Value) -> None:
        """Keep a tensor in float32. Half-precision consumers get a Cast, or a second DQ if a DQ makes the tensor."""
        half = [use for use in value.uses if self.decisions.wants_half(use)]
        entry = self.decisions.index.qdq.dequantizer_of(value)
        if half and entry is not None and self.decisions.takes_either(entry.node):
            self._dequantize_again(entry, value, half)
        else:
            self._feed(half, value, self._half_type.elem_type)

    def _return(self, value: Value, full: list[Use]) -> None:
        """Rename the producer's output; a Cast makes the returned tensor, which float32 consumers read too."""
        assert value.producer is not None
        scope, name = value.scope.path, self._namer.tensor(f"{value.name}_{self._half_type.onnx_name}")
        index = list(value.producer.proto.output).index(value.name)
        self.edits.append(RenameOutput(scope, value.producer.key, index, name))
        self._cast(value, name, value.name, TensorProto.FLOAT)
        self._let_read([use for use in value.uses if use not in full], name)

    def _feed(self, uses: list[Use], value: Value, to: int) -> None:
        """Add one Cast for all given uses of a tensor."""
        if uses:
            suffix = "float32" if to == TensorProto.FLOAT else self._half_type.onnx_name
            name = self._namer.tensor(f"{value.name}_{suffix}")
            self._cast(value, value.name, name, to)
            self._let_read(uses, name)

    def _let_read(self, uses: list[Use], name: str) -> None:
        for use in uses:
            self.edits.append(SetInput(use.node.scope.path, use.node.key, use.index, name))

    def _cast(self, value: Value, source: str, output: str, to: int) -> None:
        name = self._namer.node(f"{output}_Cast")
        self.edits.append(AddNode(value.scope.path, "Cast", (source,), (output,), name, attributes={"to": to}))
        self.casts += 1

    def _set_type_of_maker(self, node: NodeView) -> None:
        output = node.output()
        if output is None or node.scope.in_function or not self.decisions.is_half(output):
            return
        entry = self.decisions.index.qdq.get(node)
        if entry is not None:
            self._set_type_of_dequantizer(entry)
        elif node.op_type == "Cast":
            self.edits.append(SetAttribute(node.scope.path, node.key, "to", self._half_type.elem_type))
        else:
            filled = node.attribute("value")
            array = np.zeros(1, np.float32) if filled is None else read_array(self.decisions.index.model, filled)
            half = rounded(array, self._half_type, clipped=output in self.decisions.infinity_constants.roots)
            tensor = make_tensor("value", half, self._half_type.elem_type)
            self.edits.append(SetAttribute(node.scope.path, node.key, "value", tensor))

    def _set_type_of_dequantizer(self, entry: QdqNode) -> None:
        """Set the output type of a DQ, which is the type of its scale unless output_dtype is set."""
        # A DQ that makes scales sets output_dtype, because its own scale is too small for float16.
        node, decisions = entry.node, self.decisions
        if entry.output_dtype is not None or decisions.index.qdq.makes_scales(entry):
            self.edits.append(SetAttribute(node.scope.path, node.key, "output_dtype", self._half_type.elem_type))
        elif decisions.is_stored(entry.scale):
            self._set_input(Use(node, 1), self._constant(entry.scale))

    def _set_scale_of_quantizer(self, entry: QdqNode) -> None:
        """Set the scale of a Q to the type of its data."""
        data, scale = entry.data, entry.scale
        if data is None or entry.node.scope.in_function or not self.decisions.is_half(data):
            return
        # A pair that cannot be half precision reads a Cast of its data.
        if not self.decisions.takes_either(entry.node):
            return
        if self.decisions.is_stored(scale):
            self._set_input(Use(entry.node, 1), self._constant(scale))

    def _dequantize_again(self, entry: QdqNode, value: Value, uses: list[Use]) -> None:
        """Add a second DQ of the same codes, with half-precision output."""
        node, inputs = entry.node, list(entry.node.proto.input)
        attributes: dict[str, Any] = {
            attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.proto.attribute
        }
        if entry.output_dtype is None and self.decisions.is_stored(entry.scale):
            inputs[1] = self._constant(entry.scale)
        else:
            attributes["output_dtype"] = self._half_type.elem_type
        name = self._namer.tensor(f"{value.name}_{self._half_type.onnx_name}")
        label = self._namer.node(f"{name}_DequantizeLinear")
        scope, domain = node.scope.path, node.domain
        self.edits.append(AddNode(scope, node.op_type, tuple(inputs), (name,), label, domain, attributes))
        self._let_read(uses, name)


def without_same_casts(converted: Model, decisions: Decisions) -> Transformed[None]:
    """Remove the Casts of the given model that read half precision now and make it; exporters put them around norms."""
    index, half = decisions.index, decisions.half.elem_type
    keys = {
        (node.scope.path, node.key)
        for node in decisions.operands
        if node.is_op("Cast") and (source := node.input(0)) is not None and (made := node.output()) is not None
        if decisions.is_half(made) and (decisions.is_half(source) or index.elem_type(source) == half)
    }
    sources: dict[Value, Value] = {}
    edits: list[Edit] = []
    for node in GraphView(converted).nodes() if keys else ():
        source, made = node.input(0), node.output()
        if source is not None and made is not None and (node.scope.path, node.key) in keys:
            sources[made] = sources.get(source, source)
            edits.append(RemoveNode(node.scope.path, node.key))
            edits += [SetInput(use.node.scope.path, use.node.key, use.index, sources[made].name) for use in made.uses]
    return Transformed(apply_edits(converted, edits) if edits else converted, None)


def rounded(array: Array, half: HalfType, *, clipped: bool = False) -> Array:
    """Round a constant to half precision, half to even.

    Args:
        array: float32 values.
        half: The type of the result.
        clipped: Whether values beyond its largest magnitude mean infinity and are clipped to it.

    Returns:
        The constant. If all its nonzero values would become 0 (such as a small epsilon), they become the smallest
        positive value of the type. Otherwise a division by them or by their root would be a division by zero.
    """
    values = np.clip(array, -half.largest, half.largest) if clipped else array
    with np.errstate(over="ignore", under="ignore"):
        result = values.astype(DTYPES[half])
    lost = (values != 0) & (result == 0)
    if np.array_equal(lost, values != 0):
        result = np.where(lost, np.copysign(half.tiniest, values), result).astype(result.dtype)
    return result
