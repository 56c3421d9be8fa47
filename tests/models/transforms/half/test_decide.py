"""What becomes float16 and what does not, judged by onnx's checker, ONNX Runtime and onnx's reference evaluator."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator
from support.half import in_half, outputs_of, sqnr_db, types_of
from support.rich_model import rich_feeds, rich_model
from support.small import conv_model, make_model

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half import convert_to_half
from qdqtool.models.transforms.half.decide import decide

RANDOM = np.random.default_rng(31)
FEW_ROUNDINGS = 50.0
"""In dB: one rounding to 11 bits leaves 73 (``6.02 * 11 + 6.8``), a hundred of them 53."""


def kept(half):
    return {node.node: node.reason for node in half.kept}


def floats(*shape, scale=1.0):
    return (scale * RANDOM.standard_normal(shape)).astype(np.float32)


def node(op_type, inputs, output, **attributes):
    return helper.make_node(op_type, inputs.split(), output.split(), name=output.split()[0], **attributes)


def test_a_network_is_float16_from_its_first_cast_to_its_last():
    written, half = in_half(conv_model())
    assert (half.nodes, half.kept, half.casts) == (3, (), 2)
    types = types_of(written)
    assert {types[name] for name in ("x", "y")} == {"FLOAT"}
    assert {types[name] for each in written.graph.node if each.op_type != "Cast" for name in each.input} == {"FLOAT16"}
    x = {"x": floats(1, 3, 8, 8)}
    assert sqnr_db(outputs_of(conv_model(), x)["y"], outputs_of(written, x)["y"]) > FEW_ROUNDINGS


def test_the_given_model_is_not_changed():
    given = conv_model()
    before = given.SerializeToString()
    convert_to_half(Model(given), HalfType.FP16)
    assert given.SerializeToString() == before


def test_a_model_without_float32_is_left_alone():
    once, _ = in_half(conv_model())
    twice, half = in_half(once)
    assert (half.nodes, half.kept, half.casts) == (0, (), 0)
    assert twice.SerializeToString() == once.SerializeToString()


@pytest.mark.parametrize("flag", [True, False])
def test_bodies_compute_in_float16_and_hand_over_float32(flag):
    model = rich_model()
    half = convert_to_half(Model(model), HalfType.FP16)
    converted, feeds = half.model.proto, rich_feeds(flag=flag)
    onnx.checker.check_model(converted, full_check=True)
    expected, found = outputs_of(model, feeds), outputs_of(converted, feeds)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert sqnr_db(array, found[name]) > FEW_ROUNDINGS
    reasons = {each.op_type: each.reason for each in half.report.kept}
    assert reasons["If"] == "the inputs and outputs of the bodies of If stay float32"
    assert any("local function" in each.reason or "no operator of ONNX" in each.reason for each in half.report.kept)
    inside = [each for each in converted.graph.node if each.op_type in {"If", "Loop", "Scan"}]
    bodies = [attribute.g for each in inside for attribute in each.attribute if attribute.g.node]
    assert any(each.op_type == "Cast" for body in bodies for each in body.node)


def test_values_that_were_seen_to_be_large_stay_float32():
    """The naive conversion is infinite in onnx's reference, which computes float16 in float16."""
    nodes = [node("MatMul", "x w", "small"), node("Mul", "small c", "large"), node("Mul", "large d", "y")]
    weights = {"w": floats(8, 8), "c": np.float32([1e5]), "d": np.float32([1e-5])}
    model = make_model(nodes, {"x": (4, 8)}, {"y": (4, 8)}, {**weights, "c": np.float32([6e4])})
    x = {"x": floats(4, 8)}
    naive, _ = in_half(model)
    with np.errstate(all="ignore"):
        assert not np.isfinite(ReferenceEvaluator(naive).run(None, x)[0]).all()
    written, half = in_half(model, {((), "small"): 9.0, ((), "large"): 5.4e5})
    assert kept(half) == dict.fromkeys(("large", "y"), LARGE)
    assert sqnr_db(outputs_of(model, x)["y"], ReferenceEvaluator(written).run(None, x)[0]) > FEW_ROUNDINGS


LARGE = "'large' reaches 5.4e+05: more than 16376, a quarter of what float16 holds"


@pytest.mark.parametrize(("op_type", "large"), [("ReduceL2", "squares"), ("LpNormalization", "s")])
def test_squares_that_are_added_up_inside_must_fit(op_type, large):
    attributes = {"keepdims": 1, "axes": [-1]} if op_type == "ReduceL2" else {"axis": -1}
    nodes = [node("Sigmoid", "x", "s"), node(op_type, "s", "squares", **attributes), node("Sigmoid", "squares", "y")]
    model = make_model(nodes, {"x": (2, 8)}, {"y": (2, "n")}, {})
    assert not in_half(model, {((), large): 120.0})[1].kept
    _, half = in_half(model, {((), large): 130.0})
    assert kept(half) == {"squares": "it adds up squares, which reach 1.69e+04: more than 16376"}


@pytest.mark.parametrize(
    ("operator", "fits", "beyond", "reason"),
    [
        ("ReduceMean <keepdims = 1> (s)", 4094, 4095, "it adds up numbers, which reach 1.64e+04: more than 16376"),
        ("ReduceLogSum <keepdims = 1> (s)", 9.7, 9.71, "it adds up numbers, which reach 1.65e+04: more than 16376"),
        ("ReduceLogSumExp <keepdims = 1> (s)", 9.7, 800, "it adds up numbers, which reach inf: more than 16376"),
        ("LogSoftmax <axis = 0> (s)", 9.7, 9.71, "it takes the logarithm of 6.07e-05, where float16 has fewer bits"),
    ],
)
def test_what_a_formula_makes_inside_must_fit(operator, fits, beyond, reason):
    graph = f"{HEAD} {{ s = Sigmoid (x) r = {operator} y = Mul (r, s) }}"
    assert report(graph, {"r": fits})[1] == {}
    assert report(graph, {"r": beyond})[1] == {"r": reason}


def test_an_average_over_an_unknown_number_is_judged_by_its_result():
    graph = f"{HEAD} {{ s = Sigmoid (x) r = ReduceMean <keepdims = 1> (s) y = Mul (r, s) }}".replace("[4]", "[n]")
    assert report(graph, {"r": 16000.0})[1] == {}


def test_a_refused_node_stays_float32_with_the_given_reason():
    half = convert_to_half(Model(conv_model()), HalfType.FP16, {}, lambda node: "asked" * node.is_op("Relu"))
    assert [(each.op_type, each.reason) for each in half.report.kept] == [("Relu", "asked")]
    assert (len(half.report.computing), half.report.casts) == (2, 4)


def test_arithmetic_of_shapes_stays_float32():
    """Half of 4098 is 2049, which float16 has not."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Cast", "shape", "extents", to=TensorProto.FLOAT),
        node("Mul", "extents half", "halves"),
        node("Floor", "halves", "floored"),
        node("Cast", "floored", "wanted", to=TensorProto.INT64),
        node("Relu", "x", "rectified"),
        node("Resize", "rectified   wanted".replace("   ", " none none "), "y", mode="nearest"),
    ]
    nodes[-1].input[:] = ["rectified", "", "", "wanted"]
    model = make_model(nodes, {"x": (1, 1, 1, "n")}, {"y": (1, 1, "h", "w")}, {"half": np.float32([1, 1, 1, 0.5])})
    written, half = in_half(model)
    assert set(kept(half)) == {"halves", "floored"}
    assert set(kept(half).values()) == {
        "its results become indices or shapes, and float16 holds integers only up to 2048"
    }
    x = {"x": np.arange(4098, dtype=np.float32).reshape(1, 1, 1, -1) / 4098}
    assert outputs_of(written, x)["y"].shape == (1, 1, 1, 2049)


def test_inputs_that_onnx_wants_in_float32_keep_it():
    nodes = [node("Sigmoid", "x", "s"), node("Resize", "s roi scales", "y", mode="nearest")]
    weights = {"roi": np.empty(0, np.float32), "scales": np.float32([1, 1, 2, 2])}
    model = make_model(nodes, {"x": (1, 1, 2, 2)}, {"y": (1, 1, 4, 4)}, weights)
    types = types_of(in_half(model)[0])
    assert {types["scales"], types["roi"]} == {"FLOAT"}
    assert types["y_float16"] == "FLOAT16"


@pytest.mark.parametrize(
    ("op_type", "reason"),
    [
        ("GridSample", "it reads positions in an image: for 640 pixels, the steps of float16 are up to half a pixel"),
        ("NonMaxSuppression", "ONNX defines NonMaxSuppression for float32 and not for float16"),
        ("Range", "ONNX defines Range for float32 and not for float16"),
        ("RandomNormalLike", "an attribute sets the type of its random numbers"),
    ],
)
def test_operators_that_stay_float32_say_why(op_type, reason):
    shapes = {
        "GridSample": {"a": (1, 1, 4, 4), "b": (1, 2, 2, 2)},
        "NonMaxSuppression": {"a": (1, 6, 4), "b": (1, 1, 6)},
        "Range": {"a": (), "b": (), "c": ()},
        "RandomNormalLike": {"a": (2, 2)},
    }[op_type]
    out = TensorProto.INT64 if op_type == "NonMaxSuppression" else TensorProto.FLOAT
    rank = {"GridSample": 4, "Range": 1}.get(op_type, 2)
    doubled = [node("Add", f"{name} {name}", f"{name}2") for name in shapes]
    made = node(op_type, " ".join(f"{name}2" for name in shapes), "y")
    model = make_model([*doubled, made], shapes, {"y": tuple("ijkl"[:rank])}, {})
    model.graph.output[0].type.tensor_type.elem_type = out
    _, half = in_half(model)
    assert kept(half)["y"] == reason


def test_operators_of_other_domains_keep_their_types():
    nodes = [node("Relu", "x", "a"), node("Trilu", "a", "b"), node("Relu", "b", "y")]
    nodes[1].domain = "com.microsoft"
    model = make_model(nodes, {"x": (2, 2)}, {"y": (2, 2)}, {})
    model.graph.value_info.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, (2, 2)))
    model.opset_import.add(domain="com.microsoft", version=1)
    half = convert_to_half(Model(model), HalfType.FP16)
    assert kept(half.report)["b"].startswith("it is not an ONNX operator")
    x = {"x": floats(2, 2)}
    assert sqnr_db(outputs_of(model, x)["y"], outputs_of(half.model.proto, x)["y"]) > FEW_ROUNDINGS


@pytest.mark.parametrize("low", [-1e9, float(np.finfo(np.float32).min)])
def test_a_mask_may_be_any_number_that_softmax_makes_zero(low):
    """A row in which all is masked gives numbers, too: minus infinity would give NaN."""
    nodes = [
        node("Cast", "mask", "flags", to=TensorProto.FLOAT),
        node("Sub", "one flags", "hidden"),
        node("Mul", "hidden low", "masking"),
        node("Add", "scores masking", "masked"),
        node("Softmax", "masked", "y", axis=-1),
    ]
    weights = {"one": np.float32(1), "low": np.float32(low)}
    model = make_model(nodes, {"scores": (4, 8), "mask": (4, 8)}, {"y": (4, 8)}, weights)
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    seen = {((), "masking"): -low, ((), "masked"): -low}
    written, half = in_half(model, seen)
    assert not half.kept
    mask = RANDOM.integers(0, 2, (4, 8))
    mask[0], mask[1:, 0] = 0, 1
    feeds = {"scores": floats(4, 8, scale=3), "mask": mask}
    found = ReferenceEvaluator(written).run(None, feeds)[0]
    assert np.isfinite(found).all()
    assert sqnr_db(outputs_of(model, feeds)["y"][1:], found[1:]) > FEW_ROUNDINGS
    assert not found[1:][mask[1:] == 0].any()


def test_a_bound_that_bounds_nothing_needs_no_float32():
    nodes = [node("Relu", "x", "r"), node("Clip", "r low high", "y")]
    weights = {"low": np.float32(0), "high": np.float32(np.finfo(np.float32).max)}
    model = make_model(nodes, {"x": (3,)}, {"y": (3,)}, weights)
    written, half = in_half(model)
    assert not half.kept
    assert ReferenceEvaluator(written).run(None, {"x": np.float32([-1, 0.5, 8])})[0].tolist() == [0, 0.5, 8]


def test_an_epsilon_does_not_vanish():
    nodes = [
        node("Mul", "x x", "square"),
        node("Add", "square epsilon", "positive"),
        node("Sqrt", "positive", "root"),
        node("Div", "x root", "y"),
    ]
    model = make_model(nodes, {"x": (2,)}, {"y": (2,)}, {"epsilon": np.float32(1e-12)})
    written, half = in_half(model)
    assert not half.kept
    assert ReferenceEvaluator(written).run(None, {"x": np.float32([0, 2])})[0].tolist() == [0, 1]


def test_tiny_weights_among_others_vanish():
    weight = np.float32([[1.0, 1e-12]])
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "s w", "y")]
    written, _ = in_half(make_model(nodes, {"x": (1, 2)}, {"y": (1, 2)}, {"w": weight}))
    (tensor,) = written.graph.initializer
    assert numpy_helper.to_array(tensor).tolist() == [[1.0, 0.0]]


def test_scales_that_are_computed_become_float16_with_what_they_scale():
    """NVFP4: codes in fp4, scales in fp8 with one float32 scale, which is too small for float16."""
    codes = helper.make_tensor("codes", TensorProto.FLOAT4E2M1, (16, 8), b"\x21" * 64, raw=True)
    scales = helper.make_tensor("scales", TensorProto.FLOAT8E4M3FN, (1, 8), b"\x38" * 8, raw=True)
    nodes = [
        node("DequantizeLinear", "scales outer", "inner"),
        node("DequantizeLinear", "codes inner", "w", axis=0, block_size=16),
        node("MatMul", "x w", "y"),
    ]
    model = make_model(nodes, {"x": (4, 16)}, {"y": (4, 8)}, {"outer": np.float32(1e-6)}, opset=23, ir_version=11)
    model.graph.initializer.extend([codes, scales])
    written, half = in_half(model)
    types = types_of(written)
    assert (half.nodes, half.kept) == (1, ())
    assert [types[name] for name in ("outer", "inner", "w")] == ["FLOAT", "FLOAT16", "FLOAT16"]


def test_a_constant_with_readers_of_both_types_is_kept_for_the_one():
    nodes = [
        node("Sigmoid", "x", "s"),
        node("Mul", "s c", "a"),
        node("Mul", "x large", "b"),
        node("Mul", "b c", "d"),
        node("Sum", "a d", "y"),
    ]
    weights = {"c": floats(4), "large": np.float32([1e5])}
    model = make_model(nodes, {"x": (4,)}, {"y": (4,)}, weights)
    written, half = in_half(model, {((), "b"): 3e5, ((), "d"): 3e5})
    types = types_of(written)
    inputs = {each.name: list(each.input) for each in written.graph.node}
    assert types[inputs["a"][1]] == "FLOAT16"
    assert inputs["d"][1] == "c"
    assert types["c"] == "FLOAT"
    assert set(kept(half)) == {"b", "d", "y"}


def test_numbers_of_integers_are_cast_to_the_type_that_readers_want():
    nodes = [node("Cast", "ids", "f", to=TensorProto.FLOAT), node("Sigmoid", "f", "s"), node("Mul", "s c", "y")]
    model = make_model(nodes, {"ids": (4,)}, {"y": (4,)}, {"c": np.float32(0.5)})
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    written, half = in_half(model)
    assert types_of(written)["f"] == "FLOAT16"
    assert half.casts == 1


@pytest.mark.parametrize("spelling", ["value", "value_float", "value_floats"])
def test_constant_nodes_are_constants(spelling):
    value = {"value": numpy_helper.from_array(np.float32([0.1])), "value_float": 0.1, "value_floats": [0.1]}[spelling]
    constant = helper.make_node("Constant", [], ["c"], **{spelling: value})
    nodes = [constant, node("Sigmoid", "x", "s"), node("Mul", "s c", "y")]
    written, half = in_half(make_model(nodes, {"x": (4,)}, {"y": (4,)}, {}))
    assert (half.nodes, half.casts) == (2, 2)
    assert [tensor.data_type for tensor in written.graph.initializer] == [TensorProto.FLOAT16]
    assert "Constant" not in [each.op_type for each in written.graph.node]


def test_types_that_the_file_states_are_corrected():
    model = onnx.shape_inference.infer_shapes(conv_model())
    assert len(model.graph.value_info) == 2
    written, _ = in_half(model)
    assert {value.type.tensor_type.elem_type for value in written.graph.value_info} == {TensorProto.FLOAT16}


def report(graph, measured=None, opset=21):
    """The whole report of a conversion: what computes in float16, what does not and why, and the Casts."""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {graph}')
    half = in_half(model, {((), name): value for name, value in (measured or {}).items()})[1]
    return half.nodes, {each.node.split(" -> ")[1]: each.reason for each in half.kept}, half.casts


HEAD = "g (float[4] x, float[4] z) => (float[4] y) <float large = {1e5}, float c = {0.5}, int64 one = {1}>"
BETWEEN = "it is between nodes that stay float32, so two Casts would gain nothing"
BEYOND = "constant 'large' has 1e+05, beyond 65504"


@pytest.mark.parametrize(
    ("number", "reason"),
    [(65504.0, ""), (-65504.0, ""), (65508.0, "constant 'c' has 6.55e+04, beyond 65504"), (1e-12, ""), (0.0, "")],
)
def test_a_constant_must_be_finite_in_float16(number, reason):
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "s c", "m"), node("Sigmoid", "m", "y")]
    _, half = in_half(make_model(nodes, {"x": (4,)}, {"y": (4,)}, {"c": np.float32(number)}))
    assert kept(half) == ({"m": reason} if reason else {})


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (16376.0, ""),
        (16377.0, "'a' reaches 1.64e+04: more than 16376, a quarter of what float16 holds"),
        (2.0**-14, ""),
        (2.0**-14 - 2.0**-30, "'a' is at most 6.1e-05 in magnitude, where float16 has fewer bits"),
        (0.0, ""),
    ],
)
def test_measured_values_must_be_normal_numbers_with_a_reserve(seen, reason):
    reasons = dict.fromkeys(("a", "b"), reason) if reason else {}
    graph = f"{HEAD} {{ s = Sigmoid (x) a = MatMul (s, s) b = Softmax (a) y = Sigmoid (b) }}".replace("[4]", "[4,4]")
    assert report(graph, {"a": seen}) == (4 - len(reasons), reasons, 4 if reasons else 2)


def test_tiny_values_count_where_they_were_measured():
    """A Transpose of the same values was not, so its own readers go by their other operands."""
    graph = f"{HEAD} {{ t = Transpose (x) a = Sigmoid (t) y = Softmax (a) }}"
    tiny = "'x' is at most 1e-07 in magnitude, where float16 has fewer bits"
    assert report(graph, {"x": 1e-7}) == (2, {"t": tiny}, 2)


def test_squares_may_reach_the_limit():
    largest = 127.96874618437113
    assert largest**2 == 16376
    graph = f"{HEAD} {{ s = Sigmoid (x) r = ReduceL2 <keepdims = 1> (s) y = Sigmoid (r) }}"
    graph = graph.replace("float[4] y", "float[1] y")
    assert report(graph, {"r": largest}) == (3, {}, 2)
    assert list(report(graph, {"r": 127.97})[1]) == ["r"]


@pytest.mark.parametrize(
    ("nodes", "reasons"),
    [
        # The model's inputs and outputs are float32, so light nodes between them stay so.
        ("y = Neg (x)", {"y": BETWEEN}),
        ("a = Mul (x, large) b = Neg (a) y = Mul (b, large)", {"a": BEYOND, "b": BETWEEN, "y": BEYOND}),
        ("a = Mul (x, large) b = Transpose (a) y = Mul (b, large)", {"a": BEYOND, "b": BETWEEN, "y": BEYOND}),
        ("f = Greater (x, z) y = Where (f, x, z)", {"f": BETWEEN, "y": BETWEEN}),
        ("a = Neg (x) i = ArgMax (a) y = Mul (a, large)", {"y": BEYOND}),
        # A layer is worth two Casts, and so is a neighbour that is float16.
        ("y = Sigmoid (x)", {}),
        ("a = Neg (x) y = Sigmoid (a)", {}),
        ("a = Sigmoid (x) y = Neg (a)", {}),
        ("a = Sigmoid (x) f = Greater (a, z) y = Where (f, x, a)", {}),
        (
            "a, b = Split <num_outputs = 2> (x) s = Sigmoid (a) m = Mul (b, large) y = Concat <axis = 0> (s, m)",
            {"m": BEYOND},
        ),
        # A node of constants has no tensor to cast.
        (
            "a = Add (c, c) b = Mul (a, large) y = Mul (b, x)",
            {"b": BEYOND, "y": "constant 'b' has 1e+05, beyond 65504"},
        ),
    ],
)
def test_light_nodes_stay_float32_between_float32(nodes, reasons):
    count = nodes.count("=") - nodes.count("axis") - nodes.count("num_outputs") - nodes.count("ArgMax")
    computing, found, casts = report(f"{HEAD} {{ {nodes} }}")
    assert found == reasons
    assert computing == count - len(reasons)
    assert (casts == 0) == (computing == 0)


def test_outputs_that_onnx_wants_in_float32_keep_it():
    """The mean of a LayerNormalization has a type of its own, which is never float16."""
    graph = """g (float[2,4] x) => (float[2,4] y) <float[4] w = {1, 1, 1, 1}> {
        n, m = LayerNormalization (x, w) a = Sigmoid (m) y = Mul (n, a) }"""
    assert report(graph) == (3, {}, 3)


PAIRS = """g (float[4] x, float[4] z) => (float[4] y) <float s = {0.5}, float16 s16 = {14336}, int8 o = {0},
    float t = {0.5}, float[4] w = {1, 2, 3, 4}, float[4] v = {1, 2, 3, 4}, float large = {1e5}, uint8 u = {8}>"""
ACTIVATION = "q = QuantizeLinear (a, s, o) d = DequantizeLinear (q, s, o)"
WEIGHT = "i = DequantizeLinear (u, s) q = QuantizeLinear (w, i, o) d = DequantizeLinear (q, i, o)"
MIXED = """h = Cast <to = 10> (x) r = Neg (h) q = QuantizeLinear (r, s, o)
    d = DequantizeLinear <output_dtype = 10> (q, s, o) e = Add (r, d) y = Cast <to = 1> (e)"""
OTHER_SCALE = "i = DequantizeLinear (u, s) q = QuantizeLinear (w, i, o) d = DequantizeLinear (q, s, o)"
COMPUTED = "i = Exp (t) q = QuantizeLinear (a, i, o) d = DequantizeLinear (q, i, o)"


def decided(nodes, opset):
    """The tensors that become float16, and the uses that want it, as ``q.0``: those that want float32, then either."""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {PAIRS} {{ {nodes} }}')
    index = ModelIndex.of(Model(model))
    decisions = decide(index, HalfType.FP16, {}, lambda _: "")
    kinds = {TensorProto.FLOAT, TensorProto.FLOAT16}
    floats = [value for value in index.view.values() if index.types.elem_type(value) in kinds]
    wants = {True: set(), False: set(), None: set()}
    for value in floats:
        for use in value.uses:
            wants[decisions.wants_half(use)].add(f"{use.node.key[0]}.{use.index}")
    return " ".join(value.name for value in floats if decisions.is_half(value)), wants


@pytest.mark.parametrize(
    ("nodes", "opset", "half", "wants_half", "wants_full", "takes_either"),
    [
        # A stored scale follows the tensor, so the data may have either type.
        (f"a = Sigmoid (x) {ACTIVATION} y = Sigmoid (d)", 19, "a d y", "a.0 y.0", "q.1 d.1", "q.0"),
        (f"a = Sigmoid (x) {ACTIVATION} y = Mul (d, large)", 19, "a", "a.0", "q.1 d.1 y.0 y.1", "q.0"),
        (
            "q = QuantizeLinear (w, s, o) d = DequantizeLinear (q, s, o) y = MatMul (d, x)",
            19,
            "d y",
            "y.0 y.1",
            "q.0 q.1 d.1",
            "",
        ),
        # A computed scale is float32, and so is the data, unless the opset allows two types.
        (f"a = Sigmoid (x) {COMPUTED} y = Sigmoid (d)", 21, "a i y", "a.0 i.0 y.0", "q.0 q.1 d.1", ""),
        (f"a = Sigmoid (x) {COMPUTED} y = Sigmoid (d)", 23, "a i d y", "a.0 i.0 d.1 y.0", "q.1", "q.0"),
        (f"{WEIGHT} y = MatMul (x, d)", 21, "y", "y.0 y.1", "i.1 q.0 q.1 d.1", ""),
        # A DQ that makes scales, and the weight, go with the tensor that is scaled.
        (f"{WEIGHT} y = MatMul (x, d)", 23, "i d y", "q.0 q.1 d.1 y.0 y.1", "i.1", ""),
        (f"{OTHER_SCALE} y = MatMul (x, d)", 21, "d y", "q.0 q.1 y.0 y.1", "i.1 d.1", ""),
        # Float16 that the model has already is none of our business, whatever the scale is.
        (MIXED, 23, "", "", "q.1 d.1 r.0 e.0 e.1 y.0", "h.0 q.0"),
        (f"{WEIGHT} y = Mul (d, large)", 23, "", "", "i.1 q.0 q.1 d.1 y.0 y.1", ""),
        (
            f"{WEIGHT} e = DequantizeLinear (q, i, o) m = Mul (e, large) y = MatMul (x, d)",
            23,
            "d y",
            "d.1 y.0 y.1",
            "i.1 q.0 q.1 e.1 m.0 m.1",
            "",
        ),
    ],
)
def test_pairs_go_with_their_neighbours_and_scales(nodes, opset, half, wants_half, wants_full, takes_either):
    found, wants = decided(nodes, opset)
    assert set(found.split()) == set(half.split())
    assert wants == {True: set(wants_half.split()), False: set(wants_full.split()), None: set(takes_either.split())}


def test_only_constants_of_the_file_in_float32_are_stored():
    nodes = "c = Constant <value_float = 0.5> () e = Exp (c) k = Constant <value = int8 {1}> () y = Add (x, z)"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {PAIRS} {{ {nodes} }}')
    index = ModelIndex.of(Model(model))
    decisions = decide(index, HalfType.FP16, {}, lambda _: "")
    stored = {value.name for value in index.view.values() if decisions.is_stored(value)}
    assert stored == {"s", "t", "w", "v", "large", "c"}
    assert not decisions.is_stored(None)


def test_a_dq_that_makes_nothing_leaves_its_computed_scale_in_float32():
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 23]> {PAIRS} {{ {WEIGHT} y = Neg (x) }}')
    model.graph.node[2].output[:] = [""]
    index = ModelIndex.of(Model(model))
    decisions = decide(index, HalfType.FP16, {}, lambda _: "")
    (scale,) = [value for value in index.view.values() if value.name == "i"]
    assert [decisions.wants_half(use) for use in scale.uses] == [False, False]


ROTARY = """<ir_version: 10, opset_import: ["": 21]>
g (int64[1,1,4] i, float[1,2,INNER] f, float[1,2,4] x) => (float[1,2,4] y) {
    p = Cast <to = 1> (i) a = MatMul (f, p) t = Neg (a) c = Cos (t) s = Sin (t) b = Add (c, s) y = Mul (b, x) }"""


def rotary(inner: int = 1) -> onnx.ModelProto:
    return parser.parse_model(ROTARY.replace("INNER", str(inner)).replace("int64[1,1,4]", f"int64[1,{inner},4]"))


@pytest.mark.parametrize(
    ("angle", "half"), [(None, set()), (8.5, set()), (8.0, {"a", "t", "c", "s"}), (0.0, {"a", "t", "c", "s"})]
)
def test_angles_are_float32_unless_they_are_known_to_be_small(angle, half):
    index = ModelIndex.of(Model(rotary()))
    found = decide(index, HalfType.FP16, {((), "t"): angle} if angle is not None else {}, lambda _: "")
    assert {node.key[0] for node in found.computing()} - {node.key[0] for node in found.kept} == half | {"b", "y"}
    assert all("angles that exceed 8 or were not measured" in reason for reason in found.kept.values())


def test_positions_beyond_what_float16_holds_turn_as_in_float32():
    written, _ = in_half(rotary())
    feeds = {"i": np.int64([[[1, 2047, 4099, 30001]]]), "f": np.float32([[[0.7], [0.03]]]), "x": floats(1, 2, 4)}
    # ONNX Runtime's CPU provider skips roundings between nodes for which it has float32 kernels only.
    expected, found = (ReferenceEvaluator(model).run(None, feeds)[0] for model in (rotary(), written))
    assert sqnr_db(expected, found) > FEW_ROUNDINGS


def test_a_product_that_adds_up_is_half_in_front_of_angles():
    found = decide(ModelIndex.of(Model(rotary(inner=2))), HalfType.FP16, {}, lambda _: "")
    assert {node.key[0] for node in found.kept} == {"t", "c", "s"}


@pytest.mark.parametrize(("reserve", "half"), [(1.0, {"a", "y"}), (8.0, {"y"})])
def test_values_may_be_larger_than_on_random_inputs(reserve, half):
    model = make_model(
        [node("Relu", "x", "a"), node("Tanh", "a", "b"), node("MatMul", "b w", "y")],
        {"x": (2, 2)},
        {"y": (2, 2)},
        {"w": floats(2, 2)},
    )
    found = decide(
        ModelIndex.of(Model(model)),
        HalfType.FP16,
        {((), "a"): 2048.0},
        lambda _: "",
        saves_casts=False,
        reserve=reserve,
    )
    assert {each.key[0] for each in found.computing()} - {each.key[0] for each in found.kept} - {"b"} == half
    assert all("1/32 of what float16 holds" in reason for reason in found.kept.values())


def test_a_mask_of_moderate_size_needs_no_float32_on_random_inputs():
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (float[2,2] x, bool[2,2] m) => (float[2,2] y)
        <float low = {-10000}> { a = Where (m, x, low) y = Softmax (a) }"""
    )
    found = decide(ModelIndex.of(Model(model)), HalfType.FP16, {((), "a"): 1e4}, lambda _: "", reserve=8.0)
    assert not found.kept


def test_operators_of_onnx_runtime_with_known_types_are_converted():
    nodes = [node("Relu", "x", "a"), node("MultiHeadAttention", "a a2 a2", "b", num_heads=2), node("Relu", "b", "y")]
    nodes.insert(1, node("Neg", "a", "a2"))
    nodes[2].domain = "com.microsoft"
    model = make_model(nodes, {"x": (1, 4, 8)}, {"y": (1, 4, 8)}, {})
    model.opset_import.add(domain="com.microsoft", version=1)
    half = convert_to_half(Model(model), HalfType.FP16)
    assert kept(half.report) == {}
    x = {"x": floats(1, 4, 8)}
    assert sqnr_db(outputs_of(model, x)["y"], outputs_of(half.model.proto, x)["y"]) > FEW_ROUNDINGS
