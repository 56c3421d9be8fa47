"""QA203: the extents of block scales, for ONNX and TensorRT."""

import pytest
from support.one_rule import findings

AXES = "axes [0, 1] are in blocks at once"


@pytest.mark.parametrize(
    ("data", "scale", "axis", "onnx", "tensorrt"),
    [
        ("4,6", "4,3", 1, None, None),
        ("4,6", "4,3", -1, None, None),
        ("4,6", "4,3", 0, ("the attribute axis is 0, but the scale divides axis 1", "axis 1"), ...),
        # The rule about axes reports one that the data has not.
        ("4,6", "4,3", 5, None, None),
        ("4,6", "4,12", 1, ("more blocks than elements", "at most 6 blocks"), ...),
        ("4,6", "4,1", 1, None, None),
        ("4,6", "4,6", 1, None, ("a scale for every element", "blocks of at least 2")),
        ("4,6", "2,3", 1, (AXES, "one blocked axis"), ...),
        ("4,7", "4,3", 1, None, ("axis 1 does not divide into whole blocks", "a number of blocks that divides 7")),
        ("1,6", "1,1", 1, None, ("one scale of as many dimensions as the data", "a scalar, or several scales")),
        ("4,6,8", "2,6,8", 0, None, ("axis 0 is in blocks", "blocks on the last or second to last axis")),
        ("4,6,8", "4,2,8", 1, None, None),
        ("4,6,8", "4,6,2", 2, None, None),
    ],
)
def test_scales_divide_one_axis(data: str, scale: str, axis: int, onnx: tuple[str, str] | None, tensorrt: object):
    text = f"""
    agraph (int8[{data}] x, float[{scale}] s) => (y) {{
        y = DequantizeLinear <axis = {axis}, block_size = 2> (x, s)
    }}
    """
    for target, expected in (("onnx", onnx), ("tensorrt", onnx if tensorrt is ... else tensorrt)):
        found = findings("QA203", text, target)
        shapes = f"scale [{scale.replace(',', ', ')}] on data [{data.replace(',', ', ')}]"
        assert [(each.message, each.expected) for each in found] == (
            [(f"{expected[0]}: {shapes}", expected[1])] if expected else []
        )
        assert all(each.found == f"[{scale.replace(',', ', ')}]" for each in found)
