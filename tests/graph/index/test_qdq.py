"""The Q/DQ index: quantized types, axes, granularity and pairs, as ONNX reads them."""

import onnx.parser
import pytest
from onnx import TensorProto

from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.qdq import QdqIndex, consumers, same_constant
from qdqtool.graph.model import Model
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor


def parse(text: str, opset: int = 21) -> ModelIndex:
    header = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1, "local": 1]>\n'
    return ModelIndex.of(Model(onnx.parser.parse_model(header + text)))


def index(text: str, opset: int = 21) -> QdqIndex:
    return parse(text, opset).qdq


def single(node: str, initializers: str, opset: int = 21) -> QdqIndex:
    return index(f"g (float[2,4] x) => (float[2,4] y) <{initializers}> {{ y = {node} }}", opset)


@pytest.mark.parametrize(
    ("node", "initializers", "expected"),
    [
        ("QuantizeLinear (x, s, z)", "float s = {1}, int8 z = {0}", TensorProto.INT8),
        ("QuantizeLinear <output_dtype = 17> (x, s)", "float s = {1}", TensorProto.FLOAT8E4M3FN),
        ("QuantizeLinear (x, s)", "float s = {1}", TensorProto.UINT8),
        ('QuantizeLinear (x, s, "")', "float s = {1}", TensorProto.UINT8),
        ("DequantizeLinear (w, s)", "float s = {1}, int16[2,4] w = {1,2,3,4,5,6,7,8}", TensorProto.INT16),
        ("DequantizeLinear (x, s)", "float s = {1}", TensorProto.FLOAT),
        ("DequantizeLinear (nowhere, s)", "float s = {1}", None),
    ],
)
def test_quantized_type(node: str, initializers: str, expected: int | None):
    (entry,) = single(node, initializers).nodes

    assert entry.quantized_type == expected


@pytest.mark.parametrize(
    ("node", "initializers", "expected"),
    [
        ("QuantizeLinear (x, s)", "float s = {1}", PerTensor()),
        ("QuantizeLinear <axis = 0> (x, s)", "float[1] s = {1}", PerTensor()),
        ("QuantizeLinear (x, s)", "float[4] s = {1,1,1,1}", PerAxis(1)),
        ("QuantizeLinear <axis = -2> (x, s)", "float[2] s = {1,1}", PerAxis(-2)),
        ("QuantizeLinear <axis = 1, block_size = 2> (x, s)", "float[2,2] s = {1,1,1,1}", Blocked(1, 2)),
        ("QuantizeLinear <axis = 1> (x, s)", "float[2,2] s = {1,1,1,1}", None),
        ("QuantizeLinear (x, nowhere)", "float s = {1}", None),
        ("QuantizeLinear (x)", "float s = {1}", None),
    ],
)
def test_granularity(node: str, initializers: str, expected: object):
    (entry,) = single(node, initializers).nodes

    assert entry.granularity == expected


@pytest.mark.parametrize(("opset", "axis"), [(10, 0), (12, 0), (13, 1), (21, 1)])
def test_the_default_axis_depends_on_the_opset(opset: int, axis: int):
    (entry,) = single("QuantizeLinear (x, s)", "float s = {1}", opset).nodes

    assert entry.axis == axis
    assert not entry.axis_given


def test_the_shape_of_a_computed_scale_is_folded():
    (entry,) = index(
        """g (float[2,4] x) => (float[2,4] y) <float[2,2] a = {1,1,1,1}, int64[1] n = {4}> {
            s = Reshape (a, n)
            y = QuantizeLinear (x, s)
        }"""
    ).nodes

    assert entry.scale_shape == (4,)


BRANCH = """g (float[2] x, bool c) => (float[2] y) <float s = {1}, int8 z = {0}, float[2] w = {1,2}> {
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    e = com.microsoft.DequantizeLinear (q, s, z)
    wq = QuantizeLinear (w, s, z)
    wd = DequantizeLinear (wq, s, z)
    a = Add (d, wd)
    b = Add (a, e)
    y = If (c) <
        then_branch = inner () => (float[2] t) { t = DequantizeLinear (q, s, z) },
        else_branch = other () => (float[2] u) { u = Identity (b) }
    >
}"""


def test_pairs_reach_into_bodies_and_other_domains():
    found = index(BRANCH)
    readers = {
        pair.dequantize.node.proto.output[0] for pair in found.pairs if pair.quantize.node.proto.output[0] == "q"
    }

    assert readers == {"d", "e", "t"}
    assert len(list(found.quantizers())) == 2
    assert len(list(found.dequantizers())) == 4


def test_weights_and_sources():
    found = index(BRANCH)
    by_output = {entry.node.proto.output[0]: entry for entry in found.nodes}

    assert found.is_weight(by_output["wd"])
    assert not found.is_weight(by_output["d"])
    source = found.source(by_output["t"])
    assert source is not None
    assert source.name == "x"
    assert found.quantizer_of(by_output["t"]) is by_output["q"]
    assert found.dequantizer_of(by_output["d"].output) is by_output["d"]
    assert found.dequantizer_of(by_output["q"].output) is None
    assert [use.node.op_type for _, use in consumers([by_output["wd"]])] == ["Add"]


def test_other_domains_are_not_q_dq():
    assert index("g (float x) => (float y) { y = local.QuantizeLinear (x) }").nodes == ()


def test_equal_constants():
    known = parse(
        """g (float x) => (float y)
        <float a = {1}, float[1] b = {1}, float c = {2}, float[1,1] d = {1}, float16 e = {15360}> {
            n = Identity (a)
            y = Identity (x)
        }"""
    )
    values = known.view.main.values

    def same(left: str | None, right: str | None) -> bool | None:
        return same_constant(values.get(left or ""), values.get(right or ""), known.constants)

    assert same("a", "b")
    assert same("a", "n")
    assert same(None, None)
    assert not same("a", "c")
    assert not same("a", "d")
    assert not same("a", "e")
    assert not same("a", None)
    assert same("a", "x") is None
