"""QS011: which attributes of Q and DQ are right, and which of the wrong ones stop TensorRT's parser."""

import onnx
import pytest
from support.one_rule import findings, messages, parsed


def model(operator: str, attribute: str) -> onnx.ModelProto:
    data, made = ("float", "int8") if operator == "QuantizeLinear" else ("int8", "float")
    return parsed(
        f"agraph ({data}[2] x) => ({made}[2] y) <float s = {{1}}> {{ y = {operator} <{attribute}> (x, s) }}", 23
    )


@pytest.mark.parametrize(
    ("operator", "attribute", "problem", "stops"),
    [
        ("QuantizeLinear", "axis = 0", None, False),
        ("QuantizeLinear", "output_dtype = 3", None, False),
        ("QuantizeLinear", "output_dtype = 0", None, False),
        ("QuantizeLinear", "precision = 1", None, False),
        ("QuantizeLinear", "precision = 1.0", "is not an integer", False),
        ("QuantizeLinear", "saturate = 0", None, False),
        ("QuantizeLinear", "block_size = 0", None, False),
        ("QuantizeLinear", "block_size = -1", "is -1", False),
        ("QuantizeLinear", "axes = 1", "is unknown to this operator", False),
        ("DequantizeLinear", "axis = 1.0", "is not an integer", False),
        ("DequantizeLinear", "saturate = 1", "is unknown to this operator", False),
        ("DequantizeLinear", "precision = 1", "is unknown to this operator", True),
        ("DequantizeLinear", "precision = 1.0", "is unknown to this operator", False),
        ("DequantizeLinear", "output_dtype = 0", None, False),
        ("DequantizeLinear", "output_dtype = 1", None, False),
        ("DequantizeLinear", "output_dtype = 10", None, False),
        ("DequantizeLinear", "output_dtype = 16", None, False),
        ("DequantizeLinear", "output_dtype = 11", "is float64", False),
        ("DequantizeLinear", "output_dtype = 3", "is int8", True),
        ("DequantizeLinear", "output_dtype = 1.0", "is not an integer", False),
    ],
)
def test_attributes(operator: str, attribute: str, problem: str | None, stops: bool):
    word = "Q" if operator == "QuantizeLinear" else "DQ"
    for target, effect in (("onnx", "refused"), ("ort-cpu", "refused"), ("tensorrt", "refused" if stops else "advice")):
        told = [(each.message, each.effect) for each in findings("QS011", model(operator, attribute), target)]
        name = attribute.partition(" ")[0]
        assert told == ([(f"attribute '{name}' of this {word} {problem}", effect)] if problem else [])


@pytest.mark.parametrize("operator", ["TRT_FP8QuantizeLinear", "TRT_INT4QuantizeLinear", "TRT_FP8DequantizeLinear"])
def test_those_of_tensorrt_have_the_attributes_of_onnx(operator: str):
    data = "float" if "Dequantize" not in operator else "int8"
    text = f"""
    <ir_version: 10, opset_import: ["": 21, "trt": 1]>
    agraph ({data}[2] x) => (y) <float s = {{1}}> {{ y = trt.{operator} <axis = 0, block = 1> (x, s) }}
    """
    word = "DQ" if "Dequantize" in operator else "Q"

    assert messages("QS011", text, "onnx") == [f"attribute 'block' of this {word} is unknown to this operator"]


@pytest.mark.parametrize("kind", [onnx.AttributeProto.INT, onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.FLOAT])
def test_an_attribute_whose_value_the_caller_of_a_function_gives(kind: int):
    made = parsed("""
    <ir_version: 10, opset_import: ["": 21, "own": 1]>
    agraph (float[2] x) => (int8[2] y) <float s = {1}> { y = own.F <a = 0> (x, s) }
    <domain: "own", opset_import: ["": 21]> F <a> (x, s) => (y) { y = QuantizeLinear <axis: int = @a> (x, s) }""")
    made.functions[0].node[0].attribute[0].type = kind

    assert messages("QS011", made, "onnx") == []
