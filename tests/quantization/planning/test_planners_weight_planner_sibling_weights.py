"""Which weights get codes of their own for each group of products that reads them."""

import onnx
import pytest
from onnx import parser

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Slot, UseRef
from qdqtool.quantization.planning.planners import separated


def layers(words: str, between: str = "") -> onnx.ModelProto:
    """Layers one behind the other: products of the last one's sum with these weights, perhaps behind an operator."""
    lines, x = list[str](), "x"
    for number, group in enumerate(words.split()):
        for place, name in enumerate(group):
            weight = f"v{number}{place}" if between else name
            lines += [f"{weight} = {between} ({name})"] * bool(between)
            lines += [f"p{number}{place} = MatMul ({x}, {weight})"]
        lines += [f"s{number} = Sum ({', '.join(f'p{number}{place}' for place in range(len(group)))})"]
        x = f"s{number}"
    inputs = ", ".join(f"float[4,4] {name}" for name in sorted({*words} - {" "}))
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[2,4] x, {inputs}) => (float[2,4] {x})'
    return parser.parse_model(f"{text} {{ {' '.join(lines)} }}")


def parts(words: str, between: str = "") -> dict[str, list[list[str]]]:
    """For each weight the outputs of the nodes that read it, those of one slot together."""
    index = ModelIndex.of(Model(layers(words, between)))
    slots = []
    for name in sorted({*words} - {" "}):
        value = index.view.main.values[name]
        slots.append(Slot((), name, tuple(UseRef((), use.node.key, use.index) for use in value.uses)))
    found = separated(slots, index)
    return {slot.tensor: [[use.node[0] for use in part.uses or ()] for part in found[slot]] for slot in slots}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ab ab", {"a": [["p00"], ["p10"]], "b": [["p01"], ["p11"]]}),
        ("ab ac", {"a": [["p00"], ["p10"]], "b": [["p01"]], "c": [["p11"]]}),
        ("ab ab ab", {"a": [["p00"], ["p10"], ["p20"]], "b": [["p01"], ["p11"], ["p21"]]}),
        ("aa aa", {"a": [["p00", "p01"], ["p10", "p11"]]}),
        ("ab a", {"a": [["p00", "p10"]], "b": [["p01"]]}),
        ("ab a ac", {"a": [["p00", "p10"], ["p20"]], "b": [["p01"]], "c": [["p21"]]}),
        ("a a", {"a": [["p00", "p10"]]}),
        ("aa", {"a": [["p00", "p01"]]}),
    ],
)
def test_a_group_beside_another_gets_its_own(words: str, expected: dict[str, list[list[str]]]) -> None:
    assert parts(words) == expected


def test_operators_between_are_looked_through() -> None:
    assert parts("ab ab", "Identity") == {"a": [["v00"], ["v10"]], "b": [["v01"], ["v11"]]}
    assert parts("ab ab", "Transpose") == parts("ab ab", "Identity")
    assert parts("ab ab", "Neg") == {"a": [["v00", "v10"]], "b": [["v01", "v11"]]}
