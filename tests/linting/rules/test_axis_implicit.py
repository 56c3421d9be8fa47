"""QS002: several scales without an axis, and what they do to releases with another default."""

import pytest
from support.one_rule import findings, fixed, parsed


def weight(shape: str, scales: str, attributes: str = "", opset: int = 21):
    return parsed(
        f"""agraph (int8[{shape}] w, float[{scales}] s) => (float[] y) {{
            y = DequantizeLinear {attributes} (w, s)
        }}""",
        opset,
    )


@pytest.mark.parametrize(
    ("shape", "scales", "attributes", "opset", "reported"),
    [
        ("2, 3", "3", "", 21, True),
        ("2, 3", "3", "", 13, True),
        ("2, 3", "3", "", 12, False),
        ("2, 3", "3", "<axis = 1>", 21, False),
        ("2, 3", "3", "<axis = 0>", 13, False),
        ("2, 3", "1", "", 21, False),
        ("2, 3", "2, 3", "", 21, True),
        ("2, 3", "M", "", 21, True),
    ],
)
def test_where_it_is_reported(shape: str, scales: str, attributes: str, opset: int, reported: bool):
    found = findings("QS002", weight(shape, scales, attributes, opset), "onnx")

    text = f"scale of shape [{scales}] without an axis: this DQ uses the default, 1"
    assert [(each.message, each.severity) for each in found] == [(text, "info")] * reported


@pytest.mark.parametrize(
    ("shape", "scales", "effect"),
    [
        # Axis 0 has as many indices: the model builds, and another axis is quantized.
        ("3, 3", "3", "silent"),
        ("2, 3", "3", "refused"),
        ("N, 3", "3", "refused"),
        ("", "3", "silent"),
        ("2, 4", "2, 4", "advice"),
    ],
)
def test_releases_that_read_axis_0(shape: str, scales: str, effect: str):
    (found,) = findings("QS002", weight(shape, scales), "tensorrt-10.10")

    assert found.effect == effect
    assert found.message.endswith("takes 0") == (effect != "advice")
    (later,) = findings("QS002", weight(shape, scales), "tensorrt-10.15")
    assert (later.severity, later.effect) == ("warning", "advice")


def test_the_fix_writes_the_axis_that_onnx_means():
    model = fixed("QS002", weight("3, 3", "3"), "tensorrt-10.10")

    assert [(each.name, each.i) for each in model.graph.node[0].attribute] == [("axis", 1)]
    assert findings("QS002", model, "tensorrt-10.10") == []
