"""Illegal scales: what each target makes of them, by the kind of node, the shape, the type, and who computes them."""

import pytest
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext

CODE = "QP101"
TARGETS = ("onnx", "ort-cpu", "tensorrt", "tensorrt-rtx")
SHAPES = {"[]": ("", 1, ""), "[4]": ("[4]", 4, "<axis = 1>"), "[2,2]": ("[2,2]", 4, "<axis = 1, block_size = 2>")}
NEGATIVE_BLOCKS = {"onnx": {"int8", "int4"}, "ort-cpu": {"int8", "int4"}, "tensorrt": set(), "tensorrt-rtx": {"int4"}}
"""The types whose stored codes may have negative block scales."""


def model(scale: str, kind: str = "int8", *, form: str = "stored", attribute: str = "", setup: str = "") -> RuleContext:
    """A scale ``s`` in a DQ of stored codes, in a Q, or in the DQ behind a Q whose own scale is good."""
    codes = f"{kind}[2,4] w = {{{', '.join('1' for _ in range(4 if kind == 'int4' else 8))}}}"
    nodes = {
        "stored": f"y = DequantizeLinear {attribute} (w, s)",
        "Q": f"q = QuantizeLinear {attribute} (x, s, z)  y = DequantizeLinear (q, good)",
        "DQ": f"q = QuantizeLinear (x, good, z)  y = DequantizeLinear {attribute} (q, s)",
    }
    constants = ", ".join(filter(None, (scale, codes, f"float good = {{1}}, {kind} z = {{0}}")))
    return read(
        f"""
        agraph (float[2,4] x, float c) => (float[2,4] y) <{constants}> {{
            {setup}
            {nodes[form]}
        }}
        """
    )


def impacts(context: RuleContext, target: str) -> list[tuple[str, str]]:
    return [(finding.severity, finding.effect) for finding, _ in located(CODE, context, target)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["int8", "int4", "uint8"])
@pytest.mark.parametrize("form", ["stored", "Q", "DQ"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("values", [(-0.5, 1, 0.25, 1), (0, 1, -0.5, 0.5)], ids=["negative", "with a zero"])
def test_negative_scales(values: tuple[float, ...], shape: str, form: str, kind: str, target: str):
    """Stored codes times a negative scale are what they say; TensorRT's parser does not look at those of int4."""
    dims, count, attribute = SHAPES[shape]
    scale = f"float{dims} s = {{{', '.join(map(str, values[:count]))}}}"
    nonzero = 0 not in values[:count]
    found = impacts(model(scale, kind, form=form, attribute=attribute), target)

    unchecked = form == "stored" and kind in NEGATIVE_BLOCKS[target]
    if unchecked and nonzero and shape == "[2,2]":
        assert found == []
    elif target in {"tensorrt", "tensorrt-rtx"} and not unchecked:
        assert found == [("error", "refused")]
    else:
        assert found == [("warning", "advice") if form == "stored" and nonzero else ("error", "silent")]


@pytest.mark.parametrize(
    ("values", "kinds", "offenders", "count"),
    [
        ("0.5, 0, 1, 2", "zero", "0 in channel 1", 1),
        ("0.5, -1, 1, -2", "negative", "-1 in channel 1 (and 1 more)", 2),
        ("inf, 1, 1, 1", "infinite", "inf in channel 0", 1),
        ("1, 1, 1, nan", "NaN", "nan in channel 3", 1),
        ("0, -1, inf, nan", "zero, negative, infinite, NaN", "0 in channel 0 (and 3 more)", 4),
        ("nan, 0, 0.5, 0.5", "zero, NaN", "nan in channel 0 (and 1 more)", 2),
    ],
)
def test_what_is_wrong_with_a_scale(values: str, kinds: str, offenders: str, count: int):
    context = model(f"float[4] s = {{{values}}}", attribute="<axis = 1>")
    ((finding, fault),) = located(CODE, context, "onnx")

    assert finding.message == f"scale 's' of this DQ is {offenders}"
    assert (finding.found, finding.expected, finding.tensor) == (offenders, "finite and greater than 0", "s")
    assert finding.extent is not None
    assert (finding.extent.kind, finding.extent.count) == (kinds, count)
    assert bool(fault.fixes) == (kinds in {"zero", "negative"})


@pytest.mark.parametrize("values", ["0.5, 1, 2, 1e-40", "1e38, 1, 1, 1"])
def test_positive_scales_are_legal(values: str):
    for target in TARGETS:
        assert impacts(model(f"float[4] s = {{{values}}}", attribute="<axis = 1>"), target) == []


@pytest.mark.parametrize(
    ("scale", "setup", "refused"),
    [
        ("float s = {0}", "", True),
        ("", "s = Constant <value = float {0}> ()", True),
        ("", "s = Constant <value_float = 0.0> ()", True),
        ("float a = {0}", "s = Identity (a)", False),
        ("float a = {0}", "s = Mul (a, a)", False),
        ("float s = {0}", "m = Mul (x, s)", False),
        ("float s = {0}", "m = Mul (s, x)", False),
        ("float s = {0}", "m = QuantizeLinear (s, good, z)", False),
        ("float s = {nan}", "", True),
        ("float s = {inf}", "", False),
    ],
)
@pytest.mark.parametrize("form", ["Q", "DQ"])
def test_the_parser_looks_at_a_scale_that_is_wired_directly_at_its_first_use(
    form: str, scale: str, setup: str, *, refused: bool
):
    context = model(scale, form=form, setup=setup)

    assert impacts(context, "tensorrt-rtx") == [("error", "refused" if refused else "silent")]


def test_a_scale_that_all_callers_of_a_function_pass():
    text = """
        <ir_version: 11, opset_import: ["": 23, "local": 1]>
        agraph (float[4] x) => (float[4] y) <float a = {{0}}> {{
            {0}
            y = local.Pair (x, {1})
        }}
        <domain: "local", opset_import: ["": 23]>
        Pair (x, s) => (y) {{
            q = QuantizeLinear <output_dtype = 3> (x, s)
            y = DequantizeLinear <output_dtype = 1> (q, s)
        }}
        """
    for setup, passed, effect in (("", "a", "refused"), ("b = Identity (a)", "b", "silent")):
        found = impacts(read(text.format(setup, passed)), "tensorrt-rtx")
        assert found == [("error", effect)] * 2


def test_every_node_is_judged():
    """A computed scale, and legal negative ones, stand in front of the bad one."""
    context = read(
        """
        agraph (float[2,4] x, float c) => (float[2,4] y)
        <int4[2,4] w = {1,1,1,1}, float[2,2] b = {1,-1,1,1}, float good = {1}, float bad = {0}> {
            q1 = QuantizeLinear <output_dtype = 3> (x, c)
            d1 = DequantizeLinear (q1, c)
            wd = DequantizeLinear <axis = 1, block_size = 2> (w, b)
            q2 = QuantizeLinear <output_dtype = 3> (x, good)
            d2 = DequantizeLinear (q2, good)
            q3 = QuantizeLinear <output_dtype = 3> (x, bad)
            y = DequantizeLinear (q3, bad)
        }
        """
    )
    assert [finding.node for finding, _ in located(CODE, context)] == ["QuantizeLinear -> q3", "DequantizeLinear -> y"]
