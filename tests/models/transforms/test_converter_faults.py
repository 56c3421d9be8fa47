"""What onnx's version converter would change silently is corrected or refused, at the version that changed it."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from support.small import run

from qdqtool.errors import ModelError
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.opset import upgrade_opset

X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


def parsed(text: str, opset: int) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "my": 1]> {text}')


def upgraded(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    return upgrade_opset(Model(model), version).model.proto


def attributes(model: onnx.ModelProto) -> dict[str, object]:
    return {item.name: helper.get_attribute_value(item) for item in model.graph.node[-1].attribute}


def resize(op: str, *scales: float, mode: str = "nearest") -> str:
    given = ", ".join(str(float(scale)) for scale in (1, 1, *scales))
    return f"""g (float[1,1,4,4] x) => (float[1,1,a,b] y) <float[4] s = {{{given}}}> {{
        y = {op} <mode = "{mode}"> (x, s)
    }}"""


@pytest.mark.parametrize(
    ("op", "opset", "scales", "rounding"),
    [
        ("Upsample", 9, (2, 2), b"floor"),
        ("Upsample", 9, (1.7, 2.6), b"floor"),
        ("Resize", 10, (1.5, 2.5), b"floor"),
        ("Resize", 10, (1, 1), b"floor"),
        ("Resize", 10, (0.5, 0.4), b"ceil"),
        ("Resize", 10, (0.6, 1), b"ceil"),
    ],
)
@pytest.mark.parametrize("version", [11, 13])
def test_images_are_resized_as_before(op, opset, scales, rounding, version) -> None:
    before = parsed(resize(op, *scales), opset)
    after = upgraded(before, version)
    assert attributes(after)["coordinate_transformation_mode"] == b"asymmetric"
    assert attributes(after)["nearest_mode"] == rounding
    assert np.array_equal(run(before, {"x": X})[0], run(after, {"x": X})[0])


@pytest.mark.parametrize(("opset", "version"), [(9, 10), (11, 13)])
def test_versions_with_the_same_meaning_are_left(opset: int, version: int) -> None:
    text = resize("Upsample", 2, 2) if opset == 9 else resize("Resize", 2, 2).replace("(x, s)", "(x, , s)")
    assert set(attributes(upgraded(parsed(text, opset), version))) == {"mode"}


def test_linear_images_have_no_rounding() -> None:
    after = upgraded(parsed(resize("Upsample", 2, 3, mode="linear"), 9), 11)
    assert set(attributes(after)) == {"mode", "coordinate_transformation_mode"}


ROUNDING = "its scales are not constant, or they enlarge one axis and shrink another, which rounds differently"
GIVEN = "g (float[1,1,4,4] x, float[4] s) => (float[1,1,a,b] y) { y = Resize (x, s) }"
HARDMAX = "g (float[2,3] x) => (float[2,3] y) { y = Hardmax <axis = 1> (x) }"
CALLER = """g (float[2,3] x) => (float[2,3] y) { y = my.F <a = 1> (x) }
<domain: "my", opset_import: ["": 11]> F <a> (p) => (q) { q = Hardmax <axis: int = @a> (p) }"""
CALLED_RESIZE = """g (float[1,1,4,4] x, float[4] s) => (float[1,1,a,b] y) { y = my.F <m = "nearest"> (x, s) }
<domain: "my", opset_import: ["": 10]> F <m> (p, s) => (q) { q = Resize <mode: string = @m> (p, s) }"""
SCAN = """g (float[1,2,2] x) => (float[1,2,2] y) {
    y = Scan <num_scan_inputs = 1, body = b (float[2] v) => (float[2] w) { w = Neg (v) }> ("", x)
}"""
# ``axis`` is no attribute of it.
GROUPS = """g (float[1,4,2,2] x) => (float[1,4,2,2] y) <float[2] s = {1, 2}, float[2] b = {0, 1}> {
    y = GroupNormalization <num_groups = 2, axis = -1> (x, s, b)
}"""
MEANING = "the operator has another meaning there"


@pytest.mark.parametrize(
    ("text", "opset", "version", "op", "reason"),
    [
        (resize("Resize", 0.5, 2), 10, 11, "Resize -> y", ROUNDING),
        (GIVEN, 10, 11, "Resize -> y", ROUNDING),
        (HARDMAX, 11, 13, "Hardmax -> y", MEANING),
        (HARDMAX.replace("axis = 1", "axis = 0"), 12, 13, "Hardmax -> y", MEANING),
        (HARDMAX.replace("<axis = 1>", ""), 12, 13, "Hardmax -> y", MEANING),
        (CALLER, 11, 13, "Hardmax -> q", MEANING),
        (SCAN, 8, 9, "Scan -> y", MEANING),
        (SCAN, 8, 10, "Scan -> y", MEANING),
        (GROUPS, 18, 21, "GroupNormalization -> y", MEANING),
        (CALLED_RESIZE, 10, 11, "Resize -> q", "it gets an attribute from the caller of the function"),
    ],
)
def test_what_cannot_be_corrected_is_refused(text, opset, version, op, reason) -> None:
    with pytest.raises(ModelError) as caught:
        upgraded(parsed(text, opset), version)
    name = op.split(maxsplit=1)[0]
    assert caught.value.message == (
        f"node '{op}' ({name}) cannot be converted from opset {opset} to {version}: {reason}"
    )
    assert caught.value.hint == f"export the model again with opset {version} or later"


@pytest.mark.parametrize(
    ("text", "opset", "version"),
    [
        (HARDMAX, 11, 12),
        (HARDMAX, 13, 14),
        (SCAN.replace('"", ', "").replace("1,2,2", "2,3").replace("[2]", "[3]"), 9, 11),
        (HARDMAX.replace("axis = 1", "axis = -1"), 11, 13),
        (GIVEN.replace("Resize (x, s)", 'Resize <mode = "linear"> (x, s)'), 10, 11),
    ],
)
def test_what_keeps_its_meaning_is_converted(text, opset, version) -> None:
    before = parsed(text, opset)
    after = upgraded(before, version)
    assert after.graph.node[-1].op_type == before.graph.node[-1].op_type
    if len(before.graph.input) == 1:
        x = np.array([[1, 3, 2], [5, 4, 6]], np.float32)
        assert np.array_equal(run(before, {"x": x})[0], run(after, {"x": x})[0])


def test_operators_of_other_domains_are_left() -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { z = my.Hardmax (x) y = my.Upsample (z) }"
    assert upgraded(parsed(text, 9), 13).graph.node == parsed(text, 9).graph.node


@pytest.mark.parametrize(("version", "group"), [(20, "GroupNormalization"), (21, None)])
def test_a_group_normalization_is_refused_where_its_scale_changes(version: int, group: str | None) -> None:
    text = """g (float[1,4,2,2] x) => (float[1,4,2,2] y) <float[2] s = {1, 2}, float[2] b = {0, 1}> {
        y = GroupNormalization <num_groups = 2> (x, s, b)
    }"""
    if group is not None:
        assert upgraded(parsed(text, 18), version).graph.node[0].op_type == group
    else:
        with pytest.raises(ModelError, match=MEANING):
            upgraded(parsed(text, 18), version)


@pytest.mark.parametrize("elem_type", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_constants_of_attributes_get_the_type_of_the_data(elem_type: int) -> None:
    name = {TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double", TensorProto.FLOAT16: "float16"}[elem_type]
    nodes = {
        "Clip <min = -1.0, max = 2.5> (x)": [-1.0, 2.5],
        'Pad <mode = "constant", pads = [1, 1], value = 3.5> (x)': [3.5],
    }
    for node, values in nodes.items():
        before = parsed(f"g ({name}[4] x) => ({name}[n] y) {{ y = {node} }}", 10)
        after = upgraded(before, 13)
        constants = [each.attribute[0].t for each in after.graph.node if each.op_type == "Constant"]
        constants += list(after.graph.initializer)
        floats = [tensor for tensor in constants if tensor.data_type != TensorProto.INT64]
        assert [tensor.data_type for tensor in floats] == [elem_type] * len(values)
        assert [numpy_helper.to_array(tensor).item() for tensor in floats] == values
        onnx.checker.check_model(after, full_check=True)


def test_constants_beside_data_of_unknown_type_stay_float32() -> None:
    before = parsed("g (float[4] x) => (float[4] y) { z = my.Unknown (x) y = Clip <min = -1.0, max = 2.0> (z) }", 10)
    after = upgraded(before, 13)
    constants = [each.attribute[0].t for each in after.graph.node if each.op_type == "Constant"]
    assert {tensor.data_type for tensor in (*constants, *after.graph.initializer)} == {TensorProto.FLOAT}


def unknown_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "Rleu"


def wrong_attribute(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("axis", "text"))


BROKEN: list[tuple[Callable[[onnx.ModelProto], None], str]] = [
    (unknown_operator, "node 'Rleu -> y' (Rleu) cannot be converted: opset 11 has no such operator"),
    (wrong_attribute, "attribute 'axis' of node 'Softmax -> y' (Softmax) has the wrong type"),
]


@pytest.mark.parametrize(("damage", "message"), BROKEN)
def test_what_would_end_the_process_is_refused(damage, message) -> None:
    model = parsed("g (float[2,3] x) => (float[2,3] y) { y = Softmax (x) }", 11)
    damage(model)
    with pytest.raises(ModelError) as caught:
        upgraded(model, 13)
    assert caught.value.message == message


def test_an_equation_with_two_ellipses_is_refused() -> None:
    model = parsed('g (float[2,3] x) => (float[2,3] y) { y = Einsum <equation = "......->..."> (x) }', 12)
    with pytest.raises(ModelError, match="a term of its equation has more than one ellipsis"):
        upgraded(model, 13)
