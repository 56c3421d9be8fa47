"""What to do about operators that TensorRT does not have."""

import pytest

from qdqtool.engines.tensorrt.operator_hints import hint_for
from qdqtool.linting.repair import forms

NORMALIZE = "`qdqtool normalize MODEL -o OUT.onnx` writes it as QuantizeLinear and DequantizeLinear"


@pytest.mark.parametrize(
    "operator", ["QLinearConv", "QLinearAdd", "QGemm", "MatMulNBits", "GatherBlockQuantized", "Quant", "IntQuant"]
)
def test_operators_with_a_form_name_the_command(operator: str):
    assert hint_for(operator) == NORMALIZE
    assert {"matmul-nbits", "gather-block-quantized", "qonnx", "qlinear-operator"} <= set(forms.names())


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ("QMoE", "quantize with QuantizeLinear and DequantizeLinear nodes"),
        ("DequantizeLinear", "shift the codes by 128 to int8"),
        ("Adam", "it belongs to training"),
        ("StringNormalizer", "it works on what TensorRT does not hold"),
        ("Quantum", "export the model without it"),
        (None, "export the model without it"),
    ],
)
def test_others_have_another_hint(operator: str | None, words: str):
    assert hint_for(operator).startswith(words)
