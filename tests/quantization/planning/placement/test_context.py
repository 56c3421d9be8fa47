"""What placement asks about tensors: their shape and type, whether they are constant, and who calls their function."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.engine_models import ROWS, Net
from support.placed import proposal
from support.qdq import constant, text_model

from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.quantization.planning.placement import Reason, Selection
from qdqtool.quantization.planning.placement.context import QUANTIZED_ALREADY, PlacementContext

FUNCTIONS = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[2,3] x, int64[2] i, double[2] d, bfloat16[2] b, int8[2,3] q, bool flag)
    => (float[2,3] y, float z) <
    float[2,3] w = {-5,1,2,3,4,6}, float s = {0.5}, int64[2] wrong = {4,4}, int64[2] whole = {-7,7}
> {
    h = my.Outer (x)
    y = my.Inner (h)
    t = Transpose (w)
    bad = Reshape (w, wrong)
    [unknown] u = my.Nothing (x)
    dq = DequantizeLinear (q, s)
    wq = QuantizeLinear (x, s)
    wd = DequantizeLinear (wq, s)
}
<domain: "my", opset_import: ["": 21, "my": 1]>
Outer (a) => (b) { p = my.Inner (a)  b = my.Inner (p) }
<domain: "my", opset_import: ["": 21, "my": 1]>
Inner (c) => (o) {
    yes = Constant <value = bool {1}> ()
    o = If (yes) <
        then_branch = t () => (float[2,3] p) { p = Relu (c) },
        else_branch = e () => (float[2,3] n) { n = Neg (c) }
    >
}
<domain: "my", opset_import: ["": 21]>
Unused (e) => (f) {
    k = Constant <value = float[2,3] {1,2,3,4,5,6}> ()
    m = Transpose (k)
    wrong = Constant <value = int64[2] {4,4}> ()
    r = Reshape (k, wrong)
    f = Add (e, m)
}
"""
EMPTY = constant("empty", np.zeros((0, 3)))


@pytest.fixture(scope="module")
def context() -> PlacementContext:
    index = ModelIndex.of(text_model(FUNCTIONS, EMPTY))
    return PlacementContext(index, targets.get("tensorrt"), Selection())


def value(context: PlacementContext, name: str) -> Value:
    """The first tensor of that name, in the main graph or else in a body or function."""
    return next(each for scope in context.index.view.scopes for each in scope.values.values() if each.name == name)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("x", (2, 3)),
        ("w", (2, 3)),
        ("t", (3, 2)),
        ("u", None),
        ("m", (3, 2)),
        ("r", None),
        ("f", None),
        ("bad", (4, 4)),
    ],
)
def test_the_shape_of_a_constant_is_known_where_inference_does_not_tell_it(context, name, shape):
    assert context.shape(value(context, name)) == shape


@pytest.mark.parametrize(("name", "answer"), [("x", True), ("d", True), ("b", True), ("i", False), ("u", True)])
def test_what_is_not_known_to_be_no_float_may_be_one(context, name, answer):
    assert context.is_float(value(context, name)) == answer


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x", None),
        ("b", None),
        ("empty", Reason("no-elements", "'empty' has no elements")),
        ("u", Reason("unknown-type", "the type of 'u' is unknown")),
        ("d", Reason("unsupported-type", "'d' is float64; TensorRT 11 quantizes bfloat16, float16, float32")),
        ("i", Reason("unsupported-type", "'i' is int64; TensorRT 11 quantizes bfloat16, float16, float32")),
    ],
)
def test_why_a_tensor_cannot_be_quantized(context, name, reason):
    assert context.type_obstacle(value(context, name)) == reason
    assert context.obstacle(value(context, name)) == reason


@pytest.mark.parametrize("name", ["dq", "wd"])
def test_what_a_dq_makes_is_quantized_already(context, name):
    assert context.obstacle(value(context, name)) == QUANTIZED_ALREADY


@pytest.mark.parametrize(("name", "calls"), [("x", 1), ("a", 1), ("c", 3), ("p", 3), ("n", 3), ("f", 0)], ids=str)
def test_a_function_is_called_as_often_as_its_callers_are(context, name, calls):
    """So are the bodies in it."""
    found = [each for scope in context.index.view.scopes for each in scope.values.values() if each.name == name]
    assert context.calls(found[-1].scope) == calls


def test_a_target_may_take_fewer_types():
    index = ModelIndex.of(text_model(FUNCTIONS, EMPTY))
    of_ort = PlacementContext(index, targets.get("ort-cpu"), Selection())
    reason = of_ort.type_obstacle(value(of_ort, "b"))
    assert reason.text.startswith("'b' is bfloat16; ")
    assert reason.text.endswith(" quantizes float16, float32")


def weights(model: onnx.ModelProto, **selection: tuple[str, ...]) -> list[tuple[str, str, list[str], str]]:
    """Tensor, granularity, the first outputs of its readers, and the reason."""
    return [
        (each.slot.tensor, str(each.scheme.granularity), [use.node[0] for use in each.uses], each.reason)
        for each in proposal(model, Selection(**selection)).slots
        if each.kind == "weight"
    ]


def transposed(net: Net, output: str = "t", **attributes: object) -> str:
    return net.op("Transpose", [net.float_weight("w", (32, 64))], output, **attributes)


def test_every_slot_moves_up_whichever_comes_last():
    net = Net(17)
    net.op("MatMul", ["x", transposed(net, perm=[1, 0])], "y")
    net.op("MatMul", ["y", net.float_weight("v", (32, 32))], "z")
    expected = [("w", "per-axis 0", ["t"], "weight of MatMul"), ("v", "per-axis 1", ["z"], "weight of MatMul")]
    assert weights(net.model(ROWS, "z")) == expected


def test_two_readers_behind_one_transpose_share_the_slot_in_front_of_it():
    net = Net(17)
    transposed(net)
    net.op("Gemm", ["x", "t"], "y")
    net.op("MatMul", ["x", "t"], "z")
    assert weights(net.model(ROWS)) == [("w", "per-axis 0", ["t"], "weight of Gemm, weight of MatMul")]


@pytest.mark.parametrize("other", ["Relu", "output", "excluded"])
def test_a_slot_stays_behind_a_transpose_that_something_else_reads(other):
    net = Net(17)
    net.op("MatMul", ["x", transposed(net)], "y")
    if other == "Relu":
        net.op("Relu", ["t"], "z")
    if other == "excluded":
        net.op("MatMul", ["x", "t"], "z")
    model = net.model(ROWS)
    if other == "output":
        model.graph.output.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, (64, 32)))
    selection = {"nodes_to_exclude": ("z.MatMul",)} if other == "excluded" else {}
    assert weights(model, **selection) == [("t", "per-axis 1", ["y"], "weight of MatMul")]


def test_a_slot_stays_where_the_axis_in_front_is_unknown():
    """Without `perm` it depends on the rank, which a constant of a node has only in the types."""
    net = Net(17)
    stored = onnx.numpy_helper.from_array(np.ones((32, 64), np.float32))
    net.nodes.append(helper.make_node("Constant", [], ["w"], value=stored))
    net.op("MatMul", ["x", net.op("Transpose", ["w"], "t")], "y")
    assert weights(net.model(ROWS)) == [("t", "per-axis 1", ["y"], "weight of MatMul")]


@pytest.mark.parametrize(
    ("op", "lifted"), [("Transpose", True), ("Identity", True), ("Mul", False), ("Reshape", False)]
)
def test_one_scale_for_all_moves_in_front_of_what_reorders_axes_alone(op, lifted):
    net = Net(17)
    net.float_weight("w", (64,))
    others = {"Mul": [net.constant("two", np.float32(2))], "Reshape": [net.constant("shape", np.array([64]))]}
    net.op("MatMul", ["x", net.op(op, ["w", *others.get(op, [])], "t")], "y")
    found = weights(net.model(ROWS))
    assert found == [("w" if lifted else "t", "per-tensor", ["t" if lifted else "y"], "weight of MatMul")]
