"""Strip on small graphs, one for each thing that Q/DQ can be tied to: what is left, and that it computes the same."""

from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.ort_verdict import ort_outputs
from support.qdq import constant, text_model
from support.random_models import assert_same_outputs, brute, drawn_feeds, whole

from qdqtool.errors import ModelError
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.transforms.strip import RestoredNode, Stripped, strip_from
from qdqtool.models.transforms.strip_edits import RemovedNode

UNREAD = "its codes have no reader, or a reader other than DequantizeLinear"
NOT_STORED = "its input is neither the output of a QuantizeLinear nor a stored constant"
NOT_CONSTANT = "its scale or zero point is not constant, not finite, or does not fit its input"
HEADER = '<ir_version: 10, opset_import: ["": 21]>'
SCALE = "<float s = {0.5}, int8 z = {0}>"


@dataclass(frozen=True)
class Scene:
    """A graph, and what strip makes of it.

    Attributes:
        graph: As text, without the header.
        nodes: The nodes that are left, as ``output = Operator(inputs)``.
        removed: The kind and the tensor of each DQ that is removed.
        kept: The output and the reason of each Q and DQ that is kept.
        stored: The names of what is stored; None for nothing but what the nodes read.
        constants: Initializers that text cannot spell.
    """

    graph: str
    nodes: list[str]
    removed: list[tuple[str, str]] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    stored: set[str] | None = None
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def model(self) -> Model:
        return text_model(HEADER + self.graph, *self.constants)


def told(proto: onnx.ModelProto) -> list[str]:
    return sorted(f"{','.join(n.output)} = {n.op_type}({','.join(n.input)})" for n in brute.all_nodes(proto))


SCENES = {
    "codes are an output too": Scene(
        f"""g (float[4] x) => (float[4] y, int8[4] q) {SCALE} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)  y = Exp(d) }}""",
        ["n = Neg(x)", "q = QuantizeLinear(n,s,z)", "y = Exp(n)"],
        [("pair", "n")],
        [("q", UNREAD)],
    ),
    "codes are an output, and the DQ makes another": Scene(
        f"""g (float[4] x) => (float[4] y, int8[4] q) {SCALE} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, s, z) }}""",
        ["q = QuantizeLinear(y,s,z)", "y = Neg(x)"],
        [("pair", "n")],
        [("q", UNREAD)],
    ),
    "codes are read by another operator": Scene(
        f"""g (float[2,2] x) => (float[2,2] y, int8[2,2] t) {SCALE} {{
            q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  y = Exp(d)  t = Transpose(q) }}""",
        ["q = QuantizeLinear(x,s,z)", "t = Transpose(q)", "y = Exp(x)"],
        [("pair", "x")],
        [("q", UNREAD)],
    ),
    "nobody reads the codes": Scene(
        f"""g (float[4] x) => (float[4] y) {SCALE} {{ y = Exp(x)  q = QuantizeLinear(x, s, z) }}""",
        ["q = QuantizeLinear(x,s,z)", "y = Exp(x)"],
        [],
        [("q", UNREAD)],
    ),
    "a DQ behind moved codes": Scene(
        f"""g (float[2,2] x) => (float[2,2] y) {SCALE} {{
            q = QuantizeLinear(x, s, z)  t = Transpose(q)  y = DequantizeLinear(t, s, z) }}""",
        ["q = QuantizeLinear(x,s,z)", "t = Transpose(q)", "y = DequantizeLinear(t,s,z)"],
        [],
        [("y", NOT_STORED), ("q", UNREAD)],
    ),
    "codes are an input": Scene(
        f"""g (int8[4] c) => (float[4] y) {SCALE} {{ d = DequantizeLinear(c, s, z)  y = Exp(d) }}""",
        ["d = DequantizeLinear(c,s,z)", "y = Exp(d)"],
        [],
        [("d", NOT_STORED)],
    ),
    "the producer makes the output": Scene(
        f"""g (float[4] x) => (float[4] y) {SCALE} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, s, z) }}""",
        ["y = Neg(x)"],
        [("pair", "n")],
        stored=set(),
    ),
    "the second of several outputs is renamed": Scene(
        f"""g (float[4] x) => (float[2] y, float[2] a) {SCALE} {{
            a, b = Split<axis = 0, num_outputs = 2>(x)  q = QuantizeLinear(b, s, z)
            y = DequantizeLinear(q, s, z) }}""",
        ["a,y = Split(x)"],
        [("pair", "b")],
        stored=set(),
    ),
    "readers follow a renamed tensor": Scene(
        f"""g (float[4] x) => (float[4] e, float[4] f, float[4] y) {SCALE} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)  e = Exp(d)
            y = DequantizeLinear(q, s, z)  f = Add(n, n) }}""",
        ["e = Exp(y)", "f = Add(y,y)", "y = Neg(x)"],
        [("pair", "n"), ("pair", "y")],
        stored=set(),
    ),
    "a scale is renamed to an output": Scene(
        f"""g (float[1] x) => (float[1] y, int8[1] p) {SCALE} {{
            n = Exp(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, s, z)  p = QuantizeLinear(x, n, z) }}""",
        ["p = QuantizeLinear(x,y,z)", "y = Exp(x)"],
        [("pair", "n")],
        [("p", UNREAD)],
        {"z"},
    ),
    "two DQs make outputs": Scene(
        f"""g (float[4] x) => (float[4] y, float[4] w) {SCALE} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, s, z)  w = DequantizeLinear(q, s, z) }}""",
        ["w = Identity(y)", "y = Neg(x)"],
        [("pair", "n"), ("pair", "y")],
        stored=set(),
    ),
    "the source is an output itself": Scene(
        f"""g (float[4] x) => (float[4] n, float[4] y) {SCALE} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, s, z) }}""",
        ["n = Neg(x)", "y = Identity(n)"],
        [("pair", "n")],
    ),
    "the source is an input": Scene(
        f"""g (float[4] x) => (float[4] y) {SCALE} {{
            q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }}""",
        ["y = Identity(x)"],
        [("pair", "x")],
    ),
    "a kept DQ makes the source": Scene(
        f"""g (int8[4] c) => (float[4] y) {SCALE} {{
            d = DequantizeLinear(c, s, z)  q = QuantizeLinear(d, s, z)  y = DequantizeLinear(q, s, z) }}""",
        ["d = DequantizeLinear(c,s,z)", "y = Identity(d)"],
        [("pair", "d")],
        [("d", NOT_STORED)],
    ),
    "a pair behind a pair": Scene(
        f"""g (float[4] x) => (float[4] y) {SCALE} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)
            p = QuantizeLinear(d, s, z)  e = DequantizeLinear(p, s, z)  y = Exp(e) }}""",
        ["n = Neg(x)", "y = Exp(n)"],
        [("pair", "n"), ("pair", "n")],
        stored=set(),
    ),
    "a pair behind a pair whose codes are an output": Scene(
        f"""g (float[4] x) => (float[4] y, int8[4] p) {SCALE} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)
            p = QuantizeLinear(d, s, z)  e = DequantizeLinear(p, s, z)  y = Exp(e) }}""",
        ["n = Neg(x)", "p = QuantizeLinear(n,s,z)", "y = Exp(n)"],
        [("pair", "n"), ("pair", "n")],
        [("p", UNREAD)],
    ),
    "in a branch, of codes outside": Scene(
        f"""g (float[4] x, bool c) => (float[4] y) {SCALE} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)
            y = If(c) <then_branch = t () => (float[4] a) {{ a = DequantizeLinear(q, s, z) }},
                       else_branch = e () => (float[4] b) {{ d = DequantizeLinear(q, s, z)  b = Exp(d) }}> }}""",
        ["a = Identity(n)", "b = Exp(n)", "n = Neg(x)", "y = If(c)"],
        [("pair", "n"), ("pair", "n")],
        stored=set(),
    ),
    "others read the constants too": Scene(
        f"""g (float[4] x) => (float[4] y, float[4] v) {SCALE} {{
            q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  y = Exp(d)  v = Add(x, s) }}""",
        ["v = Add(x,s)", "y = Exp(x)"],
        [("pair", "x")],
    ),
    "the scale is an output": Scene(
        f"""g (float[4] x) => (float[4] y, float s) {SCALE} {{
            q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  y = Exp(d) }}""",
        ["y = Exp(x)"],
        [("pair", "x")],
        stored={"s"},
    ),
    "constants are nodes": Scene(
        """g (float[4] x) => (float[4] y) {
            s = Constant<value = float {0.5}>()  z = Constant<value = int8 {0}>()
            q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  y = Exp(d) }""",
        ["y = Exp(x)"],
        [("pair", "x")],
    ),
    "a computed scale": Scene(
        """g (float[4] x) => (float[4] y) <int8 z = {0}> {
            a = Abs(x)  m = ReduceMax<keepdims = 0>(a)  q = QuantizeLinear(x, m, z)  d = DequantizeLinear(q, m, z)
            y = Exp(d) }""",
        ["a = Abs(x)", "m = ReduceMax(a)", "y = Exp(x)"],
        [("pair", "x")],
        stored=set(),
    ),
    "a float weight in front of a pair": Scene(
        """g (float[4] x) => (float[4] y) <float s = {0.5}, int8 z = {0}, float[4] w = {1, 2, 3, 4}> {
            q = QuantizeLinear(w, s, z)  d = DequantizeLinear(q, s, z)  y = Mul(x, d) }""",
        ["y = Mul(x,w)"],
        [("pair", "w")],
    ),
    "two DQs of the same codes": Scene(
        """g (float[4] x) => (float[4] y) <float s = {0.5}, float t = {2}, int8[4] w_quantized = {1, -2, 3, -4}> {
            d = DequantizeLinear(w_quantized, s)  e = DequantizeLinear(w_quantized, t)
            a = Mul(x, d)  y = Add(a, e) }""",
        ["a = Mul(x,w)", "y = Add(a,w_1)"],
        [("weight", "w"), ("weight", "w_1")],
    ),
    "codes that something else reads too": Scene(
        """g (float[4] x) => (float[4] y, int8[4] c) <float s = {0.5}, int8[4] w = {1, -2, 3, -4}> {
            d = DequantizeLinear(w, s)  y = Mul(x, d)  c = Transpose(w) }""",
        ["c = Transpose(w)", "y = Mul(x,w_1)"],
        [("weight", "w_1")],
    ),
    "codes of which only the suffix is the name": Scene(
        """g (float[4] x) => (float[4] y) <float s = {0.5}, int8[4] _quantized = {1, -2, 3, -4}> {
            d = DequantizeLinear(_quantized, s)  y = Mul(x, d) }""",
        ["y = Mul(x,_quantized_1)"],
        [("weight", "_quantized_1")],
    ),
    "a weight is an output": Scene(
        """g (float[4] x) => (float[4] y, float[4] d) <float s = {0.5}, int8[4] w = {1, -2, 3, -4}> {
            d = DequantizeLinear(w, s)  y = Mul(x, d) }""",
        ["d = Identity(w_1)", "y = Mul(x,d)"],
        [("weight", "w_1")],
    ),
    "a weight with an input for a scale": Scene(
        """g (float[4] x, float s) => (float[4] y) <int8[4] w = {1, -2, 3, -4}> {
            d = DequantizeLinear(w, s)  y = Mul(x, d) }""",
        ["d = DequantizeLinear(w,s)", "y = Mul(x,d)"],
        [],
        [("d", NOT_CONSTANT)],
    ),
    "a weight with an input for a zero point": Scene(
        """g (float[4] x, int8 z) => (float[4] y) <float s = {0.5}, int8[4] w = {1, -2, 3, -4}> {
            d = DequantizeLinear(w, s, z)  y = Mul(x, d) }""",
        ["d = DequantizeLinear(w,s,z)", "y = Mul(x,d)"],
        [],
        [("d", NOT_CONSTANT)],
    ),
    "scales that are quantized": Scene(
        """g (float[2,2] x) => (float[2,2] y)
            <float t = {0.5}, int8[2] u = {1, 2}, int8[2,2] w = {1, -2, 3, -4}> {
            s = DequantizeLinear(u, t)  d = DequantizeLinear<axis = 0>(w, s)  y = Mul(x, d) }""",
        ["y = Mul(x,w_1)"],
        [("weight", "w_1"), ("scale", "s")],
    ),
    "scales that are quantized, of what stays": Scene(
        """g (float[2,2] x, int8[2,2] c) => (float[2,2] y, float[2,2] v)
            <float t = {0.5}, int8[2] u = {1, 2}, int8[2,2] w = {1, -2, 3, -4}> {
            s = DequantizeLinear(u, t)  d = DequantizeLinear<axis = 0>(w, s)  y = Mul(x, d)
            v = DequantizeLinear<axis = 0>(c, s) }""",
        ["s = DequantizeLinear(u,t)", "v = DequantizeLinear(c,s)", "y = Mul(x,w_1)"],
        [("weight", "w_1")],
        [("v", NOT_STORED), ("s", "another node still reads its scales")],
    ),
    "scales of what stays, then scales of what goes": Scene(
        """g (float[2,2] x, int8[2,2] c) => (float[2,2] y, float[2,2] v)
            <float t = {0.5}, int8[2] u = {1, 2}, int8[2] k = {3, 4}, int8[2,2] w = {1, -2, 3, -4}> {
            r = DequantizeLinear(k, t)  s = DequantizeLinear(u, t)
            d = DequantizeLinear<axis = 0>(w, s)  y = Mul(x, d)  v = DequantizeLinear<axis = 0>(c, r) }""",
        ["r = DequantizeLinear(k,t)", "v = DequantizeLinear(c,r)", "y = Mul(x,w_1)"],
        [("weight", "w_1"), ("scale", "s")],
        [("v", NOT_STORED), ("r", "another node still reads its scales")],
    ),
    "a Q that stays, then a Q that goes": Scene(
        f"""g (float[4] x) => (float[4] y, int8[4] q) {SCALE} {{
            q = QuantizeLinear(x, s, z)  n = Neg(x)  p = QuantizeLinear(n, s, z)  d = DequantizeLinear(p, s, z)
            y = Exp(d) }}""",
        ["n = Neg(x)", "q = QuantizeLinear(x,s,z)", "y = Exp(n)"],
        [("pair", "n")],
        [("q", UNREAD)],
    ),
    "a zero point that is left out by an empty name": Scene(
        """g (float[4] x) => (float[4] y) <float s = {0.5}, int8 z = {0}, int8[4] w = {1, -2, 3, -4}> {
            q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, "")  e = DequantizeLinear(w, s, "")
            y = Mul(d, e) }""",
        ["y = Mul(x,w_1)"],
        [("pair", "x"), ("weight", "w_1")],
    ),
    "a DQ of another type": Scene(
        """g (float[4] x) => (float16[4] y) <float s = {0.5}, int8 z = {0}> {
            q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, h, z)  y = Exp(d) }""",
        ["x_cast = Cast(x)", "y = Exp(x_cast)"],
        [("pair", "x_cast")],
        constants=[constant("h", 0.5, TensorProto.FLOAT16)],
    ),
    "a DQ of another type that makes an output": Scene(
        """g (float[4] x) => (float16[4] y) <float s = {0.5}, int8 z = {0}> {
            n = Neg(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, h, z) }""",
        ["n = Neg(x)", "n_cast = Cast(n)", "y = Identity(n_cast)"],
        [("pair", "n_cast")],
        constants=[constant("h", 0.5, TensorProto.FLOAT16)],
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_what_is_left(name: str) -> None:
    scene = SCENES[name]
    model = scene.model()
    result = strip_from(model)
    proto = whole(result.model)
    onnx.checker.check_model(proto, full_check=True)
    assert told(proto) == scene.nodes
    assert sorted((each.kind, each.tensor) for each in result.report.removed) == sorted(scene.removed)
    outputs = {label(node): node.output[0] for node in brute.all_nodes(model.proto)}
    assert [(outputs[each.node], each.reason) for each in result.report.kept] == scene.kept
    assert (result.report.warnings, result.report.restored) == ((), ())
    read = {name for node in brute.all_nodes(proto) for name in node.input}
    made = {name for node in brute.all_nodes(proto) for name in node.output} | {each.name for each in proto.graph.input}
    assert {each.name for each in proto.graph.initializer} == (read - made if scene.stored is None else scene.stored)


@pytest.mark.parametrize("name", SCENES)
def test_it_computes_what_the_model_did_without_its_pairs(name: str) -> None:
    model = SCENES[name].model()
    feeds = drawn_feeds(model) | {
        each.name: np.resize(np.arange(4, dtype=np.int8), shape(each)) for each in of_codes(model)
    }
    stripped, expected = whole(strip_from(model).model), brute.without_pairs(model.proto, {})
    if "another type" in name:
        for node in expected.graph.node:
            if node.op_type == "Identity":
                node.op_type = "Cast"
                node.attribute.add(name="to", i=TensorProto.FLOAT16, type=onnx.AttributeProto.INT)
    assert_same_outputs(stripped, expected, feeds)


def of_codes(model: Model) -> list[onnx.ValueInfoProto]:
    return [each for each in model.proto.graph.input if each.type.tensor_type.elem_type == TensorProto.INT8]


def shape(info: onnx.ValueInfoProto) -> list[int]:
    return [dim.dim_value for dim in brute.dims(info)]


def label(node: onnx.NodeProto) -> str:
    return node.name or f"{node.op_type} -> {node.output[0]}"


WEIGHT = """g (float[2,4] x) => (float[2,4] y) { d = DequantizeLinear<%s>(w%s)  y = Add(x, d) }"""
CODES = np.arange(8).reshape(2, 4) - 4


@pytest.mark.parametrize(
    ("attributes", "scale", "zero_point"),
    [
        ("axis = 1", 0.5, None),
        ("axis = 1", [0.5], None),
        ("axis = 1", 0.5, 3),
        ("axis = 1", [0.5], [3]),
        ("axis = 0", [0.5, 2], None),
        ("axis = 0", [0.5, 2], [1, -1]),
        ("axis = 1", [0.5, 2, 4, 1], [1, -1, 0, 2]),
        ("axis = -1", [0.5, 2, 4, 1], None),
        ("axis = 1, block_size = 2", [[0.5, 2], [4, 1]], [[1, 2], [3, 4]]),
        ("axis = 0, block_size = 2", [[0.5, 2, 4, 1]], None),
    ],
)
@pytest.mark.parametrize("elem_type", [TensorProto.INT8, TensorProto.INT4])
def test_stored_codes_become_the_floats_that_they_stand_for(
    attributes: str, scale: object, zero_point: object, elem_type: int
) -> None:
    stored = [constant("w", CODES, elem_type), constant("s", scale)]
    inputs = ", s"
    if zero_point is not None:
        stored.append(constant("z", zero_point, elem_type))
        inputs += ", z"
    model = text_model(HEADER + WEIGHT % (attributes, inputs), *stored)
    feeds = {"x": np.zeros((2, 4), np.float32)}
    proto = whole(strip_from(model).model)
    assert told(proto) == ["y = Add(x,w_1)"]
    assert_same_outputs(proto, model.proto, feeds)
    assert len(ort_outputs(proto, feeds)) == 1


@pytest.mark.parametrize(
    ("attributes", "scale"),
    [
        ("axis = 1", [0.5, 2]),
        ("axis = 0", [0.5, 2, 4, 1]),
        ("axis = 0", [[0.5, 2, 4, 1]]),
        ("axis = 1, block_size = 2", [[0.5, 2, 4], [4, 1, 1]]),
        ("axis = 0", [0.5, np.inf]),
    ],
)
def test_codes_that_their_scale_does_not_fit_stay(attributes: str, scale: object) -> None:
    model = text_model(
        HEADER + WEIGHT % (attributes, ", s"), constant("w", CODES, TensorProto.INT8), constant("s", scale)
    )
    report = strip_from(model).report
    assert report.removed == ()
    assert [(each.node, each.reason) for each in report.kept] == [("DequantizeLinear -> d", NOT_CONSTANT)]


@pytest.mark.parametrize(
    ("opset", "attributes", "scale_type", "made"),
    [
        (21, "axis = 1", TensorProto.FLOAT16, TensorProto.FLOAT16),
        (21, "axis = 1", TensorProto.BFLOAT16, TensorProto.BFLOAT16),
        (23, f"output_dtype = {TensorProto.FLOAT16}", TensorProto.FLOAT, TensorProto.FLOAT16),
        (24, "axis = 1, block_size = 2", TensorProto.FLOAT8E8M0, TensorProto.FLOAT),
    ],
)
def test_the_type_of_a_weight_is_that_of_its_dq(opset: int, attributes: str, scale_type: int, made: int) -> None:
    scale = [[0.5, 2], [4, 1]] if "block_size" in attributes else 0.5
    text = f'<ir_version: 10, opset_import: ["": {opset}]>' + WEIGHT % (attributes, ", s")
    model = text_model(text, constant("w", CODES, TensorProto.INT8), constant("s", scale, scale_type))
    (weight,) = whole(strip_from(model).model).graph.initializer
    assert (weight.name, weight.data_type, list(weight.dims)) == ("w_1", made, [2, 4])
    assert len(weight.raw_data) == 8 * (4 if made == TensorProto.FLOAT else 2)


RELU = "<float s = {0.02}, uint8 z = {0}>"
RELU6 = "<float s = {0.023529412}, uint8 z = {0}>"

BOUNDED = {
    "an inner tensor": (
        f"""g (float[4] x) => (float[4] y) {RELU} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)  y = Exp(d) }}""",
        ["n = Neg(x)", "n_Relu_Output = Relu(n)", "y = Exp(n_Relu_Output)"],
        ["n_Relu_Output"],
    ),
    "an output": (
        f"""g (float[4] x) => (float[4] y) {RELU} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, s, z) }}""",
        ["n = Neg(x)", "y = Relu(n)"],
        ["y"],
    ),
    "an output and an inner tensor": (
        f"""g (float[4] x) => (float[4] e, float[4] y) {RELU} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)  e = Exp(d)
            y = DequantizeLinear(q, s, z) }}""",
        ["e = Exp(y)", "n = Neg(x)", "y = Relu(n)"],
        ["y"],
    ),
    "two outputs": (
        f"""g (float[4] x) => (float[4] y, float[4] w) {RELU} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, s, z)  w = DequantizeLinear(q, s, z) }}""",
        ["n = Neg(x)", "w = Identity(y)", "y = Relu(n)"],
        ["y"],
    ),
    "an output of a branch, of codes outside": (
        f"""g (float[4] x, bool c) => (float[4] y) {RELU} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)
            y = If(c) <then_branch = t () => (float[4] a) {{ a = DequantizeLinear(q, s, z) }},
                       else_branch = e () => (float[4] b) {{ b = Exp(n) }}> }}""",
        ["a = Identity(n_Relu_Output)", "b = Exp(n)", "n = Neg(x)", "n_Relu_Output = Relu(n)", "y = If(c)"],
        ["n_Relu_Output"],
    ),
    "a second Q without bounds makes an output": (
        """g (float[4] x) => (float[4] e, float[4] y) <float s = {0.02}, uint8 z = {0}, float t = {0.5}, int8 o = {0}> {
            n = Neg(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)  e = Exp(d)
            p = QuantizeLinear(n, t, o)  y = DequantizeLinear(p, t, o) }""",
        ["e = Exp(n_Relu_Output)", "n_Relu_Output = Relu(y)", "y = Neg(x)"],
        ["n_Relu_Output"],
    ),
    "codes are an output": (
        f"""g (float[4] x) => (float[4] y, uint8[4] q) {RELU} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, s, z) }}""",
        ["n = Neg(x)", "q = QuantizeLinear(n,s,z)", "y = Relu(n)"],
        ["y"],
    ),
    "a second Q without bounds makes another output": (
        """g (float[4] x) => (float[4] e, float[4] y) <float s = {0.02}, uint8 z = {0}, float t = {0.5}, int8 o = {0}> {
            n = Neg(x)  q = QuantizeLinear(n, s, z)  e = DequantizeLinear(q, s, z)
            p = QuantizeLinear(n, t, o)  y = DequantizeLinear(p, t, o) }""",
        ["e = Relu(n)", "n = Neg(x)", "y = Identity(n)"],
        ["e"],
    ),
    "a pair behind a pair": (
        f"""g (float[4] x) => (float[4] y) {RELU} {{
            n = Neg(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)
            p = QuantizeLinear(d, s, z)  e = DequantizeLinear(p, s, z)  y = Exp(e) }}""",
        ["n = Neg(x)", "n_Relu_Output = Relu(n)", "y = Exp(n_Relu_Output)"],
        ["n_Relu_Output"],
    ),
}


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("op_type", ["Relu", "Clip"])
def test_the_relu_or_clip_stands_where_the_q_did(name: str, op_type: str) -> None:
    text, nodes, made = BOUNDED[name]
    if op_type == "Clip":
        text = text.replace("0.02}", "0.023529412}")
    model = text_model(HEADER + text)
    result = strip_from(model)
    proto = whole(result.model)
    onnx.checker.check_model(proto, full_check=True)
    bare = [
        line.split(" = Clip(")[0] + f" = Relu({line.split('(')[1].split(',')[0]})" if "Clip(" in line else line
        for line in told(proto)
    ]
    assert bare == [node.replace("Relu_Output", f"{op_type}_Output") for node in nodes]
    told_bounds = (0.0, 6.0) if op_type == "Clip" else (None, None)
    assert result.report.restored == tuple(
        RestoredNode(
            node="QuantizeLinear -> q",
            graph="",
            op_type=op_type,
            tensor=tensor.replace("Relu", op_type),
            low=told_bounds[0],
            high=told_bounds[1],
        )
        for tensor in made
    )
    limits = {"q": (0.0, 6.0 if op_type == "Clip" else None)}
    expected = brute.without_pairs(model.proto, limits)
    assert_same_outputs(proto, expected, drawn_feeds(model))


def test_the_report_names_nodes_and_scopes() -> None:
    text = f"""g (float[4] x, bool c) => (float[4] y) {SCALE} {{
        y = If(c) <then_branch = t () => (float[4] a) {{
                       q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  a = Exp(d) }},
                   else_branch = e () => (float[4] b) {{
                       p = QuantizeLinear(x, s, z)  r = Cast<to = 1>(p)  b = Exp(r) }}> }}"""
    report = strip_from(text_model(HEADER + text)).report
    assert report == Stripped(
        removed=(RemovedNode(node="DequantizeLinear -> d", graph="y.then_branch", kind="pair", tensor="x"),),
        kept=(NodeReason(node="QuantizeLinear -> p", op_type="QuantizeLinear", graph="y.else_branch", reason=UNREAD),),
        warnings=(),
    )


def test_a_range_that_cannot_be_put_back_is_told_once_for_all_dqs_of_a_q() -> None:
    text = """g (float[2] x) => (float[2] y, float[2] v) <float[2] s = {0.02, 0.02}, uint8[2] z = {0, 128}> {
        n = Neg(x)  q = QuantizeLinear<axis = 0>(n, s, z)  d = DequantizeLinear<axis = 0>(q, s, z)
        e = DequantizeLinear<axis = 0>(q, s, z)  y = Exp(d)  v = Abs(e) }"""
    result = strip_from(text_model(HEADER + text))
    assert told(result.model.proto) == ["n = Neg(x)", "v = Abs(n)", "y = Exp(n)"]
    (warning,) = result.report.warnings
    assert warning.startswith("QuantizeLinear -> q may replace a Relu or Clip that cannot be restored: ")


def test_a_clip_of_an_unknown_type_cannot_be_put_back() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "other": 1]>
        g (float[2] x) => (float[2] y) <float s = {0.023529412}, uint8 z = {0}> {
        n = other.Mystery(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)  y = Exp(d) }"""
    report = strip_from(text_model(text)).report
    assert report.restored == ()
    (warning,) = report.warnings
    assert warning.endswith("be restored: it replaces a Clip, and the type of its input is not known")
    relu = strip_from(text_model(text.replace("0.023529412", "0.02"))).report
    assert [made.op_type for made in relu.restored] == ["Relu"]


def test_a_relu_in_front_of_an_output_of_another_type_is_cast() -> None:
    text = """g (float[4] x) => (float16[4] y) <float s = {0.02}, uint8 z = {0}> {
        n = Neg(x)  q = QuantizeLinear(n, s, z)  y = DequantizeLinear(q, h, z) }"""
    proto = whole(strip_from(text_model(HEADER + text, constant("h", 0.02, TensorProto.FLOAT16))).model)
    onnx.checker.check_model(proto, full_check=True)
    assert told(proto) == [
        "n = Neg(x)",
        "n_Relu_Output = Relu(n)",
        "n_cast = Cast(n_Relu_Output)",
        "y = Identity(n_cast)",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "n = other.Mystery(x)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, s, z)",
        "n = Neg(x)  t = other.Mystery(s)  q = QuantizeLinear(n, s, z)  d = DequantizeLinear(q, t, z)",
    ],
)
def test_no_cast_is_written_between_types_that_are_not_known(body: str) -> None:
    header = '<ir_version: 10, opset_import: ["": 21, "other": 1]>'
    result = strip_from(text_model(f"{header} g (float[2] x) => (float[2] y) {SCALE} {{ {body}  y = Exp(d) }}"))
    assert "y = Exp(n)" in told(result.model.proto)
    assert (result.report.warnings, result.report.kept) == ((), ())


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (
            'q = QuantizeLinear("", s, z)  d = DequantizeLinear(q, s, z)  y = Exp(d)',
            [("DequantizeLinear", "its Q has no input"), ("QuantizeLinear", UNREAD)],
        ),
        (
            'q = QuantizeLinear(x, s, z)  "" = DequantizeLinear(q, s, z)  y = Exp(x)',
            [("DequantizeLinear", "its Q has no input"), ("QuantizeLinear", UNREAD)],
        ),
        ('"" = QuantizeLinear(x, s, z)  y = Exp(x)', [("QuantizeLinear", UNREAD)]),
        ('"" = DequantizeLinear(w, s, z)  y = Exp(x)', [("DequantizeLinear", NOT_STORED)]),
    ],
)
def test_nodes_that_lack_what_they_need_stay(body: str, kept: list[tuple[str, str]]) -> None:
    text = (
        f"g (float[4] x) => (float[4] y) <float s = {{0.5}}, int8 z = {{0}}, int8[4] w = {{1, 2, 3, 4}}> {{ {body} }}"
    )
    model = text_model(HEADER + text)
    result = strip_from(model)
    assert told(result.model.proto) == told(model.proto)
    assert [(each.op_type, each.reason) for each in result.report.kept] == kept


def test_the_bytes_of_a_weight_are_as_many_as_were_told() -> None:
    text = HEADER + WEIGHT % ("axis = 1", ", s")
    model = strip_from(text_model(text, constant("w", CODES, TensorProto.INT4), constant("s", 0.5))).model
    assert [(payload.nbytes, len(payload.make())) for payload in model.payloads.values()] == [(32, 32)]


def test_a_model_that_is_not_valid_is_refused() -> None:
    twice = f"{HEADER} g (float[4] x) => (float[4] y) {{ y = Exp(x)  y = Neg(x) }}"
    with pytest.raises(ModelError, match="the model is not valid: tensor 'y' is defined more than once"):
        strip_from(text_model(twice))
    newer = '<ir_version: 10, opset_import: ["": 9999]> g (float[4] x) => (float[4] y) { y = Exp(x) }'
    with pytest.raises(ModelError, match="the model imports opset 9999"):
        strip_from(text_model(newer))
