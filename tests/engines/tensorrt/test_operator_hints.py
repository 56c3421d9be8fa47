"""What to do about operators that TensorRT does not have."""

from pathlib import Path

import pytest

from qdqtool.engines.tensorrt.operator_hints import hint_for, with_path
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
        ("StringNormalizer", "TensorRT does not support sequences"),
        ("Quantum", "export the model without it"),
        (None, "export the model without it"),
    ],
)
def test_others_have_another_hint(operator: str | None, words: str):
    assert hint_for(operator).startswith(words)


@pytest.mark.parametrize(
    ("hint", "path", "expected"),
    [
        ("`qdqtool strip MODEL -o OUT.onnx` does it", "a/m.onnx", "`qdqtool strip a/m.onnx -o OUT.onnx` does it"),
        ("`one MODEL`, `two MODEL`", "m.onnx", "`one m.onnx`, `two m.onnx`"),
        ("`check MODEL`", "my model.onnx", "`check 'my model.onnx'`"),
        ("`check MODEL`", r"a\1.onnx", r"`check 'a\1.onnx'`"),
        ("the word MODEL stays, and so does `REMODELED`", "m.onnx", "the word MODEL stays, and so does `REMODELED`"),
        ("nothing to paste", "m.onnx", "nothing to paste"),
    ],
)
def test_the_path_stands_for_the_word(hint: str, path: str, expected: str):
    assert with_path(hint, Path(path)) == expected
