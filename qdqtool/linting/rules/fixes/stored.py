"""Read the codes of constants and their dequantized values, for fixes. Store 4-bit codes as int8."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.errors import ArgumentError
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError, shaped
from qdqtool.linting.rules.support.rule_context import Array, RuleContext
from qdqtool.linting.rules.support.words import format_of, kind
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.types import static_shape
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.granularity import Granularity, PerAxis
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """The constants of a Q or DQ.

    Attributes:
        scale: The scale.
        zero_point: The zero point, or None.
        granularity: The granularity, as ONNX reads the shape of the scale.
    """

    scale: Array
    zero_point: Array | None
    granularity: Granularity

    @property
    def one_each(self) -> "Parameters":
        """The same constants for data that has one element for each scale."""
        zero = self.zero_point.reshape(-1) if self.zero_point is not None else None
        return Parameters(self.scale.reshape(-1), zero, PerAxis(0))


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A DQ that reads a constant: codes, or a float constant through a Q.

    Attributes:
        context: The model.
        entry: The DQ.
        quantizer: The Q in front of it, if the constant is float.
        tensor: The stored constant.
        format: The number format of the codes.
        parameters: The scale and zero point of the DQ.
    """

    context: RuleContext
    entry: QdqNode
    quantizer: QdqNode | None
    tensor: onnx.TensorProto
    format: NumberFormat
    parameters: Parameters

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the constant."""
        return tuple(self.tensor.dims)

    @property
    def like(self) -> onnx.TensorProto:
        """An empty tensor with the type and shape of the DQ output."""
        made = self.entry.output_dtype or onnx.helper.np_dtype_to_tensor_dtype(self.parameters.scale.dtype)
        return shaped(self.tensor, made)

    def codes(self) -> Array:
        """Return the codes: as stored in the file, or as the Q computes them."""
        array = read_array(self.context.model, self.tensor)
        if self.quantizer is None:
            return array
        made = parameters(self.context, self.quantizer)
        return quantize(array, made.scale, self.format, made.granularity, made.zero_point)

    def reals(self) -> Array:
        """Return the dequantized values, in the output type of the DQ."""
        given = self.parameters
        dtype = _dtype(self.like)
        return dequantize(self.codes(), given.scale, given.granularity, given.zero_point, output_dtype=dtype)

    def require_legal(self) -> None:
        """Compute one element for each scale: a fault then shows now, and not when the fixed model is saved.

        Raises:
            UnfitError: A type or zero point is not legal in this computation.
        """
        if self.quantizer is not None:
            require_quantizable(parameters(self.context, self.quantizer), self.format, self.tensor)
        try:
            given, dtype = self.parameters.one_each, _dtype(self.like)
            codes = np.zeros(given.scale.shape, self.format.dtype)
            dequantize(codes, given.scale, given.granularity, given.zero_point, output_dtype=dtype)
        except ArgumentError as error:
            raise UnfitError(str(error)) from None

    def write_codes(self, draft: Draft, params: QuantParams) -> str:
        """Quantize the values with other parameters and store the codes; return the name of the initializer.

        Raises:
            UnfitError: Values cannot be quantized to the format, such as int32.
        """
        fmt = params.scheme.format
        if fmt.first_opset.quantize is None:
            raise UnfitError(f"ONNX cannot quantize to {fmt}")
        like = shaped(self.tensor, fmt.onnx_type)

        def make() -> Array:
            return quantize(self.reals(), params.scale, fmt, params.scheme.granularity, params.zero_point)

        return draft.weights(self.entry.node.scope, f"{self.name}_quantized", like, make)

    @property
    def name(self) -> str:
        """The name of the constant, without the suffix that quantizers append."""
        source = self.context.qdq.source(self.entry)
        assert source is not None
        return source.name.removesuffix("_quantized") or source.name


def parameters(context: RuleContext, entry: QdqNode) -> Parameters:
    """Return the constants of a Q or DQ.

    Raises:
        UnfitError: The scale or zero point is not constant, or has a shape that ONNX does not allow.
    """
    scale, zero, granularity = context.array(entry.scale), context.array(entry.zero_point), entry.granularity
    if scale is None or granularity is None or (zero is None and entry.node.input_name(2)):
        raise UnfitError("its scale or zero point is not constant, or its shape is illegal")
    extents = static_shape(context.data_shape(entry))
    fits = extents is not None and _is_scale_shape(scale.shape, granularity, extents)
    if (scale.size != 1 and not fits) or (zero is not None and zero.size != scale.size):
        raise UnfitError("its scale or zero point does not fit the shape of the data")
    return Parameters(scale, zero.reshape(scale.shape) if zero is not None else None, granularity)


def _is_scale_shape(found: tuple[int, ...], granularity: Granularity, extents: tuple[int, ...]) -> bool:
    try:
        return found == granularity.scale_shape(extents)
    except ArgumentError:
        # The model is broken: the data does not have this axis.
        return False


def stored(context: RuleContext, entry: QdqNode) -> Stored:
    """Return the constant that a DQ reads.

    Raises:
        UnfitError: The DQ reads no constant, or its scale or zero point is not constant or not legal.
    """
    quantizer = context.qdq.quantizer_of(entry)
    source = quantizer.data if quantizer is not None else entry.data
    tensor = context.constants.direct(source) if source is not None else None
    fmt = format_of(entry.quantized_type)
    if tensor is None or fmt is None:
        raise UnfitError("it reads no stored constant")
    found = Stored(context, entry, quantizer, tensor, fmt, parameters(context, entry))
    found.require_legal()
    return found


def require_quantizable(given: Parameters, fmt: NumberFormat, tensor: onnx.TensorProto) -> None:
    """Quantize one element for each scale: a fault then shows now, and not when the fixed model is saved.

    Raises:
        UnfitError: The type of the tensor, or a zero point, is not legal in this computation.
    """
    one = given.one_each
    try:
        quantize(np.zeros(one.scale.shape, _dtype(tensor)), one.scale, fmt, one.granularity, one.zero_point)
    except ArgumentError as error:
        raise UnfitError(str(error)) from None


def _dtype(tensor: onnx.TensorProto) -> np.dtype[np.generic]:
    if tensor.data_type not in onnx.helper.get_all_tensor_dtypes():
        raise UnfitError(f"{kind(tensor.data_type)} is not a legal type of a tensor")
    return onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)


def write_zero_point(draft: Draft, entry: QdqNode, zero: Array) -> None:
    """Set the zero point of a Q or DQ."""
    name = entry.zero_point.name if entry.zero_point is not None else f"{entry.node.input_name(1)}_zero_point"
    draft.set_input(entry.node, 2, draft.constant(entry.node.scope, name, zero))


def write_parameters(draft: Draft, entry: QdqNode, params: QuantParams) -> None:
    """Set the scale and zero point of a Q or DQ; without zero points in ``params`` they are 0."""
    fmt, node = params.scheme.format, entry.node
    base = entry.scale.name if entry.scale is not None else "scale"
    draft.set_input(node, 1, draft.constant(node.scope, base, params.scale))
    # An explicit zero point states the quantized type: without one, a Q returns uint8 in ONNX and int8 in TensorRT.
    zero = params.zero_point if params.zero_point is not None else np.zeros(params.scale.shape, fmt.dtype)
    name = entry.zero_point.name if entry.zero_point is not None else f"{base}_zero_point"
    draft.set_input(node, 2, draft.constant(node.scope, name, zero))
    if entry.output_dtype is not None and entry.is_quantize:
        draft.set_attribute(node, "output_dtype", fmt.onnx_type)


WIDER = Offer("safe", "stores the same 4-bit codes as int8, with the same scale")


def wider_fixes(entry: QdqNode) -> tuple[Fix, ...]:
    """Return the fix that stores 4-bit codes of a DQ as int8: the values stay the same, in twice the space."""
    if entry.is_quantize or kind(entry.quantized_type) not in {"int4", "uint4"}:
        return ()
    return (WIDER.fix("stores the same codes as int8", _widen, entry),)


def _widen(entry: QdqNode, draft: Draft) -> None:
    constant = stored(draft.context, entry)
    like = shaped(constant.tensor, TensorProto.INT8)
    name = draft.weights(entry.node.scope, constant.tensor.name, like, lambda: constant.codes().astype(np.int8))
    draft.set_input(entry.node, 0, name)
    zero = draft.context.array(entry.zero_point)
    if zero is not None:
        draft.set_constant(entry.node, 2, zero.astype(np.int8))
