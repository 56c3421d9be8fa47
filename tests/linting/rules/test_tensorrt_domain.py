"""QS015: Q and DQ of TensorRT's parser become those of ONNX, with the same outputs, bit for bit."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.one_rule import findings, fixed, parsed, unfit
from support.ort_verdict import ort_outputs
from support.qdq import constant, text_model

from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.report import Repaired
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
X = (np.random.default_rng(3).normal(size=(2, 4)) * 3).astype(np.float32)
IR = {11: 6, 12: 7, 17: 8, 19: 9, 20: 9, 21: 10, 23: 11}

NAMED = "float[2,4] x) => (float[2,4] y"


def model(body: str, *stored: onnx.TensorProto, opset: int = 21, signature: str = NAMED) -> onnx.ModelProto:
    header = f'<ir_version: {IR[opset]}, opset_import: ["": {opset}, "trt": 1]>'
    return text_model(f"{header} g ({signature}) {body}", *stored).proto


def pair(name: str, back: str | None = None) -> str:
    return f"{{ q = {name}QuantizeLinear (x, s)  y = {back or name}DequantizeLinear (q, s) }}"


def normalized(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, Repaired]:
    """The model after ``normalize``, which onnx's checker takes."""
    before = proto.SerializeToString(deterministic=True)
    made = normalized_model(Model(proto), DataRequest(samples=2))
    found = inlined(made.model)
    assert found is not None
    onnx.checker.check_model(found, full_check=True)
    assert proto.SerializeToString(deterministic=True) == before
    return found, made.report


def written(proto: onnx.ModelProto | onnx.GraphProto) -> list[tuple[str, str, dict[str, object]]]:
    graph = proto.graph if isinstance(proto, onnx.ModelProto) else proto
    return [
        (node.domain, node.op_type, {each.name: helper.get_attribute_value(each) for each in node.attribute})
        for node in graph.node
    ]


def stored(proto: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in proto.graph.initializer}


def fp8(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip(x / scale, -448, 448).astype(FP8).astype(np.float32) * scale


def int4(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x / scale), -8, 7).astype(np.float32) * scale


def assert_computes(proto: onnx.ModelProto, expected: np.ndarray, **feeds: np.ndarray) -> None:
    """Compare ONNX Runtime and onnx's own evaluator with what is expected, bit for bit."""
    given = {"x": X, **feeds}
    assert ort_outputs(proto, given)["y"].tobytes() == expected.tobytes()
    assert np.asarray(ReferenceEvaluator(proto).run(["y"], given)[0]).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("name", "opset", "needed"),
    [
        ("trt.TRT_FP8", 17, 19),
        ("trt.TRT_FP8", 11, 19),
        ("trt.TRT_FP8", 19, 19),
        ("TRT_FP8", 20, 20),
        ("trt.TRT_FP8", 21, 21),
        ("TRT_FP8", 23, 23),
        ("trt.TRT_INT4", 17, 21),
        ("trt.TRT_INT4", 20, 21),
        ("trt.TRT_INT4", 23, 23),
        ("trt.", 11, 11),
        ("trt.", 21, 21),
    ],
)
def test_a_pair_gets_the_type_and_the_opset_that_has_it(name: str, opset: int, needed: int):
    """Below opset 21 the type is that of a zero point, from 21 on that of output_dtype."""
    changed, report = normalized(model(pair(name), constant("s", 0.25), opset=opset))

    kind = {"TRT_FP8": T.FLOAT8E4M3FN, "TRT_INT4": T.INT4, "": T.UINT8}[name.removeprefix("trt.")]
    ours = [each for each in report.changes if each.code == "tensorrt-domain"]
    assert [each.label for each in ours] == ["safe", "safe"]
    assert all("bit-equal" in each.proof for each in ours)
    assert [entry.version for entry in changed.opset_import if not entry.domain] == [needed]
    quantize, dequantize = changed.graph.node
    assert written(changed)[1] == ("", "DequantizeLinear", {})
    if needed < 21:
        assert written(changed)[0] == ("", "QuantizeLinear", {})
        zero = stored(changed)[quantize.input[2]]
        assert (zero.data_type, [*zero.dims], numpy_helper.to_array(zero).astype(float).tolist()) == (kind, [], 0.0)
    else:
        assert written(changed)[0] == ("", "QuantizeLinear", {"output_dtype": kind})
        assert len(quantize.input) == 2
    assert list(dequantize.input) == ["q", "s"]
    if kind != T.UINT8:
        compute = fp8 if kind == T.FLOAT8E4M3FN else int4
        assert_computes(changed, compute(X, np.float32(0.25)))


@pytest.mark.parametrize(
    ("opset", "scales", "attribute", "axis"),
    [
        (21, [0.25, 0.5, 1, 2], "", 1),
        (21, [0.25, 0.5], "<axis = 0>", 0),
        (21, [0.25, 0.5, 1, 2], "<axis = -1>", -1),
        (19, [0.25, 0.5, 1, 2], "", 1),
        # Below opset 13 the parser takes axis 0 where none is given.
        (11, [0.25, 0.5], "", 0),
        (21, [0.25], "", None),
    ],
)
def test_several_scales_come_with_their_axis(opset: int, scales: list[float], attribute: str, axis: int | None):
    body = pair("trt.TRT_FP8").replace("Linear (", f"Linear {attribute} (")
    changed, _ = normalized(model(body, constant("s", scales), opset=opset))

    for _, _, attributes in written(changed):
        assert attributes.get("axis") == axis
    values = np.float32(scales)
    along = values[:, None] if axis == 0 else values
    assert_computes(changed, fp8(X, along))


def test_a_zero_point_has_the_shape_of_the_scales():
    changed, _ = normalized(model(pair("trt.TRT_FP8"), constant("s", [0.25, 0.5, 1, 2]), opset=19))

    zero = stored(changed)[changed.graph.node[0].input[2]]
    assert (zero.data_type, [*zero.dims], zero.raw_data) == (T.FLOAT8E4M3FN, [4], bytes(4))


@pytest.mark.parametrize("back", ["trt.TRT_INT4", "trt."])
def test_the_name_of_a_dequantizer_does_not_decide_its_type(back: str):
    changed, _ = normalized(model(pair("trt.TRT_FP8", back), constant("s", 0.25)))

    assert [op_type for _, op_type, _ in written(changed)] == ["QuantizeLinear", "DequantizeLinear"]
    assert_computes(changed, fp8(X, np.float32(0.25)))


def test_a_type_that_is_given_stays_as_it_is_given():
    body = "{ q = trt.TRT_FP8QuantizeLinear (x, s, z)  y = trt.TRT_FP8DequantizeLinear (q, s, z) }"
    changed, _ = normalized(model(body, constant("s", 0.25), constant("z", 0, T.INT8), opset=17))
    assert [entry.version for entry in changed.opset_import if not entry.domain] == [17]
    assert [[*node.input] for node in changed.graph.node] == [["x", "s", "z"], ["q", "s", "z"]]
    expected = np.clip(np.rint(X / np.float32(0.25)), -128, 127).astype(np.float32) * np.float32(0.25)
    assert ort_outputs(changed, {"x": X})["y"].tobytes() == expected.tobytes()

    body = body.replace(", z", "").replace("QuantizeLinear (x", "QuantizeLinear <output_dtype = 22> (x")
    changed, _ = normalized(model(body, constant("s", 0.25)))
    assert written(changed)[0] == ("", "QuantizeLinear", {"output_dtype": T.INT4})
    assert_computes(changed, int4(X, np.float32(0.25)))


@pytest.mark.parametrize("declared", ["uint8[2,4] q", "uint8[2,4] q, uint8[4,2] t, uint8[2,4] u", "uint8[4,2] t"])
def test_the_declared_type_of_codes_is_corrected_wherever_they_are_moved(declared: str):
    body = f"""<{declared}> {{
        q = trt.TRT_FP8QuantizeLinear (x, s)
        t = Transpose (q)
        u = Transpose (t)
        y = trt.TRT_FP8DequantizeLinear (u, s)
    }}"""
    changed, report = normalized(model(body, constant("s", 0.25)))

    kinds = {info.name: info.type.tensor_type.elem_type for info in changed.graph.value_info}
    assert kinds == dict.fromkeys(kinds, T.FLOAT8E4M3FN)
    assert len(kinds) == len(declared.split(", "))
    assert len(report.changes) == 2
    assert_computes(changed, fp8(X, np.float32(0.25)))


def test_codes_that_are_joined_are_corrected_too():
    body = """<uint8[2,4] q, uint8[2,4] p, uint8[4,4] c> {
        q = trt.TRT_FP8QuantizeLinear (x, s, z)
        p = trt.TRT_FP8QuantizeLinear (x, s, z)
        c = Concat <axis = 0> (p, q)
        y = trt.TRT_FP8DequantizeLinear (c, s)
    }"""
    constants = constant("s", 0.25), constant("z", 0, T.INT8)
    changed, _ = normalized(model(body, *constants, signature="float[2,4] x) => (float[4,4] y"))

    assert {info.type.tensor_type.elem_type for info in changed.graph.value_info} == {T.INT8}
    expected = np.clip(np.rint(X / np.float32(0.25)), -128, 127).astype(np.float32) * np.float32(0.25)
    assert_computes(changed, np.concatenate([expected] * 2))


def test_codes_that_are_an_output_keep_their_operator_where_the_types_differ():
    signature = "float[2,4] x) => (float[2,4] y, uint8[2,4] q"
    proto = model(pair("trt.TRT_FP8"), constant("s", 0.25), signature=signature)

    assert unfit("QS015", proto, "onnx") == "its codes 'q' are an output of type uint8"
    right = model(
        pair("trt.TRT_FP8"), constant("s", 0.25), signature=signature.replace("uint8[2,4] q", "float8e4m3fn[2,4] q")
    )
    changed, _ = normalized(right)
    assert [domain for domain, _, _ in written(changed)] == ["", ""]


CODES = np.random.default_rng(4).integers(-8, 8, (64, 4))
SCALES = np.random.default_rng(5).uniform(0.1, 1, (2, 4)).astype(np.float32)
WEIGHT = "{ w = trt.TRT_INT4DequantizeLinear %s (codes, scales)  y = MatMul (x, w) }"


@pytest.mark.parametrize(
    ("attributes", "opset"),
    [("<axis = 0, block_size = 32>", 21), ("<axis = 0, block_size = 32>", 17), ("<axis = 0>", 21)],
)
def test_weights_of_int4_in_blocks(attributes: str, opset: int):
    """The parser infers the size of blocks from the shapes, ONNX asks for it."""
    constants = constant("codes", CODES, T.INT4), constant("scales", SCALES)
    signature = "float[2,64] x) => (float[2,4] y, float[64,4] w"
    changed, report = normalized(model(WEIGHT % attributes, *constants, opset=opset, signature=signature))

    assert written(changed)[0] == ("", "DequantizeLinear", {"axis": 0, "block_size": 32})
    assert "bit-equal" in report.changes[0].proof
    expected = CODES.astype(np.float32) * SCALES.repeat(32, 0)
    x = np.zeros((2, 64), np.float32)
    assert ort_outputs(changed, {"x": x})["w"].tobytes() == expected.tobytes()
    assert ReferenceEvaluator(changed).run(["w"], {"x": x})[0].tobytes() == expected.tobytes()


def test_activations_of_fp8_in_blocks():
    scales = np.float32([[0.25, 0.5], [1, 2]])
    changed, report = normalized(model(pair("trt.TRT_FP8"), constant("s", scales)))

    assert [attributes for _, _, attributes in written(changed)] == [
        {"axis": 1, "block_size": 2, "output_dtype": T.FLOAT8E4M3FN},
        {"axis": 1, "block_size": 2},
    ]
    assert all("bit-equal" in each.proof for each in report.changes)
    assert_computes(changed, fp8(X, scales.repeat(2, 1)))


def test_blocks_of_unknown_size_are_left():
    signature = "float[2,N] x) => (float[2,N] y"

    assert unfit("QS015", model(pair("trt.TRT_FP8"), constant("s", np.ones((2, 2))), signature=signature), "onnx") == (
        "the size of its blocks is unknown"
    )


def test_a_type_that_onnx_does_not_have_is_left():
    body = "{ q = trt.QuantizeLinear (x, s, z)  y = trt.DequantizeLinear (q, s, z) }"
    proto = model(body, constant("s", 0.25), constant("z", 0, T.INT32))

    assert unfit("QS015", proto, "onnx") == "ONNX has no Q of int32"


BRANCHES = """{
    y = If (c) <
        then_branch = t () => (float[2,4] r) <uint8[2,4] q> {
            q = trt.TRT_FP8QuantizeLinear (x, s)
            d = trt.TRT_FP8DequantizeLinear (q, s)
            r = Add (d, d)
        },
        else_branch = e () => (float[2,4] o) { o = Identity (x) }
    >
}"""


@pytest.mark.parametrize(("opset", "needed"), [(17, 19), (21, 21)])
def test_in_a_body_of_if(opset: int, needed: int):
    signature = "float[2,4] x, bool c) => (float[2,4] y"
    changed, report = normalized(model(BRANCHES, constant("s", 0.25), opset=opset, signature=signature))

    then = next(each.g for each in changed.graph.node[0].attribute if each.name == "then_branch")
    assert [(domain, op_type) for domain, op_type, _ in written(then)] == [
        ("", "QuantizeLinear"),
        ("", "DequantizeLinear"),
        ("", "Add"),
    ]
    assert [info.type.tensor_type.elem_type for info in then.value_info] == [T.FLOAT8E4M3FN]
    assert [entry.version for entry in changed.opset_import if not entry.domain] == [needed]
    # No evaluator runs such a body, so that nothing is proven.
    assert {each.label for each in report.changes} == {"unsafe"}
    for taken, expected in ((True, 2 * fp8(X, np.float32(0.25))), (False, X)):
        assert_computes(changed, expected, c=np.array(taken))


def test_other_operators_of_tensorrt_stay_beside_them():
    body = """{
        q = trt.TRT_FP8QuantizeLinear (x, s)
        d = trt.TRT_FP8DequantizeLinear (q, s)
        p, e = trt.TRT_MXFP8DynamicQuantize (d)
        y = trt.TRT_MXFP8DequantizeLinear (p, e)
    }"""
    changed, report = normalized(model(body, constant("s", 0.25), opset=17))

    assert [(domain, op_type) for domain, op_type, _ in written(changed)] == [
        ("", "QuantizeLinear"),
        ("", "DequantizeLinear"),
        ("trt", "TRT_MXFP8DynamicQuantize"),
        ("trt", "TRT_MXFP8DequantizeLinear"),
    ]
    assert all("bit-equal" in each.proof for each in report.changes)


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ("trt.TRT_FP8QuantizeLinear", "QuantizeLinear"),
        ("TRT_INT4QuantizeLinear", "QuantizeLinear"),
        ("trt.QuantizeLinear", "QuantizeLinear"),
        ("trt.DequantizeLinear", "DequantizeLinear"),
        ("my.TRT_FP8DequantizeLinear", "DequantizeLinear"),
        ("QuantizeLinear", None),
        ("com.microsoft.QuantizeLinear", None),
        ("trt.TRT_MXFP8QuantizeLinear", None),
    ],
)
def test_what_is_reported(operator: str, words: str | None):
    text = f"""
    <ir_version: 10, opset_import: ["": 21, "trt": 1, "my": 1, "com.microsoft": 1]>
    agraph (float[2] x) => (y) <float s = {{1}}> {{ y = {operator} (x, s) }}
    """
    found = findings("QS015", text, "onnx")

    assert [(each.message, each.found, each.expected) for each in found] == (
        [(f"only TensorRT knows the operator {operator}", operator, words)] if words else []
    )
    assert [each.effect for each in findings("QS015", text, "ort-cpu")] == ["refused"] * bool(words)
    if words == "QuantizeLinear":
        assert [(node.domain, node.op_type) for node in fixed("QS015", parsed(text), "onnx").graph.node] == [
            ("", words)
        ]
