"""Stand-ins for the operators of TensorRT's parser: what shape inference makes of a model that has them.

Types and shapes are those that the parser of TensorRT for RTX 1.7.1 gives its tensors, but for the exponents of MXFP8,
which it calls E8M0 and ONNX stores as uint8.
"""

import onnx
import pytest
from onnx import TensorProto as T
from onnx import parser

from qdqtool.models.graph.index.inference import infer_types
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.tensorrt_operators import with_stand_ins
from qdqtool.models.graph.model import Model

HEADER = '<ir_version: 10, opset_import: ["": %d, "trt": 1]>\n'
STORED = "float s = {0.1}, float16 h = {1}, float[2,2] b = {1,1,1,1}, uint8[2,2] e = {127,127,127,127}, int8 z = {0}"

Tensor = tuple[int, tuple[int | str, ...]]


def model(text: str, opset: int = 21) -> onnx.ModelProto:
    return parser.parse_model(HEADER % opset + text)


def around(nodes: str, data: str = "float[2,64]", opset: int = 21) -> onnx.ModelProto:
    """A model of nodes that read ``a``, with a node before and one beside them."""
    return model(f"g ({data} x) => ({data} y) <{STORED}> {{ a = Relu (x)\n{nodes}\ny = Neg (a) }}", opset)


def inferred(proto: onnx.ModelProto) -> dict[str, Tensor]:
    """Type and shape of every tensor of the main graph that has both."""
    infos = infer_types(proto).proto.graph.value_info
    return {
        info.name: (
            info.type.tensor_type.elem_type,
            tuple(dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim),
        )
        for info in infos
        if info.type.tensor_type.HasField("shape")
    }


ALL = (2, 64)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("q = trt.TRT_FP8QuantizeLinear (a, s)", (T.FLOAT8E4M3FN, ALL)),
        ("q = TRT_FP8QuantizeLinear (a, s)", (T.FLOAT8E4M3FN, ALL)),
        ("q = trt.TRT_FP8QuantizeLinear <output_dtype = 3> (a, s)", (T.INT8, ALL)),
        ("q = trt.TRT_FP8QuantizeLinear (a, s, z)", (T.INT8, ALL)),
        ('q = trt.TRT_FP8QuantizeLinear (a, s, "")', (T.FLOAT8E4M3FN, ALL)),
        ("q = trt.TRT_INT4QuantizeLinear (a, s)", (T.INT4, ALL)),
        ("q = trt.TRT_MXFP8QuantizeLinear (a, e)", (T.FLOAT8E4M3FN, ALL)),
        ("q = trt.TRT_BlockQuantize <block_shape = [1,32]> (a, b)", (T.FLOAT8E4M3FN, ALL)),
        ("q = trt.TRT_BlockQuantize <block_shape = [1,32], output_dtype = 3> (a, b)", (T.INT8, ALL)),
        ("q = trt.TRT_FP8DequantizeLinear (a, s)", (T.FLOAT, ALL)),
        ("q = trt.TRT_FP8DequantizeLinear (a, h)", (T.FLOAT16, ALL)),
        ("q = trt.TRT_FP8DequantizeLinear <output_dtype = 16> (a, h)", (T.BFLOAT16, ALL)),
        ("q = trt.TRT_INT4DequantizeLinear (a, h)", (T.FLOAT16, ALL)),
        ("q = trt.TRT_MXFP8DequantizeLinear (a, e)", (T.FLOAT, ALL)),
        ("q = trt.TRT_MXFP8DequantizeLinear <output_dtype = 10> (a, e)", (T.FLOAT16, ALL)),
        ("q = trt.TRT_BlockDequantize <block_shape = [1,32]> (a, b)", (T.FLOAT, ALL)),
        ("q = trt.TRT_BlockDequantize <block_shape = [1,32], output_dtype = 10> (a, b)", (T.FLOAT16, ALL)),
    ],
)
@pytest.mark.parametrize("opset", [11, 21])
def test_one_output(node: str, expected: Tensor, opset: int):
    found = inferred(around(node, opset=opset))

    assert found["q"] == expected
    assert found["a"] == (T.FLOAT, ALL)


MX, FP4 = "trt.TRT_MXFP8DynamicQuantize", "trt.TRT_FP4DynamicQuantize"
DYNAMIC = "trt.TRT_DynamicQuantize"


@pytest.mark.parametrize(
    ("node", "data", "codes", "scales"),
    [
        (f"{MX} (a)", "float[2,64]", T.FLOAT8E4M3FN, (T.UINT8, (2, 2))),
        (f"{MX} <axis = -2> (a)", "float[2,64,5]", T.FLOAT8E4M3FN, (T.UINT8, (2, 2, 5))),
        (f"{MX} <axis = 0, block_size = 32> (a)", "float[64,2]", T.FLOAT8E4M3FN, (T.UINT8, (2, 2))),
        (f"{MX} (a)", "float16[N,96]", T.FLOAT8E4M3FN, (T.UINT8, ("N", 3))),
        (f"{MX} (a)", "float[2,33]", T.FLOAT8E4M3FN, (T.UINT8, (2, 2))),
        (f"{FP4} (a, s)", "float[2,64]", T.FLOAT4E2M1, (T.FLOAT8E4M3FN, (2, 4))),
        (f"{FP4} (a, s)", "float[2,32,5]", T.FLOAT4E2M1, (T.FLOAT8E4M3FN, (2, 2, 5))),
        (f"{FP4} <axis = -1, block_size = 16, scale_type = 17> (a, s)", "float[2,3,64]", T.FLOAT4E2M1, ...),
        (f"{DYNAMIC} <block_shape = [16,7], output_type = 17> (a)", "float[33,64]", T.FLOAT8E4M3FN, (T.FLOAT, (3, 10))),
        (f"{DYNAMIC} <block_shape = [16,-1], output_type = 17> (a)", "float[33,64]", T.FLOAT8E4M3FN, (T.FLOAT, (3, 1))),
        (f"{DYNAMIC} <block_shape = [1], output_type = 17> (a)", "float[5]", T.FLOAT8E4M3FN, (T.FLOAT, (5,))),
        (f"{DYNAMIC} <block_shape = [-1], output_type = 17> (a)", "float[5]", T.FLOAT8E4M3FN, (T.FLOAT, (1,))),
        (
            f"{DYNAMIC} <block_shape = [1,16], output_type = 23, scale_type = 10> (a)",
            "float[N,64]",
            T.FLOAT4E2M1,
            (T.FLOAT16, ("N", 4)),
        ),
    ],
)
def test_codes_and_scales(node: str, data: str, codes: int, scales: Tensor):
    proto = around(f"q, c = {node}", data)
    shape = tuple(dim.dim_param or dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim)
    found = inferred(proto)

    assert found["q"] == (codes, shape)
    assert found["c"] == ((T.FLOAT8E4M3FN, (2, 3, 4)) if scales is ... else scales)


def test_an_open_axis_has_an_unknown_number_of_blocks():
    found = inferred(around(f"q, c = {MX} (a)", "float[2,N]"))

    assert found["q"] == (T.FLOAT8E4M3FN, (2, "N"))
    kind, (rows, count) = found["c"]
    assert (kind, rows) == (T.UINT8, 2)
    assert count not in {"N", 2}


def test_what_is_behind_them_is_inferred():
    found = inferred(
        around(
            f"""q, c = {MX} (a)
            d = trt.TRT_MXFP8DequantizeLinear <output_dtype = 10> (q, c)
            t = Transpose (d)
            p, u = {FP4} (a, s)
            f = DequantizeLinear (u, s)
            r = Shape (f)"""
        )
    )

    assert found["t"] == (T.FLOAT16, (64, 2))
    assert found["f"] == (T.FLOAT, (2, 4))
    assert found["r"] == (T.INT64, (2,))


BODY = """g (float[2,64] x, bool c) => (float[2,64] y) <float s = {0.1}> {
    y = If (c) <
        then_branch = t () => (float[2,64] r) <uint8[2,64] q> {
            q = trt.TRT_FP8QuantizeLinear (x, s)
            d = trt.TRT_FP8DequantizeLinear (q, s)
            r = Relu (d)
        },
        else_branch = e () => (float[2,64] o) { o = Identity (x) }
    >
}"""

FUNCTION = """g (float[2,64] x) => (float[2,64] y) <float s = {0.1}> { y = local.both (x, s) }
<domain: "local", opset_import: ["": 21, "trt": 1]>
both (x, s) => (y) {
    q = trt.TRT_FP8QuantizeLinear (x, s)
    y = trt.TRT_FP8DequantizeLinear (q, s)
}"""


@pytest.mark.parametrize("text", [BODY, FUNCTION.replace('"trt": 1]', '"trt": 1, "local": 1]')])
def test_in_a_body_and_in_a_local_function(text: str):
    proto = parser.parse_model('<ir_version: 10, opset_import: ["": 21, "trt": 1, "local": 1]>\n' + text)
    index = ModelIndex.of(Model(proto))
    values = {
        name: value
        for node in index.view.nodes()
        for name, value in zip(node.key, (node.output(i) for i in range(len(node.key))), strict=True)
        if value is not None and value.scope is not index.view.main
    }

    assert infer_types(proto).is_sound
    assert index.types.elem_type(values["q"]) == T.FLOAT8E4M3FN
    assert index.types.shape(values["q"]) == (2, 64)
    if text is BODY:
        assert index.types.elem_type(values["d"]) == T.FLOAT


@pytest.mark.parametrize("declared", ["uint8[2,64]", "uint8[7]", "float[2,64]"])
def test_a_wrong_declaration_of_codes_is_not_believed(declared: str):
    proto = model(
        f"""g (float[2,64] x) => (float[2,64] y) <float s = {{0.1}}, {declared} q> {{
            q = trt.TRT_FP8QuantizeLinear (x, s)
            y = trt.TRT_FP8DequantizeLinear (q, s)
        }}"""
    )

    assert infer_types(proto).is_sound
    assert inferred(proto)["q"] == (T.FLOAT8E4M3FN, ALL)


def test_a_wrong_declaration_of_codes_that_are_moved_is_not_believed():
    proto = model(
        """g (float[2,64] x) => (float[64,2] y)
        <float s = {0.1}, uint8[2,64] q, uint8[128] f, uint8[64,2] t, uint8[2,64] u> {
            q = trt.TRT_FP8QuantizeLinear (x, s)
            f = Flatten (q)
            t = Transpose (q)
            y = trt.TRT_FP8DequantizeLinear (t, s)
            u = Cast <to = 2> (x)
        }"""
    )

    assert infer_types(proto).is_sound
    found = inferred(proto)
    assert found["t"] == (T.FLOAT8E4M3FN, (64, 2))
    assert found["f"] == (T.FLOAT8E4M3FN, ALL)
    assert found["u"] == (T.UINT8, ALL)


def test_other_declarations_are_kept():
    proto = model(
        """g (float[2,64] x) => (float[2,64] y) <float s = {0.1}, int8[3,5] other> {
            other = my.Operator (x)
            q = trt.TRT_FP8QuantizeLinear (x, s)
            y = trt.TRT_FP8DequantizeLinear (q, s)
        }"""
    )

    assert inferred(proto)["other"] == (T.INT8, (3, 5))


def test_the_model_itself_is_unchanged():
    for text in (BODY, FUNCTION):
        proto = parser.parse_model('<ir_version: 10, opset_import: ["": 21, "trt": 1, "local": 1]>\n' + text)
        before = proto.SerializeToString(deterministic=True)
        infer_types(proto)

        assert proto.SerializeToString(deterministic=True) == before
        assert with_stand_ins(proto) is not proto


def test_a_model_without_them_is_returned_as_it_is():
    proto = around("q = QuantizeLinear (a, s)\nr = trt.QuantizeLinear (a, s)\nt = trt.TRT_Unknown (a)")

    assert with_stand_ins(proto) is proto


def test_nodes_alike_share_one_function():
    nodes = "\n".join(
        f"q{i} = trt.TRT_FP8QuantizeLinear (a, s)\nd{i} = trt.TRT_FP8DequantizeLinear (q{i}, s)" for i in range(9)
    )

    assert len(with_stand_ins(around(nodes)).functions) == 2


HUGE = 2**62
ODD = [
    f"q, c = {MX} <axis = 5> (a)",
    f"q, c = {MX} <axis = [1]> (a)",
    f'q, c = {MX} <axis = "last"> (a)',
    f"q, c = {MX} <axis = {-HUGE}> (a)",
    f"q, c = {MX} <axis = 0.5, block_size = 32.0> (a)",
    *(f"q, c = {MX} <block_size = {size}> (a)" for size in (0, -32, HUGE, 2**32, 2**31, "[32]", '"a"')),
    f"q = {MX} (a)",
    f'q, "" = {MX} (a)',
    f'"", c = {MX} (a)',
    f"q, c, more = {MX} (a)",
    f"q, c = {MX} ()",
    f"q, c = {FP4} (a)",
    f"q, c = {FP4} <axis = [0, 1], block_size = -1, scale_type = 99> (a, s)",
    f"q, c = {DYNAMIC} (a)",
    f"q, c = {DYNAMIC} <output_type = 17> (a)",
    *(
        f"q, c = {DYNAMIC} <block_shape = {shape}, output_type = 17> (a)"
        for shape in ("16", "[16]", "[1,1,16]", "[0,-7]", "[1.5,2.0]", '["a","b"]', f"[{HUGE},{2**32}]", "1.0", '"a"')
    ),
    f"q, c = {DYNAMIC} <block_shape: ints = [], output_type = 17> (a)",
    *(
        f"q = trt.TRT_BlockQuantize <output_dtype = {kind}> (a, b)"
        for kind in (99, -3, HUGE, "[17]", "17.0", '"float8e4m3fn"')
    ),
    "q = trt.TRT_BlockDequantize (a)",
    "q = trt.TRT_FP8DequantizeLinear (a)",
    "q = trt.TRT_FP8DequantizeLinear ()",
    'q = trt.TRT_FP8DequantizeLinear (a, "", s)',
    'q = trt.TRT_FP8QuantizeLinear ("", s)',
    "q = trt.TRT_FP8QuantizeLinear (nowhere, s)",
    "q, c = trt.TRT_FP8QuantizeLinear (a, s, z, z, z)",
    "q = trt.TRT_FP8QuantizeLinear (a, z)",
]


@pytest.mark.parametrize("data", ["float[2,64]", "float[64]", "float[N]", "float"])
@pytest.mark.parametrize("node", ODD)
def test_the_rest_of_the_model_is_inferred_whatever_the_attributes(node: str, data: str):
    # A Cast makes inference follow numbers, which goes through vectors element by element.
    proto = around(f"{node}\ni = Cast <to = 7> (a)", data)
    rank = len(proto.graph.input[0].type.tensor_type.shape.dim)
    found = inferred(proto)

    assert found["a"][0] == T.FLOAT
    assert found["i"] == (T.INT64, found["a"][1])
    assert len(found["a"][1]) == rank


def test_the_rest_of_the_model_is_inferred_beside_a_node_without_outputs():
    proto = around(f"q, c = {MX} (a)")
    (node,) = [each for each in proto.graph.node if "q" in each.output]
    del node.output[:]

    assert inferred(proto) == {"a": (T.FLOAT, ALL)}


def test_an_attribute_of_a_function_is_the_default():
    proto = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "trt": 1, "local": 1]>
        g (float[2,64] x) => (float[2,64] y) <float s = {0.1}> { y = local.both <to = 3> (x, s) }
        <domain: "local", opset_import: ["": 21, "trt": 1]>
        both <to> (x, s) => (y) {
            q = trt.TRT_FP8QuantizeLinear <output_dtype: int = @to> (x, s)
            y = trt.TRT_FP8DequantizeLinear (q, s)
        }"""
    )

    (function, *_) = with_stand_ins(proto).functions
    assert [node.domain for node in function.node] == ["qdqtool.stand_in"] * 2
    assert infer_types(proto).is_sound
