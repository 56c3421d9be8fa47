"""Local functions that are called more than once are inlined: each call gets ranges of its own."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.rich_model import rich_feeds, rich_model
from support.small import make_model, run

from qdqtool import ops
from qdqtool.data.request import DataRequest
from qdqtool.graph.model import Model
from qdqtool.jobs.calibrate import calibrate
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.planning.recipe import Recipe
from qdqtool.transforms.inline_functions import InlinedFunction, inline_like, inline_repeated

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
    assert ["called 2 times, and one scale would have to serve them all" in left.reason for left in report.skipped] == [
        True
    ]


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
