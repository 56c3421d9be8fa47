"""Casts to float32 between a DQ and its consumer, and where the DQ can make float32 itself."""

import numpy as np
import pytest
from support.fixing import attributes, carried_out, constant, located, node, read, refusal

from qdqtool.linting.rules import RuleContext

CODE = "QL313"
MODEL = """
agraph (float16[1,2] x, float16[1,2] x2, float16 t{inputs}) => (float[1,2] y{outputs})
<float16 s = {{14336}}, float wide = {{0.5}}, int8 z = {{0}}, int8[2,2] w = {{1,2,3,4}}, float[2,2] f = {{1,2,3,4}},
 int64[1] n = {{0}}, int64[1] m = {{1}}> {{
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear {dq}
    wd = DequantizeLinear (w, wide)
    {nodes}
}}
"""
CAST = "c = Cast <to = 1> (d)  y = MatMul (c, wd)"


def model(nodes: str = CAST, *, inputs: str = "", outputs: str = "", dq: str = "(q, s, z)") -> RuleContext:
    return read(MODEL.format(nodes=nodes, inputs=inputs, outputs=outputs, dq=dq))


def said(context: RuleContext) -> list[str]:
    found = [finding for finding, _ in located(CODE, context)]
    for finding in found:
        assert (finding.found, finding.expected) == ("Cast to float32", "a DQ that makes float32")
    return [finding.message for finding in found]


def between(cast: str, source: str = "float16", consumer: str = "MatMul -> y") -> str:
    return f"Cast 'Cast -> {cast}' from {source} to float32 stands between this DQ and MatMul '{consumer}'"


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        (CAST, [between("c")]),
        ("i = Identity (d)  c = Cast <to = 1> (i)  y = MatMul (c, wd)", [between("c")]),
        ("b = Cast <to = 16> (d)  c = Cast <to = 1> (b)  y = MatMul (c, wd)", [between("c", "bfloat16")]),
        ("b = Cast <to = 16> (d)  y = MatMul (b, wd)", []),
        ("c = Cast <to = 10> (d)  y = MatMul (c, wd)", []),
        ("c = Cast <to = 11> (d)  y = MatMul (c, wd)", []),
        ("i = Identity <to = 1> (d)  y = MatMul (i, wd)", []),
        ("c = Cast <to = 1> (wd)  y = MatMul (d, c)", []),
        ("c = Cast <to = 1> (d)  y = MatMul (c, f)", []),
        ("c = Cast <to = 1> (d)  v = MatMul (c, f)  y = MatMul (c, wd)", [between("c")]),
        ("y = MatMul (d, wd)", []),
        ("c = Cast <to = 1> (d)  h = Cast <to = 10> (c)  y = MatMul (h, wd)", []),
        ("c = Cast <to = 1> (d)  t = Transpose (c)  h = Cast <to = 10> (t)  y = MatMul (h, wd)", []),
        ("c = Cast <to = 1> (d)  t = Slice (c, n, m)  h = Cast <to = 10> (t)  y = MatMul (h, wd)", [between("c")]),
        ("c = Cast <to = 1> (d)  h = Cast <to = 16> (c)  y = MatMul (h, wd)", [between("c")]),
        ("c = Cast <to = 1> (d)  y = MatMul (c, wd)  h = Cast <to = 10> (y)", [between("c")]),
    ],
)
def test_what_stands_between(nodes: str, found: list[str]):
    assert said(model(nodes)) == found


@pytest.mark.parametrize(
    ("behind", "found"),
    [
        ("Cast <to = 10> (p)", []),
        ("Cast <to = 16> (p)", [between("c", consumer="MatMul -> p"), between("e", consumer="MatMul -> p")]),
        ("Neg (p)", [between("c", consumer="MatMul -> p"), between("e", consumer="MatMul -> p")]),
    ],
)
def test_casts_around_the_whole_layer_cost_nothing(behind: str, found: list[str]):
    """TensorRT for RTX multiplies codes and makes float16."""
    both = "c = Cast <to = 1> (d)  v = DequantizeLinear (w, s)  e = Cast <to = 1> (v)  p = MatMul (c, e)"
    assert said(model(f"{both}  y = {behind}")) == found


def test_the_dq_makes_float32_of_the_same_scale():
    context = model()
    ((_, fault),) = located(CODE, context)
    (fix,) = fault.fixes
    fixed = carried_out(context, fix)

    assert fix.description == "dequantizes to float32 and removes the Cast"
    assert (constant(fixed, "d", 1).dtype, float(constant(fixed, "d", 1))) == (np.float32, 0.5)
    assert list(node(fixed, "y").input) == ["d", "wd"]
    assert attributes(fixed, "d") == {}


@pytest.mark.parametrize(
    "nodes",
    [
        "i = Identity (d)  c = Cast <to = 1> (i)  y = MatMul (c, wd)",
        "c = Cast <to = 1> (d)  i = Identity (c)  y = MatMul (i, wd)",
    ],
)
def test_there_is_no_fix_with_other_operators_between(nodes: str):
    ((_, fault),) = located(CODE, model(nodes))

    assert fault.fixes == ()


NOT_CONSTANT = "its scale is not constant, or output_dtype sets its type"


@pytest.mark.parametrize(
    ("dq", "nodes", "outputs", "reason"),
    [
        ("(q, t, z)", CAST, "", NOT_CONSTANT),
        ("<output_dtype = 10> (q, s, z)", CAST, "", NOT_CONSTANT),
        ("(q, s, z)", f"{CAST}  n = Neg (d)", "", "another node reads the output of the DQ"),
        ("(q, s, z)", CAST, ", float[1,2] c", "'c' is an output"),
    ],
)
def test_where_the_cast_stays(dq: str, nodes: str, outputs: str, reason: str):
    context = model(nodes, dq=dq, outputs=outputs)
    ((_, fault),) = located(CODE, context)

    assert refusal(context, fault.fixes[0]) == reason


@pytest.mark.parametrize("place", [1, 3])
def test_nodes_of_a_broken_model_that_make_a_second_output_stay(place: int):
    """What the MatMul reads is the second output of the DQ or of the Cast, which have only one."""
    proto = model().model.proto
    broken = proto.graph.node[place]
    broken.output.insert(0, "")
    context = read(proto)
    for _, fault in located(CODE, context):
        for fix in fault.fixes:
            assert refusal(context, fix) == NOT_CONSTANT
