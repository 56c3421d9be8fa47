"""Scales behind a product move into a DQ of its codes, or stay where they are."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.small import run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

RNG = np.random.default_rng(4)
CODES = RNG.integers(-128, 128, (8, 5)).astype(np.int8)
SCALES = RNG.uniform(0.001, 0.01, 5).astype(np.float32)
TORCHAO = "k = Cast <to = 1> (w) m = MatMul (x, k) y = Mul (m, s)"
TURNED = "k = Cast <to = 1> (w) t = Transpose <perm = [1, 0]> (k) m = MatMul (x, t) y = Mul (s, m)"


def model(nodes: str, opset: int = 21, shape: str = "3,8", **constants: object) -> Model:
    text = f'<ir_version: 10, opset_import: ["": {opset}]> g (float[{shape}] x) => (float[a,b] y) {{ {nodes} }}'
    proto = onnx.parser.parse_model(text)
    if shape.count(",") != 1:
        proto.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "c"
    for name, value in ({"w": CODES, "s": SCALES} | constants).items():
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return Model(proto)


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        pytest.param({"nodes": TORCHAO}, [("axis", 1)], id="torchao"),
        pytest.param({"nodes": TORCHAO, "s": SCALES[None]}, [("axis", 1)], id="rank 2"),
        pytest.param({"nodes": TORCHAO, "s": SCALES[:1]}, [], id="one scale"),
        pytest.param({"nodes": TORCHAO, "s": SCALES[0]}, [], id="a scalar"),
        pytest.param({"nodes": TORCHAO, "shape": "2,3,8"}, [("axis", 1)], id="a batch"),
        pytest.param({"nodes": TURNED, "w": CODES.T.copy()}, [("axis", 0)], id="transposed"),
        pytest.param({"nodes": TORCHAO, "opset": 11}, [("axis", 1)], id="an older opset"),
    ],
)
def test_the_product_is_the_same_up_to_rounding(given: dict, attributes: list, tmp_path):
    before = model(**given)
    found = normalized_model(before, DataRequest(samples=3))
    save_model(found.model, tmp_path / "m.onnx")
    after = onnx.load(tmp_path / "m.onnx")

    assert [(change.label, change.code, change.description) for change in found.report.changes] == [
        ("unsafe", "scaled-product", "moves the scales behind MatMul into a DQ of its weight")
    ]
    assert "Mul" not in {node.op_type for node in after.graph.node}
    (node,) = [node for node in after.graph.node if node.op_type == "DequantizeLinear"]
    assert [(each.name, each.i) for each in node.attribute] == attributes
    shape = [int(extent) for extent in given.get("shape", "3,8").split(",")]
    x = RNG.normal(size=shape).astype(np.float32)
    weights = CODES.astype(np.float64) * np.asarray(given.get("s", SCALES), np.float64)
    np.testing.assert_allclose(run(after, {"x": x})[0], x.astype(np.float64) @ weights, rtol=1e-4, atol=1e-5)
    onnx.checker.check_model(after, full_check=True)


def test_codes_of_fp8_are_scaled_too(tmp_path):
    given = model(TORCHAO)
    fp8 = helper.make_tensor("w", TensorProto.FLOAT8E4M3FN, [8, 5], RNG.normal(size=40))
    given.proto.graph.initializer[0].CopyFrom(fp8)

    (change,) = normalized_model(given, DataRequest(samples=2)).report.changes
    assert change.code == "scaled-product"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"nodes": TORCHAO, "s": np.full((3, 1), 0.5, np.float32)}, id="a scale for each row"),
        pytest.param({"nodes": TORCHAO, "s": np.full((3, 5), 0.5, np.float32)}, id="a scale for each element"),
        pytest.param({"nodes": TORCHAO, "s": SCALES[None, None]}, id="scales of a higher rank"),
        pytest.param({"nodes": TORCHAO, "w": CODES.astype(np.int32)}, id="int32"),
        pytest.param({"nodes": TORCHAO, "w": CODES.astype(np.uint8)}, id="uint8"),
        pytest.param({"nodes": TORCHAO, "w": CODES[None]}, id="codes of rank 3"),
        pytest.param({"nodes": TORCHAO.replace("Mul (m, s)", "Add (m, s)")}, id="added"),
        pytest.param({"nodes": TORCHAO.replace("Mul (m, s)", "Mul (m, m)")}, id="squared"),
        pytest.param({"nodes": TORCHAO + " other = Neg (m)"}, id="the product is read"),
        pytest.param({"nodes": TORCHAO + " other = Neg (k)"}, id="the Cast is read"),
        pytest.param({"nodes": "m = MatMul (x, f) y = Mul (m, s)", "f": CODES.astype(np.float32)}, id="float weights"),
        pytest.param({"nodes": "m = MatMul (x, x) y = Mul (m, s)", "shape": "8,8", "s": SCALES[:1]}, id="no weights"),
        pytest.param({"nodes": "k = Cast <to = 1> (w) y = MatMul (x, k)"}, id="nothing behind"),
    ],
)
def test_other_products_stay(given: dict):
    found = normalized_model(model(**given), DataRequest(samples=2))
    assert not [each for each in (*found.report.changes, *found.report.refused) if each.code == "scaled-product"]
