"""QM604: readers of one weight that see different numbers, and weights that an exporter stored twice."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto as T
from support.corpus._case import INT8_ZERO, SCALE, graph_model, node, tensor

from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

SIDE = 64
WEIGHT = np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype(np.float32)


def two_products(second: np.ndarray) -> onnx.ModelProto:
    """MatMul with a quantized weight, then MatMul with a float one."""
    nodes = [
        node("QuantizeLinear", ["w", "s", "z"], "q"),
        node("DequantizeLinear", ["q", "s", "z"], "wd"),
        node("MatMul", ["x", "wd"], "m"),
        node("MatMul", ["m", "copy"], "y"),
    ]
    stored = [tensor("w", WEIGHT), tensor("copy", second), SCALE, INT8_ZERO]
    return graph_model(nodes, [("x", T.FLOAT, [1, SIDE])], [("y", T.FLOAT, [1, SIDE])], stored)


def findings(model: onnx.ModelProto) -> list[Finding]:
    return list(rules.get("QM604").run(RuleContext(Model(model)), targets.get("onnx")))


def told(model: onnx.ModelProto) -> list[str]:
    return [finding.message for finding in findings(model)]


def test_a_copy_that_stays_float_is_reported():
    assert told(two_products(WEIGHT)) == ["the weight 'copy' has the values of 'w', which is quantized"]


@pytest.mark.parametrize("other", [np.nextafter(WEIGHT, np.float32(9)), WEIGHT.T.copy(), -WEIGHT])
def test_other_values_are_no_copy(other: np.ndarray):
    assert not told(two_products(other))


def test_equal_weights_of_one_number_are_no_copies():
    model = two_products(np.zeros((SIDE, SIDE)))
    model.graph.initializer[0].CopyFrom(tensor("w", np.zeros((SIDE, SIDE))))

    assert not told(model)


STORED = """
    int8[2,2] w = {1, 2, 3, 4}, uint8[2,2] u = {1, 2, 3, 4}, float[2,2] f = {1, 2, 3, 4}, float a = {1},
    float same = {1}, float[1] row = {2}, float b = {2}, float c = {8}, float near = {1.25}, float[2] ab = {1, 2},
    float[2] bc = {2, 8}, float[2,2] blocks = {1, 2, 3, 4}, int8 z = {0}, int64 first = {0}, int8[2] zeros = {0, 0}
"""
TWICE = "is quantized twice along one axis, with different scales"


def judged(body: str) -> list[tuple[str, float | None]]:
    """What each finding says of the weight, and how far the scales are apart, in octaves."""
    header = '<ir_version: 10, opset_import: ["": 21]>'
    text = f"{header} agraph (float[1,2] x, float s) => (float[1,2] y) <{STORED}> {{ {body} }}"
    return [(each.found, each.extent and each.extent.degree) for each in findings(onnx.parser.parse_model(text))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("d = DequantizeLinear (w, a)", []),
        ("d = DequantizeLinear (w, a) e = DequantizeLinear (w, a)", []),
        ("d = DequantizeLinear (w, a) e = DequantizeLinear (w, same)", []),
        ("d = DequantizeLinear (w, a) e = DequantizeLinear (w, b)", [(TWICE, 1)]),
        ("d = DequantizeLinear (w, c) e = DequantizeLinear (w, a)", [(TWICE, 3)]),
        ("d = DequantizeLinear (w, a) e = DequantizeLinear (w, row)", [(TWICE, 1)]),
        ("d = DequantizeLinear (w, a) e = DequantizeLinear (w, near)", [(TWICE, np.log2(1.25))]),
        ("d = DequantizeLinear (w, a) e = DequantizeLinear (w, same) g = DequantizeLinear (w, b)", [(TWICE, 1)]),
        ("d = DequantizeLinear (w, a) e = DequantizeLinear (w, b) g = DequantizeLinear (w, c)", [(TWICE, 3)]),
        ("d = DequantizeLinear (w, ab) e = DequantizeLinear (w, bc)", [(TWICE, 2)]),
        ("d = DequantizeLinear (w, ab) e = DequantizeLinear <axis = -1> (w, bc)", [(TWICE, 2)]),
        ("d = DequantizeLinear (w, s) e = DequantizeLinear (w, a)", []),
        ("q = QuantizeLinear (f, a, z) p = QuantizeLinear (f, b, z)", [(TWICE, 1)]),
        # Readers that need scales along different axes cannot share a pair.
        ("d = DequantizeLinear (w, ab) e = DequantizeLinear <axis = 0> (w, bc)", []),
        ("d = DequantizeLinear (w, a) e = DequantizeLinear (w, bc)", []),
        ("d = DequantizeLinear (w, ab) e = DequantizeLinear <block_size = 1> (w, blocks)", []),
        # Scales of different lengths have no distance.
        ("d = DequantizeLinear (w, ab) e = DequantizeLinear (w, bc) g = DequantizeLinear (w, a)", [(TWICE, None)]),
        # What else reads codes is no reader of the weight.
        ("d = DequantizeLinear (w, a) e = Gather (w, first)", []),
        ("d = DequantizeLinear (u, a) e = Gather (u, first)", []),
        ("d = DequantizeLinear (w, a) e = DequantizeLinear (w, b) g = Gather (w, first)", [(TWICE, None)]),
        ("d = DequantizeLinear (zeros, a) e = DequantizeLinear (w, b, zeros)", []),
        (
            "d = DequantizeLinear (zeros, a) g = DequantizeLinear (zeros, b) e = DequantizeLinear (w, c, zeros)",
            [(TWICE, None)],
        ),
        (
            "q = QuantizeLinear (f, a, z) g = Gather (f, first)",
            [("is quantized for one reader and float for Gather 'Gather -> g'", None)],
        ),
        (
            "q = QuantizeLinear (f, a, z) p = QuantizeLinear (f, b, z) y = MatMul (x, f)",
            [("is quantized for one reader and float for MatMul 'MatMul -> y'", None)],
        ),
        # An activation may have any readers.
        ("q = QuantizeLinear (x, a, z) g = Relu (x)", []),
        ("q = QuantizeLinear (x, a, z) p = QuantizeLinear (x, b, z)", []),
        ("d = DequantizeLinear () e = DequantizeLinear (nowhere, a)", []),
    ],
)
def test_readers_of_one_weight(body: str, expected: list[tuple[str, float | None]]):
    found = judged(body)

    assert [each[0] for each in found] == [each[0] for each in expected]
    assert [each[1] for each in found] == [each[1] if each[1] is None else pytest.approx(each[1]) for each in expected]


def copies(body: str, shape: tuple[int, ...] = (SIDE, SIDE), elem_type: int = T.FLOAT) -> list[str]:
    """The findings on nodes that read ``w``, which has a Q where they say so, and its copy ``c``."""
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[1,{shape[0]}] x) => (float y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    values = np.arange(np.prod(shape)).reshape(shape) % 100
    model.graph.initializer.extend(tensor(name, values, elem_type) for name in ("w", "c"))
    model.graph.initializer.extend([SCALE, INT8_ZERO, tensor("i", 0, T.INT64)])
    return [f"{each.tensor}: {each.found}" for each in findings(model)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("q = QuantizeLinear (w, s, z) y = MatMul (x, c)", ["c: float for MatMul 'MatMul -> y'"]),
        ("y = MatMul (x, c) q = QuantizeLinear (w, s, z)", ["c: float for MatMul 'MatMul -> y'"]),
        ("q = QuantizeLinear (c, s, z) y = MatMul (x, w)", ["w: float for MatMul 'MatMul -> y'"]),
        ("q = QuantizeLinear (w, s, z) y = Gather (c, i)", ["c: float for Gather 'Gather -> y'"]),
        ("q = QuantizeLinear (w, s, z) m = MatMul (x, c) y = Add (c, x)", ["c: float for MatMul 'MatMul -> m'"]),
        (
            "q = QuantizeLinear (w, s, z) m = Relu (w) y = MatMul (x, c)",
            ["c: float for MatMul 'MatMul -> y'", "w: is quantized for one reader and float for Relu 'Relu -> m'"],
        ),
        ("q = QuantizeLinear (w, s, z) y = Add (c, x)", []),
        ("q = QuantizeLinear (w, s, z) y = MatMul (c, x)", []),
        ("q = QuantizeLinear (w, s, z)", []),
        ("q = QuantizeLinear (w, s, z) y = QuantizeLinear (c, s, z)", []),
        ("m = Gather (w, i) y = MatMul (x, c)", []),
        ("m = MatMul (x, w) y = MatMul (x, c)", []),
    ],
)
def test_copies_of_a_weight(body: str, expected: list[str]):
    assert copies(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "m = MatMul (x, w) d = QuantizeLinear (x, c, z) y = MatMul (x, c)",
        "q = QuantizeLinear (w, s, z) d = QuantizeLinear (x, c, z)",
    ],
)
def test_a_scale_is_no_weight(body: str):
    assert copies(body, shape=(SIDE * SIDE,)) == []


def test_copies_of_codes_are_not_compared():
    assert copies("d = DequantizeLinear (w, s) g = Gather (c, i)", elem_type=T.INT8) == []


@pytest.mark.parametrize("elem_type", [T.FLOAT, T.FLOAT16, T.BFLOAT16])
@pytest.mark.parametrize(("shape", "reported"), [((32, 32), True), ((31, 33), False)])
def test_weights_of_1024_elements_and_more_are_compared(shape: tuple[int, int], reported: bool, elem_type: int):
    found = copies("q = QuantizeLinear (w, s, z) y = MatMul (x, c)", shape, elem_type)

    assert found == (["c: float for MatMul 'MatMul -> y'"] if reported else [])
