"""QT420: the operators of ONNX Runtime are judged by the names that TensorRT's parser knows."""

import onnx.parser
import pytest
from support.one_rule import messages

from benchmarks.contrib import variants
from qdqtool.linting.rules.contrib_operator import KNOWN

TEXT = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "own": 1]>
g (float[1,4] x) => (float[1,4] y) {{ y = {operator} (x) }}"""
DEFINED = """ <domain: "com.microsoft", opset_import: ["": 21]> BiasGelu (a) => (b) { b = Relu (a) }"""


@pytest.mark.parametrize(
    ("operator", "problem"),
    [
        ("com.microsoft.BiasGelu", "is unknown to"),
        ("com.microsoft.GroupQueryAttention", "needs a plugin in"),
        ("com.microsoft.Attention", "is unknown to"),
        ("com.microsoft.MultiHeadAttention", None),
        ("com.microsoft.Gelu", None),
        ("own.BiasGelu", None),
        ("Relu", None),
        # QT403 and QS010 report these.
        ("com.microsoft.QGemm", None),
        ("com.microsoft.QuantizeLinear", None),
    ],
)
def test_operators_are_found_by_domain_and_name(operator: str, problem: str | None):
    model = onnx.parser.parse_model(TEXT.format(operator=operator))
    expected = [f"operator {operator} {problem} TensorRT for RTX"] if problem else []
    assert messages("QT420", model, "tensorrt-rtx") == expected
    assert messages("QT420", model, "ort-cpu") == []


def test_what_the_model_defines_itself_is_known():
    assert messages("QT420", onnx.parser.parse_model(TEXT.format(operator="com.microsoft.BiasGelu") + DEFINED)) == []


def test_the_known_names_are_measured():
    assert {variant.op_type for variant in variants()} > KNOWN
