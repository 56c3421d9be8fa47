"""Replace asymmetric codes by symmetric codes: with the same values if possible, else by quantizing again.

Codes may be moved and joined between Q and DQ. All nodes that share codes are changed together.
"""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from qdqtool.linting.rules.fixes.code_group import CodeGroup
from qdqtool.linting.rules.fixes.stored import Parameters, parameters, stored, write_parameters, write_zero_point
from qdqtool.linting.rules.fixes.unquantize import float_fix
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError, shaped
from qdqtool.linting.rules.support.rule_context import Array, RuleContext, as_reals
from qdqtool.linting.rules.support.words import format_of, kind, number
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.ops.support.imposed_bounds import absorbs_relu
from qdqtool.numerics import formats
from qdqtool.numerics.affine import quantize
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.granularity import PerTensor, expand
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams, QuantScheme

EXACT = Offer(
    "safe", "stores signed codes with zero point 0 if these have the same values, as for uint8 with zero point 128"
)
SYMMETRIC = Offer("unsafe", "quantizes symmetrically to int8, with scale max(|low|, |high|) / 127")

_Reals = npt.NDArray[np.float64]

SIGNED: dict[int, int] = {
    TensorProto.UINT8: TensorProto.INT8,
    TensorProto.INT8: TensorProto.INT8,
    TensorProto.UINT4: TensorProto.INT4,
    TensorProto.INT4: TensorProto.INT4,
    TensorProto.UINT2: TensorProto.INT2,
    TensorProto.INT2: TensorProto.INT2,
}
"""The signed types with the same number of bits."""

ASYMMETRIC = frozenset(SIGNED) | {TensorProto.INT16, TensorProto.UINT16}


def symmetric_fixes(context: RuleContext, entry: QdqNode) -> tuple[Fix, ...]:
    """Return the fixes that give a Q or DQ, and all nodes that share its codes, zero points of 0."""
    if entry.quantized_type not in ASYMMETRIC:
        return (float_fix(entry),) if entry.quantized_type == TensorProto.INT32 and not entry.is_quantize else ()
    old = kind(entry.quantized_type)
    signed = SIGNED.get(entry.quantized_type) if entry.quantized_type is not None else None
    if not entry.is_quantize and not _keeps_codes(context, entry):
        return (float_fix(entry),)
    exact = EXACT.fix(f"stores the {old} codes as {kind(signed)} with zero point 0, exactly", _exact, entry)
    wide = EXACT.fix(f"stores the {old} codes as int8 with zero point 0, exactly", _exact_as_int8, entry)
    symmetric = SYMMETRIC.fix(_described(context, entry), _symmetric, entry)
    if signed is None:
        return (symmetric,)
    if not _may_be_exact(context, entry):
        exact, wide = replace(exact, is_ruled_out=True), replace(wide, is_ruled_out=True)
    return (exact, symmetric) if signed == TensorProto.INT8 else (exact, wide, symmetric)


MOST_READ = 1 << 20
"""Up to this number, stored codes are read to decide whether an exact fix is possible."""


def _may_be_exact(context: RuleContext, entry: QdqNode) -> bool:
    """Return whether signed codes can hold the values; true if there are too many stored codes to read them now."""
    fmt = format_of(entry.quantized_type)
    assert fmt is not None
    try:
        given = parameters(context, entry)
    except UnfitError:
        return False
    if given.zero_point is not None and fmt.low == 0 and np.all(as_reals(given.zero_point) == (fmt.high + 1) / 2):
        return True
    tensor = context.constants.direct(entry.data) if not entry.is_quantize and entry.data is not None else None
    if tensor is None or math.prod(tensor.dims) > MOST_READ:
        # Codes that a Q makes take the whole range.
        return tensor is not None
    codes, signed = _without_zero(context, tensor, given)[0], formats.get("int8")
    return not codes.size or bool(codes.min() >= signed.low and codes.max() <= signed.high)


def _keeps_codes(context: RuleContext, entry: QdqNode) -> bool:
    """Return whether the data must stay quantized: an activation, or a constant that products or moving nodes read."""
    multiplied = any(ops.product(use.node) is not None or ops.moves_values(use.node) for use in entry.uses)
    return multiplied or not context.qdq.is_weight(entry) or (entry.output is not None and entry.output.is_output)


def _exact(entry: QdqNode, draft: Draft) -> None:
    group = CodeGroup.of(draft.context, entry)
    assert entry.quantized_type is not None
    signed = formats.by_onnx_type(SIGNED[entry.quantized_type])
    assert signed is not None
    if group.tensors:
        _shift(group, draft, signed)
    else:
        _recode(group, draft, signed)


def _exact_as_int8(entry: QdqNode, draft: Draft) -> None:
    group = CodeGroup.of(draft.context, entry)
    if group.tensors:
        raise UnfitError("the codes are not stored, or reach their DQ through another operator")
    _recode(group, draft, formats.get("int8"))


def _shift(group: CodeGroup, draft: Draft, signed: NumberFormat) -> None:
    """Subtract half the range from all codes: exact if every zero point is half the range."""
    half = -signed.low
    for entry in group.entries:
        zero = parameters(draft.context, entry).zero_point
        if entry.quantized_type == signed.onnx_type or zero is None or np.any(as_reals(zero) != half):
            raise UnfitError(f"no {signed} codes hold its values with the same scale: its zero point is not {half:g}")
    for value in group.constants:
        _store(group, draft, value, signed, np.asarray(half))
    for entry in group.entries:
        _zero(draft, entry, signed)
    group.set_types(draft, signed.onnx_type)


def _recode(group: CodeGroup, draft: Draft, signed: NumberFormat) -> None:
    """Subtract the zero points from stored codes: exact if the differences are in range."""
    given = group.shared()
    (value,) = group.constants
    tensor = draft.context.constants.direct(value)
    assert tensor is not None
    codes, zero = _without_zero(draft.context, tensor, given)
    if codes.size and (codes.min() < signed.low or codes.max() > signed.high):
        raise UnfitError(f"codes minus zero point range from {codes.min():g} to {codes.max():g}, outside {signed}")
    _store(group, draft, value, signed, zero)
    for entry in group.entries:
        _zero(draft, entry, signed)


def _without_zero(context: RuleContext, tensor: onnx.TensorProto, given: Parameters) -> tuple[_Reals, _Reals]:
    """Return stored codes less their zero point, and the zero point in a shape that fits them."""
    shape = tuple(tensor.dims)
    zero = as_reals(np.asarray(0) if given.zero_point is None else expand(given.zero_point, shape, given.granularity))
    return as_reals(read_array(context.model, tensor)) - zero, zero


def _store(group: CodeGroup, draft: Draft, value: Value, signed: NumberFormat, less: _Reals) -> None:
    tensor = group.context.constants.direct(value)
    assert tensor is not None
    model = draft.context.model
    like = shaped(tensor, signed.onnx_type)

    def make() -> Array:
        codes: Array = (as_reals(read_array(model, tensor)) - less).astype(np.int16).astype(signed.dtype)
        return codes

    name = draft.weights(value.scope, f"{value.name}_{signed}", like, make)
    for use in value.uses:
        draft.set_input(use.node, use.index, name)


def _zero(draft: Draft, entry: QdqNode, signed: NumberFormat) -> None:
    shape = parameters(draft.context, entry).scale.shape
    write_zero_point(draft, entry, np.zeros(shape, signed.dtype))
    if entry.is_quantize and entry.output_dtype is not None:
        draft.set_attribute(entry.node, "output_dtype", signed.onnx_type)


def _symmetric(entry: QdqNode, draft: Draft) -> None:
    group = CodeGroup.of(draft.context, entry)
    given = group.shared()
    if group.constants and group.tensors:
        _requantize_moved(group, given, draft)
        return
    if group.constants:
        _requantize(group, draft)
        return
    params = QuantParams(QuantScheme(formats.get("int8"), given.granularity), _scale(entry, given))
    for each in group.entries:
        write_parameters(draft, each, params)
        if absorbs_relu(each, draft.context.index):
            source = each.node.input_name(0)
            draft.set_input(each.node, 0, draft.add(each.node, "Relu", (source,), source))
    group.set_types(draft, TensorProto.INT8)


def _requantize(group: CodeGroup, draft: Draft) -> None:
    first = stored(draft.context, group.entries[0])
    scheme = QuantScheme(formats.get("int8"), first.parameters.granularity)
    params = scale_from_tensor(first.reals(), scheme, ScaleRule(dtype=first.parameters.scale.dtype))
    name = first.write_codes(draft, params)
    for entry in group.entries:
        draft.set_input(entry.node, 0, name)
        write_parameters(draft, entry, params)


def _requantize_moved(group: CodeGroup, given: Parameters, draft: Draft) -> None:
    """Quantize again the stored codes that operators move to their DQs, such as an embedding table."""
    if given.scale.size != 1 or any(entry.is_quantize for entry in group.entries):
        raise UnfitError("a Q shares the stored codes, or they have several scales")
    zero = as_reals(given.zero_point) if given.zero_point is not None else np.float64(0)
    fmt, stored_codes = formats.get("int8"), [_codes(group, value) - zero for value in group.constants]
    # A table of zeros keeps its scale.
    reach = max((float(np.abs(codes).max()) for codes in stored_codes if codes.size), default=0) or 127
    scale = np.asarray(as_reals(given.scale).reshape(()) * reach / 127).astype(given.scale.dtype)
    for value in group.constants:
        tensor = draft.context.constants.direct(value)
        assert tensor is not None

        def make(value: Value = value) -> Array:
            reals = (_codes(group, value) - zero) * as_reals(given.scale).reshape(())
            return quantize(reals.astype(np.float32), scale.astype(np.float32), fmt, PerTensor())

        like = shaped(tensor, fmt.onnx_type)
        draft.replace(value, draft.weights(value.scope, f"{value.name}_{fmt}", like, make))
    for entry in group.entries:
        write_parameters(draft, entry, QuantParams(QuantScheme(fmt, PerTensor()), scale))
    group.set_types(draft, fmt.onnx_type)


def _codes(group: CodeGroup, value: Value) -> _Reals:
    tensor = group.context.constants.direct(value)
    assert tensor is not None
    return as_reals(read_array(group.context.model, tensor))


def _scale(entry: QdqNode, given: Parameters) -> Array:
    """Return the scale ``max(|low|, |high|) / 127`` for the range of values that the codes can represent."""
    fmt = format_of(entry.quantized_type)
    assert fmt is not None
    zero = as_reals(given.zero_point) if given.zero_point is not None else np.float64(0)
    reach = np.maximum(np.abs(fmt.low - zero), np.abs(fmt.high - zero))
    return np.asarray(as_reals(given.scale) * reach / 127).astype(given.scale.dtype)


def _described(context: RuleContext, entry: QdqNode) -> str:
    words = f"quantizes {kind(entry.quantized_type)} symmetrically to int8"
    if not entry.is_quantize and context.qdq.quantizer_of(entry) is None:
        return words
    try:
        given = parameters(context, entry)
        if given.scale.size != 1:
            return words
        zero = number(given.zero_point.reshape(())) if given.zero_point is not None else "0"
        old, new = given.scale.reshape(()), _scale(entry, given).reshape(())
        with np.errstate(all="ignore"):
            wider = float(as_reals(new) / as_reals(old))
    except UnfitError:
        return words
    relu = " behind a Relu, as it clips at 0" if absorbs_relu(entry, context.index) else ""
    return (
        f"{words}: scale {number(old)}, zero point {zero} becomes scale {number(new)}, {wider:.3g} times as wide{relu}"
    )
