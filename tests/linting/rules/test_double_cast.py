"""QL319: a Cast and the Cast back, which rounds or changes nothing."""

import numpy as np
import pytest
from support.fixing import assert_same_bits, carried_out, located, messages, node, read

from qdqtool.linting.rules import RuleContext

CODE = "QL319"
KINDS = {"float": ("float32", 1), "float16": ("float16", 10), "bfloat16": ("bfloat16", 16)}


def model(body: str, kind: str = "float", outputs: str = "float y") -> RuleContext:
    return read(f"agraph ({kind}[2,4] x) => ({outputs}) {{ {body} }}")


@pytest.mark.parametrize(
    ("kind", "middle", "effect", "severity", "label"),
    [
        ("float", "float16", "only rounds the values to float16", "warning", "unsafe"),
        ("float", "bfloat16", "only rounds the values to bfloat16", "warning", "unsafe"),
        ("float16", "bfloat16", "only rounds the values to bfloat16", "warning", "unsafe"),
        ("float16", "float", "changes no value", "info", "safe"),
        ("bfloat16", "float", "changes no value", "info", "safe"),
    ],
)
def test_there_and_back(kind: str, middle: str, effect: str, severity: str, label: str):
    (begin, code), (between, other) = KINDS[kind], KINDS[middle]
    context = model(f"a = Cast <to = {other}> (x) b = Cast <to = {code}> (a) y = Neg (b)", kind, f"{kind} y")
    ((finding, fault),) = located(CODE, context)
    (fix,) = fault.fixes

    assert finding.message == f"a Cast from {begin} to {between} and back {effect}"
    assert (finding.node, finding.severity, fix.offer.label) == ("Cast -> b", severity, label)
    assert (finding.found, finding.expected) == (f"{begin}, {between}, {begin}", "no Cast")
    assert list(node(carried_out(context, fix), "y").input) == ["x"]


def test_removing_a_cast_to_float32_keeps_the_bits():
    context = model("a = Cast <to = 1> (x) b = Cast <to = 10> (a) y = Neg (b)", "float16", "float16 y")
    ((_, fault),) = located(CODE, context)
    values = np.array([[np.inf, -0.0, 65504, 6e-8], [1, -np.inf, 0.1, -6e-5]], np.float16)
    assert_same_bits(context, carried_out(context, fault.fixes[0]), x=values)


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("a = Cast <to = 10> (x) b = Cast <to = 16> (a) y = Neg (b)", "bfloat16 y"),
        ("a = Cast <to = 10> (x) n = Neg (a) y = Cast <to = 1> (n)", "float y"),
        ("a = Cast <to = 11> (x) b = Cast <to = 1> (a) y = Neg (b)", "float y"),
        ("a = Cast <to = 7> (x) b = Cast <to = 1> (a) y = Neg (b)", "float y"),
        ("a = Cast <to = 1> (x) b = Cast <to = 1> (a) y = Neg (b)", "float y"),
        ("a = Cast <to = 10> (x) b = Cast <to = 1> (a) y = Neg (b)", "float y, float16 a"),
        ("k = Constant <value_float = 0.1> () a = Cast <to = 10> (k) b = Cast <to = 1> (a) y = Add (x, b)", "float y"),
    ],
)
def test_other_casts(body: str, outputs: str):
    assert messages(CODE, model(body, outputs=outputs)) == []


def test_a_value_that_is_rounded_again_is_reported_once():
    """The second and third Cast change no value, so the first and second are no loss."""
    body = "a = Cast <to = 10> (x) b = Cast <to = 1> (a) c = Cast <to = 10> (b) y = Neg (c)"
    assert messages(CODE, model(body, outputs="float16 y")) == [
        "a Cast from float16 to float32 and back changes no value"
    ]
