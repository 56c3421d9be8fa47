"""QM901: notes in the model that suppress nothing, except those about what the parser says."""

import onnx
import pytest
from support.one_rule import findings, messages, parsed

HEADER = '<ir_version: 10, opset_import: ["": 21], metadata_props: ["qdqtool.ignore": "{}"]>\n'
NEGATIVE = "agraph (float[2] x) => (float[2] y) <float s = {-1}, int8 z = {0}> { y = QuantizeLinear (x, s, z) }"
CLEAN = NEGATIVE.replace("-1", "1").replace("y = ", "q = ").replace(" }", " y = DequantizeLinear (q, s, z) }")


def noted(note: str, graph: str) -> onnx.ModelProto:
    return parsed(HEADER.format(note) + graph)


def unused(*prefixes: str) -> list[str]:
    return [f"the model suppresses '{prefix}', but there is no such finding" for prefix in prefixes]


@pytest.mark.parametrize(
    ("note", "graph", "expected"),
    [
        ("QP101: meant", NEGATIVE, unused()),
        ("QP: meant", NEGATIVE, unused()),
        ("QP101: meant", CLEAN, unused("QP101")),
        ("QP101, QS002: meant", NEGATIVE, unused("QS002")),
        ("QX999: meant", NEGATIVE, unused("QX999")),
        ("ALL: meant", NEGATIVE, unused()),
        ("ALL: meant", CLEAN, unused("ALL")),
        ("all: meant", CLEAN, unused("all")),
        # Whether the parser has something to say is not known here.
        ("QE701: meant", CLEAN, unused()),
        ("QE: meant", CLEAN, unused()),
        ("Q: meant", CLEAN, unused()),
        ("QE701, QP101: meant", CLEAN, unused("QP101")),
        # The rule itself cannot be suppressed by what it reports.
        ("QM901: meant", CLEAN, unused("QM901")),
    ],
)
def test_notes_of_the_model(note: str, graph: str, expected: list[str]):
    assert messages("QM901", noted(note, graph), "onnx") == expected


def test_a_note_of_a_node_covers_that_node():
    model = noted("", NEGATIVE)
    del model.metadata_props[:]
    model.graph.node.append(onnx.helper.make_node("Relu", ["x"], ["r"], "relu"))
    for node in model.graph.node:
        node.metadata_props.add(key="qdqtool.ignore", value="QP101: meant")

    (found,) = findings("QM901", model, "onnx")
    assert (found.node, found.message) == ("relu", "the node suppresses 'QP101', but there is no such finding")
    assert (found.found, found.expected) == ("QP101", "no such note")
