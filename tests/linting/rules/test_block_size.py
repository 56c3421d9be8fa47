"""QA206: which block sizes are reported, with which words and fixes, for ONNX, ONNX Runtime and TensorRT."""

import pytest
from support.one_rule import faults, findings


def dequantize(
    shape: str, scale: str, attributes: str, *, kind: str = "int8", before: str = "", after: str = ""
) -> str:
    """A graph with a DQ of these shapes between others."""
    return f"""
    agraph ({kind}[{shape}] x, float[{scale}] s, float t) => (y) <int8[4,4] w = {{1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4}}> {{
        {before}
        y = DequantizeLinear <{attributes}> (x, s)
        {after}
    }}
    """


@pytest.mark.parametrize("target", ["onnx", "ort-cpu", "tensorrt"])
@pytest.mark.parametrize(
    ("shape", "scale", "size", "words"),
    [
        ("4,6", "4,3", 2, None),
        ("4,6", "4,3", 0, ("absent", "2")),
        ("4,6", "4,3", 1, ("1", "2")),
        ("4,6", "4,3", 3, ("3", "2")),
        ("4,8", "4,1", 4, ("4", "8 or more")),
        ("4,8", "4,1", 0, ("absent", "8 or more")),
        ("2,3,4", "2,3,2", 3, {"tensorrt": ("3", "2"), "onnx": None, "ort-cpu": None}),
        ("4,10", "4,2", 4, {"tensorrt": ("4", "5"), "onnx": ("4", "5 to 9"), "ort-cpu": ("4", "5 to 9")}),
        ("4,10", "4,2", 6, {"tensorrt": ("6", "5"), "onnx": None, "ort-cpu": None}),
        ("4,7", "4,2", 3, {"tensorrt": None, "onnx": ("3", "4 to 6"), "ort-cpu": ("3", "4 to 6")}),
        ("4,6", "4,6", 2, {"tensorrt": None, "onnx": ("2", "1"), "ort-cpu": ("2", "1")}),
        ("4,6", "4,6", 1, None),
        ("4,1", "4,1", 128, None),
        ("4,1", "4,1", 1, None),
        ("4,1", "4,1", 0, {"tensorrt": None, "onnx": ("absent", "1 or more"), "ort-cpu": ("absent", "1 or more")}),
        ("1,4", "1,4", 128, {"tensorrt": None, "onnx": ("128", "1"), "ort-cpu": ("128", "1")}),
        ("4,6", "2,3", 2, None),
        ("8", "4", 2, None),
        ("8", "8", 1, None),
        ("8", "3", 3, None),
        ("8", "3", 2, {"tensorrt": None, "onnx": ("2", "3"), "ort-cpu": ("2", "3")}),
        ("8", "2", 8, {"tensorrt": None, "onnx": ("8", "4 to 7"), "ort-cpu": ("8", "4 to 7")}),
        ("8", "8", 2, {"tensorrt": None, "onnx": ("2", "1"), "ort-cpu": ("2", "1")}),
    ],
)
def test_sizes_are_compared_with_the_extents(shape: str, scale: str, size: int, words: object, target: str):
    attributes = f"axis = {shape.count(',')}" + (f", block_size = {size}" if size else "")
    expected = words[target] if isinstance(words, dict) else words

    found = findings("QA206", dequantize(shape, scale, attributes, kind="uint8"), target)

    assert [(each.found, each.expected) for each in found] == ([expected] if expected else [])
    for each in found:
        low = str(each.expected).split()[0]
        divided = f"scale [{scale.replace(',', ', ')}] divides data [{shape.replace(',', ', ')}] into blocks of {low}"
        assert each.message == f"block_size is {each.found}; {divided}"
        assert (each.tensor, each.node) == ("s", "DequantizeLinear -> y")
        assert each.extent is not None
        assert each.extent.kind == f"{each.found} for {each.expected}"


@pytest.mark.parametrize(("axis", "expected"), [(-1, []), (1, []), (-2, ["1"]), (2, ["1"]), (-3, ["1"])])
def test_one_element_is_one_block_of_any_size(axis: int, expected: list[str]):
    found = findings("QA206", dequantize("4,1", "4,1", f"axis = {axis}, block_size = 128"), "ort-cpu")

    assert [each.expected for each in found] == expected


def test_a_node_that_is_not_judged_does_not_end_the_walk():
    before = "a = DequantizeLinear <axis = 0, block_size = 2> (w, t2)"
    text = dequantize("4,6", "4,3", "axis = 1", before=before).replace("float t)", "float[2,2] t2)")

    assert [each.node for each in findings("QA206", text)] == ["DequantizeLinear -> y"]


@pytest.mark.parametrize(
    ("shape", "scale", "size", "is_told"),
    [
        ("4", "", 0, False),
        ("4", "", 1, True),
        ("4", "", 2, True),
        ("4", "1", 4, True),
        ("4,4", "4", 2, True),
        ("4,4", "4", 0, False),
        ("4", "2", 2, False),
        ("4", "8", 2, True),
        ("4", "n", 2, True),
    ],
)
def test_onnx_runtime_refuses_a_size_beside_a_scale_without_blocks(shape: str, scale: str, size: int, is_told: bool):
    attributes = "axis = 0" + (f", block_size = {size}" if size else "")
    found = findings("QA206", dequantize(shape, scale, attributes).replace("float[]", "float"), "ort-cpu")

    message = f"block_size is {size}, but the scale of shape [{scale}] has no blocks"
    assert [(each.message, each.found, each.expected, each.tensor) for each in found] == (
        [(message, str(size), "no block_size", "s")] if is_told else []
    )
    assert findings("QA206", dequantize(shape, scale, attributes).replace("float[]", "float"), "tensorrt") == []


def test_a_scale_of_blocks_of_one_axis_does_not_end_the_walk_of_onnx_runtime():
    blocks = dequantize("4", "2", "block_size = 2", after="z = DequantizeLinear <block_size = 2> (w, t)")

    assert [each.node for each in findings("QA206", blocks, "ort-cpu")] == ["DequantizeLinear -> z"]


def test_a_scale_of_unknown_shape_is_not_judged():
    text = dequantize("4", "2", "block_size = 2", before="u = Unknown (s)").replace("(x, s)", "(x, u)")

    assert findings("QA206", text, "ort-cpu") == []


@pytest.mark.parametrize(
    ("shape", "scale", "axis", "kind", "words"),
    [
        ("4,6", "1,6", 0, "int8", ("0: this is a scale for each index of axis 1", "[1, 6]", "[6]")),
        ("4,6", "4,1", 1, "int8", ("1: this is a scale for each index of axis 0", "[4, 1]", "[4]")),
        ("4,6", "4,1", 1, "float8e4m3fn", ("1: this is a scale for each index of axis 0", "[4, 1]", "[4]")),
        ("4,6", "4,1", 1, "uint8", None),
        ("4,6", "4,2", 1, "int8", None),
        ("4,4,6", "4,4,1", 2, "int8", None),
    ],
)
def test_one_block_of_a_matrix_is_a_scale_for_each_index_of_the_other_axis(
    shape: str, scale: str, axis: int, kind: str, words: tuple[str, str, str] | None
):
    size = {"1": 9, "2": 3}.get(scale[-1] if axis else scale[0], 9)
    text = dequantize(shape, scale, f"axis = {axis}, block_size = {size}", kind=kind)

    found = findings("QA206", text)

    expected = [(f"one block covers axis {words[0]}", words[1], words[2])] if words else []
    assert [(each.message, each.found, each.expected) for each in found] == expected
    assert all((each.severity, each.effect) == ("warning", "advice") for each in found)
    assert findings("QA206", text, "onnx") == []


@pytest.mark.parametrize(
    ("shape", "scale", "size", "offers"),
    [
        ("4,1", "1,1", 0, ["makes the one-element scale a scalar"]),
        ("4,6", "1,6", 0, ["writes the one block as scales on axis 1"]),
        ("4,6", "2,6", 0, ["writes block_size = 2"]),
        ("4,6", "2,6", 1, []),
    ],
)
def test_the_fix_that_fits_is_offered(shape: str, scale: str, size: int, offers: list[str]):
    attributes = "axis = 0" + (f", block_size = {size}" if size else "")
    ((_, fault),) = faults("QA206", dequantize(shape, scale, attributes))

    assert [fix.description for fix in fault.fixes] == offers
