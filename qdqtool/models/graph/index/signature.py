"""The attributes, inputs and outputs of an operator in an opset; and the quantizers of the dialect QONNX.

Brevitas, FINN and hls4ml use the dialect QONNX. Its ``Quant`` quantizes and dequantizes in one node: inputs x, scale,
zero point and bit width; attributes ``signed``, ``narrow`` and ``rounding_mode``. Newer files call it ``IntQuant``.
ONNX and ONNX Runtime do not know these operators.
"""

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.scope import all_nodes, walk

DOMAINS = frozenset({"qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"})
"""Domains of QONNX. Brevitas first wrote ``onnx.brevitas``, and QONNX itself wrote ``finn.custom_op.general``."""

QUANT = frozenset({"Quant", "IntQuant"})
BIPOLAR = "BipolarQuant"
QUANTIZERS = QUANT | {BIPOLAR, "FloatQuant", "Trunc"}
"""Operators whose output has the shape and type of input 0."""


def is_quantizer(node: onnx.NodeProto) -> bool:
    """Return whether a node is a quantizer of QONNX."""
    return node.domain in DOMAINS and node.op_type in QUANTIZERS


CONTRIB = "com.microsoft"
"""The domain of ONNX Runtime's contrib operators, which ONNX does not know."""

_SKIPS = frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
_SAME = _SKIPS | {"BiasGelu", "FastGelu", "Gelu", "QuickGelu", "RotaryEmbedding"}
_ATTENTIONS = frozenset({"GroupQueryAttention", "MultiHeadAttention"})
_SUM = 3
"""The index of the output of a skip operator that is the sum of its inputs."""


def keeps_type(node: onnx.NodeProto) -> bool:
    """Return whether output 0 of an operator that only ONNX Runtime knows has the type and shape of input 0."""
    if node.domain == CONTRIB:
        # With packed queries, keys and values the output has another shape.
        return node.op_type in _SAME or (node.op_type in _ATTENTIONS and len(node.input) > 1 and bool(node.input[1]))
    return not node.domain and node.op_type == "SimplifiedLayerNormalization"


def with_identities(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which an Identity replaces nodes that keep the type of input 0; the same model without any."""
    if not any(is_quantizer(node) or keeps_type(node) for node in all_nodes(proto)):
        return proto
    copy = copy_model(proto)
    defined = {(function.domain, function.name) for function in copy.functions}
    for _, container in walk(copy):
        nodes = [each for node in container.node for each in _identities(node, defined)]
        del container.node[:]
        container.node.extend(nodes)
    return copy


def _identities(node: onnx.NodeProto, defined: Collection[tuple[str, str]]) -> list[onnx.NodeProto]:
    if not (is_quantizer(node) or keeps_type(node)) or (node.domain, node.op_type) in defined:
        return [node]
    names = [*node.output[:1], *(node.output[_SUM:] if node.op_type in _SKIPS else [])]
    return [onnx.NodeProto(op_type="Identity", name=node.name, input=node.input[:1], output=[name]) for name in names]


_OPTIONS = onnx.defs.OpSchema.FormalParameterOption
_TENSOR = re.compile(r"tensor\((\w+)\)")


@dataclass(frozen=True, slots=True)
class SignatureOperand:
    """ONNX's definition of one input or output of an operator.

    Attributes:
        name: Name in ONNX's documentation.
        is_required: Whether a node must have this input or output.
        types: The allowed tensor types, each a ``TensorProto.DataType``.
        variable: Name of the type constraint; operands with the same name must have the same type.
        is_homogeneous: For a variadic operand, whether all its tensors must have the same type; otherwise True.
    """

    name: str
    is_required: bool
    types: frozenset[int]
    variable: str
    is_homogeneous: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """ONNX's definition of an operator in an opset.

    Attributes:
        types: Type of each attribute, an ``AttributeProto.AttributeType``.
        required: Attributes that have no default.
        operands: The inputs; the last one may be variadic.
        results: The outputs; the last one may be variadic.
        inputs: Smallest and largest number of inputs.
        outputs: Smallest and largest number of outputs.
        is_withdrawn: Whether the operator is deprecated in this opset.
    """

    types: Mapping[str, int]
    required: frozenset[str]
    operands: Sequence[SignatureOperand]
    results: Sequence[SignatureOperand]
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    is_withdrawn: bool

    def operand(self, index: int) -> SignatureOperand | None:
        """Return the definition of an input (a variadic input covers all later positions), or None if there is none."""
        return _at(self.operands, index)

    def result(self, index: int) -> SignatureOperand | None:
        """Return the definition of an output (a variadic one covers all later positions), or None if there is none."""
        return _at(self.results, index)


@functools.lru_cache(maxsize=1024)
def signature_of(op_type: str, opset: int) -> Signature | None:
    """Return the definition, or None if the default domain does not have the operator in that opset."""
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    # TypeError: get_schema accepts only 32-bit opset numbers.
    except (onnx.defs.SchemaError, TypeError):
        return None
    # onnx's type stubs do not declare that attribute types are integers.
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
        # onnx's checker allows gaps in variadic inputs; with some of them ONNX Runtime 1.31.1 crashes.
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
