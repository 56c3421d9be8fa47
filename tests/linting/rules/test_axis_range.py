"""QA208: the axis of several scales is one of the data's, counted from either end."""

import pytest
from support.one_rule import findings, nodes, parsed


@pytest.mark.parametrize(
    ("shape", "scales", "axis", "expected"),
    [
        ("[2, 2]", "2", -3, "-2 to 1"),
        ("[2, 2]", "2", -2, None),
        ("[2, 2]", "2", 1, None),
        ("[2, 2]", "2", 2, "-2 to 1"),
        ("[2, 2]", "2, 1", 2, "-2 to 1"),
        ("[2, 2]", "1", 2, None),
        ("[2, 2]", "M", 2, "-2 to 1"),
        ("[2, 2]", "", 2, None),
        ("[2]", "2", 1, "-1 to 0"),
        ("", "2", 0, "no axis on a scalar"),
        ("[]", "2", 7, None),
    ],
)
@pytest.mark.parametrize("target", ["onnx", "ort-cpu", "tensorrt"])
def test_axes(target: str, shape: str, scales: str, axis: int, expected: str | None):
    model = f"agraph (float{shape} x, float[{scales}] s) => (float[] y) {{ y = QuantizeLinear <axis = {axis}> (x, s) }}"

    told = [(each.message, each.tensor, each.found, each.expected) for each in findings("QA208", model, target)]
    message = f"axis is {axis}, the data has shape {shape or '[]'}"
    assert told == ([(message, "x", str(axis), expected)] if expected else [])


@pytest.mark.parametrize(("target", "reported"), [("onnx", ["a", "b"]), ("ort-cpu", ["b"])])
def test_before_opset_13_onnx_runtime_reads_axis_1_whatever_the_model_says(target: str, reported: list[str]):
    model = parsed(
        """agraph (float x, float[2] s) => (float[] y) {
            [a] y = QuantizeLinear (x, s)
            [b] z = com.microsoft.QuantizeLinear <axis = 3> (x, s)
        }""",
        12,
    )
    assert nodes("QA208", model, target) == reported
