"""QL318: nodes that move half-precision values in float32, and the same bits without the Casts."""

import numpy as np
import pytest
from support.fixing import assert_same_bits, carried_out, located, messages, read, refusal
from support.layer_dump import multiplied_types
from support.trt_verdict import TrtOracle

from qdqtool.linting.rules import RuleContext

CODE = "QL318"
UP, DOWN = "f = Cast <to = 1> (x) ", " y = Cast <to = 10> (m)"
POOL = "MaxPool <kernel_shape = [2, 2]> (f)"
FEED = np.linspace(-3, 60000, 32).reshape(1, 2, 4, 4).astype(np.float16)


def model(body: str, outputs: str = "float16 y") -> RuleContext:
    return read(f"""
        agraph (float16[1,2,4,4] x, float[1,2,4,4] g) => ({outputs})
        <int64[1] n = {{1}}, int64[1] k = {{3}}, int64[4] r = {{1, 1, 1, 2}}, int64[2] s = {{-1, 3}}> {{ {body} }}""")


@pytest.mark.parametrize(
    ("nodes", "operator"),
    [
        (f"m = {POOL}", "MaxPool"),
        ("m = GlobalMaxPool (f)", "GlobalMaxPool"),
        ("m = ReduceMax (f, k)", "ReduceMax"),
        ("m = Slice (f, n, k, k)", "Slice"),
        ("m = Gather <axis = 2> (f, n)", "Gather"),
        ("m = Concat <axis = 1> (f, f)", "Concat"),
        ("h = Cast <to = 1> (x) m = Concat <axis = 1> (f, h)", "Concat"),
        ("m = Tile (f, r)", "Tile"),
        ("m, z = Split <axis = 2, num_outputs = 2> (f)", "Split"),
        (f"p = {POOL} q = Transpose (p) m = Reshape (q, s)", "MaxPool"),
        (f"p = {POOL} m = Tile (p, r)", "MaxPool"),
        (f"p = {POOL} m = Transpose (p) z = Cast <to = 10> (p)", "MaxPool"),
        (f"u = Relu (f) m = {POOL}", "MaxPool"),
    ],
)
def test_nodes_that_only_move_values(nodes: str, operator: str):
    context = model(UP + nodes + DOWN)
    ((finding, fault),) = located(CODE, context)
    fixed = carried_out(context, fault.fixes[0])

    assert finding.message == f"{operator} moves float16 values in float32, between Casts"
    assert (finding.found, finding.expected) == (f"Cast, {operator}, Cast", f"{operator} in float16")
    assert messages(CODE, read(fixed)) == []
    assert_same_bits(context, fixed, x=FEED, g=np.zeros((1, 2, 4, 4), np.float32))


def test_the_casts_are_gone():
    context = model(f"{UP} m = {POOL} h = Cast <to = 10> (m) y = Neg (h)")
    ((_, fault),) = located(CODE, context)
    fixed = carried_out(context, fault.fixes[0])

    assert {node.op_type: list(node.input) for node in fixed.graph.node if node.op_type != "Cast"} == {
        "MaxPool": ["x"],
        "Neg": ["m"],
    }


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (f"{UP} m = Softmax (f) {DOWN}", "float16 y"),
        (f"{UP} u = Softmax (f) m = GlobalMaxPool (u) {DOWN}", "float16 y"),
        (f"{UP} m = Transpose (f) {DOWN}", "float16 y"),
        (f"{UP} m = {POOL} {DOWN}", "float16 y, float m"),
        (f"{UP} m = {POOL} z = Exp (m) {DOWN}", "float16 y"),
        (f"{UP} m = {POOL}", "float16 y"),
        (f"{UP} m = Concat <axis = 1> (f, g) {DOWN}", "float16 y"),
        (f"{UP} m = {POOL} y = Cast <to = 16> (m)", "bfloat16 y"),
        ("f = Cast <to = 1> (n) m = Slice (f, n, k) y = Cast <to = 10> (m)", "float16 y"),
        ("m = MaxPool <kernel_shape = [2, 2]> (x) y = Neg (m)", "float16 y"),
        ("m = MaxPool <kernel_shape = [2, 2]> (g) y = Cast <to = 10> (m)", "float16 y"),
    ],
)
def test_nodes_that_stay(body: str, outputs: str):
    assert messages(CODE, model(body, outputs)) == []


def test_nodes_of_two_graphs_stay():
    branch = "=> (float16[1,2,3,3] {0}) {{ p{0} = MaxPool <kernel_shape = [2, 2]> (f) {0} = Cast <to = 10> (p{0}) }}"
    branches = f"then_branch = a () {branch.format('u')}, else_branch = b () {branch.format('v')}"
    context = model(f"c = Constant <value = bool {{1}}> () {UP} y = If (c) <{branches}>")
    found = located(CODE, context)

    assert len(found) == 2
    for _, fault in found:
        assert_same_bits(context, carried_out(context, fault.fixes[0]), x=FEED, g=np.zeros((1, 2, 4, 4), np.float32))


def test_a_hidden_name_is_not_read():
    """The branch has a tensor with the name of the tensor before the Cast."""
    branch = """() => (float16[1,2,3,3] u) {
        x = Identity (f) p = MaxPool <kernel_shape = [2, 2]> (f) q = Neg (x) u = Cast <to = 10> (p) }"""
    context = model(
        f"c = Constant <value = bool {{1}}> () {UP} y = If (c) <then_branch = a {branch}, else_branch = b {branch}>"
    )
    found = located(CODE, context)

    assert len(found) == 2
    for _, fault in found:
        assert refusal(context, fault.fixes[0]) == "'x' cannot be read here"


@pytest.mark.builder
@pytest.mark.parametrize(
    ("nodes", "costs"),
    [
        ("m = MaxPool <kernel_shape = [2, 2]> (f)", True),
        ("m = GlobalMaxPool (f)", True),
        ("m = Slice (f, n, k, k)", True),
        ("m = Gather <axis = 2> (f, n)", True),
        ("m = Concat <axis = 2> (f, f)", True),
        ("m, u = Split <axis = 2, num_outputs = 2> (f)", True),
        ("m = Tile (f, r)", True),
        ("m = Transpose <perm = [0, 1, 3, 2]> (f)", False),
        ("m = Reshape (f, v)", False),
        ("m = DepthToSpace <blocksize = 1> (f)", False),
        ("i = Identity (f) u = Unsqueeze (i, n) m = Squeeze (u, n)", False),
    ],
)
def test_the_layer_dump_shows_where_casts_cost_the_codes(nodes: str, costs: bool, oracle: TrtOracle):
    context = read(f"""
        agraph (float16[1,16,8,8] x) => (float16[1,16,oh,ow] y)
        <float16 s = {{11878}}, int8 z = {{0}}, int8[16,16] w = {{{",".join("1" * 256)}}}, int64[1] n = {{1}},
         int64[1] k = {{3}}, int64[4] r = {{1, 1, 2, 2}}, int64[4] v = {{1, 16, 4, 16}},
         int64[4] o = {{16, 16, 1, 1}}> {{
            q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) f = Cast <to = 1> (d)
            {nodes}
            h = Cast <to = 10> (m) wd = DequantizeLinear (w, s, z) wo = Reshape (wd, o) y = Conv (h, wo) }}""")
    verdict = oracle.judge(context.model.proto, (86,))

    assert verdict.accepted, verdict.message
    assert multiplied_types(verdict.layers, "node_of_y") == {"Half" if costs else "Int8"}
    assert bool(messages(CODE, context)) == bool(messages("QL313", context)) == costs
