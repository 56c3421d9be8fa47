"""The Q/DQ index: quantized types, axes, granularity and pairs, as ONNX reads them."""

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqIndex, is_dequantized, same_constant
from qdqtool.models.graph.model import Model
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor


def parse(text: str, opset: int = 21) -> ModelIndex:
    header = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1, "trt": 1, "local": 1]>\n'
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
    assert [use.node.op_type for use in by_output["wd"].uses] == ["Add"]


def test_other_domains_are_not_q_dq():
    assert index("g (float x) => (float y) { y = local.QuantizeLinear (x) }").nodes == ()


@pytest.mark.parametrize(
    ("quantize", "kind"),
    [
        ("trt.TRT_FP8QuantizeLinear (x, s)", TensorProto.FLOAT8E4M3FN),
        ("TRT_FP8QuantizeLinear (x, s)", TensorProto.FLOAT8E4M3FN),
        ("trt.TRT_FP8QuantizeLinear <output_dtype = 22> (x, s)", TensorProto.INT4),
        ("trt.TRT_FP8QuantizeLinear <output_dtype = 0> (x, s)", TensorProto.FLOAT8E4M3FN),
        ("trt.TRT_FP8QuantizeLinear (x, s, z)", TensorProto.INT8),
        ("trt.TRT_INT4QuantizeLinear (x, s)", TensorProto.INT4),
        ("trt.QuantizeLinear (x, s)", TensorProto.UINT8),
        ("trt.QuantizeLinear (x, s, z)", TensorProto.INT8),
        ("trt.QuantizeLinear <output_dtype = 17> (x, s)", TensorProto.FLOAT8E4M3FN),
    ],
)
@pytest.mark.parametrize("dequantize", ["trt.DequantizeLinear", "trt.TRT_FP8DequantizeLinear", "DequantizeLinear"])
def test_those_of_tensorrt_are_read_by_their_names(quantize: str, kind: int, dequantize: str):
    found = index(
        f"g (float[2,4] x) => (y) <float s = {{1}}, int8 z = {{0}}> {{ q = {quantize}  y = {dequantize} (q, s) }}"
    )
    (pair,) = found.pairs

    assert [entry.quantized_type for entry in found.nodes] == [kind, kind]
    assert [entry.is_quantize for entry in found.nodes] == [True, False]
    assert found.quantizer_of(pair.dequantize) is pair.quantize
    assert (pair.quantize.is_of_tensorrt, pair.quantize.is_standard) == (True, False)
    assert pair.dequantize.is_of_tensorrt == (dequantize != "DequantizeLinear")
    assert pair.dequantize.is_standard == (dequantize == "DequantizeLinear")
    assert is_dequantized(pair.dequantize.output)
    assert not is_dequantized(pair.quantize.output)


@pytest.mark.parametrize(
    ("node", "standard", "tensorrt"),
    [
        ("QuantizeLinear (x, s)", True, False),
        ("com.microsoft.QuantizeLinear (x, s)", False, False),
        ("trt.QuantizeLinear (x, s)", False, True),
        ("local.TRT_FP8QuantizeLinear (x, s)", False, True),
    ],
)
def test_whose_operator_it_is(node: str, standard: bool, tensorrt: bool):
    (entry,) = single(node, "float s = {1}").nodes

    assert (entry.is_standard, entry.is_of_tensorrt) == (standard, tensorrt)


@pytest.mark.parametrize(("opset", "axis"), [(10, 0), (12, 0), (13, 1), (21, 1)])
@pytest.mark.parametrize("node", [f"{name}QuantizeLinear (x, s)" for name in ("", "trt.", "trt.TRT_FP8")])
def test_the_default_axis_depends_on_the_opset_of_onnx(node: str, opset: int, axis: int):
    """Measured with TensorRT for RTX 1.7.1, for its own operators: at opset 11 two scales fit data of [2, 3] only."""
    (entry,) = single(node, "float s = {1}", opset).nodes
    (given,) = single(node.replace(" (", "<axis = -1> ("), "float s = {1}", opset).nodes

    assert (entry.axis, entry.axis_given) == (axis, False)
    assert (given.axis, given.axis_given) == (-1, True)


DYNAMIC = """g (float[2,64] x, bool c) => (y) <float s = {1}, float[2,4] b = {1,1,1,1,1,1,1,1}> {
    q, u = trt.TRT_FP4DynamicQuantize <axis = -1> (x, s)
    bd = DequantizeLinear (u, s)
    d = DequantizeLinear <axis = -1, block_size = 16> (q, bd)
    m, e = trt.TRT_MXFP8DynamicQuantize (x)
    md = trt.TRT_MXFP8DequantizeLinear (m, e)
    n, f = trt.TRT_DynamicQuantize <block_shape = [1,16], output_type = 17> (x)
    nd = trt.TRT_BlockDequantize <block_shape = [1,16]> (n, f)
    w = QuantizeLinear <output_dtype = 17> (x, s)
    wd = DequantizeLinear (w, s)
    plain = Relu (x)
    y = Add (d, md)
}"""


def test_what_is_dequantized_and_whose_scales_are_computed():
    known = parse(DYNAMIC)
    values = known.view.main.values

    assert {name for name, value in values.items() if is_dequantized(value)} == {"bd", "d", "md", "nd", "wd"}
    assert not is_dequantized(None)
    dynamic = {entry.node.key[0]: entry.is_dynamic for entry in known.qdq.nodes}
    assert dynamic == {"bd": True, "d": True, "w": False, "wd": False}
    types = {entry.node.key[0]: entry.quantized_type for entry in known.qdq.nodes}
    assert types["d"] == TensorProto.FLOAT4E2M1
    assert types["bd"] == TensorProto.FLOAT8E4M3FN
    (by,) = [entry for entry in known.qdq.nodes if entry.node.key[0] == "d"]
    assert by.granularity == Blocked(-1, 16)


def test_a_node_without_data_is_not_dynamic():
    (entry,) = single('DequantizeLinear ("", s)', "float s = {1}").nodes

    assert not entry.is_dynamic


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


@pytest.mark.parametrize(
    ("node", "initializers", "axis"),
    [
        ("com.microsoft.QuantizeLinear (x, s)", "float s = {1}", 1),
        ("com.microsoft.QuantizeLinear <axis = 0> (x, s)", "float s = {1}", 0),
    ],
)
def test_the_opset_of_onnx_says_nothing_about_other_domains(node: str, initializers: str, axis: int):
    (entry,) = single(node, initializers, opset=10).nodes

    assert entry.axis == axis


def test_attributes_are_those_written():
    (entry,) = single(
        "QuantizeLinear <axis = 0, block_size = 2, output_dtype = 3> (x, s)", "float[1,4] s = {1,1,1,1}"
    ).nodes
    (plain,) = single("QuantizeLinear <output_dtype = 0> (x, s)", "float s = {1}").nodes
    (odd,) = single('QuantizeLinear <axis = "last"> (x, s)', "float s = {1}").nodes

    assert (entry.axis, entry.axis_given, entry.block_size, entry.output_dtype) == (0, True, 2, TensorProto.INT8)
    assert (plain.axis_given, plain.block_size, plain.output_dtype) == (False, 0, None)
    assert plain.quantized_type == TensorProto.UINT8
    assert (odd.axis, odd.axis_given) == (1, False)


@pytest.mark.parametrize(
    ("node", "scale", "shape", "expected"),
    [
        ("QuantizeLinear (x, s)", "float[n] s", ("n",), None),
        ("QuantizeLinear (x, s)", "float[4] s", (4,), PerAxis(1)),
        ("QuantizeLinear <axis = 1, block_size = 2> (x, s)", "float[n, 2] s", ("n", 2), Blocked(1, 2)),
        ("QuantizeLinear <axis = 1, block_size = -2> (x, s)", "float[2, 2] s", (2, 2), None),
        ("QuantizeLinear <axis = 1, block_size = 2> (x, s)", "s", None, None),
        ("QuantizeLinear <axis = 1, block_size = 2> (x, s)", "float[2] s", (2,), PerAxis(1)),
    ],
)
def test_the_granularity_of_a_scale_that_is_given(node: str, scale: str, shape: object, expected: object):
    (entry,) = index(f"g (float[2,4] x, {scale}) => (float[2,4] y) {{ y = {node} }}").nodes

    assert entry.scale_shape == shape
    assert entry.granularity == expected


@pytest.mark.parametrize(
    ("data", "expected"), [("float[4] x", Blocked(0, 2)), ("float[n] x", Blocked(0, 2)), ("x", PerAxis(0))]
)
def test_a_scale_of_one_axis_is_of_blocks_where_the_data_has_one_axis_too(data: str, expected: object):
    node = "QuantizeLinear <axis = 0, block_size = 2> (x, s)"
    (entry,) = index(f"g ({data}, float[2] s) => (float[4] y) {{ y = {node} }}").nodes
    assert entry.granularity == expected


CODES = """g (float[4] x, float[4] other) => (float[4] y, float[4] d4)
<float s = {1}, int8 z = {0}, float8e4m3fn one = {1}> {
    q = QuantizeLinear (x, s, z)
    q_again = QuantizeLinear (q, s, z)
    d1 = DequantizeLinear (q, s, z)
    d2 = DequantizeLinear (d1, s, z)
    d3 = DequantizeLinear (z, s, q)
    d4 = DequantizeLinear (q_again, s, z)
    lost = DequantizeLinear ("", s, z)
    y = Add (x, other)
}"""


def test_a_pair_is_a_quantizer_and_what_reads_its_codes_as_data():
    found = index(CODES)
    by_output = {entry.node.proto.output[0]: entry for entry in found.nodes}

    pairs = [(pair.quantize.node.proto.output[0], pair.dequantize.node.proto.output[0]) for pair in found.pairs]
    assert pairs == [("q", "d1"), ("q_again", "d4")]
    quantizers = {name: found.quantizer_of(entry) for name, entry in by_output.items()}
    assert {name: entry.node.proto.output[0] for name, entry in quantizers.items() if entry} == {
        "q_again": "q",
        "d1": "q",
        "d4": "q_again",
    }
    sources = {name: found.source(entry) for name, entry in by_output.items()}
    assert {name: value.name for name, value in sources.items() if value} == {
        "q": "x",
        "q_again": "x",
        "d1": "x",
        "d2": "d1",
        "d3": "z",
        "d4": "q",
    }
    assert [name for name, entry in by_output.items() if found.is_weight(entry)] == ["d3"]


def test_what_is_no_q_or_dq_has_no_entry():
    known = parse(CODES)
    values = known.view.main.values

    assert known.qdq.get(None) is None
    assert known.qdq.get(values["y"].producer) is None
    assert known.qdq.maker(None) is None
    assert known.qdq.maker(values["x"]) is None
    assert known.qdq.maker(values["q"]) is known.qdq.get(values["q"].producer)
    assert known.qdq.dequantizer_of(values["y"]) is None
    assert known.qdq.dequantizer_of(None) is None


def test_a_node_without_an_output_has_no_uses():
    found = index('g (float[2] x) => (float[2] y) <float s = {1}> { "" = QuantizeLinear (x, s)  y = Relu (x) }')

    assert found.nodes[0].output is None
    assert found.nodes[0].uses == []
    assert not found.makes_scales(found.nodes[0])


@pytest.mark.parametrize(
    ("reader", "makes"),
    [
        ("y = DequantizeLinear (w, d)", True),
        ("y = QuantizeLinear (x, d)", True),
        ("e = DequantizeLinear (w, d)  q = QuantizeLinear (e, d)  y = DequantizeLinear (q, d)", True),
        ("y = Mul (x, d)", False),
        ("y = DequantizeLinear (w, d)  m = Mul (x, d)", False),
        ("m = Mul (x, d)  y = DequantizeLinear (w, d)", False),
        ("y = QuantizeLinear (d, t)", False),
        ("y = QuantizeLinear (d, d)", False),
        ("y = Relu (x)", False),
    ],
)
def test_a_dequantizer_makes_scales_where_nothing_else_reads_it(reader: str, makes: bool):
    text = f"""g (float x) => (y) <int8 c = {{3}}, int8 w = {{5}}, float t = {{0.5}}> {{
        d = DequantizeLinear (c, t)
        {reader}
    }}"""

    found = index(text)
    assert found.makes_scales(found.nodes[0]) is makes
    returned = index(text.replace("(y)", "(y, d)"))
    assert not returned.makes_scales(returned.nodes[0])


def test_a_dequantizer_of_codes_that_are_not_stored_makes_no_scales():
    found = index(
        """g (float x) => (y) <int8 w = {5}, float t = {0.5}> {
            q = QuantizeLinear (x, t)
            d = DequantizeLinear (q, t)
            y = DequantizeLinear (w, d)
        }"""
    )

    assert [found.makes_scales(entry) for entry in found.dequantizers()] == [False, False]


@pytest.mark.parametrize(
    ("nodes", "shape", "kind"),
    [
        ("s = Constant <value = float[1] {2}> ()", (1,), TensorProto.INT8),
        ("s = Mul (a, a)", (2,), TensorProto.INT8),
        ("s = Relu (unknown)  unknown = local.Thing (a)", None, TensorProto.INT8),
    ],
)
def test_the_shape_of_a_scale_is_that_of_its_constant(nodes: str, shape: object, kind: int):
    known = parse(
        f"""g (float[2,4] x) => (float[2,4] y) <float[2] a = {{1,1}}> {{
            {nodes}
            z = Constant <value = int8 {{0}}> ()
            y = QuantizeLinear <axis = 0> (x, s, z)
        }}"""
    )
    (entry,) = known.qdq.nodes

    assert entry.scale_shape == shape
    assert entry.quantized_type == kind


@pytest.mark.parametrize(
    ("quantize", "expected"),
    [
        ("QuantizeLinear <output_dtype = 17> (x, s)", TensorProto.FLOAT8E4M3FN),
        ("com.microsoft.QuantizeLinear (x, s, z)", TensorProto.INT16),
        ("com.microsoft.QuantizeLinear (x, s)", TensorProto.UINT8),
        ("Cast <to = 5> (x)", TensorProto.INT16),
        ("local.QuantizeLinear (x, s, z)", None),
        ("Mul (x, s)", TensorProto.FLOAT),
    ],
)
def test_a_dequantizer_has_the_type_of_what_it_reads(quantize: str, expected: int | None):
    found = index(
        f"g (float[2] x) => (y) <float s = {{1}}, int16 z = {{0}}> {{ q = {quantize}  y = DequantizeLinear (q, s, z) }}"
    )

    assert [entry.quantized_type for entry in found.dequantizers()] == [expected]


def test_a_dequantizer_of_a_dequantizer_reads_floats():
    found = index(CODES)

    assert {entry.node.proto.output[0]: entry.quantized_type for entry in found.dequantizers()} == {
        "d1": TensorProto.INT8,
        "d2": TensorProto.FLOAT,
        "d3": TensorProto.INT8,
        "d4": TensorProto.INT8,
        "lost": None,
    }


def test_a_stored_scale_is_believed_more_than_what_is_declared_of_it():
    known = parse(
        """g (float[2,4] x) => (float[2,4] y) <float[7] s> {
            s = Constant <value = float[1] {2}> ()
            y = QuantizeLinear (x, s)
        }"""
    )
    (entry,) = known.qdq.nodes

    assert entry.scale_shape == (1,)
    assert entry.granularity == PerTensor()


@pytest.mark.parametrize(("source", "shape"), [("a", (2,)), ("given", ("unk__0",))])
def test_a_shape_that_inference_leaves_open_is_folded_where_it_can_be(source: str, shape: object):
    (entry,) = index(
        f"""g (float[2,4] x, float[3] given) => (float[2,4] y)
        <float[3] a = {{1,1,1}}, int64[1] n = {{1}}, int64[1] m = {{3}}> {{
            start = Identity (n)
            s = Slice ({source}, start, m)
            y = QuantizeLinear <axis = 0> (x, s)
        }}"""
    ).nodes

    assert entry.scale_shape == shape
    assert entry.granularity == (PerAxis(0) if source == "a" else None)


def test_a_known_shape_is_told_without_reading_data(tmp_path: Path):
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[2,4] x) => (float[2,4] y) { s = Identity (stored)  y = QuantizeLinear <axis = 0> (x, s) }"""
    proto = onnx.parser.parse_model(text)
    tensor = proto.graph.initializer.add(name="stored", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="nowhere")

    (entry,) = ModelIndex.of(Model(proto, tmp_path / "m.onnx")).qdq.nodes
    assert entry.scale_shape == (2,)


def test_equal_bits_are_equal_constants():
    known = parse(
        """g (float x) => (float y)
        <float[2] a = {1, 2}, float[2] b = {1, 2}, float[2] c = {1, 3}, float[2,1] d = {1, 2},
         float zero = {0}, float minus = {-0}, int32 one = {1065353216}, float real = {1}>
        { y = Identity (x) }"""
    )
    values = known.view.main.values
    known.model.proto.graph.initializer[5].CopyFrom(onnx.numpy_helper.from_array(np.float32(-0.0), "minus"))

    def same(left: str, right: str) -> bool | None:
        return same_constant(values[left], values[right], known.constants)

    assert same("a", "b") is True
    assert same("a", "c") is False
    assert same("a", "d") is False
    assert same("one", "real") is False
    assert same("x", "x") is True
    assert same("x", "a") is None
    assert same_constant(None, values["a"], known.constants) is False
    assert same("zero", "minus") is False


def test_in_a_function_the_axis_is_that_of_its_first_call():
    entries = index(
        """g (float[2,4] x, float[4] s) => (float[2,4] y) { y = local.F <a = 1, b = 0> (x, s) }
        <domain: "local", opset_import: ["": 21]> F <a, b> (x, s) => (y) {
            q = QuantizeLinear <axis: int = @a, block_size: int = @b, output_dtype = 3> (x, s)
            y = DequantizeLinear <axis: int = @a> (q, s)
        }"""
    )

    assert [(entry.axis, entry.axis_given, entry.block_size) for entry in entries.nodes] == [(1, True, 0)] * 2
    assert [entry.granularity for entry in entries.nodes] == [PerAxis(1)] * 2


def test_a_constant_that_cannot_be_read_is_compared_with_nothing():
    known = parse("g (float[4] x) => (float[4] y) <float s = {1}, float t = {1}> { y = QuantizeLinear (x, s) }")
    values = known.view.main.values
    values["t"].initializer.CopyFrom(TensorProto(name="t", data_type=TensorProto.FLOAT, raw_data=b"ab"))

    assert same_constant(values["s"], values["t"], known.constants) is None
    assert same_constant(values["t"], values["s"], known.constants) is None
    assert same_constant(values["t"], values["t"], known.constants) is True
