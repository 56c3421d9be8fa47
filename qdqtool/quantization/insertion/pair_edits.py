"""Turn a plan into graph edits: add the nodes and constants of each Q/DQ pair, and redirect inputs to the pair."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from qdqtool.errors import UsageError
from qdqtool.models.graph.edits.edit import AddInitializer, AddNode, Edit, RenameOutput, SetInput
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Use, Value
from qdqtool.models.graph.io.tensors import element_count, make_tensor, pending_tensor, read_array
from qdqtool.models.graph.model import Model
from qdqtool.models.options import WeightStorage
from qdqtool.models.payload import Payload
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.numerics.affine import quantize
from qdqtool.numerics.dtypes import FLOAT8E8M0, FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.packing import stored_codes
from qdqtool.numerics.scheme import QuantParams


@dataclass(slots=True)
class PlacementEdits:
    """Builds the edits of a plan, one placement after the other.

    Attributes:
        index: The index of the model.
        storage: How quantized constants are stored.
        edits: The edits so far.
        packed: Names of the constants that were packed, by placement.
        dequantized: Name of the dequantized tensor, by placement.
    """

    index: ModelIndex
    storage: WeightStorage
    edits: list[Edit] = field(default_factory=list)
    packed: dict[Placement, str] = field(default_factory=dict)
    dequantized: dict[Placement, str] = field(default_factory=dict)
    _namer: Namer = field(init=False)
    _dead: DeadCode = field(init=False)

    def __post_init__(self) -> None:
        self._namer = Namer(self.index.view)
        self._dead = DeadCode(self.index.view)

    def add_plan(self, plan: QuantPlan) -> None:
        """Add the edits of every placement; then remove nodes and constants that are no longer read after packing."""
        for placement in plan:
            self._add(placement)
        self.edits.extend(self._dead.edits())

    def _add(self, placement: Placement) -> None:
        value = self.index.value(placement.slot)
        stored = self._packable(value)
        if stored is not None:
            self.packed[placement] = self._add_packed(placement, value, stored)
        else:
            self._add_pair(placement, value)

    def _packable(self, value: Value) -> onnx.TensorProto | None:
        """Return the constant whose codes are stored (a stored tensor, or computed by small operators), or None."""
        if self.storage is not WeightStorage.PACKED or value.is_output:
            return None
        stored = self.index.constants.direct(value)
        if stored is not None:
            return stored
        folded = self.index.constants.array(value)
        return make_tensor(value.name, folded, _onnx_type(folded)) if folded is not None else None

    def _add_packed(self, placement: Placement, value: Value, stored: onnx.TensorProto) -> str:
        params = placement.params
        name = self._namer.tensor(f"{value.name}_quantized")
        payload = _codes_payload(self.index.model, stored, placement)
        onnx_type = params.scheme.format.onnx_type
        tensor = pending_tensor(self.index.model, name, tuple(stored.dims), onnx_type, payload)
        self.edits.append(AddInitializer(value.scope.path, tensor))
        constants = self._add_constants(placement, value)
        output = self._namer.tensor(f"{value.name}_DequantizeLinear_Output")
        self._add_node("DequantizeLinear", placement, value, (name, *constants), output)
        self.dequantized[placement] = output
        for use in self._move(placement, value, output):
            self._dead.drop_use(use.node, use.index)
        return name

    def _add_pair(self, placement: Placement, value: Value) -> None:
        takes_output = value.is_output and placement.slot.uses is None
        source = self._free_output_name(value) if takes_output else value.name
        constants = self._add_constants(placement, value)
        codes = self._namer.tensor(f"{value.name}_QuantizeLinear_Output")
        self._add_node("QuantizeLinear", placement, value, (source, *constants), codes)
        output = value.name if takes_output else self._namer.tensor(f"{value.name}_DequantizeLinear_Output")
        self._add_node("DequantizeLinear", placement, value, (codes, *constants), output)
        self.dequantized[placement] = output
        if not takes_output:
            self._move(placement, value, output)

    def _free_output_name(self, value: Value) -> str:
        """Rename the producer's output, so that the pair makes the graph output under its old name."""
        if value.producer is None:
            raise UsageError(
                f"tensor '{value.qualified_name}' is a graph output that no node makes; it cannot be quantized",
                hint="name consumers to quantize only those uses",
            )
        name = self._namer.tensor(f"{value.name}_float")
        index = list(value.producer.proto.output).index(value.name)
        self.edits.append(RenameOutput(value.scope.path, value.producer.key, index, name))
        return name

    def _add_constants(self, placement: Placement, value: Value) -> tuple[str, ...]:
        """Add the scale, and the zero point unless attributes give the type; return their names in this order."""
        params = placement.params
        scale_name = self._add_scale(params, value)
        if not has_zero_point(params):
            return (scale_name,)
        zero_name = self._namer.tensor(f"{value.name}_zero_point")
        fmt = params.scheme.format
        codes = params.zero_point if params.zero_point is not None else np.zeros(params.scale.shape, fmt.dtype)
        self.edits.append(AddInitializer(value.scope.path, make_tensor(zero_name, codes, fmt.onnx_type)))
        return scale_name, zero_name

    def _add_scale(self, params: QuantParams, value: Value) -> str:
        """Add the scale: a constant or, if scales are quantized, codes with a DQ; return its name."""
        scope, name = value.scope.path, self._namer.tensor(f"{value.name}_scale")
        outer = params.scale_params
        if outer is None:
            self.edits.append(AddInitializer(scope, make_tensor(name, params.scale, _onnx_type(params.scale))))
            return name
        fmt = outer.scheme.format
        codes_name = self._namer.tensor(f"{name}_quantized")
        outer_name = self._namer.tensor(f"{name}_scale")
        codes = quantize(params.scale.astype(FLOAT32), outer.scale, fmt, outer.scheme.granularity)
        self.edits.append(AddInitializer(scope, make_tensor(codes_name, codes, fmt.onnx_type)))
        self.edits.append(AddInitializer(scope, make_tensor(outer_name, outer.scale, _onnx_type(outer.scale))))
        node = self._namer.node(f"{name}_DequantizeLinear")
        attributes = _output_type(outer.scale, _onnx_type(params.scale))
        edit = AddNode(scope, "DequantizeLinear", (codes_name, outer_name), (name,), node, attributes=attributes)
        self.edits.append(edit)
        return name

    def _add_node(self, op_type: str, placement: Placement, value: Value, inputs: tuple[str, ...], output: str) -> None:
        name, params = self._namer.node(f"{value.name}_{op_type}"), placement.params
        attributes = qdq_attributes(params)
        if op_type == "QuantizeLinear":
            attributes |= quantize_attributes(params)
        elif params.scheme.scale_scheme is not None:
            attributes |= _output_type(params.scale, self._data_type(value))
        self.edits.append(AddNode(value.scope.path, op_type, inputs, (output,), name, attributes=attributes))

    def _data_type(self, value: Value) -> int:
        """Return the ``TensorProto.DataType`` of a tensor that is quantized."""
        stored = self.index.constants.direct(value)
        if stored is not None:
            return stored.data_type
        return self.index.types.elem_type(value) or onnx.TensorProto.FLOAT

    def _move(self, placement: Placement, value: Value, output: str) -> list[Use]:
        chosen = self._chosen(placement, value)
        self.edits.extend(SetInput(use.node.scope.path, use.node.key, use.index, output) for use in chosen)
        return chosen

    def _chosen(self, placement: Placement, value: Value) -> list[Use]:
        if placement.slot.uses is None:
            return value.uses
        wanted = {(ref.scope, ref.node, ref.index) for ref in placement.slot.uses}
        return [use for use in value.uses if (use.node.scope.path, use.node.key, use.index) in wanted]


def qdq_attributes(params: QuantParams) -> dict[str, Any]:
    """Return the attributes of a Q or DQ node with these parameters."""
    match params.scheme.granularity:
        case PerTensor():
            return {}
        case PerAxis(axis):
            return {"axis": axis}
        case Blocked(axis, block_size):
            return {"axis": axis, "block_size": block_size}


def has_zero_point(params: QuantParams) -> bool:
    """Whether Q and DQ get a zero point input.

    From opset 21 on, a Q without zero point has its quantized type in output_dtype. The attribute is used if the scales
    themselves are quantized: their blocks are so small that zero points would use up the memory that the format saves.
    """
    # In all other cases the zero point is written even if it is 0: without it ONNX reads uint8, and TensorRT int8.
    return params.zero_point is not None or params.scheme.scale_scheme is None


def quantize_attributes(params: QuantParams) -> dict[str, Any]:
    """Return the attributes that only a Q has: type (without a zero point) and precision (float8e8m0 scales)."""
    attributes: dict[str, Any] = {}
    if not has_zero_point(params):
        attributes["output_dtype"] = params.scheme.format.onnx_type
    if params.scale.dtype == FLOAT8E8M0:
        # float8e8m0 has no significand, so it cannot be the type of a quotient.
        attributes["precision"] = onnx.TensorProto.FLOAT
    return attributes


def _output_type(scale: Array, wanted: int) -> dict[str, Any]:
    """Return the attribute of a DQ whose output type differs from the type of its scale; else an empty dict."""
    return {} if _onnx_type(scale) == wanted else {"output_dtype": wanted}


def _onnx_type(array: Array) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))


def _codes_payload(model: Model, stored: onnx.TensorProto, placement: Placement) -> Payload:
    if placement.codes is not None:
        return placement.codes
    size = placement.params.scheme.format.stored_bytes(element_count(stored))
    return Payload.in_parts(size, lambda: stored_codes(read_array(model, stored), placement.params))
