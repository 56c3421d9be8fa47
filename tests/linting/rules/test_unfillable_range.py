"""QN504: scales in another unit are found from both sides, and no pair that somebody made well is reported."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto as T
from onnx import numpy_helper
from support.corpus._case import graph_model, node, tensor
from support.paths import ROOT

from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.recipe import Recipe

SAMPLES = ("digits_cnn", "digits_depthwise", "digits_transformer", "char_lm")


def findings(model: onnx.ModelProto) -> list[Finding]:
    return list(rules.get("QN504").run(RuleContext(Model(model)), targets.get("tensorrt-rtx")))


def layer(first: float = 0.01, second: float = 0.02, kind: int = T.INT8, bias: float = 0.0) -> onnx.ModelProto:
    """A product between two pairs: what comes in is 2.54 wide, what comes out 4.4."""
    return graph_model(
        [
            node("QuantizeLinear", ["x", "s", "z"], "q"),
            node("DequantizeLinear", ["q", "s", "z"], "d"),
            node("MatMul", ["d", "w"], "m"),
            node("Add", ["m", "b"], "a"),
            node("QuantizeLinear", ["a", "t", "z"], "p"),
            node("DequantizeLinear", ["p", "t", "z"], "y"),
        ],
        [("x", T.FLOAT, [1, 2])],
        [("y", T.FLOAT, [1, 2])],
        [
            tensor("s", first),
            tensor("t", second),
            tensor("z", 0, kind),
            tensor("w", [[1, -1], [0.5, 0.25]]),
            tensor("b", [bias, -bias]),
        ],
    )


@pytest.mark.parametrize(
    ("first", "second", "severity"),
    [
        (0.01, 0.02, None),
        # Powers of 2, and a clipped tensor.
        (0.01, 0.06, None),
        (0.01, 0.0001, None),
        (0.01, 0.3, "warning"),
        (0.01, 20, "error"),
        (0.0005, 0.02, "warning"),
        (0.00001, 0.02, "error"),
    ],
)
def test_a_range_that_nothing_fills_is_reported(first: float, second: float, severity: str | None):
    assert [each.severity for each in findings(layer(first, second))] == ([severity] if severity else [])


def test_a_range_that_only_a_bias_fills_is_reported():
    assert findings(layer(0.01, 0.02, bias=2.0)) == []
    (finding,) = findings(layer(0.00001, 0.02, bias=2.0))
    assert "the values of a channel span at most 0.00382" in finding.message


def test_the_finding_names_both_scales_that_may_be_wrong():
    (finding,) = findings(layer(0.01, 20))

    assert finding.node == "QuantizeLinear -> p"
    assert "with the range of 'DequantizeLinear -> d'" in finding.message
    assert finding.found == "scale 20"
    assert finding.expected == "a scale of about 0.015, or a larger one at 'DequantizeLinear -> d'"


def test_float_formats_lose_less():
    assert [each.effect for each in findings(layer(0.01, 20, T.FLOAT8E4M3FN))] == ["advice"]


@pytest.mark.parametrize(("scale", "reported"), [(0.2, []), (0.3, ["QuantizeLinear -> pn"])])
def test_inputs_of_one_concat_may_share_the_scale_of_the_widest(scale: float, reported: list[str]):
    nodes = [node("QuantizeLinear", ["x", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "d")]
    for name, factor, own in (("n", "narrow", "own"), ("w", "wide", "shared")):
        nodes += [
            node("Mul", ["d", factor], name),
            node("QuantizeLinear", [name, own, "z"], f"p{name}"),
            node("DequantizeLinear", [f"p{name}", own, "z"], f"d{name}"),
        ]
    model = graph_model(
        [*nodes, node("Concat", ["dn", "dw"], "y", axis=1)],
        [("x", T.FLOAT, [1, 2])],
        [("y", T.FLOAT, [1, 4])],
        [
            *(tensor(name, value) for name, value in (("s", 0.01), ("narrow", 0.5), ("wide", 20), ("shared", 0.2))),
            tensor("own", scale),
            tensor("z", 0, T.INT8),
        ],
    )

    assert [each.node for each in findings(model)] == reported


def behind(body: str, scale: float, zero_point: int = 0, kind: str = "int8") -> list[tuple[str | None, str, str]]:
    """Severity, kind of extent and message of each finding for a Q of ``a``, on every target alike."""
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[1,4] x, int8[1,4] c, float m) => (float[1,4] y)
        <float s = {{{scale}}}, float t = {{0.05}}, {kind} z = {{{zero_point}}}, int8 k = {{0}},
         float zero = {{0}}, float six = {{6}}, float most = {{65504}},
         float[4,4] w = {{1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1}},
         float[4] b = {{-8, -8, -8, -8}}> {{ {body} q = QuantizeLinear (a, s, z) y = DequantizeLinear (q, s, z) }}"""
    context = RuleContext(Model(onnx.parser.parse_model(text)))
    found = [[*rules.get("QN504").run(context, targets.get(name))] for name in targets.names()]
    assert all(each == found[0] for each in found)
    assert all(each.extent is not None for each in found[0])
    return [(each.severity, each.extent.kind, each.message) for each in found[0] if each.extent is not None]


@pytest.mark.parametrize(
    ("body", "scale", "zero_point", "kind"),
    [
        ("a = Tanh (x)", 1e-4, 0, "int8"),
        ("a = Tanh (x)", 0.0019, 0, "int8"),
        ("a = Sigmoid (x)", 1e-4, 0, "uint8"),
        ("a = Sigmoid (x)", 0.00195, 0, "int8"),
        ("a = HardSigmoid (x)", 1e-3, 0, "int8"),
        ("a = Softmax (x)", 1e-4, 0, "int8"),
        ("a = Clip (x, zero, six)", 7e-4, 0, "int8"),
        # The bound holds through nodes that only move values.
        ("r = Tanh (x) a = Transpose <perm = [0, 1]> (r)", 1e-4, 0, "int8"),
        # No code for what there is.
        ("a = Relu (x)", 0.01, 127, "int8"),
        ("a = Sigmoid (x)", 0.01, 255, "uint8"),
        ("a = Clip (x, zero)", 0.01, 255, "uint8"),
        ("r = Relu (x) a = Neg (r)", 0.01, -128, "int8"),
        # All positive values are lost, which are half of all.
        ("a = Tanh (x)", 0.01, 127, "int8"),
        ("a = HardSwish (x)", 0.01, 127, "int8"),
        ("d = DequantizeLinear (c, t) a = MatMul (d, w)", 0.05, 127, "int8"),
        ("d = DequantizeLinear (c, t) a = MatMul (d, w)", 0.05, 255, "uint8"),
    ],
)
def test_a_range_without_most_values_of_an_operator_is_reported(body: str, scale: float, zero_point: int, kind: str):
    ((severity, extent, message),) = behind(body, scale, zero_point, kind)
    assert (severity, extent) == ("warning", "narrow")
    assert message.endswith(": most values are clipped")


@pytest.mark.parametrize(
    ("body", "scale", "zero_point", "kind"),
    [
        # Values that reach only a part of what is possible.
        ("a = Tanh (x)", 0.002, 0, "int8"),
        ("a = Sigmoid (x)", 0.002, 0, "int8"),
        ("a = Softmax (x)", 1.3e-4, 0, "int8"),
        ("a = Clip (x, zero, six)", 8e-4, 0, "int8"),
        ("d = DequantizeLinear (c, s) a = Tanh (d)", 1e-4, 0, "int8"),
        # A guard against overflow is no activation function, and a Relu has no end.
        ("a = Clip (x, zero, most)", 0.01, 0, "int8"),
        ("a = Relu (x)", 1e-4, 0, "int8"),
        # One sign, as it should be.
        ("a = Relu (x)", 0.01, -128, "int8"),
        ("a = Relu (x)", 0.01, 0, "uint8"),
        ("r = Relu (x) a = Tanh (r)", 0.004, 0, "uint8"),
        ("r = Relu (x) n = Neg (r) a = Tanh (n)", 0.004, 255, "uint8"),
        ("r = Relu (x) a = Neg (r)", 0.01, 127, "int8"),
        # A Q in place of a Relu.
        ("d = DequantizeLinear (c, t) a = MatMul (d, w)", 0.05, -128, "int8"),
        ("d = DequantizeLinear (c, t) a = MatMul (d, w)", 0.05, 0, "uint8"),
        ("a = Tanh (x)", 0.01, -128, "int8"),
        # Scores of a detector, nearly all of them negative, and what nothing is known of.
        ("d = DequantizeLinear (c, t) m = MatMul (d, w) a = Add (m, b)", 0.5, 127, "int8"),
        ("a = LayerNormalization (x, b)", 0.01, 127, "int8"),
        ("a = Clip (x)", 0.01, 127, "int8"),
        ("a = LogSoftmax (x)", 0.01, 127, "int8"),
        # A parameter that is computed.
        ("e = Mul (m, t) k1 = QuantizeLinear (x, e, k) d = DequantizeLinear (k1, e, k) a = Relu (d)", 0.01, 0, "int8"),
    ],
)
def test_a_range_that_holds_what_the_values_reach_is_good(body: str, scale: float, zero_point: int, kind: str):
    assert behind(body, scale, zero_point, kind) == []


STORED = """
    float quarter = {0.25}, float half = {0.5}, float two = {2}, float least = {1},
    float[2,1] fixed = {0.01, 0.02}, int8 z = {0}
"""


def told(body: str, **scales: float) -> list[tuple[str, str]]:
    """Node and severity of each finding; ``c`` and ``e`` are int8 codes, ``x`` is float, ``m`` a scale."""
    text = f"""<ir_version: 10, opset_import: ["": 21]>
        g (int8[1,2] c, int8[1,2] e, float[1,2] x, float m) => (float y) <{STORED}> {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(tensor(name, value) for name, value in scales.items())
    return [(each.node, each.severity) for each in findings(model)]


@pytest.mark.parametrize(
    ("front", "times", "severity"),
    [
        (0.25, 8, None),
        (0.25, 8.01, "warning"),
        (0.25, 9, "warning"),
        (0.25, 60, "warning"),
        (0.5, 63.9, "warning"),
        (0.5, 64, "warning"),
        (0.5, 64.1, "error"),
        (0.5, 70, "error"),
        (2 / 128, 128, "error"),
        # A tensor of zeros, such as that of a dead Relu, has a scale of 1.
        (1 / 128, 128, "warning"),
    ],
)
def test_a_range_may_be_8_times_as_wide_and_4_codes_are_few(front: float, times: float, severity: str | None):
    found = told("d = DequantizeLinear (c, s) r = Identity (d) q = QuantizeLinear (r, t, z)", s=front, t=front * times)

    assert found == ([("QuantizeLinear -> q", severity)] if severity else [])


@pytest.mark.parametrize(
    "body",
    [
        "q = QuantizeLinear ()",
        "q = QuantizeLinear (nowhere, two, z)",
        "q = QuantizeLinear (x, two, z)",
        # Weights are judged by another rule.
        "q = QuantizeLinear (fixed, two, z)",
        "d = DequantizeLinear (c, s) q = QuantizeLinear (d, m, z)",
        "d = DequantizeLinear (c, s) q = QuantizeLinear (d)",
        # What has one value only.
        "d = DequantizeLinear (c, s) r = Clip (d, least, least) q = QuantizeLinear (r, two, z)",
        # A bounded function, whatever it reads.
        "d = DequantizeLinear (c, s) r = Sigmoid (d) q = QuantizeLinear (r, s, z)",
    ],
)
def test_of_a_range_that_cannot_be_compared_nothing_is_said(body: str):
    assert told(body, s=0.01) == []


def test_behind_a_sigmoid_a_range_wider_than_its_values_is_reported():
    found = told("d = DequantizeLinear (c, s) r = Sigmoid (d) q = QuantizeLinear (r, quarter, z)", s=0.01)

    assert found == [("QuantizeLinear -> q", "warning")]


NARROW = "d = DequantizeLinear (c, s) r = Identity (d) q = QuantizeLinear (r, two, z) dq = DequantizeLinear (q, two, z)"


@pytest.mark.parametrize(
    ("beside", "also"),
    [
        # Filled, with the same scale: 8 times narrower is wide enough.
        ("o = DequantizeLinear (e, quarter) p = QuantizeLinear (o, two, z) dp = DequantizeLinear (p, two, z)", None),
        # Filled, with another scale.
        ("o = DequantizeLinear (e, half) p = QuantizeLinear (o, half, z) dp = DequantizeLinear (p, half, z)", "q"),
        # As narrow.
        ("o = DequantizeLinear (e, s) p = QuantizeLinear (o, two, z) dp = DequantizeLinear (p, two, z)", "qp"),
        # Nobody knows, so it may be filled.
        ("o = Clip (x, least) p = QuantizeLinear (o, two, z) dp = DequantizeLinear (p, two, z)", None),
        ("p = QuantizeLinear (x, two, z) dp = DequantizeLinear (p, two, z)", None),
        ("p = QuantizeLinear (x, half, z) dp = DequantizeLinear (p, half, z)", "q"),
        # No pair.
        ("dp = Relu (x)", "q"),
        ("dp = DequantizeLinear (e, two)", "q"),
        ("dp = DequantizeLinear (dq, two)", "q"),
        ("dp = Identity (dq)", "q"),
    ],
)
@pytest.mark.parametrize("order", ["dq, dp", "dp, dq"])
def test_what_fills_the_range_beside(beside: str, also: str | None, order: str):
    found = told(f"{NARROW} {beside} y = Concat <axis = 1> ({order})", s=0.05)

    assert found == [(f"QuantizeLinear -> {each}", "warning") for each in also or ""]


SCORES = """a = Sigmoid (x) {between} k = Concat <axis = 1> (x, {part}) {moved} v = Constant <value = uint8 {{0}}> ()
    f = Constant <value = float8e4m3fn {{0}}> () p = QuantizeLinear ({last}, t, {zero}) y = Relu (x)"""


JOINED = {"between": "", "part": "a", "moved": "", "last": "k", "zero": "z"}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"zero": "v"},
        {"between": "r = Transpose <perm = [0, 1]> (a)", "part": "r"},
        {"between": "q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z)", "part": "d"},
        {"moved": "o = Transpose <perm = [0, 1]> (k)", "last": "o"},
    ],
)
@pytest.mark.parametrize(("scale", "is_lost"), [(2.5, True), (0.26, True), (0.24, False), (0.01, False)])
def test_scores_that_share_a_range_with_boxes_are_lost(change: dict[str, str], scale: float, is_lost: bool):
    found = told(SCORES.format(**JOINED | change), s=0.01, t=scale)
    assert found == ([("QuantizeLinear -> p", "warning")] if is_lost else [])


def test_float_formats_and_tensors_without_a_bound_lose_no_part():
    assert told(SCORES.format(**JOINED | {"zero": "f"}), s=0.01, t=2.5) == []
    assert told(SCORES.format(**JOINED | {"between": "o = Relu (a)", "part": "o"}), s=0.01, t=2.5) == []
    # No span is known of Sin, no scale of an input, and Add joins nothing.
    assert told(SCORES.format(**JOINED | {"between": "o = Sin (x)", "part": "o"}), s=0.01, t=2.5) == []
    assert told(SCORES.format(**JOINED).replace("(k, t, z)", "(k, m, z)")) == []
    assert told(SCORES.format(**JOINED).replace("Concat <axis = 1>", "Add"), t=2.5) == []


@pytest.mark.parametrize(("scale", "is_lost"), [(0.5, False), (0.51, True)])
def test_four_codes_are_enough_for_a_joined_part(scale: float, is_lost: bool):
    text = SCORES.format(**JOINED).replace("Sigmoid", "Tanh")
    assert bool(told(text, t=scale)) is is_lost


def seeds(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """Every pair of an activation: output of the Q, and name of its scale, each made a constant of its own."""
    stored = {each.name: each for each in model.graph.initializer}
    found = []
    for each in [each for each in model.graph.node if each.op_type == "QuantizeLinear" and each.input[0] not in stored]:
        name = f"seed:{each.output[0]}"
        model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(stored[each.input[1]]), name))
        for user in model.graph.node:
            if user is each or (user.op_type == "DequantizeLinear" and user.input[0] == each.output[0]):
                user.input[1] = name
        found.append((each.output[0], name))
    return found


@pytest.mark.slow(reason="plants hundreds of faults")
@pytest.mark.parametrize("mode", ["int8", "fp8"])
@pytest.mark.parametrize("name", SAMPLES)
def test_of_seeded_faults_most_are_found_and_none_without(name: str, mode: str, tmp_path: Path):
    folder = ROOT / "sample_models" / name
    options = QuantizeOptions(recipe=Recipe(quantize_mode=mode))
    quantize_model(folder / "model.onnx", folder / "calibration.npz", tmp_path / "q.onnx", options)
    model = onnx.load(tmp_path / "q.onnx")
    pairs = seeds(model)
    assert findings(model) == []

    found = 0
    for _, scale in pairs:
        constant = next(each for each in model.graph.initializer if each.name == scale)
        before = numpy_helper.to_array(constant)
        constant.CopyFrom(numpy_helper.from_array(np.float32(1000) * before, scale))
        found += bool(findings(model))
        constant.CopyFrom(numpy_helper.from_array(before, scale))
    assert found >= 0.7 * len(pairs)
