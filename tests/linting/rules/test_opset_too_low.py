"""QS004: the newest thing that each Q and DQ uses is compared with the opset; the first finding offers to raise it."""

import onnx
import pytest
from support.one_rule import faults, findings, messages, parsed


def model(body: str, opset: int) -> onnx.ModelProto:
    return parsed(
        f"""agraph (float[2,4] x, float[] u, float[2,N] n, float[4] v, float[M] m, int32[2,4] c) => (float[] y)
        <float s = {{1}}, float[2] two = {{1,1}}, float[3] three = {{1,1,1}}, float[4] four = {{1,1,1,1}},
         float16 half = {{15360}}, int8 z = {{0}}, int4 z4 = {{0}}, float8e4m3fn z8 = {{0}}> {{ {body} }}""",
        opset,
    )


@pytest.mark.parametrize(
    ("body", "what", "first"),
    [
        ("y = QuantizeLinear (x, s, z)", "Q/DQ", 10),
        ("y = QuantizeLinear (x, four)", "per-axis scales", 13),
        ("y = QuantizeLinear <axis = 1> (x, s)", "attribute axis", 13),
        ("y = QuantizeLinear (x, half)", "a float16 scale", 19),
        ("y = QuantizeLinear (x, s, z8)", "float8e4m3fn", 19),
        ("y = QuantizeLinear (x, s, z4)", "int4", 21),
        ("y = QuantizeLinear <output_dtype = 3> (x, s)", "attribute output_dtype", 21),
        ("y = DequantizeLinear <output_dtype = 1> (c, s)", "attribute output_dtype", 23),
    ],
)
def test_the_opset_just_before_and_the_first(body: str, what: str, first: int):
    word = "DQ" if "Deq" in body else "Q"
    told = f"this {word} uses {what}; the model's opset is {first - 1}"

    assert messages("QS004", model(body, first - 1), "onnx") == [told]
    assert messages("QS004", model(body, first), "onnx") == []
    assert messages("QS004", model(body.replace("= ", "= com.microsoft.", 1), first - 1), "onnx") == []


def test_one_fix_raises_the_opset_for_all():
    body = "a = QuantizeLinear (x, half) b = QuantizeLinear (x, s, z4) y = QuantizeLinear (x, s, z8)"
    told = faults("QS004", model(body, 18), "onnx")

    assert [finding.expected for finding, _ in told] == [f"at least opset {first}" for first in (19, 21, 19)]
    assert [fix.description for _, fault in told for fix in fault.fixes] == ["raises the opset from 18 to 21"]
    assert [finding.fixable for finding, _ in told] == [True, True, True]
    assert all(finding.safe_fix for finding, _ in told)


@pytest.mark.parametrize(
    ("body", "effect"),
    [
        # As many scales as axis 1 has, or it cannot be known: ONNX Runtime runs it, on axis 1.
        ("y = QuantizeLinear (x, four)", "silent"),
        ("y = QuantizeLinear (n, three)", "silent"),
        ("y = QuantizeLinear (u, three)", "silent"),
        ("y = QuantizeLinear (x, m)", "silent"),
        ("y = QuantizeLinear (x, two)", "refused"),
        ("y = QuantizeLinear (x, three)", "refused"),
        ("y = QuantizeLinear (v, four)", "refused"),
        ("y = QuantizeLinear <axis = 1> (x, four)", "refused"),
        ("y = QuantizeLinear (x, four, z4)", "refused"),
        ("y = QuantizeLinear (x, s, z4)", "refused"),
    ],
)
def test_several_scales_before_opset_13_in_onnx_runtime(body: str, effect: str):
    assert [each.effect for each in findings("QS004", model(body, 12), "ort-cpu")] == [effect]
    assert [each.effect for each in findings("QS004", model(body, 12), "onnx")] == ["refused"]
