"""The real types and scale types are those that ONNX's schema of DequantizeLinear allows."""

import onnx

from qdqtool.numerics import dtypes


def allowed_by_onnx(type_parameter):
    """The NumPy types of a type parameter of DequantizeLinear, newest version."""
    schema = onnx.defs.get_schema("DequantizeLinear")
    names = next(c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == type_parameter)
    spelled = [name.removeprefix("tensor(").removesuffix(")").upper() for name in names]
    return {onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(name)) for name in spelled}


def test_real_types_are_the_outputs_of_dequantizelinear():
    assert set(dtypes.REAL_TYPES) == allowed_by_onnx("T3")


def test_scale_types_are_the_scales_of_dequantizelinear():
    assert set(dtypes.SCALE_TYPES) == allowed_by_onnx("T2")


def test_float64_is_for_arithmetic_and_never_stored():
    assert dtypes.FLOAT64 not in dtypes.SCALE_TYPES
