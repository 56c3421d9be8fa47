"""Two pairs in a row: which have the same scale, and which can be merged."""

import numpy as np
import pytest
from support.fixing import assert_same_bits, carried_out, located, node, read, refusal

from qdqtool.linting.rules import Fix, RuleContext

CODE = "QL309"

MODEL = """
agraph (float[2,2] x, float c, float c2) => (float[2,2] y{outputs})
<float s = {{0.5}}, float same = {{0.5}}, float[1] one = {{0.5}}, float other = {{0.25}}, float[2] v = {{0.5, 1}},
 float[2] v_copy = {{0.5, 1}}, float[2] v_other = {{0.5, 2}}, int8 z = {{0}}, int8 z_copy = {{0}}, int8 three = {{3}},
 uint8 u = {{0}}, int8[2] zz = {{0, 0}}> {{
    q = QuantizeLinear {0}
    d = DequantizeLinear {1}
    r = QuantizeLinear {2}
    e = DequantizeLinear {3}
    y = Neg (e)
    {more}
}}
"""

EQUAL = ("(x, s, z)", "(q, s, z)", "(d, s, z)", "(r, s, z)")


def pairs(*inputs: str, outputs: str = "", more: str = "") -> RuleContext:
    """x -> Q -> DQ -> Q -> DQ -> Neg -> y."""
    return read(MODEL.format(*inputs, outputs=outputs, more=more))


def merging(context: RuleContext) -> Fix:
    ((finding, fault),) = located(CODE, context)
    (fix,) = fault.fixes
    assert finding.severity == "info"
    assert fix.description == "merges it into the pair in front"
    return fix


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("s", "s", True),
        ("s", "same", True),
        ("s", "one", True),
        ("s", "other", False),
        ("v", "v_copy", True),
        ("v", "v_other", False),
        ("v", "s", False),
        ("c", "c", True),
        ("c", "c2", False),
        ("c", "s", False),
        ("s", "c", False),
    ],
)
def test_scales_are_compared_by_value(before: str, after: str, *, same: bool):
    context = pairs(f"(x, {before}, z)", f"(q, {before}, z)", f"(d, {after}, z)", f"(r, {after}, z)")
    ((finding, fault),) = located(CODE, context)

    assert finding.message == f"this Q reads DQ 'DequantizeLinear -> d' with {'the same' if same else 'another'} scale"
    assert (finding.severity, len(fault.fixes)) == (("info", 1) if same else ("warning", 0))
    assert (finding.found, finding.expected, finding.tensor) == ("DQ, Q", "one pair", "d")


@pytest.mark.parametrize(
    "inputs",
    [
        EQUAL,
        ("(x, s, z)", "(q, s, z)", "(d, same, z_copy)", "(r, same, z_copy)"),
        ("<axis = 1> (x, v, zz)", "<axis = 1> (q, v, zz)", "<axis = 1> (d, v, zz)", "<axis = 1> (r, v_copy, zz)"),
        ("<output_dtype = 3> (x, s)", "(q, s)", "<output_dtype = 3> (d, s)", "(r, s)"),
    ],
    ids=str,
)
def test_equal_pairs_are_merged_exactly(inputs: tuple[str, ...]):
    context = pairs(*inputs)
    fixed = carried_out(context, merging(context))

    assert list(node(fixed, "y").input) == ["d"]
    one = np.array(1, np.float32)
    assert_same_bits(context, fixed, x=np.float32([[0.3, -70], [1.26, 900]]), c=one, c2=one)


def test_every_dq_behind_it_is_merged():
    context = pairs(*EQUAL, outputs=", float[2,2] y2", more="e2 = DequantizeLinear (r, s, z)  y2 = Neg (e2)")
    fixed = carried_out(context, merging(context))

    assert [list(node(fixed, output).input) for output in ("y", "y2")] == [["d"], ["d"]]


UNEQUAL = "the two pairs are not equal, or another node reads the codes"
OTHER_SCALE = "the DQ behind it has another scale"


@pytest.mark.parametrize(
    ("inputs", "more", "outputs", "reason"),
    [
        (("(x, s, z)", "(q, s, z)", "(d, s, three)", "(r, s, three)"), "", "", UNEQUAL),
        (("(x, s, z)", "(q, s, z)", "(d, s, u)", "(r, s, u)"), "", "", UNEQUAL),
        (("<output_dtype = 3> (x, s)", "(q, s)", "<output_dtype = 2> (d, s)", "(r, s)"), "", "", UNEQUAL),
        (
            ("<axis = 1> (x, v, zz)", "<axis = 1> (q, v, zz)", "<axis = 0> (d, v, zz)", "<axis = 0> (r, v, zz)"),
            "",
            "",
            UNEQUAL,
        ),
        (EQUAL, "t = Transpose (r)", "", UNEQUAL),
        (("(x, s, z)", "(q, s, z)", "(d, s, z)", "(r, other, z)"), "", "", OTHER_SCALE),
        (EQUAL, "e2 = DequantizeLinear (r, other, z)", "", OTHER_SCALE),
        (EQUAL, "", ", int8[2,2] r", "its codes are an output"),
    ],
    ids=str,
)
def test_what_stays_two_pairs(inputs: tuple[str, ...], more: str, outputs: str, reason: str):
    context = pairs(*inputs, more=more, outputs=outputs)

    assert refusal(context, merging(context)) == reason


@pytest.mark.parametrize(("place", "reason"), [(2, "its codes are an output"), (3, OTHER_SCALE)])
def test_nodes_without_an_output_are_not_merged(place: int, reason: str):
    proto = pairs(*EQUAL).model.proto
    proto.graph.node[place].output[0] = ""
    context = read(proto)

    assert refusal(context, merging(context)) == reason
