"""A DQ of a bias is one that is read as nothing else."""

import onnx.parser
import pytest

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.blocks import is_bias
from qdqtool.models.graph.model import Model


@pytest.mark.parametrize(
    ("readers", "expected"),
    [
        ("y = Gemm (x, w, d)", True),
        ("y = Conv (x, w, d)", True),
        ("a = Gemm (x, w, d) y = Gemm (a, w, d)", True),
        ("y = Gemm (x, d, b)", False),
        ("y = Gemm (d, w, b)", False),
        ("y = MatMul (x, d)", False),
        ("y = Relu (d)", False),
        ("a = Relu (d) y = Gemm (x, w, d)", False),
        ("y = Gemm (x, w, d) a = Relu (d)", False),
        ("y = Gemm (x, d, d)", False),
        ("y = Relu (x)", False),
    ],
)
def test_the_readers_decide(readers: str, expected: bool):
    text = f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[2,2] x) => (float[2,2] y)
        <int32[2] c = {{1, 2}}, float s = {{1}}, float[2,2] w = {{1, 2, 3, 4}}, float[2] b = {{1, 2}}> {{
            d = DequantizeLinear (c, s) {readers}
        }}"""
    (entry,) = RuleContext(Model(onnx.parser.parse_model(text))).qdq.nodes

    assert is_bias(entry) == expected
