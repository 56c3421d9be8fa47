"""Attention masks in every form that exporters write, scales of a Softmax, and products that become divisors."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from support.engine_models import Net
from support.metrics import sqnr_db
from support.networks import bert
from support.ort_verdict import ort_outputs
from support.placed import proposal
from support.small import run

from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Slot
from qdqtool.numerics import formats
from qdqtool.quantization.planning.existing_pairs import propose_for
from qdqtool.quantization.planning.placement import Reason, Selection
from qdqtool.quantization.planning.placement.context import PlacementContext
from qdqtool.quantization.planning.placement.masks import adds_mask, carried_mask, carries_mask, feeds_softmax
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.file import read_stored
from qdqtool.samples.request import RandomData

LOWEST = float(np.finfo(np.float32).min)
LENGTH, WIDTH = 16, 64
LEAST_SQNR = 25.0
"""In dB: three int8 products in a row keep some 32 of Gaussian numbers; masked scores in int8 keep less than 5."""


def flags(net):
    """The mask input of the model, 1 to keep and 0 to leave out, as exporters widen it."""
    net.constant("axes", np.array([0], np.int64))
    net.op("Unsqueeze", ["keep", "axes"], "row")
    net.constant("shape", np.array([LENGTH, LENGTH], np.int64))
    return net.op("Expand", ["row", "shape"], "wide")


def inverted(net):
    net.constant("one", np.float32(1))
    return net.op("Sub", ["one", flags(net)], "out")


def constant_added(net, scores, low=-1e4):
    net.constant("mask", np.triu(np.full((LENGTH, LENGTH), low, np.float32), 1))
    return net.op("Add", [scores, "mask"], "masked")


def sliced_constant(net, scores):
    net.constant("buffer", np.triu(np.full((2 * LENGTH, 2 * LENGTH), -1e4, np.float32), 1))
    for name, values in (("from", [0, 0]), ("to", [LENGTH, LENGTH]), ("over", [0, 1])):
        net.constant(name, np.array(values, np.int64))
    return net.op("Add", [scores, net.op("Slice", ["buffer", "from", "to", "over"], "cut")], "masked")


def inverted_times(net, scores, low=-1e4):
    net.constant("low", np.float32(low))
    return net.op("Add", [scores, net.op("Mul", [inverted(net), "low"], "mask")], "masked")


def less_one_times(net, scores):
    net.constant("one", np.float32(1))
    net.constant("high", np.float32(1e4))
    flag = net.op("Sub", [flags(net), "one"], "out")
    return net.op("Add", [scores, net.op("Mul", [flag, "high"], "mask")], "masked")


def kept_less_inverted(net, scores):
    """As the first GPT-2 did: ``scores * mask - 1e4 * (1 - mask)``."""
    net.constant("high", np.float32(1e4))
    low = net.op("Mul", [inverted(net), "high"], "low")
    return net.op("Sub", [net.op("Mul", [scores, "wide"], "kept"), low], "masked")


def where_minus_infinity(net, scores):
    net.constant("low", np.float32(-np.inf))
    net.op("Cast", [flags(net)], "choose", to=onnx.TensorProto.BOOL)
    return net.op("Where", ["choose", scores, "low"], "masked")


def where_then_added(net, scores):
    net.constant("low", np.float32(LOWEST))
    net.constant("none", np.float32(0))
    net.op("Cast", [flags(net)], "choose", to=onnx.TensorProto.BOOL)
    net.op("Cast", [net.op("Where", ["choose", "none", "low"], "chosen")], "mask", to=onnx.TensorProto.FLOAT)
    return net.op("Add", [scores, "mask"], "masked")


def added_to_a_position_bias(net, scores):
    """As T5 does: the mask joins the position bias, and both are added to the scores of every layer."""
    net.constant("low", np.float32(-1e4))
    mask = net.op("Mul", [inverted(net), "low"], "mask")
    bias = net.op("Add", [net.float_weight("position", (LENGTH, LENGTH)), mask], "bias")
    return net.op("Add", [scores, bias], "masked")


def bounded_below(net, scores):
    """As OPT does: added, then bounded to what the type can hold."""
    net.constant("lowest", np.float32(LOWEST))
    return net.op("Max", [inverted_times(net, scores, LOWEST), "lowest"], "bounded")


FORMS = {
    "constant": constant_added,
    "lowest constant": lambda net, scores: constant_added(net, scores, LOWEST),
    "sliced constant": sliced_constant,
    "inverted": inverted_times,
    "inverted, lowest": lambda net, scores: inverted_times(net, scores, LOWEST),
    "less one": less_one_times,
    "kept, less inverted": kept_less_inverted,
    "Where": where_minus_infinity,
    "Where, added": where_then_added,
    "position bias": added_to_a_position_bias,
    "bounded below": bounded_below,
}


def softmax(net, masked):
    return net.op("Softmax", [masked], "weights")


def softmax_in_steps(net, masked):
    largest = net.op("ReduceMax", [masked], "largest", axes=[-1])
    power = net.op("Exp", [net.op("Sub", [masked, largest], "below")], "power")
    return net.op("Div", [power, net.op("ReduceSum", [power, net.constant("last", np.array([-1]))], "sum")], "weights")


def with_flags(net, shape):
    """The model of a network with an input ``x``, and ``keep`` where a node reads it."""
    needs_mask = any("keep" in node.input for node in net.nodes)
    return net.model({"x": shape} | ({"keep": (LENGTH,)} if needs_mask else {}))


def attention(form, normalize):
    net = Net(17)
    q, k, v = (net.op("MatMul", ["x", net.float_weight(f"w{name}", (WIDTH, WIDTH))], name) for name in "qkv")
    net.op("MatMul", [q, net.op("Transpose", [k], "kt", perm=[1, 0])], "scores")
    net.op("Div", ["scores", net.constant("width", np.float32(8))], "scaled")
    net.op("MatMul", [normalize(net, form(net, "scaled")), v], "y")
    return with_flags(net, (LENGTH, WIDTH))


def feeds(model):
    keep = np.ones((4, LENGTH), np.float32)
    keep[:, -5:] = 0
    x = np.random.default_rng(0).normal(size=(4, LENGTH, WIDTH)).astype(np.float32)
    return {value.name: {"x": x, "keep": keep}[value.name] for value in model.graph.input}


@pytest.mark.parametrize(
    ("form", "normalize"),
    [
        *((form, softmax) for form in FORMS),
        *((form, softmax_in_steps) for form in ("constant", "Where", "bounded below")),
    ],
)
def test_no_model_collapses_and_no_range_holds_a_mask(form, normalize, tmp_path):
    model = attention(FORMS[form], normalize)
    data = feeds(model)
    np.savez(tmp_path / "data.npz", **data)
    onnx.save(model, tmp_path / "m.onnx")
    keep = QuantizeOptions(ranges_file=tmp_path / "r.json")
    quantize_model(tmp_path / "m.onnx", tmp_path / "data.npz", tmp_path / "q.onnx", keep)
    first = {name: array[0] for name, array in data.items()}
    (before,), (after,) = (run(str(tmp_path / name), first) for name in ("m.onnx", "q.onnx"))
    assert sqnr_db(before, after) > LEAST_SQNR
    assert all(found.amax < 1000 for found in read_stored(tmp_path / "r.json").tensors.values())


@pytest.mark.parametrize("form", FORMS)
def test_a_product_that_reads_masked_scores_stays_float_and_says_why(form, tmp_path):
    net = Net(17)
    net.op("MatMul", [FORMS[form](net, "x"), net.float_weight("w", (LENGTH, 32))], "y")
    model = with_flags(net, (LENGTH, LENGTH))
    found = proposal(model)
    assert not found.slots
    (reason,) = (node.reason.text for node in found.skipped if node.op_type == "MatMul")
    assert "has an attention mask" in reason
    save_model(Model(model), tmp_path / "valid.onnx")


def test_a_large_factor_alone_is_no_mask():
    net = Net(17)
    net.constant("kilo", np.float32(1e4))
    net.op("Add", [net.op("Mul", ["x", "kilo"], "grams"), "x"], "sum")
    net.op("MatMul", ["sum", net.float_weight("w", (LENGTH, 32))], "y")
    assert {entry.slot.tensor for entry in proposal(net.model({"x": (LENGTH, LENGTH)})).slots} == {"sum", "w"}


MOST_STEPS = 16
"""The most operators behind each other that are searched."""


def looked_at(net, tensor):
    """A tensor of a network with square float inputs ``x`` and ``keep`` and integer ones, and its context."""
    model = net.model({"x": (LENGTH, LENGTH), "keep": (LENGTH, LENGTH)})
    for name in ("i", "j"):
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, (LENGTH, LENGTH)))
    model.graph.input.append(onnx.helper.make_tensor_value_info("b", onnx.TensorProto.BOOL, (LENGTH, LENGTH)))
    model.graph.output[0].name = net.nodes[-1].output[0]
    index = ModelIndex.of(Model(model))
    return index.value(Slot((), tensor)), PlacementContext(index, targets.get("tensorrt"), Selection())


def masked(net, tensor="y"):
    return carries_mask(*looked_at(net, tensor))


def moved(net, tensor, steps):
    for step in range(steps):
        tensor = net.op("Transpose", [tensor], f"{tensor}_{step}", perm=[1, 0])
    return tensor


def low_mask(net, low=-1e4):
    """``(1 - keep) * low``."""
    return net.op("Mul", [one_minus(net), low_number(net, low)], "mask")


def times_thousands(net, left, right="keep", op="Sub", high=1e4):
    """``(left - right) * high``."""
    return net.op("Mul", [net.op(op, [left, right], "flag"), net.constant("high", np.float32(high))], "grams")


def added(net, mask, to="x"):
    return net.op("Add", [to, mask], "y")


def one_minus(net, number=1):
    return net.op("Sub", [net.constant("one", np.float32(number)), "keep"], "out")


def low_number(net, low=-1e4):
    return net.constant("low", np.float32(low))


LOW = {
    "constant": lambda net, low: added(net, low_number(net, low)),
    "product": lambda net, low: added(net, low_mask(net, low)),
    "selection": lambda net, low: net.op("Where", ["b", "x", low_number(net, low)], "y"),
    "selection, added": lambda net, low: added(net, net.op("Where", ["b", "keep", low_number(net, low)], "mask")),
    "flag": lambda net, low: added(net, times_thousands(net, "keep", net.constant("one", np.float32(1)), high=-low)),
}


@pytest.mark.parametrize("form", LOW)
@pytest.mark.parametrize(("low", "expected"), [(-1000.0, True), (-999.0, False), (-1e30, True), (0.5, False)])
def test_a_mask_is_a_constant_of_minus_a_thousand_or_less(form, low, expected):
    net = Net(17)
    LOW[form](net, low)
    assert masked(net) is expected


@pytest.mark.parametrize(("steps", "expected"), [(1, True), (MOST_STEPS - 1, True), (MOST_STEPS, False)])
def test_a_mask_is_found_through_operators_that_move_it(steps, expected):
    behind, before, onward = Net(17), Net(17), Net(17)
    moved(behind, behind.op("Add", ["x", low_mask(behind)], "s"), steps)
    assert masked(behind, behind.nodes[-1].output[0]) is expected
    before.op("Add", ["x", moved(before, low_mask(before), steps)], "y")
    assert masked(before) is expected
    onward.op("Softmax", [moved(onward, onward.op("Neg", ["x"], "s"), steps)], "y")
    assert feeds_softmax(looked_at(onward, "s")[0].producer) is expected


def test_a_long_chain_without_a_mask_has_none():
    net = Net(17)
    net.op("Add", [moved(net, "x", 20), "x"], "s")
    moved(net, "s", 20)
    assert not masked(net, net.nodes[-1].output[0])


@pytest.mark.parametrize(("joins", "expected"), [(0, True), (1, True), (2, True), (3, False)])
@pytest.mark.parametrize("left", [False, True])
def test_a_mask_is_found_behind_two_more_sums(joins, expected, left):
    net = Net(17)
    mask = low_mask(net)
    for join in range(joins):
        mask = net.op("Add", [mask, "keep"] if left else ["keep", mask], f"bias{join}")
    net.op("Add", ["x", mask], "y")
    value, context = looked_at(net, "y")
    assert adds_mask(value.producer, context) is expected


ONWARD = {
    **{op: ["s"] for op in ("Clip", "Transpose", "Identity", "Dropout")},
    **{op: ["s", "keep"] for op in ("Mul", "Div", "Add", "Sub", "Max", "Min")},
    "Where": ["b", "s", "keep"],
}


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        *((op, inputs, True) for op, inputs in ONWARD.items()),
        ("Softmax", ["s"], False),
        ("Tanh", ["s"], False),
        ("MatMul", ["s", "keep"], False),
    ],
)
def test_a_mask_ends_where_values_are_computed_from_it(op, inputs, expected):
    net = Net(17)
    net.op("Clip", [net.op("Add", ["x", low_mask(net)], "sum")], "s")
    net.op(op, inputs, "y")
    assert masked(net) is expected
    text = "'y' has an attention mask, and one scale would round its other values to 0"
    assert carried_mask(*looked_at(net, "y")) == (Reason("attention-mask", text) if expected else None)


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [*((op, ONWARD[op], True) for op in ("Mul", "Div", "Clip", "Transpose", "Dropout")), ("Tanh", ["s"], False)],
)
def test_scores_are_scaled_and_moved_before_their_softmax(op, inputs, expected):
    net = Net(17)
    net.op("Neg", ["x"], "s")
    net.op("Softmax", [net.op(op, inputs, "t")], "y")
    assert feeds_softmax(looked_at(net, "s")[0].producer) is expected


MASKS = {
    "negative constant": lambda net: added(net, net.op("Neg", [net.constant("high", np.float32(1e4))], "low")),
    "Cast": lambda net: added(net, net.op("Cast", [low_mask(net)], "same", to=onnx.TensorProto.FLOAT)),
    "triangle": lambda net: added(net, net.op("Trilu", [low_mask(net)], "upper")),
}
NO_MASKS = {
    "Cast of nothing": lambda net: added(net, net.op("Cast", [""], "bias", to=onnx.TensorProto.FLOAT)),
    "factor": lambda net: net.op("Mul", ["x", low_number(net)], "y"),
    "bounded mask": lambda net: added(net, net.op("Tanh", [low_mask(net)], "bounded")),
    "random": lambda net: added(net, net.op("RandomNormal", [], "noise", shape=[LENGTH, LENGTH])),
    "one and a flag": lambda net: added(net, times_thousands(net, net.constant("one", np.float32(1)), op="Add")),
    "two less a flag": lambda net: added(net, times_thousands(net, net.constant("two", np.float32(2)))),
    "difference of inputs": lambda net: added(net, times_thousands(net, "x")),
    "flag without an operand": lambda net: added(net, times_thousands(net, "")),
    "flag or large": lambda net: added(
        net, net.op("Where", ["b", one_minus(net), net.constant("high", np.float32(1e4))], "chosen")
    ),
    "integers": lambda net: added(net, net.constant("low", np.int64(-10000)), to="i"),
    "no operand": lambda net: added(net, "x", to=""),
    "no inner operand": lambda net: added(net, net.op("Add", ["", "keep"], "bias")),
}


@pytest.mark.parametrize("form", [*MASKS, *NO_MASKS])
def test_computed_masks_are_masks_and_what_only_looks_like_one_is_none(form):
    net = Net(17)
    (MASKS | NO_MASKS)[form](net)
    assert masked(net) is (form in MASKS)


def mixed(*between):
    """Softmax, the operators ``between``, and a MatMul with a weight."""
    net = Net(17)
    value = net.op("Softmax", ["x"], "softmax", axis=-1)
    for number, (op_type, inputs, attributes) in enumerate(between):
        value = net.op(op_type, [value, *inputs], f"v{number}", **attributes)
    net.constant("factor", np.float32(2))
    net.constant("shape", np.array([1, 8, 16]))
    net.op("MatMul", [value, net.float_weight("w", (16, 16))], "y")
    return net.model({"x": (8, 16)})


def bounds(model, number_format):
    return [slot.bound for slot in proposal(model, number_format=number_format).slots if slot.kind == "activation"]


@pytest.mark.parametrize(
    "between",
    [
        (),
        (("Identity", (), {}),),
        (("Dropout", (), {}), ("Reshape", ("shape",), {})),
        (("Cast", (), {"to": onnx.TensorProto.FLOAT}), ("Transpose", (), {"perm": [0, 1]})),
    ],
)
def test_the_scale_of_a_softmax_is_known_in_fp8_and_asked_of_the_data_in_int8(between):
    assert bounds(mixed(*between), "float8e4m3fn") == [1.0]
    assert bounds(mixed(*between), "int8") == [None]


def test_in_int8_the_output_of_a_softmax_is_marked_as_peaked_and_nothing_else_is():
    for between, peaked in [((), True), ((("Mul", ("factor",), {}),), False)]:
        slots = proposal(mixed(*between)).slots
        assert {slot.kind: slot.peaked for slot in slots} == {"activation": peaked, "weight": False}


@pytest.mark.parametrize("op", [("Mul", ("factor",), {}), ("Exp", (), {})])
def test_what_changes_the_values_ends_the_bound(op):
    assert bounds(mixed(op), "float8e4m3fn") == [None]


def test_quantize_writes_one_over_448_behind_every_softmax(tmp_path):
    onnx.save(bert(), tmp_path / "bert.onnx")
    options = QuantizeOptions(recipe=Recipe(quantize_mode="fp8"))
    quantize_model(tmp_path / "bert.onnx", RandomData(samples=2), tmp_path / "q.onnx", options)
    graph = onnx.load(tmp_path / "q.onnx").graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    scales = [
        constants[node.input[1]]
        for node in graph.node
        if node.op_type == "QuantizeLinear" and node.input[0].endswith("_weights")
    ]
    assert scales == [np.float32(1 / 448)] * 2


@pytest.mark.parametrize(("moves", "bound"), [(15, 1.0), (16, None)])
def test_the_softmax_is_looked_for_through_a_limited_number_of_operators(moves, bound):
    assert bounds(mixed(*[("Identity", (), {})] * moves), "float8e4m3fn") == [bound]


LINEAR_ATTENTION = """
    q0 = MatMul (x, wq)  q = Relu (q0)
    k0 = MatMul (x, wk)  k = Relu (k0)
    v0 = MatMul (x, wv)  v = Concat <axis = 2> (v0, ones)
    kt = Transpose <perm = [0,2,1]> (k)
    [keys] kv = MatMul (kt, v)
    [queries] o = MatMul (q, kv)
    above = Slice (o, zero, last, two)  below = Slice (o, last, end, two)
    safe = Add (below, least)
    y = Div (above, safe)
"""


def network(body: str = LINEAR_ATTENTION) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[1,32,64] x) => (float[1,32,64] y) {{ {body} }}'
    model, random = parser.parse_model(text), np.random.default_rng(0)
    constants: dict[str, object] = {
        name: random.normal(size=(64, 64)).astype(np.float32) for name in ("wq", "wk", "wv")
    }
    # Trained queries are sparse, and of very different sizes from token to token.
    constants |= {"ones": np.ones((1, 32, 1), np.float32), "least": np.float32(1e-15)}
    constants |= {"zero": [0], "last": [64], "end": [65], "two": [2]}
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(array), name))
    return model


def left(model: onnx.ModelProto, **recipe: object) -> dict[str, str]:
    proposal = propose_for(ModelIndex.of(Model(model)), Recipe(**recipe))
    return {entry.node: entry.reason.text for entry in proposal.skipped if entry.reason.code == "divisor"}


def test_both_products_of_linear_attention_stay_float() -> None:
    found = left(network())
    assert found.keys() == {"keys", "queries"}
    assert found["keys"].startswith("its result becomes the divisor of 'Div -> y'")


def test_float_formats_keep_small_numbers() -> None:
    assert formats.get("float8e4m3fn").kind == "float"
    assert left(network(), quantize_mode="fp8") == {}


def test_who_names_the_operator_gets_it() -> None:
    assert left(network(), selection=Selection(op_types_to_quantize=("MatMul",))) == {}


@pytest.mark.parametrize(
    ("end", "named"),
    [
        ("y = Div (above, safe)", True),
        ("s = ReduceSum <keepdims = 1> (safe, two)  y = Div (above, s)", True),
        ("m = Max (safe, least)  y = Div (above, m)", True),
        ("y = Div (safe, wide)  wide = Exp (above)", False),
        ("n = Sqrt (safe)  y = Div (above, n)", False),
        ("n = Softmax (above)  y = Div (above, n)", False),
        ("y = Mul (above, safe)", False),
    ],
)
def test_only_sums_and_moves_lie_between(end: str, named: bool) -> None:
    assert bool(left(network(LINEAR_ATTENTION.replace("y = Div (above, safe)", end)))) == named


def test_a_product_with_weights_behind_it_hides_the_divisor() -> None:
    body = """k = Relu (x)  t = Transpose <perm = [0,2,1]> (k)  s = MatMul (k, t)  r = MatMul (s, x)
        p = MatMul (r, wq)  a = Abs (r)  y = Div (a, p)"""
    assert left(network(body)) == {}


def test_the_outputs_keep_more(tmp_path: Path) -> None:
    """Tokens of very different sizes: the queries of small ones round to 0."""
    model, random = network(), np.random.default_rng(1)
    onnx.save(model, tmp_path / "float.onnx")
    x = (random.normal(size=(16, 1, 32, 64)) * 10.0 ** random.uniform(-3, 0, (16, 1, 32, 1))).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x[:8])
    found = []
    for selection in (Selection(), Selection(op_types_to_quantize=("MatMul",))):
        recipe = Recipe(selection=selection)
        quantize_model(tmp_path / "float.onnx", tmp_path / "d.npz", tmp_path / "q.onnx", QuantizeOptions(recipe=recipe))
        quantized, errors = onnx.load(tmp_path / "q.onnx"), []
        for sample in x[8:]:
            expected, got = (ort_outputs(each, {"x": sample})["y"].astype(np.float64) for each in (model, quantized))
            errors.append(np.median(np.abs(expected - got)) / np.median(np.abs(expected)))
        found.append(float(np.mean(errors)))
    ours, all_of_them = found
    assert ours < 0.5 * all_of_them
