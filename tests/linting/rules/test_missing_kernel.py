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


@pytest.mark.parametrize(
    ("node", "kinds"),
    [
        ("HardSwish (x)", {"bfloat16"}),
        ("LpNormalization (x)", {"bfloat16"}),
        ("LpPool <kernel_shape = [1]> (x)", {"bfloat16"}),
        ("MeanVarianceNormalization <axes = [0]> (x)", {"float16", "bfloat16"}),
        ("Mish (x)", {"bfloat16"}),
        ("HardSigmoid (x)", set()),
    ],
)
def test_operators_without_weights(node: str, kinds: set[str]):
    operator = node.split(maxsplit=1)[0]
    for kind in ("float", "float16", "bfloat16"):
        model = f"agraph ({kind}[2,2,2] x) => ({kind}[2,2,2] y) {{ y = {node} }}"
        told = [f"TensorRT for RTX has no {operator} with {kind} output"] if kind in kinds else []
        assert messages("QT402", model, "tensorrt-rtx") == told
        assert messages("QT402", model, "tensorrt") == []


@pytest.mark.parametrize(
    ("operator", "gates", "lengths", "kind", "told"),
    [
        ("LSTM", 4, ", n", "float16", "TensorRT for RTX has no LSTM with float16 output and sequence_lens"),
        ("RNN", 1, ", n", "bfloat16", "TensorRT for RTX has no RNN with bfloat16 output and sequence_lens"),
        ("LSTM", 4, ", n", "float", None),
        ("LSTM", 4, "", "bfloat16", None),
        ("LSTM", 4, ", , h", "float16", None),
        ("GRU", 3, "", "bfloat16", "TensorRT for RTX has no GRU with bfloat16 output"),
        ("GRU", 3, "", "float16", None),
    ],
)
def test_recurrent_layers(operator: str, gates: int, lengths: str, kind: str, told: str | None):
    model = f"""agraph ({kind}[3,1,4] x, {kind}[1,{4 * gates},4] w, int32[1] n, {kind}[1,1,4] h)
        => ({kind}[3,1,1,4] y) {{ y = {operator} <hidden_size = 4> (x, w, w, {lengths}) }}"""
    assert messages("QT402", model, "tensorrt-rtx") == ([told] if told else [])
