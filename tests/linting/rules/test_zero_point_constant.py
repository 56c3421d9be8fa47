"""Where a zero point comes from, through Identity and Cast."""

import pytest
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext

CODE = "QP107"


def model(setup: str, *, inputs: str = "", kind: str = "int8") -> RuleContext:
    return read(
        f"""
        agraph (float[1,4] x{inputs}) => (float[1,4] y) <float s = {{0.5}}, {kind} c = {{0}}, int64[1] n = {{1}}> {{
            {setup}
            q = QuantizeLinear (x, s, z)
            y = DequantizeLinear (q, s)
        }}
        """
    )


def said(context: RuleContext) -> list[tuple[str, str, str]]:
    found = [finding for finding, _ in located(CODE, context)]
    assert all(finding.expected == "an initializer or a Constant" for finding in found)
    return [(finding.message, str(finding.found), finding.severity) for finding in found]


def of(maker: str, severity: str = "error") -> list[tuple[str, str, str]]:
    return [(f"zero point 'z' of this Q is {maker}", maker, severity)]


@pytest.mark.parametrize(
    ("setup", "inputs", "found"),
    [
        ("z = Identity (c)", "", []),
        ("z = Cast <to = 3> (c)", "", []),
        ("t = Identity (c)  z = Cast <to = 3> (t)", "", []),
        ("z = Constant <value = int8 {0}> ()", "", []),
        ("z = ConstantOfShape <value = int8[1] {0}> (n)", "", of("made by ConstantOfShape")),
        ("t = Sub (c, c)  z = Identity (t)", "", of("made by Sub")),
        ("", ", int8 z", of("an input")),
        ("z = Identity (i)", ", int8 i", of("an input")),
        ("z = Identity (nowhere)", "", []),
        ("z = Cast <to = 3> ()", "", []),
        ("", "", []),
    ],
)
def test_the_origin_of_a_zero_point(setup: str, inputs: str, found: list[tuple[str, str, str]]):
    assert said(model(setup, inputs=inputs)) == found


def test_of_fp8_no_zero_point_is_read():
    assert said(model("", inputs=", float8e4m3fn z")) == of("an input", "warning")


@pytest.mark.parametrize(("length", "found"), [(63, True), (64, False)])
def test_a_chain_is_followed_for_64_steps(length: int, *, found: bool):
    chain = "  ".join(f"t{step + 1} = Identity (t{step})" for step in range(length - 1))
    assert bool(said(model(f"t0 = Sub (c, c)  {chain}  z = Identity (t{length - 1})"))) == found


def test_what_callers_of_a_function_pass_is_not_judged_there_and_what_it_makes_is():
    context = read(
        """
        <ir_version: 11, opset_import: ["": 23, "local": 1]>
        agraph (float[1,4] x) => (float[1,4] y) <float s = {0.5}, int8 c = {0}> { y = local.Pair (x, s, c) }
        <domain: "local", opset_import: ["": 23]>
        Pair (x, s, c) => (y) {
            q = QuantizeLinear (x, s, c)
            z = Sub (c, c)
            y = DequantizeLinear (q, s, z)
        }
        """
    )
    assert [finding.message for finding, _ in located(CODE, context)] == ["zero point 'z' of this DQ is made by Sub"]
