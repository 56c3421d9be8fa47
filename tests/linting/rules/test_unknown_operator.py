"""QT411: an operator is looked up in the opset of the model, as onnx's checker does."""

import onnx
import pytest
from support.one_rule import messages, nodes, parsed

NEWEST = onnx.defs.onnx_opset_version()


def model(operator: str, opset: int) -> onnx.ModelProto:
    return parsed(f"agraph (float[1,1,2,2] x) => (float[1,1,2,2] y) {{ y = {operator} (x) }}", opset)


@pytest.mark.parametrize(
    ("operator", "opset", "problem"),
    [
        ("Relu", 1, None),
        ("Relu", 21, None),
        ("Gelu", 20, None),
        ("Gelu", 19, "does not exist in opset 19 yet"),
        ("Gelu", 1, "does not exist in opset 1 yet"),
        ("QLinearAdd", 21, "is not one of ONNX"),
        ("QLinearAdd", NEWEST + 1, "is not one of ONNX"),
        ("Upsample", 9, None),
        ("Upsample", 10, "is withdrawn from opset 10"),
        ("Upsample", NEWEST, f"is withdrawn from opset {NEWEST}"),
        # The rule about opsets (QM614) reports the model.
        ("Upsample", NEWEST + 1, None),
        ("Gelu", 0, None),
        ("com.microsoft.Gelu", 19, None),
    ],
)
def test_opsets(operator: str, opset: int, problem: str | None):
    for target in ("onnx", "ort-cpu"):
        assert messages("QT411", model(operator, opset), target) == ([f"operator {operator} {problem}"] * bool(problem))


@pytest.mark.parametrize("opset", [9, 13, 19, 21, NEWEST])
@pytest.mark.parametrize("operator", ["Relu", "Gelu", "Upsample", "Scatter", "Swish", "Celu", "QLinearAdd"])
def test_it_is_reported_exactly_where_the_checker_refuses_it(operator: str, opset: int):
    proto = model(operator, opset)
    try:
        onnx.checker.check_node(proto.graph.node[0], _context(opset))
    except onnx.checker.ValidationError as error:
        refused = "input" not in str(error) and "attribute" not in str(error)
    else:
        refused = False

    assert bool(messages("QT411", proto, "onnx")) == refused


def _context(opset: int) -> onnx.checker.C.CheckerContext:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = 10
    context.opset_imports = {"": opset}
    return context


@pytest.mark.parametrize(
    ("operator", "of_onnx_runtime"),
    [
        ("LayerNormalization", True),
        ("SimplifiedLayerNormalization", True),
        ("TRT_FP8QuantizeLinear", True),
        ("My_TRT_", False),
        ("QLinearAdd", False),
    ],
)
def test_onnx_runtime_has_operators_of_its_own_in_the_default_domain(operator: str, of_onnx_runtime: bool):
    assert bool(messages("QT411", model(operator, 16), "ort-cpu")) != of_onnx_runtime
    assert messages("QT411", model(operator, 16), "onnx")


def test_what_another_domain_has_hides_nothing_behind_it():
    text = "agraph (float[2] x) => (float[2] y) { [a] t = com.microsoft.Foo (x) [b] y = QLinearAdd (t) }"

    assert nodes("QT411", parsed(text, 21), "onnx") == ["b"]
