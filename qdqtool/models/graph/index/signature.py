"""The attributes, inputs and outputs of an operator at an opset, and those of the dialect QONNX.

``Quant`` of QONNX, the dialect of Brevitas, FINN and hls4ml, quantizes and dequantizes in one node: inputs x, scale,
zero point and bit width; attributes ``signed``, ``narrow`` and ``rounding_mode``. Newer files call it ``IntQuant``.
ONNX and ONNX Runtime know none of them.
"""

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.scope import all_nodes

DOMAINS = frozenset({"qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"})
"""Brevitas wrote ``onnx.brevitas`` before the dialect had a home, QONNX itself ``finn.custom_op.general``."""

QUANT = frozenset({"Quant", "IntQuant"})
BIPOLAR = "BipolarQuant"
QUANTIZERS = QUANT | {BIPOLAR, "FloatQuant", "Trunc"}
"""Operators whose output has the shape and type of input 0."""


def is_quantizer(node: onnx.NodeProto) -> bool:
    """Whether a node is a quantizer of QONNX."""
    return node.domain in DOMAINS and node.op_type in QUANTIZERS


def with_identities(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which an Identity replaces each quantizer; a model without quantizers is returned itself."""
    if not any(map(is_quantizer, all_nodes(proto))):
        return proto
    copy = copy_model(proto)
    for node in filter(is_quantizer, all_nodes(copy)):
        node.domain, node.op_type = "", "Identity"
        del node.input[1:]
        node.ClearField("attribute")
    return copy


_OPTIONS = onnx.defs.OpSchema.FormalParameterOption
_TENSOR = re.compile(r"tensor\((\w+)\)")


@dataclass(frozen=True, slots=True)
class SignatureOperand:
    """What ONNX says of one input or output of an operator.

    Attributes:
        name: Its name in ONNX's documentation.
        is_required: Whether a node must name a tensor there.
        types: The types of tensors that may stand there, each a ``TensorProto.DataType``.
        variable: The name of the type constraint; operands with the same name have one type.
        is_homogeneous: Whether all tensors of a variadic operand have one type; True for others.
    """

    name: str
    is_required: bool
    types: frozenset[int]
    variable: str
    is_homogeneous: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """What ONNX says of an operator at an opset.

    Attributes:
        types: Type of each attribute, an ``AttributeProto.AttributeType``.
        required: Attributes that have no default.
        operands: The inputs; the last one may be variadic.
        results: The outputs; the last one may be variadic.
        inputs: Fewest and most inputs.
        outputs: Fewest and most outputs.
        is_withdrawn: Whether the opset has withdrawn the operator.
    """

    types: Mapping[str, int]
    required: frozenset[str]
    operands: Sequence[SignatureOperand]
    results: Sequence[SignatureOperand]
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    is_withdrawn: bool

    def operand(self, index: int) -> SignatureOperand | None:
        """Return what stands at an input; a variadic one stands for all that follow. None where there are none."""
        return _at(self.operands, index)

    def result(self, index: int) -> SignatureOperand | None:
        """Return what stands at an output, likewise."""
        return _at(self.results, index)


@functools.lru_cache(maxsize=1024)
def signature_of(op_type: str, opset: int) -> Signature | None:
    """Return what ONNX says; None where the default domain does not have the operator at that opset."""
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    # TypeError: get_schema takes an opset of 32 bits only.
    except (onnx.defs.SchemaError, TypeError):
        return None
    # onnx's stubs do not say that types of attributes are integers.
    attributes: Mapping[str, Any] = schema.attributes
    return Signature(
        types={name: int(attribute.type) for name, attribute in attributes.items()},
        required=frozenset(name for name, attribute in attributes.items() if attribute.required),
        operands=[_operand(formal, {_OPTIONS.Single, _OPTIONS.Variadic}) for formal in schema.inputs],
        results=[_operand(formal, {_OPTIONS.Single}) for formal in schema.outputs],
        inputs=(schema.min_input, schema.max_input),
        outputs=(schema.min_output, schema.max_output),
        is_withdrawn=schema.deprecated,
    )


def _operand(formal: onnx.defs.OpSchema.FormalParameter, required: Collection[object]) -> SignatureOperand:
    return SignatureOperand(
        name=formal.name,
        # onnx's checker allows gaps in variadic inputs; ONNX Runtime 1.31.1 ends with a segmentation fault at some.
        is_required=formal.option in required and formal.is_homogeneous,
        types=frozenset(map(_elem_type, filter(_TENSOR.fullmatch, formal.types))),
        variable=formal.type_str,
        is_homogeneous=formal.is_homogeneous,
    )


def _elem_type(name: str) -> int:
    """Return the ``TensorProto.DataType`` of a type that ONNX writes as ``tensor(float)``."""
    return onnx.TensorProto.DataType.Value(_TENSOR.sub(r"\1", name).upper())


def _at(formals: Sequence[SignatureOperand], index: int) -> SignatureOperand | None:
    return formals[min(index, len(formals) - 1)] if formals else None
