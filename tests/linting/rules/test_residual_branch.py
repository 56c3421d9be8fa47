"""Where the skip branch of a quantized Conv is float, and what can be read instead."""

import pytest
from onnx import TensorProto as T
from onnx import helper
from support.fixing import carried_out, located, node, read, refusal

from qdqtool.linting.rules import RuleContext

CODE = "QL303"
MODEL = """
agraph (float[1,2,2,2] x, float[1,2,1,1] thin, float[N,2,H,W] open, float[N] n) => (float[1,2,2,2] y{outputs})
<float s = {{0.5}}, int8 z = {{0}}, int8[2,2,1,1] w = {{1,2,3,4}}, float[2] ws = {{0.1, 0.2}},
 int8[1,2,2,2] codes = {{1,2,3,4,5,6,7,8}}, float[2,2,1,1] f = {{1,2,3,4}},
 float[1,2,2,2] constant = {{1,2,3,4,5,6,7,8}}, int8[2,2] m = {{1,2,3,4}}> {{
    q = QuantizeLinear (x, s, z)
    xd = DequantizeLinear (q, s, z)
    wd = DequantizeLinear <axis = 0> (w, ws)
    md = DequantizeLinear (m, s)
    {nodes}
}}
"""


def model(nodes: str, outputs: str = "") -> RuleContext:
    return read(MODEL.format(nodes=nodes, outputs=outputs))


def skips(context: RuleContext) -> list[str | None]:
    found = [finding for finding, _ in located(CODE, context)]
    for finding in found:
        assert finding.message == f"the Add reads '{finding.tensor}' as float beside a quantized Conv"
        assert (finding.found, finding.expected) == ("a float skip branch", "a pair on the skip branch")
        assert (finding.severity, finding.effect) == ("warning", "advice")
    return [finding.tensor for finding in found]


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ("c = Conv (xd, wd)  y = Add (c, x)", ["x"]),
        ("c = Conv (xd, wd)  y = Add (x, c)", ["x"]),
        ("c = ConvTranspose (xd, wd)  y = Add (c, x)", []),
        ("c = Conv (xd, f)  y = Add (c, x)", []),
        ("c = Conv (x, wd)  y = Add (c, x)", []),
        ("c = Conv (xd, wd)  y = Mul (c, x)", []),
        ("c = Conv (xd, wd)  y = Sub (c, x)", []),
        ("c = MatMul (xd, md)  y = Add (c, x)", []),
        ("c = Relu (xd)  y = Add (c, x)", []),
        ("c = Conv (xd, wd)  e = Conv (xd, wd)  y = Add (c, e)", []),
        ("c = Conv (xd, wd)  r = Relu (c)  y = Add (c, x)", []),
        ("c = Conv (xd, wd)  y = Add (c, xd)", []),
        ("c = Conv (xd, wd)  t = Identity (xd)  y = Add (c, t)", []),
        ("c = Conv (xd, wd)  rq = QuantizeLinear (xd, s, z)  y = Add (c, xd)", []),
        ("c = Conv (xd, wd)  r = Relu (x)  k = DequantizeLinear (r, s)  y = Add (c, r)", []),
        ("c = Conv (xd, wd)  r = Relu (x)  y = Add (c, r)", []),
        ("c = Conv (xd, wd)  r = Relu (x)  rq = QuantizeLinear (r, s, z)  y = Add (c, r)", ["r"]),
        ("c = Conv (xd, wd)  tq = QuantizeLinear (thin, s, z)  y = Add (c, thin)", []),
        ("c = Conv (xd, wd)  oq = QuantizeLinear (open, s, z)  y = Add (c, open)", ["open"]),
        ("c = Conv (xd, wd)  u = local.Unknown (n)  uq = QuantizeLinear (u, s, z)  y = Add (c, u)", []),
        ("u = local.Unknown (n)  d = DequantizeLinear (u, s)  c = Conv (d, wd)  y = Add (c, x)", []),
        ("c = Conv (xd, wd)  kq = QuantizeLinear (constant, s, z)  y = Add (c, constant)", []),
        ("c = Conv (xd, wd)  r = Relu (x)  k = DequantizeLinear <block_size = 1> (codes, r)  y = Add (c, r)", []),
        ("c = Conv (xd, wd)  r = Relu (x)  k = QuantizeLinear <axis = 0, block_size = 1> (x, r)  y = Add (c, r)", []),
        ("y = Add (x, x)  c = Conv (xd, wd)  e = Add (c, x)  g = Conv (xd, wd)  h = Add (g, x)", ["x", "x"]),
    ],
)
def test_which_branches_are_float(nodes: str, found: list[str]):
    assert skips(model(nodes)) == found


def test_the_output_of_a_conv_that_is_an_output_of_the_model_is_kept():
    assert skips(model("c = Conv (xd, wd)  y = Add (c, x)", ", float[1,2,2,2] c")) == []


@pytest.mark.parametrize("inputs", [["c"], ["c", ""], ["c", "nowhere"], ["", "c"]], ids=str)
def test_an_add_of_one_tensor_has_no_branch(inputs: list[str]):
    proto = model("c = Conv (xd, wd)  y = Add (c, x)").model.proto
    proto.graph.node[-1].input[:] = inputs

    assert skips(read(proto)) == []


def test_the_output_of_the_other_pair_is_read():
    context = model("c = Conv (xd, wd)  y = Add (x, c)")
    ((_, fault),) = located(CODE, context)
    (fix,) = fault.fixes
    fixed = carried_out(context, fix)

    assert fix.description == "reads 'xd' instead of 'x'"
    assert list(node(fixed, "y").input) == ["xd", "c"]
    assert skips(read(fixed)) == []


@pytest.mark.parametrize(
    ("dequantize", "found"),
    [
        ("", []),
        ("d = DequantizeLinear (rq, s)", ["reads 'd' instead of 'r'"]),
        ("h = DequantizeLinear <output_dtype = 10> (rq, s)", []),
        (
            "h = DequantizeLinear <output_dtype = 10> (rq, s)  d = DequantizeLinear (rq, s)",
            ["reads 'd' instead of 'r'"],
        ),
    ],
)
def test_a_tensor_of_another_type_is_not_read(dequantize: str, found: list[str]):
    context = model(f"c = Conv (xd, wd)  r = Relu (x)  rq = QuantizeLinear (r, s, z)  {dequantize}  y = Add (c, r)")
    ((_, fault),) = located(CODE, context)

    assert [fix.description for fix in fault.fixes] == found


def test_a_dq_without_an_output_is_not_read():
    proto = model("c = Conv (xd, wd)  r = Relu (x)  rq = QuantizeLinear (r, s, z)  y = Add (c, r)").model.proto
    proto.graph.node.append(helper.make_node("DequantizeLinear", ["rq", "s"], [""]))
    ((_, fault),) = located(CODE, read(proto))

    assert fault.fixes == ()


def test_a_dq_in_a_body_is_not_read_outside():
    proto = model("c = Conv (xd, wd)  r = Relu (x)  rq = QuantizeLinear (r, s, z)  y = Add (c, r)").model.proto
    body = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["rq", "s"], ["inside"]), helper.make_node("Neg", ["inside"], ["t"])],
        "body",
        [],
        [helper.make_tensor_value_info("t", T.FLOAT, [1, 2, 2, 2])],
    )
    proto.graph.node.append(helper.make_node("If", ["b"], ["i"], then_branch=body, else_branch=body))
    proto.graph.input.append(helper.make_tensor_value_info("b", T.BOOL, []))
    context = read(proto)
    ((_, fault),) = located(CODE, context)

    assert refusal(context, fault.fixes[0]) == "'inside' cannot be read here"


def test_a_skip_branch_of_unknown_shape_is_not_judged():
    proto = model("c = Conv (xd, wd)  u = local.Unknown (n)  uq = QuantizeLinear (u, s, z)  y = Add (c, u)").model.proto
    proto.graph.value_info.append(helper.make_tensor_value_info("c", T.FLOAT, [1, 2, 2, 2]))

    assert skips(read(proto)) == []
