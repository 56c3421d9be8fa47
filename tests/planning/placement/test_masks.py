"""Attention masks in every form that exporters write: no pair ever stands on a tensor that carries one."""

import numpy as np
import onnx
import pytest
from support.engine_models import Net
from support.placed import proposal
from support.small import run

from qdqtool.graph.io.save import save_model
from qdqtool.graph.model import Model
from qdqtool.jobs.calibrate import calibrate
from qdqtool.jobs.quantize import quantize_model

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


def constant_lowest(net, scores):
    return constant_added(net, scores, LOWEST)


def sliced_constant(net, scores):
    net.constant("buffer", np.triu(np.full((2 * LENGTH, 2 * LENGTH), -1e4, np.float32), 1))
    for name, values in (("from", [0, 0]), ("to", [LENGTH, LENGTH]), ("over", [0, 1])):
        net.constant(name, np.array(values, np.int64))
    return net.op("Add", [scores, net.op("Slice", ["buffer", "from", "to", "over"], "cut")], "masked")


def inverted_times(net, scores, low=-1e4):
    net.constant("low", np.float32(low))
    return net.op("Add", [scores, net.op("Mul", [inverted(net), "low"], "mask")], "masked")


def inverted_times_lowest(net, scores):
    return inverted_times(net, scores, LOWEST)


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


FORMS = [
    constant_added,
    constant_lowest,
    sliced_constant,
    inverted_times,
    inverted_times_lowest,
    less_one_times,
    kept_less_inverted,
    where_minus_infinity,
    where_then_added,
    added_to_a_position_bias,
    bounded_below,
]


def softmax(net, masked):
    return net.op("Softmax", [masked], "weights")


def softmax_in_steps(net, masked):
    largest = net.op("ReduceMax", [masked], "largest", axes=[-1])
    power = net.op("Exp", [net.op("Sub", [masked, largest], "below")], "power")
    return net.op("Div", [power, net.op("ReduceSum", [power, net.constant("last", np.array([-1]))], "sum")], "weights")


def attention(form, normalize=softmax):
    net = Net(17)
    q, k, v = (net.op("MatMul", ["x", net.float_weight(f"w{name}", (WIDTH, WIDTH))], name) for name in "qkv")
    net.op("MatMul", [q, net.op("Transpose", [k], "kt", perm=[1, 0])], "scores")
    net.op("Div", ["scores", net.constant("width", np.float32(8))], "scaled")
    net.op("MatMul", [normalize(net, form(net, "scaled")), v], "y")
    needs_mask = any("keep" in node.input for node in net.nodes)
    return net.model({"x": (LENGTH, WIDTH)} | ({"keep": (LENGTH,)} if needs_mask else {}))


def feeds(model):
    rng = np.random.default_rng(0)
    names = [value.name for value in model.graph.input]
    keep = np.ones((4, LENGTH), np.float32)
    keep[:, -5:] = 0
    both = {"x": rng.normal(size=(4, LENGTH, WIDTH)).astype(np.float32), "keep": keep}
    return {name: both[name] for name in names}


@pytest.mark.parametrize("normalize", [softmax, softmax_in_steps])
@pytest.mark.parametrize("form", FORMS)
def test_no_model_collapses_and_no_range_holds_a_mask(form, normalize, tmp_path):
    model, data = attention(form, normalize), feeds(attention(form, normalize))
    np.savez(tmp_path / "data.npz", **data)
    onnx.save(model, tmp_path / "m.onnx")
    quantize_model(tmp_path / "m.onnx", tmp_path / "data.npz", tmp_path / "q.onnx")
    first = {name: array[0] for name, array in data.items()}
    (before,), (after,) = (run(str(tmp_path / name), first) for name in ("m.onnx", "q.onnx"))
    noise = np.sum((before.astype(np.float64) - after) ** 2)
    assert 10 * np.log10(np.sum(before.astype(np.float64) ** 2) / noise) > LEAST_SQNR
    ranges = calibrate(Model(model), tmp_path / "data.npz").tensors
    assert all(found.amax < 1000 for found in ranges.values())


@pytest.mark.parametrize("form", FORMS)
def test_a_product_that_reads_masked_scores_stays_float_and_says_why(form, tmp_path):
    net = Net(17)
    net.op("MatMul", [form(net, "x"), net.float_weight("w", (LENGTH, 32))], "y")
    needs_mask = any("keep" in node.input for node in net.nodes)
    model = net.model({"x": (LENGTH, LENGTH)} | ({"keep": (LENGTH,)} if needs_mask else {}))
    found = proposal(model)
    assert not found.slots
    (reason,) = (node.reason.text for node in found.skipped if node.op_type == "MatMul")
    assert "carries an attention mask" in reason
    save_model(Model(model), tmp_path / "valid.onnx")


def test_a_large_factor_alone_is_no_mask():
    net = Net(17)
    net.constant("kilo", np.float32(1e4))
    net.op("Add", [net.op("Mul", ["x", "kilo"], "grams"), "x"], "sum")
    net.op("MatMul", ["sum", net.float_weight("w", (LENGTH, 32))], "y")
    assert {entry.slot.tensor for entry in proposal(net.model({"x": (LENGTH, LENGTH)})).slots} == {"sum", "w"}
