"""QA205: each 1-D scale is compared with the extent of its axis, as the target reads it."""

import onnx
import pytest
from support.one_rule import findings, messages, nodes, parsed


def pair(shape: str, count: int, attributes: str, opset: int = 21) -> onnx.ModelProto:
    scales, zeros = (", ".join([word] * count) for word in "10")
    return parsed(
        f"""agraph (float[{shape}] x) => (float[{shape}] y)
        <float[{count}] s = {{{scales}}}, int8[{count}] z = {{{zeros}}}> {{
            q = QuantizeLinear {attributes} (x, s, z)
            y = DequantizeLinear {attributes} (q, s, z)
        }}""",
        opset,
    )


@pytest.mark.parametrize(
    ("shape", "count", "axis", "message", "expected"),
    [
        ("2, 4", 2, 0, None, None),
        ("2, 4", 4, 1, None, None),
        ("2, 4", 4, -1, None, None),
        ("2, 4", 1, 0, None, None),
        ("2, 4", 4, 0, "4 scales for axis 0 of data of shape [2, 4]", "1 or 2"),
        ("2, 4", 3, -1, "3 scales for axis -1 of data of shape [2, 4]", "1 or 4"),
        ("1, 4", 2, 0, "2 scales for axis 0 of data of shape [1, 4]", "1 or 1"),
        # The rules about dynamic axes (QA209) and axes out of range (QA208) report these.
        ("N, 4", 3, 0, None, None),
        ("2, 4", 3, 5, None, None),
        ("", 3, 0, None, None),
        ("2, 4", 0, 0, "0 scales for axis 0 of data of shape [2, 4]", "1 or 2"),
        ("N, 4", 0, 0, "0 scales for axis 0 of data of shape [N, 4]", "1 or N"),
        ("2, 4", 0, 5, "0 scales for axis 5 of data of shape [2, 4]", "1"),
        ("", 0, 0, "0 scales for the data", "1"),
    ],
)
@pytest.mark.parametrize("target", ["onnx", "ort-cpu", "tensorrt"])
def test_lengths(target: str, shape: str, count: int, axis: int, message: str | None, expected: str | None):
    found = findings("QA205", pair(shape, count, f"<axis = {axis}>"), target)

    told = [(each.message, each.tensor, each.found, each.expected) for each in found]
    assert told == ([(message, "s", str(count), expected)] * 2 if message else [])


@pytest.mark.parametrize(("target", "reported"), [("onnx", False), ("ort-cpu", False), ("tensorrt", True)])
def test_only_tensorrt_takes_the_blocks_of_a_vector_for_channels(target: str, reported: bool):
    model = pair("4", 2, "<axis = 0, block_size = 2>")

    assert messages("QA205", model, target) == ["2 scales for axis 0 of data of shape [4]"] * 2 * reported


@pytest.mark.parametrize(
    ("opset", "target", "reported"),
    [(12, "onnx", True), (12, "tensorrt", True), (12, "ort-cpu", False), (13, "ort-cpu", True)],
)
def test_several_scales_of_an_old_opset_are_left_to_another_rule_for_onnx_runtime(
    opset: int, target: str, reported: bool
):
    assert bool(messages("QA205", pair("2, 4", 3, "", opset), target)) == reported


def test_what_is_right_hides_nothing_behind_it():
    model = parsed("""
    agraph (float[4] v, float[2,4] x, float[M] t) => (float[2,4] y)
    <float s = {1}, float[2] two = {1, 1}, float[3] three = {1, 1, 1}> {
        [blocks] a = QuantizeLinear <axis = 0, block_size = 2> (v, two)
        [one] b = QuantizeLinear (x, s)
        [given] c = QuantizeLinear <axis = 0> (x, t)
        [fits] d = QuantizeLinear <axis = 0> (x, two)
        [wrong] e = QuantizeLinear <axis = 0> (x, three)
    }""")

    assert nodes("QA205", model, "onnx") == ["wrong"]
