"""Laws that every number format obeys, and its facts against ONNX's schemas and ml_dtypes."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from support import rational

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats

EVERY = [formats.get(name) for name in formats.names()]
NAMES = formats.names()
ONNX_NAMES = {name.lower(): value for name, value in onnx.TensorProto.DataType.items()}


def first_opset(op_type, position, fmt):
    """The first version of an operator whose input or output ``position`` allows a format, by onnx's schemas."""
    wanted = f"tensor({fmt.name})"
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        if schema.domain or schema.name != op_type:
            continue
        formal = schema.outputs[0] if position == "output" else schema.inputs[position]
        allowed = next(
            (c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == formal.type_str), []
        )
        if wanted in allowed:
            return schema.since_version
    return None


@pytest.mark.parametrize("fmt", EVERY, ids=NAMES)
def test_the_file_name_is_the_name_that_onnx_spells(fmt):
    assert ONNX_NAMES[fmt.name] == fmt.onnx_type
    assert onnx.helper.tensor_dtype_to_np_dtype(fmt.onnx_type) == fmt.dtype


@pytest.mark.parametrize("fmt", EVERY, ids=NAMES)
def test_the_range_is_that_of_the_type(fmt):
    info = (ml_dtypes.iinfo if fmt.kind == "integer" else ml_dtypes.finfo)(fmt.dtype)
    assert float(info.max) == fmt.high
    assert float(info.smallest_normal if fmt.name == "float8e8m0" else info.min) == fmt.low
    assert info.bits == fmt.bits


@pytest.mark.parametrize("fmt", EVERY, ids=NAMES)
def test_first_opsets_are_those_of_onnx_schemas(fmt):
    quantize = first_opset("QuantizeLinear", "output", fmt)
    dequantize = first_opset("DequantizeLinear", 0, fmt)
    assert (fmt.first_opset.quantize, fmt.first_opset.dequantize) == (quantize, dequantize)
    assert fmt.first_opset.scale == first_opset("DequantizeLinear", 1, fmt)


@pytest.mark.parametrize("fmt", EVERY, ids=NAMES)
def test_overflow_says_what_the_type_has(fmt):
    if fmt.kind == "integer":
        assert fmt.overflow == "saturates"
        return
    codes = np.arange(2**fmt.bits, dtype=np.uint8).view(fmt.dtype).astype(np.float32)
    assert fmt.has_nan == bool(np.isnan(codes).any())
    assert (fmt.overflow == "infinity") == bool(np.isinf(codes).any())


@pytest.mark.parametrize("name", sorted(set(NAMES) & set(rational.FLOATS)))
def test_ml_dtypes_decodes_codes_as_the_layouts_say(name):
    """Ties the types that we calculate in to the bit layouts of the texts: every finite code, both signs."""
    fmt, sign = formats.get(name), 2 ** (formats.get(name).bits - 1)
    for size, code in rational.magnitudes(name).items():
        both = np.array([code, code | sign], np.uint8).view(fmt.dtype).astype(np.float64)
        assert both[0] == size
        assert both[1] == -size or (size == 0 and np.isnan(both[1]) and name.endswith("fnuz"))


def test_lookups():
    assert formats.by_onnx_type(3) is formats.get("int8")
    assert formats.by_onnx_type(1) is None
    assert formats.by_dtype(np.dtype(ml_dtypes.int4)) is formats.get("int4")
    assert formats.by_dtype(np.dtype(np.float32)) is None
    assert str(formats.get("uint2")) == "uint2"


def test_an_unknown_name_is_answered_with_the_legal_ones():
    with pytest.raises(ArgumentError, match=r"format 'fp9' is unknown; legal: float4e2m1.*uint8"):
        formats.get("fp9")
    with pytest.raises(ArgumentError, match="did you mean 'int8'"):
        formats.get("int-8")


@pytest.mark.parametrize(("name", "id_"), [("fp8", "float8e4m3fn"), ("nvfp4", "float4e2m1"), ("INT4", "int4")])
def test_names_of_modes_and_of_onnx_types_are_taken(name: str, id_: str):
    assert formats.get(name) is formats.get(id_)
