"""The operators of a graph and their connections, with the formats of the pairs between them."""

import onnx
import pytest

from qdqtool.models.graph.index.structure import outline
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import OutlineNode


def outlined(text: str) -> tuple[OutlineNode, ...]:
    return outline(Model(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')))


def test_pairs_become_formats_of_connections():
    first, second, last = outlined(
        """agraph (float[1,4] x) => (float[1,4] y)
        <float s = {0.1}, int8 z = {0}, uint8 u = {0}, int8[4,4] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> {
            xq = QuantizeLinear (x, s, z)
            xd = DequantizeLinear (xq, s, z)
            wd = DequantizeLinear (w, s, z)
            [a] m = MatMul (xd, wd)
            mq = QuantizeLinear (m, s, u)
            md = DequantizeLinear (mq, s, u)
            [b] r = Relu (m)
            [c] y = Add (r, md)
        }"""
    )
    assert first == OutlineNode("a", "MatMul", (-1,), ("int8",), "int8")
    assert second == OutlineNode("b", "Relu", (0,), ("",), "")
    assert last == OutlineNode("c", "Add", (1, 0), ("", "uint8"), "")


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ("xq = QuantizeLinear (x, s)", "uint8"),
        ("xq = QuantizeLinear <output_dtype = 17> (x, s)", "float8e4m3fn"),
        ("xi = Identity (x) xq = Cast <to = 3> (xi)", "quantized"),
    ],
)
def test_the_format_of_a_pair_without_a_zero_point(node: str, kind: str):
    nodes = outlined(
        f"""agraph (float[4] x) => (float[4] y) <float s = {{0.1}}> {{
            {node}
            xd = DequantizeLinear (xq, s)
            y = Relu (xd)
        }}"""
    )
    assert nodes[-1].formats == (kind,)


def test_constants_are_no_connections_however_they_are_stored():
    (node,) = outlined(
        """agraph (float[2] x) => (float[2] y) <float[2] b = {1, 2}, float s = {1}> {
            c = Constant <value = int8[2] {1, 2}> ()
            d = DequantizeLinear (c, s)
            y = Sum (x, b, d)
        }"""
    )
    assert node == OutlineNode("Sum -> y", "Sum", (-1,), ("",), "int8")
