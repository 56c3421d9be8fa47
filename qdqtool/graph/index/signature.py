"""What ONNX says of an operator at an opset: its attributes, and how many inputs and outputs it has."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx


@dataclass(frozen=True, slots=True)
class Signature:
    """What ONNX says of an operator at an opset.

    Attributes:
        types: Type of each attribute, an ``AttributeProto.AttributeType``.
        required: Attributes that have no default.
        inputs: Fewest and most inputs.
        outputs: Fewest and most outputs.
        is_withdrawn: Whether the opset has withdrawn the operator.
    """

    types: Mapping[str, int]
    required: frozenset[str]
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    is_withdrawn: bool


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
        inputs=(schema.min_input, schema.max_input),
        outputs=(schema.min_output, schema.max_output),
        is_withdrawn=schema.deprecated,
    )
