"""QT402: the types of outputs for which TensorRT for RTX has no kernel, on every GPU or on Turing."""

import pytest
from support.one_rule import messages

OPERATORS = {"MatMul": "2, 2", "Gemm": "2, 2", "Conv": "2, 2, 1, 1", "ConvTranspose": "2, 2, 1, 1", "Add": "2, 2"}
KINDS = {"float": "float32", "float16": "float16", "bfloat16": "bfloat16"}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capabilities", [(), (75,), (86,), (75, 86)])
def test_layers(capabilities: tuple[int, ...], kind: str, operator: str):
    shape = OPERATORS[operator]
    model = f"agraph ({kind}[{shape}] x, {kind}[{shape}] w) => ({kind}[{shape}] y) {{ y = {operator} (x, w) }}"

    told = f"{{}} has no {operator} with {KINDS[kind]} output"
    expected = []
    if operator == "ConvTranspose" and kind == "bfloat16":
        expected = [told.format("TensorRT for RTX")]
    elif 75 in capabilities and operator != "Add" and (kind == "bfloat16" or (kind, operator) in PRODUCTS_OF_FLOATS):
        expected = [told.format("compute capability 7.5")]
    assert messages("QT402", model, "tensorrt-rtx", capabilities) == expected


PRODUCTS_OF_FLOATS = {("float", "MatMul"), ("float", "Gemm")}


def test_an_output_of_unknown_type_is_not_judged():
    model = (
        "agraph (float[2,2] x) => (float[2,2] y) { t = com.microsoft.Foo (x) u = MatMul (t, t) y = Cast <to = 1> (u) }"
    )
    assert messages("QT402", model, "tensorrt-rtx", (75,)) == []
