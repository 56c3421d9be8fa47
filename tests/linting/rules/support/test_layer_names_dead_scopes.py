"""Branches that a constant condition never takes, with all that is in them."""

import onnx.parser
import pytest

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.layer_names import dead_scopes
from qdqtool.models.graph.model import Model

INNER = (
    "If (c) <then_branch = i () => (float[2] k) { k = Abs (x) }, else_branch = j () => (float[2] l) { l = Neg (x) }>"
)


def branches(output: str, condition: str, inner: str = "Relu (x)") -> str:
    return f"""{output} = If ({condition}) <then_branch = t () => (float[2] p) {{ p = {inner} }},
        else_branch = s () => (float[2] q) {{ q = Relu (x) }}>"""


LOOP = """o = Loop (once, yes, x) <body = b (int64 n, bool go, float[2] v) => (bool on, float[2] w) {
    on = Identity (go) w = Relu (v) }>"""


@pytest.mark.parametrize(
    ("body", "dead"),
    [
        (branches("y", "yes"), ["y.else_branch"]),
        (branches("y", "no"), ["y.then_branch"]),
        (branches("y", "c"), []),
        (branches("y", "nowhere"), []),
        (branches("y", "both"), []),
        (branches("y", "alone"), ["y.else_branch"]),
        (branches("y", "no", INNER), ["y.then_branch", "p.then_branch", "p.else_branch"]),
        (branches("y", "yes", INNER), ["y.else_branch"]),
        (branches("y", "c", INNER.replace("(c)", "(yes)")), ["p.else_branch"]),
        (LOOP, []),
        (f"{LOOP} {branches('y', 'yes')}", ["y.else_branch"]),
        (f"{branches('a', 'c')} {branches('y', 'no')}", ["y.then_branch"]),
    ],
)
def test_branches_that_are_never_taken(body: str, dead: list[str]):
    stored = "bool yes = {1}, bool no = {0}, bool[2] both = {1, 1}, bool[1] alone = {1}, int64 once = {1}"
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[2] x, bool c) => (float[2] y) <{stored}> {{ {body} }}'

    found = dead_scopes(RuleContext(Model(onnx.parser.parse_model(text))))

    assert sorted(scope.path[-1] for scope in found) == sorted(dead)
