"""QE701: what the parser says becomes a finding at the node that it means, with a hint for that node."""

import onnx.parser
import pytest

from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.parser_answer import ParserFault
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

TEXT = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
agraph (float[2,2] x) => (float[2,2] y) {
    [first] a = Relu (x)
    [twice] b = com.microsoft.Inverse (a)
    [twice] c = com.microsoft.FastGelu (b)
    y = Relu (c)
}"""


def finding(**fault: object) -> Finding:
    context = RuleContext(Model(onnx.parser.parse_model(TEXT)))
    context.parser_faults = (ParserFault(title="TensorRT for RTX 1.7", reason="it is round", **fault),)
    (found,) = rules.get("QE701").run(context, targets.get("tensorrt-rtx"))
    return found


@pytest.mark.parametrize(
    ("fault", "node"),
    [
        ({"name": "first", "op_type": "Relu", "index": 7}, "first"),
        # Two nodes have the name: the number tells which one it is.
        ({"name": "twice", "op_type": "FastGelu", "index": 2}, "twice"),
        ({"index": 3, "op_type": "Relu"}, "Relu -> y"),
        # The parser sorted the nodes, or names one of its own.
        ({"index": 3, "op_type": "Conv"}, None),
        ({"name": "unheard", "op_type": "Relu", "index": 0}, None),
        ({}, None),
    ],
)
def test_the_node_is_found_by_name_or_number(fault: dict[str, object], node: str | None):
    assert finding(**fault).node == node


def test_a_node_that_is_not_found_is_named_in_the_message():
    assert finding(name="unheard").message == "TensorRT for RTX 1.7 refuses it: node 'unheard': it is round"


@pytest.mark.parametrize("fault", [{}, {"name": "first", "op_type": "Relu"}])
def test_nothing_else_is_said_of_the_place(fault: dict[str, object]):
    assert finding(**fault).message == "TensorRT for RTX 1.7 refuses it: it is round"


def test_it_alone_asks_the_parser():
    assert [rule.code for rule in rules.catalogue() if rule.asks_parser] == [finding().code]


def test_an_operator_of_onnx_runtime_has_a_hint_of_its_own():
    assert "graph optimizations" in finding(name="twice", op_type="Inverse", index=1, hint="wait").message
    assert "(`qdqtool normalize" in finding(name="twice", op_type="FastGelu", index=2, hint="wait").message
    assert finding(name="first", op_type="Relu", hint="wait").message.endswith("it is round (wait)")


def test_nothing_is_reported_where_nobody_was_asked():
    context = RuleContext(Model(onnx.parser.parse_model(TEXT)))

    assert not list(rules.get("QE701").run(context, targets.get("tensorrt-rtx")))
    assert rules.get("QE701").impact(targets.get("tensorrt")) is None
