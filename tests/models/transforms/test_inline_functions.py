"""Local functions that are called more than once are inlined: each call gets ranges of its own."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.rich_model import rich_feeds, rich_model
from support.small import make_model, run

from qdqtool.jobs.calibrate import calibrate
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models import ops
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.report import InlinedFunction
from qdqtool.models.transforms import inline_functions
from qdqtool.models.transforms.inline_functions import SHARED_BYTES, inline_like, inline_repeated
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import DataRequest

DOMAIN = "com.example"
TWO_CALLS = InlinedFunction(function=f"{DOMAIN}::Block", calls=2)


def block_model(calls: int = 2, *, opset: int = 17, recursive: bool = False) -> onnx.ModelProto:
    """x -> Block -> y0, and x / 500 -> Block -> y1, and so on; Block multiplies with a weight that it stores."""
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32) / 6, "w")
    nodes = [
        helper.make_node("Constant", [], ["k"], value=weight),
        helper.make_node("MatMul", ["a", "k"], ["m"], name="product"),
        helper.make_node("Block" if recursive else "Tanh", ["m"], ["b"], domain=DOMAIN if recursive else ""),
    ]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    block = helper.make_function(DOMAIN, "Block", ["a"], ["b"], nodes, imports)
    graph, small = [], {"factor": np.float32(0.002)}
    for number in range(calls):
        read = "x"
        if number:
            read = f"x{number}"
            graph.append(helper.make_node("Mul", ["x", "factor"], [read]))
        graph.append(helper.make_node("Block", [read], [f"y{number}"], domain=DOMAIN))
    outputs = {f"y{number}": ("n", 32) for number in range(calls)}
    model = make_model(graph, {"x": ("n", 32)}, outputs, small)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    model.functions.append(block)
    return model


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(1).normal(size=(16, 32)).astype(np.float32))
    return tmp_path / "data.npz"


def inline(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[InlinedFunction, ...]]:
    done = inline_repeated(Model(model), lambda node: ops.product(node) is not None)
    return done.model.proto, done.report


def quantized(model: onnx.ModelProto, data: Path, target: str) -> QuantizeReport:
    onnx.save(model, data.with_name("m.onnx"))
    options = QuantizeOptions(recipe=Recipe(target=target))
    return quantize_model(data.with_name("m.onnx"), data, data.with_name("q.onnx"), options)


def test_the_inlined_model_computes_the_same_and_stores_a_weight_once() -> None:
    before = block_model(3)
    after, report = inline(before)
    assert report == (InlinedFunction(function=f"{DOMAIN}::Block", calls=3),)
    assert not after.functions
    x = {"x": np.random.default_rng(1).normal(size=(2, 32)).astype(np.float32)}
    assert all(map(np.array_equal, run(before, x), run(after, x)))
    assert [node.op_type for node in after.graph.node].count("Constant") == 1
    names = [node.name for node in after.graph.node if node.name]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "model", [block_model(1), block_model(2, opset=16), block_model(2, recursive=True)], ids=["once", "opset", "itself"]
)
def test_what_is_called_once_or_cannot_be_inlined_stays(model: onnx.ModelProto) -> None:
    assert inline(model) == (model, ())


def test_a_rich_model_keeps_everything_else() -> None:
    before = rich_model(opset=17)
    after, report = inline(before)
    for flag in (True, False):
        assert all(map(np.array_equal, run(before, rich_feeds(flag=flag)), run(after, rich_feeds(flag=flag))))
    assert {each.function.split("::")[0] for each in report} <= {"com.example.blocks"}
    assert after.metadata_props == before.metadata_props


@pytest.mark.parametrize("target", ["ort-cpu", "tensorrt", "onnx"])
def test_each_call_gets_scales_of_its_own(target: str, data: Path) -> None:
    """With one scale for both, the call with small values came out as zeros: 0.0 dB."""
    report = quantized(block_model(), data, target)
    assert report.inlined == (TWO_CALLS,)
    large, small = (pair.scale_max for pair in report.quantized if pair.kind == "activation")
    assert large / small == pytest.approx(500, rel=0.01)
    assert report.accuracy is not None
    assert all((output.sqnr_db or 0) > 30 for output in report.accuracy.outputs)


def test_a_function_that_cannot_be_inlined_stays_float_with_the_reason(data: Path) -> None:
    model = block_model(2, opset=16)
    model.graph.node.append(
        helper.make_node("Constant", [], ["v"], value=numpy_helper.from_array(np.eye(32, dtype=np.float32)))
    )
    model.graph.node.append(helper.make_node("MatMul", ["y0", "v"], ["z"]))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ("n", 32)))
    report = quantized(model, data, "ort-cpu")
    assert report.inlined == ()
    assert [pair.tensor for pair in report.quantized] == ["y0", "v"]
    assert ["called 2 times, and all calls would share one scale" in left.reason for left in report.skipped] == [True]


def test_calibrate_finds_the_ranges_of_each_call(data: Path) -> None:
    found = calibrate(Model(block_model()), data).tensors
    assert {tensor for _, tensor in found} == {"x", "x1"}


def test_a_baseline_with_the_function_is_compared_tensor_by_tensor(data: Path) -> None:
    quantized(block_model(), data, "ort-cpu")
    request = DataRequest(path=data)
    report = check_model(data.with_name("q.onnx"), baseline=data.with_name("m.onnx"), data=request)
    assert report.passed
    assert len(report.boundaries) == 3
    baseline = Model(block_model())
    assert inline_like(baseline, baseline).model is baseline


def test_a_call_that_does_not_fit_its_function_is_left_alone() -> None:
    model = block_model()
    model.graph.node[-1].input.append("x")
    assert inline(model) == (model, ())
    float_model = block_model()
    float_model.graph.node[-1].input.append("x")
    assert inline_like(Model(onnx.ModelProto()), Model(float_model)).model.proto is float_model


def test_functions_that_would_multiply_without_bound_are_left_alone() -> None:
    model = block_model()
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    inner = "Block"
    for number in range(14):
        nodes = [
            helper.make_node(inner, ["a"], ["m"], domain=DOMAIN),
            helper.make_node(inner, ["m"], ["b"], domain=DOMAIN),
        ]
        inner = f"Twice{number}"
        model.functions.append(helper.make_function(DOMAIN, inner, ["a"], ["b"], nodes, imports))
    model.graph.node[-1].op_type = inner
    assert inline(model) == (model, ())


FUNCTIONS = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
g (float[2,2] x, bool c) => (float[2,2] y, float[2,2] z) {
    a = my.Product (x)
    y = my.Product (a)
    b = my.Other (x, c)
    z = my.Other (b, c)
}
<domain: "my", opset_import: ["": 17]>
Product (p) => (q) { k = Constant <value = float[2,2] {1,2,3,4}> () [product] q = MatMul (p, k) }
<domain: "my", opset_import: ["": 17]>
Other (p, c) => (q) {
    k = Constant <value = float[2,2] {1,2,3,4}> ()
    q = If (c) <
        then_branch = t () => (float[2,2] d) { [product] d = MatMul (p, k) },
        else_branch = e () => (float[2,2] f) { f = Neg (p) }
    >
}
"""
PRODUCT, OTHER = (InlinedFunction(function=f"my::{name}", calls=2) for name in ("Product", "Other"))
X = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)


def assert_same(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    for flag in (True, False):
        feeds = {"x": X, "c": np.array(flag)}
        assert all(map(np.array_equal, run(before, feeds), run(after, feeds)))


def node_names(model: onnx.ModelProto) -> list[str]:
    return [node.name for _, container in walk(model) for node in container.node if node.name]


@pytest.mark.parametrize("taken", ["product__1", "product__2", "product__1_2", "product_2"])
def test_functions_with_products_in_bodies_are_inlined_under_new_names(taken: str) -> None:
    before = onnx.parser.parse_model(FUNCTIONS)
    before.graph.node.append(helper.make_node("Neg", ["z"], ["extra"], name=taken))
    after, report = inline(before)
    assert report == (PRODUCT, OTHER)
    assert not after.functions
    names = node_names(after)
    assert taken in names
    assert len(set(names)) == len(names)
    assert_same(before, after)


def import_another_version(model: onnx.ModelProto) -> None:
    model.functions[1].opset_import[0].version = 16
    model.functions[1].opset_import.add(domain="my", version=1)


def call_itself(model: onnx.ModelProto) -> None:
    model.functions[1].node.add(op_type="Other", domain="my", input=["p", "c"], output=["more"])


def call_once(model: onnx.ModelProto) -> None:
    model.graph.node[3].CopyFrom(helper.make_node("Neg", ["b"], ["z"]))


def have_no_product(model: onnx.ModelProto) -> None:
    model.functions[1].node[1].attribute[0].g.node[0].op_type = "Add"


@pytest.mark.parametrize("change", [call_once, have_no_product])
def test_a_function_that_stays_does_not_hinder_others(change) -> None:
    before = onnx.parser.parse_model(FUNCTIONS)
    change(before)
    after, report = inline(before)
    assert report == (PRODUCT,)
    assert [function.name for function in after.functions] == ["Other"]


@pytest.mark.parametrize("change", [call_itself, import_another_version])
def test_all_functions_stay_where_onnx_refuses_one(change) -> None:
    model = onnx.parser.parse_model(FUNCTIONS)
    change(model)
    assert inline(model) == (model, ())
    assert inline_like(Model(onnx.ModelProto()), Model(model)).report == ()


def test_a_function_that_calls_one_with_a_product_is_inlined_too() -> None:
    before = onnx.parser.parse_model(FUNCTIONS)
    before.functions[1].CopyFrom(
        helper.make_function(
            "my",
            "Other",
            ["p", "c"],
            ["q"],
            [helper.make_node("Product", ["p"], ["q"], domain="my")],
            [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)],
        )
    )
    after, report = inline(before)
    assert report == (InlinedFunction(function="my::Product", calls=4), OTHER)
    assert [node.op_type for node in after.graph.node].count("MatMul") == 4


@pytest.mark.parametrize(("most", "inlined"), [(10, True), (9, False)])
def test_at_most_so_many_nodes_are_added(most: int, inlined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two functions have two and four nodes, of which one is in a branch of each, and two calls each."""
    monkeypatch.setattr(inline_functions, "MOST_NODES", most + 2)
    assert bool(inline(onnx.parser.parse_model(FUNCTIONS))[1]) is inlined


def test_functions_that_the_quantized_model_lacks_are_inlined_in_the_baseline() -> None:
    baseline = onnx.parser.parse_model(FUNCTIONS)
    call_once(baseline)
    unused = helper.make_function(
        "my", "Unused", ["p"], ["q"], [helper.make_node("Neg", ["p"], ["q"])], [helper.make_opsetid("", 17)]
    )
    baseline.functions.append(unused)
    quantized_model = onnx.ModelProto()
    quantized_model.functions.append(baseline.functions[0])
    done = inline_like(Model(quantized_model), Model(baseline))
    assert done.report == (InlinedFunction(function="my::Other", calls=1),)
    assert [function.name for function in done.model.proto.functions] == ["Product", "Unused"]


def constants(size: int, *, returned: bool = False) -> onnx.ModelProto:
    """Two calls of a function that reads a constant of ``size`` bytes, and a node without outputs."""
    model = onnx.parser.parse_model(FUNCTIONS)
    function = model.functions[0]
    values = numpy_helper.from_array(np.arange(size // 4, dtype=np.float32).reshape(2, -1), "k")
    function.node[0].attribute[0].t.CopyFrom(values)
    model.functions[1].CopyFrom(function)
    model.functions[1].name = "Unused"
    del model.graph.node[2:], model.graph.input[1]
    for node in model.graph.node:
        node.input[0] = "x"
    model.graph.output[1].name = "a"
    if returned:
        function.output.append("k")
        for number, node in enumerate(model.graph.node):
            node.output.append(f"k{number}")
        model.graph.output.append(helper.make_tensor_value_info("k1", TensorProto.FLOAT, values.dims))
    for value in model.graph.output[:2]:
        value.type.tensor_type.shape.dim[1].dim_value = size // 8
    return model


@pytest.mark.parametrize(("size", "count"), [(SHARED_BYTES, 1), (SHARED_BYTES - 8, 2)])
def test_constants_are_stored_once_from_a_size_on(size: int, count: int) -> None:
    before = constants(size)
    after, _ = inline(before)
    assert [node.op_type for node in after.graph.node].count("Constant") == count
    assert all(map(np.array_equal, run(before, {"x": X}), run(after, {"x": X})))


def test_constants_that_the_model_returns_keep_their_nodes() -> None:
    before = constants(SHARED_BYTES, returned=True)
    after, report = inline(before)
    assert len(report) == 1
    assert all(map(np.array_equal, run(before, {"x": X}), run(after, {"x": X})))


def test_only_constants_are_shared() -> None:
    before = constants(SHARED_BYTES)
    attribute = before.functions[0].node[0].attribute[0]
    for number in range(2):
        before.graph.node.add(op_type="Random", domain="other", output=[f"r{number}"]).attribute.append(attribute)
        before.graph.node.add(op_type="Print", domain="other", input=["y"])
    before.opset_import.add(domain="other", version=1)
    after, _ = inline(before)
    names = [node.op_type for node in after.graph.node]
    assert (names.count("Random"), names.count("Print"), names.count("Constant")) == (2, 2, 1)


def test_nodes_of_one_name_get_numbers_that_are_free() -> None:
    before = onnx.parser.parse_model(FUNCTIONS)
    for number, name in enumerate(["same", "same", "same_2", "same", ""]):
        before.graph.node.append(helper.make_node("Neg", ["z"], [f"extra{number}"], name=name))
    after, _ = inline(before)
    names = [node.name for node in after.graph.node if node.op_type == "Neg"]
    assert names[-5:] == ["same", "same_3", "same_2", "same_4", ""]
