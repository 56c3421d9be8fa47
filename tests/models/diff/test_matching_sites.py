"""Sites and the steps in front of them."""

from pathlib import Path

import onnx
import pytest
from support.qdq import text_model

from qdqtool.models.diff.matching import Side, sites
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.load import load_model

HEADER = '<ir_version: 10, opset_import: ["": 21]>'
CONSTANTS = "<float s = {0.5}, int8 z = {0}, int8[2] w = {1, 2}>"


def side(body: str, inputs: str = "float[2] x") -> Side:
    return Side(text_model(f"{HEADER} g ({inputs}) => (float[2] y) {CONSTANTS} {{ {body} }}"))


def told(of: Side, name: str) -> tuple[list[tuple[str | None, str | None]], str | None]:
    """The outputs of Q and DQ of each step in front of a tensor, and the tensor in front of them."""
    steps, source = of.steps(value(of, name))

    def output(entry) -> str | None:
        return entry.output.name if entry is not None else None

    return [(output(step.quantize), output(step.dequantize)) for step in steps], source.name if source else None


def value(of: Side, name: str) -> Value:
    return of.index.view.main.values[name]


PAIR = "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)"


@pytest.mark.parametrize(
    ("body", "name", "steps", "source"),
    [
        ("y = Neg (x)", "x", [], "x"),
        (f"{PAIR} y = Neg (d)", "d", [("q", "d")], "x"),
        (f"{PAIR} y = Neg (d)", "y", [], "y"),
        (f"{PAIR} y = Neg (d)", "q", [("q", None)], "x"),
        ("d = DequantizeLinear (w, s, z) y = Add (x, d)", "d", [(None, "d")], "w"),
        (
            f"{PAIR} p = QuantizeLinear (d, s, z) e = DequantizeLinear (p, s, z) y = Neg (e)",
            "e",
            [("p", "e"), ("q", "d")],
            "x",
        ),
        (
            "d = DequantizeLinear (w, s, z) p = QuantizeLinear (d, s, z) y = DequantizeLinear (p, s, z)",
            "y",
            [("p", "y"), (None, "d")],
            "w",
        ),
        (f"{PAIR} p = QuantizeLinear (d, s, z) y = Cast <to = 1> (p)", "p", [("p", None), ("q", "d")], "x"),
    ],
)
def test_steps_are_told_from_the_nearest(
    body: str, name: str, steps: list[tuple[str | None, str | None]], source: str
) -> None:
    assert told(side(body), name) == (steps, source)


def test_no_tensor_has_no_steps() -> None:
    assert side("y = Neg (x)").steps(None) == ((), None)


def test_steps_end_after_sixteen() -> None:
    pairs = "".join(f" q{n} = QuantizeLinear (d{n}, s, z) d{n + 1} = DequantizeLinear (q{n}, s, z)" for n in range(17))
    long = side(f"d0 = Neg (x) {pairs} y = Neg (d{17})")
    assert len(told(long, "d17")[0]) == 16
    assert told(long, "d17")[1] == "d1"
    assert len(told(long, "d16")[0]) == 16


def test_what_a_step_is_named_after() -> None:
    both = side(f"{PAIR} v = DequantizeLinear (w, s, z) y = Add (d, v)")
    (pair,), _ = both.steps(value(both, "d"))
    (alone,), _ = both.steps(value(both, "v"))
    (codes,), _ = both.steps(value(both, "q"))
    assert [step.main.output.name for step in (pair, alone, codes)] == ["d", "v", "q"]
    assert [step.first.output.name for step in (pair, alone, codes)] == ["q", "v", "q"]
    assert [step.source.name for step in (pair, alone, codes)] == ["x", "w", "x"]


def test_each_input_of_each_other_node_is_a_site_and_each_output() -> None:
    made = side(f'{PAIR} [c] c = Clip (d, "", s) [neg] y = Neg (c)')
    found = list(sites(made.index.view.main))
    assert [site.label for site in found] == ["c[0]", "c[2]", "neg", "output y"]
    assert [site.value.name for site in found if site.value is not None] == ["d", "s", "c", "y"]


def test_an_unnamed_model_is_in_memory(tmp_path: Path) -> None:
    made = side("y = Neg (x)")
    assert made.path == "<memory>"
    onnx.save(made.model.proto, tmp_path / "m.onnx")
    assert Side(load_model(tmp_path / "m.onnx")).path == str(tmp_path / "m.onnx")
