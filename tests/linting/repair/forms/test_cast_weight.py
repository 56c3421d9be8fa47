"""Cast, Sub and Mul of stored codes become the DQ that makes the same bits, or stay as they are."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper
from support.small import run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.forms import find
from qdqtool.linting.repair.report import Repaired
from qdqtool.linting.rules import Draft, RuleContext, UnfitError
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

W = np.arange(9, dtype=np.int8).reshape(3, 3) - 4
SCALES = np.float32([0.3, 0.7, 1.9])
FULL = "a = Cast <to = 1> (w) b = Sub (a, z) c = Mul (b, s) y = Add (x, c)"
SYMMETRIC = "a = Cast <to = 1> (w) c = Mul (a, s) y = Add (x, c)"


def model(nodes: str, opset: int = 21, **constants: object) -> Model:
    text = f'<ir_version: 10, opset_import: ["": {opset}, "local": 1]> g (float[3,3] x) => (float[3,3] y) {{ {nodes} }}'
    proto = onnx.parser.parse_model(text)
    for name, value in ({"w": W, "s": 0.3, "z": 3} | constants).items():
        array = value if isinstance(value, np.ndarray) else np.float32(value)
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return Model(proto)


def normalized(given: Model) -> tuple[Model, Repaired]:
    found = normalized_model(given, DataRequest(samples=2))
    return found.model, found.report


def test_scale_and_zero_point_are_those_of_mul_and_sub(tmp_path):
    before = model(FULL)
    after, done = normalized(before)
    save_model(after, tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")

    assert [(change.label, change.description) for change in done.changes] == [
        ("safe", "writes Cast and Mul of the int8 constant as a DQ")
    ]
    assert [node.op_type for node in proto.graph.node] == ["DequantizeLinear", "Add"]
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    codes, scale, zero = (tensors[name] for name in proto.graph.node[0].input)
    assert (codes.tolist(), codes.dtype) == (W.tolist(), np.int8)
    assert (scale.tolist(), scale.dtype, scale.shape) == (np.float32(0.3), np.float32, ())
    assert (zero.tolist(), zero.dtype, zero.shape) == (3, np.int8, ())


@pytest.mark.parametrize(
    ("scale", "zero", "axis"),
    [
        (SCALES, 3, 1),
        (SCALES[None], np.float32([[1, 2, 3]]), 1),
        (SCALES[:, None], 3, 0),
        (SCALES[:, None], np.float32([[1], [2], [3]]), 0),
        (SCALES[:1], np.float32([3]), None),
        (SCALES[:1, None], np.float32([[3]]), None),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_scales_along_an_axis_are_those_of_the_dq(scale, zero, axis: int | None, turned: bool, tmp_path):
    before = model(FULL.replace("Mul (b, s)", "Mul (s, b)") if turned else FULL, s=scale, z=zero)
    after, done = normalized(before)
    save_model(after, tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")

    assert [change.label for change in done.changes] == ["safe"]
    assert [attribute.i for attribute in proto.graph.node[0].attribute] == ([] if axis is None else [axis])
    feeds = {"x": np.zeros((3, 3), np.float32)}
    assert run(proto, feeds)[0].tobytes() == run(before.proto, feeds)[0].tobytes()


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        pytest.param(FULL, {"s": SCALES, "z": np.float32([[1], [2], [3]])}, id="zero points along another axis"),
        pytest.param(FULL, {"z": np.float32([1, 2, 3])}, id="zero points for one scale"),
        pytest.param(FULL, {"s": SCALES, "z": np.float32([1, 2])[:, None, None]}, id="zero points of a higher rank"),
        pytest.param(FULL, {"s": np.full((3, 3), 0.5, np.float32)}, id="scales along two axes"),
        pytest.param(SYMMETRIC, {"s": SCALES[:1, None, None]}, id="a scale of a higher rank"),
        pytest.param(SYMMETRIC, {"w": W[:1], "s": SCALES[:, None]}, id="codes that are broadcast"),
        pytest.param(SYMMETRIC, {"w": W.astype(np.int32)}, id="int32"),
        pytest.param(SYMMETRIC, {"w": W.astype(np.float16)}, id="float16"),
        pytest.param(SYMMETRIC.replace("Mul", "Div"), {}, id="divided"),
        pytest.param(SYMMETRIC.replace("(a, s)", "(a, x)"), {}, id="no constant scale"),
        pytest.param(
            SYMMETRIC.replace("to = 1> (w)", "to = 10> (w) e = Cast <to = 1> (a)").replace("(a, s)", "(e, s)"),
            {},
            id="to float16",
        ),
        pytest.param(
            "a = Cast <to = 10> (w) b = Mul (a, s) c = Cast <to = 1> (b) y = Add (x, c)",
            {"s": np.float16(0.5).reshape(())},
            id="scaled in float16",
        ),
        pytest.param(SYMMETRIC.replace("Cast", "local.Cast"), {}, id="another Cast"),
        pytest.param(FULL.replace("(a, z)", "(z, a)"), {}, id="turned round"),
        pytest.param(FULL.replace("(a, z)", "(z, a)"), {"w": W[2], "s": SCALES}, id="turned round, one axis"),
        pytest.param(FULL.replace("(a, z)", "(a, x)"), {}, id="no constant zero point"),
        pytest.param(FULL + " other = Neg (a)", {}, id="the Cast is read"),
        pytest.param(FULL + " other = Neg (b)", {}, id="the Sub is read"),
        pytest.param("k = Cast <to = 3> (x) a = Cast <to = 1> (k) y = Mul (a, s)", {}, id="codes that are computed"),
    ],
)
def test_what_no_dq_makes_stays(nodes: str, constants: dict[str, object]):
    given = model(nodes, **constants)
    if nodes.startswith("k"):
        del given.proto.graph.initializer[0]

    after, done = normalized(given)
    assert not done.changes
    assert not done.refused
    assert after.proto == given.proto


@pytest.mark.parametrize("nodes", [SYMMETRIC, FULL, SYMMETRIC.replace("(a, s)", "(s, a)")])
@pytest.mark.parametrize("scale", [0.5, SCALES])
def test_codes_of_one_axis_are_not_taken_for_scales(nodes: str, scale: object, tmp_path):
    before = model(nodes, w=W[2], s=scale)
    after, done = normalized(before)
    save_model(after, tmp_path / "m.onnx")

    assert [change.label for change in done.changes] == ["safe"]
    feeds = {"x": np.zeros((3, 3), np.float32)}
    assert run(onnx.load(tmp_path / "m.onnx"), feeds)[0].tobytes() == run(before.proto, feeds)[0].tobytes()


def test_a_square_of_codes_has_no_scale():
    assert not normalized(model(SYMMETRIC.replace("(a, s)", "(a, a)"), w=W[2]))[1].changes


def test_a_chain_behind_one_that_is_no_dq_is_found():
    _, done = normalized(model("i = Cast <to = 7> (x) f = Cast <to = 1> (i) " + SYMMETRIC.replace("x,", "f,")))

    assert [change.description for change in done.changes] == ["writes Cast and Mul of the int8 constant as a DQ"]


def test_the_result_may_be_read_twice():
    assert normalized(model(SYMMETRIC + " other = Neg (c)"))[1].changes


@pytest.mark.parametrize(
    ("opset", "codes", "zero", "reason"),
    [
        (12, W, 0, "opset 12 has no DQ with these codes and scales"),
        (13, W, 0, None),
        (13, W, 127, None),
        (13, W, -128, None),
        (13, W, 128, "the zero point is not a legal one of int8"),
        (13, W, -129, "the zero point is not a legal one of int8"),
        (13, W, 0.5, "the zero point is not a legal one of int8"),
        (13, W.astype(np.uint8), 255, None),
        (13, W.astype(np.uint8), 256, "the zero point is not a legal one of uint8"),
        (13, W.astype(np.uint8), -1, "the zero point is not a legal one of uint8"),
    ],
)
def test_the_dq_has_to_exist_with_that_zero_point(opset: int, codes: np.ndarray, zero: float, reason: str | None):
    _, done = normalized(model(FULL, opset=opset, w=codes, z=zero))

    refused = [each.reason for each in done.refused if each.code == "cast-weight"]
    assert refused == ([] if reason is None else [reason])
    assert any(change.code == "cast-weight" for change in done.changes) == (reason is None)


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
@pytest.mark.parametrize("opset", [20, 21])
def test_codes_of_4_bits_need_the_opset_that_dequantizes_them(kind: str, opset: int):
    given = model(SYMMETRIC, opset=opset)
    tensor = helper.make_tensor("w", onnx.TensorProto.DataType.Value(kind), [3, 3], [0] * 9)
    given.proto.graph.initializer[0].CopyFrom(tensor)
    context = RuleContext(given)

    (proposal,) = find(context, "cast-weight")
    draft = Draft(context, Namer(context.view))
    if opset < 21:
        with pytest.raises(UnfitError, match=r"^opset 20 has no DQ with these codes and scales$"):
            proposal.fixes[0].write(draft)
    else:
        proposal.fixes[0].write(draft)
        assert len(draft.edits) == 4  # scale, zero point, DQ, and the Mul that is removed


def test_a_product_without_a_name_is_no_weight():
    given = model(SYMMETRIC)
    given.proto.graph.node[1].output[0] = ""
    assert not list(find(RuleContext(given), "cast-weight"))


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
@pytest.mark.parametrize("scale", [0.3, SCALES, SCALES[None]])
def test_codes_of_fp8_are_dequantized_too(kind: str, scale: object, tmp_path):
    """torchao stores the scales of fp8 weights as [1, N]."""
    given = model(SYMMETRIC, s=scale)
    fp8 = helper.make_tensor("w", onnx.TensorProto.DataType.Value(kind), [3, 3], [0.5, -3, 1, 0, 2, 48, -0.25, 7, 1])
    given.proto.graph.initializer[0].CopyFrom(fp8)

    after, done = normalized(given)
    save_model(after, tmp_path / "m.onnx")
    assert [(change.label, change.description) for change in done.changes] == [
        ("safe", f"writes Cast and Mul of the {kind.lower()} constant as a DQ")
    ]
    feeds = {"x": np.zeros((3, 3), np.float32)}
    assert run(onnx.load(tmp_path / "m.onnx"), feeds)[0].tobytes() == run(given.proto, feeds)[0].tobytes()


def test_codes_of_fp8_have_no_zero_point():
    given = model(FULL, z=1)
    fp8 = helper.make_tensor("w", onnx.TensorProto.FLOAT8E4M3FN, [3, 3], [0.5] * 9)
    given.proto.graph.initializer[0].CopyFrom(fp8)

    assert [refused.reason for refused in normalized(given)[1].refused] == [
        "the zero point is not a legal one of float8e4m3fn"
    ]


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_codes_of_4_bits_are_dequantized_too(kind: str):
    given = model(SYMMETRIC)
    tensor = helper.make_tensor("w", onnx.TensorProto.DataType.Value(kind), [3, 3], [0, 1, 2, 3, 4, 5, 6, 7, 1])
    given.proto.graph.initializer[0].CopyFrom(tensor)

    _, done = normalized(given)
    assert done.changes[0].description == f"writes Cast and Mul of the {kind.lower()} constant as a DQ"
