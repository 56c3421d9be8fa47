"""A model as text: one line for each stored tensor and each node, and what two models have that differs."""

import onnx
import onnx.parser

from qdqtool.linting.repair.text_diff import unified_diff
from qdqtool.models.graph.model import Model

MODEL = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "local": 1]>
g (float[2,4] x, bool c, float[4] given) => (y, e)
<float s = {0.5}, int8 z = {3}, float[5] five = {1,2,3,4,5}, float[4] four = {0.1,2.25,3,400000},
 float[4] given = {1,1,1,1}, float[2,2] blocks = {1,2,3,4}, int8[2,4] w = {1,2,3,4,5,6,7,8}>
{
    [quantize] q = QuantizeLinear (x, s, z)
    d = DequantizeLinear <axis = 0> (q, given)
    a = DequantizeLinear <axis = -1> (w, four)
    b = DequantizeLinear <axis = 1, block_size = 2> (w, blocks)
    t = Mul (s, s)
    computed = com.microsoft.QuantizeLinear (x, t, z)
    moving = QuantizeLinear (x, unknown)
    wide = QuantizeLinear <axis = 0> (x, five)
    odd = DequantizeLinear (nowhere, s)
    y, e = local.Two (d, a)
    [choice] r = If (c) <
        then_branch = one () => (p) <float k = {1}> { [inner] p = Relu (d) },
        else_branch = two () => (o) { o = Abs (b) }
    >
}"""

LINES = """\
initializer s: float32[]
initializer z: int8[]
initializer five: float32[5]
initializer four: float32[4]
initializer blocks: float32[2, 2]
initializer w: int8[2, 4]
initializer r.then_branch/k: float32[]
quantize: QuantizeLinear(x, s, z) -> q [int8 scale=0.5 zero_point=3]
DequantizeLinear(q, given) -> d [int8 scale=1 1 1 1 zero_point=none axis=0]
DequantizeLinear(w, four) -> a [int8 scale=0.1 2.25 3 400000 zero_point=none axis=-1]
DequantizeLinear(w, blocks) -> b [int8 scale=1 2 3 4 zero_point=none axis=1 block_size=2]
Mul(s, s) -> t
com.microsoft.QuantizeLinear(x, t, z) -> computed [int8 scale=0.25 zero_point=3]
QuantizeLinear(x, unknown) -> moving [uint8 scale=none zero_point=none]
QuantizeLinear(x, five) -> wide [uint8 scale=1 2 3 4 ... (5) zero_point=none axis=0]
DequantizeLinear(nowhere, s) -> odd [? scale=0.5 zero_point=none]
local.Two(d, a) -> y, e
choice: If(c) -> r
r.then_branch/inner: Relu(d) -> p
r.else_branch/: Abs(b) -> o
"""


def model(text: str = MODEL) -> Model:
    return Model(onnx.parser.parse_model(text))


def empty() -> Model:
    return Model(onnx.ModelProto(graph=onnx.GraphProto(name="g")))


def test_every_stored_tensor_and_every_node_has_a_line():
    added = unified_diff(empty(), model(), "m.onnx").splitlines()

    assert added[:2] == ["--- m.onnx", "+++ m.onnx (fixed)"]
    lines = [line.removeprefix("+") for line in added[3:]]
    inner = [line for line in lines if not line.startswith("initializer given")]
    assert "\n".join(inner) + "\n" == LINES
    assert "initializer given: float32[4] (an input too)" in lines


def test_equal_models_have_no_diff():
    assert unified_diff(model(), model(), "m.onnx") == ""


def test_a_change_is_shown_with_a_line_around_it():
    after = model(MODEL.replace("t = Mul (s, s)", "t = Add (s, s)"))

    assert unified_diff(model(), after, "a/m.onnx").splitlines() == [
        "--- a/m.onnx",
        "+++ a/m.onnx (fixed)",
        "@@ -12,4 +12,4 @@",
        " DequantizeLinear(w, blocks) -> b [int8 scale=1 2 3 4 zero_point=none axis=1 block_size=2]",
        "-Mul(s, s) -> t",
        "-com.microsoft.QuantizeLinear(x, t, z) -> computed [int8 scale=0.25 zero_point=3]",
        "+Add(s, s) -> t",
        "+com.microsoft.QuantizeLinear(x, t, z) -> computed [int8 scale=1 zero_point=3]",
        " QuantizeLinear(x, unknown) -> moving [uint8 scale=none zero_point=none]",
    ]


def test_what_is_computed_from_inputs_is_not_constant():
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[2] x, float s) => (y) { y = QuantizeLinear (x, s) }"""

    assert unified_diff(empty(), model(text), "m").endswith("[uint8 scale=not constant zero_point=none]")
