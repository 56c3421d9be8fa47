"""QS009: names that a node reads and nothing defines, in bodies and functions too."""

import pytest
from support.one_rule import findings, parsed


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("y = Add (x, k)", []),
        ("[n] y = Add (x, nowhere)", [("n", "nowhere")]),
        ("y = Clip (x, , one)", []),
        ("[n] y = Add (nowhere, other)", [("n", "nowhere"), ("n", "other")]),
        ("y = If (c) <then_branch = t () => (p) { p = Relu (x) }, else_branch = e () => (q) { q = Add (x, k) }>", []),
        (
            "y = If (c) <then_branch = t () => (p) { p = Neg (x) }, else_branch = e () => (q) { [n] q = Neg (p) }>",
            [("n", "p")],
        ),
        ("y = own.F (x)", [("inside", "x")]),
    ],
)
def test_names(body: str, reported: list[tuple[str, str]]):
    function = '<domain: "own", opset_import: ["": 21]> F (a) => (b) { [inside] b = Add (a, x) }'
    model = parsed(
        f"""<ir_version: 10, opset_import: ["": 21, "own": 1]>
        agraph (float[2] x, bool c) => (float[2] y) <float[2] k = {{1, 2}}, float one = {{1}}> {{ {body} }}
        {function if "own" in body else ""}"""
    )
    told = [(each.node, each.found) for each in findings("QS009", model, "onnx")]

    assert told == reported
