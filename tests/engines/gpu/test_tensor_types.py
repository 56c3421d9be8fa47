"""NumPy types by the names of TensorRT and ONNX Runtime."""

import numpy as np
import onnx
import pytest

from qdqtool.engines.gpu.tensor_types import fed_as, of_onnx, of_tensorrt
from qdqtool.errors import CapabilityError
from qdqtool.numerics.dtypes import BFLOAT16


@pytest.mark.parametrize("kind", ["FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8", "INT32", "INT64", "UINT16", "BOOL"])
def test_types_of_onnx_are_those_of_the_onnx_package(kind: str):
    number = getattr(onnx.TensorProto, kind)
    assert of_onnx(f"tensor({kind.lower()})", "x") == onnx.helper.tensor_dtype_to_np_dtype(number)


@pytest.mark.parametrize(
    ("name", "kind"), [("FLOAT", "FLOAT"), ("HALF", "FLOAT16"), ("BF16", "BFLOAT16"), ("FP8", "FLOAT8E4M3FN")]
)
def test_types_of_tensorrt_are_those_of_the_onnx_package(name: str, kind: str):
    assert of_tensorrt(name, "x") == onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind))


def test_a_type_without_arrays_is_named():
    with pytest.raises(CapabilityError, match="'x' has type INT4"):
        of_tensorrt("INT4", "x")
    with pytest.raises(CapabilityError, match=r"'x' has type tensor\(string\)"):
        of_onnx("tensor(string)", "x")


def test_bfloat16_is_fed_as_float32():
    assert fed_as(BFLOAT16) == np.float32
    assert fed_as(np.dtype(np.float16)) == np.float16
