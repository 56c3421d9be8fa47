"""Types of scales: by target, by opset, and by the type of the data."""

import contextlib

import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, tensor
from support.corpus._case import node as made
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext

CODE = "QS005"
WORDS = {T.FLOAT: "float32", T.FLOAT16: "float16", T.BFLOAT16: "bfloat16", T.INT32: "int32"}
LEGAL = {
    "onnx": "bfloat16, float16, float32, float8e8m0",
    "ort-cpu": "float16, float32",
    "tensorrt": "bfloat16, float16, float32, float64",
}


def quantizer(data: int, scale: int, opset: int) -> RuleContext:
    nodes = [made("QuantizeLinear", ["x", "s", "z"], "y")]
    constants = [tensor("s", 1, scale), tensor("z", 0, T.INT8)]
    return read(graph_model(nodes, [("x", data, [4])], [("y", T.INT8, [4])], constants, opset, 10))


def expected(context: RuleContext, target: str) -> list[str | None]:
    return [finding.expected for finding, _ in located(CODE, context, target)]


@pytest.mark.parametrize("target", LEGAL)
@pytest.mark.parametrize("opset", [18, 19, 21, 22, 23, 24])
@pytest.mark.parametrize("scale", [T.FLOAT, T.FLOAT16])
@pytest.mark.parametrize("data", WORDS)
def test_the_scale_of_a_q_has_the_type_of_its_data(data: int, scale: int, opset: int, target: str):
    """From opset 23 on ONNX leaves it free; before opset 19 it did so beside int32; TensorRT takes any mix."""
    free = target == "tensorrt" or (target == "onnx" and opset >= 23) or (data == T.INT32 and opset < 19)
    found = expected(quantizer(data, scale, opset), target)

    assert found == ([] if free or data == scale else [WORDS[data]])


@pytest.mark.parametrize("target", LEGAL)
@pytest.mark.parametrize("scale", ["int32", "double", "bfloat16", "float8e8m0", "float"])
def test_scales_of_types_that_no_target_reads(scale: str, target: str):
    context = read(
        f"""
        <ir_version: 12, opset_import: ["": 24]>
        agraph (int8[4] c) => (float[4] y) <{scale} s = {{1}}> {{ y = DequantizeLinear <output_dtype = 1> (c, s) }}
        """
    )
    word = {"float": "float32", "double": "float64"}.get(scale, scale)
    found = [(finding.message, finding.found, finding.expected) for finding, _ in located(CODE, context, target)]
    message = f"scale 's' of this DQ has type {word}"

    assert found == ([] if word in LEGAL[target].split(", ") else [(message, word, LEGAL[target])])


@pytest.mark.parametrize("target", LEGAL)
@pytest.mark.parametrize(
    ("opset", "data", "legal"),
    [
        (18, T.INT32, LEGAL["onnx"]),
        (19, T.INT32, None),
        (22, T.INT32, None),
        (22, T.FLOAT, LEGAL["onnx"]),
        (23, T.FLOAT, None),
    ],
)
def test_a_whole_scale_is_legal_to_onnx_alone(opset: int, data: int, legal: str | None, target: str):
    """As onnx's checker says, asked here too."""
    context = quantizer(data, T.INT32, opset)
    legal = legal if target == "onnx" else LEGAL[target]

    assert expected(context, target) == ([] if legal is None else [legal])
    if target == "onnx":
        with pytest.raises(onnx.shape_inference.InferenceError) if legal else contextlib.nullcontext():
            onnx.checker.check_model(context.model.proto, full_check=True)


@pytest.mark.parametrize(("output", "found"), [(16, ["an output type other than bfloat16"]), (10, []), (1, [])])
def test_onnx_runtime_has_no_kernel_for_a_dq_of_bfloat16(output: int, found: list[str]):
    context = read(
        f"""
        agraph (int8[4] c) => (float[4] n) <float s = {{1}}> {{
            y = DequantizeLinear <output_dtype = {output}> (c, s)
            n = local.Unknown (y)
        }}
        """
    )
    assert expected(context, "ort-cpu") == found
    assert expected(context, "onnx") == []


def test_a_scale_of_unknown_type_is_passed_over():
    context = read(
        """
        agraph (int8[4] c, float[N] n) => (float[4] y) <int32 bad = {1}> {
            u = local.Unknown (n)
            d = DequantizeLinear (c, u)
            y = DequantizeLinear (c, bad)
        }
        """
    )
    for target in LEGAL:
        assert [finding.tensor for finding, _ in located(CODE, context, target)] == ["bad"]
