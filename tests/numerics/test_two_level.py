"""NVFP4 and MX parameters as the ONNX nodes that they stand for, run by onnx's ReferenceEvaluator."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from qdqtool.numerics import formats
from qdqtool.numerics.affine import fake_quantize, quantize
from qdqtool.numerics.derive import scale_by_mse, scale_from_tensor
from qdqtool.numerics.granularity import Blocked, PerTensor
from qdqtool.numerics.scheme import QuantScheme

E4M3, E8M0 = formats.get("float8e4m3fn"), formats.get("float8e8m0")
X = np.random.default_rng(6).normal(size=(8, 64)).astype(np.float32)


def run(nodes, constants):
    graph = helper.make_graph(
        nodes,
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])).run(None, {})[0]


@pytest.mark.parametrize("derive", [scale_from_tensor, scale_by_mse])
def test_nvfp4_is_a_dequantize_whose_scale_is_a_dequantize(derive):
    scheme = QuantScheme(formats.get("float4e2m1"), Blocked(1, 16), scale_scheme=QuantScheme(E4M3, PerTensor()))
    params = derive(X, scheme)
    outer = params.scale_params
    constants = {
        "codes": quantize(X, params.scale, scheme.format, scheme.granularity),
        "scale_codes": quantize(params.scale, outer.scale, E4M3, PerTensor()),
        "outer": outer.scale,
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["scale_codes", "outer"], ["scale"]),
        helper.make_node("DequantizeLinear", ["codes", "scale"], ["y"], axis=1, block_size=16),
    ]
    expected = fake_quantize(X, params.scale, scheme.format, scheme.granularity)
    np.testing.assert_array_equal(run(nodes, constants), expected)


@pytest.mark.parametrize("name", ["float8e4m3fn", "float8e5m2", "float4e2m1", "int8"])
def test_mx_scales_are_stored_as_they_are(name):
    scheme = QuantScheme(formats.get(name), Blocked(1, 32), scale_scheme=QuantScheme(E8M0, PerTensor()))
    params = scale_from_tensor(X, scheme)
    assert params.scale_params is None
    constants = {"codes": quantize(X, params.scale, scheme.format, scheme.granularity), "scale": params.scale}
    nodes = [helper.make_node("DequantizeLinear", ["codes", "scale"], ["y"], axis=1, block_size=32, output_dtype=1)]
    expected = fake_quantize(X, params.scale, scheme.format, scheme.granularity)
    np.testing.assert_array_equal(run(nodes, constants), expected)
