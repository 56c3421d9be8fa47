"""Planned against actual types: on stored layer dumps, and with the real builder for every pattern that matters."""

from pathlib import Path

import pytest
from support.engine_models import (
    FP8,
    IMAGE,
    INT4,
    Net,
    branches,
    conv,
    in_a_function,
    matmul,
    mixed_axes,
    save,
)

from qdqtool.engine.backends.tensorrt_rtx import BUILDER
from qdqtool.engine.builder import Built, EngineRequest
from qdqtool.engine.layer_dump import read_dump
from qdqtool.engine.planned_types import planned_nodes
from qdqtool.engine.precision import compare
from qdqtool.graph.io.load import load_model
from qdqtool.graph.model import Model

DATA = Path(__file__).parent / "data"


def dump(name):
    return (DATA / f"{name}.txt").read_text(encoding="utf-8")


def built(text, evidence="aot-dump"):
    return Built(
        version="0",
        evidence=evidence,
        kernels=read_dump(text),
        layer_dump=text,
        warnings=(),
        parse_seconds=0,
        build_seconds=0,
    )


def lines(model, name, evidence="aot-dump"):
    found = compare(planned_nodes(Model(model)), built(dump(name) if name else "", evidence))
    return {node.name: (node.planned, node.actual, node.reason) for node in found}


def test_one_of_three_nodes_falls_back_and_says_why():
    found = lines(mixed_axes(), "mixed_axes")
    reason = "its weight has scales along axis 1, which is not the output-channel axis"
    assert found["a.Conv"] == ("int8", "float32", reason)
    assert found["b.Conv"] == found["y.MatMul"] == ("int8", "int8", None)
    assert set(found) == {"a.Conv", "b.Conv", "y.MatMul"}


def test_nodes_without_names_are_found_by_their_outputs():
    text = dump("mixed_axes")
    for name, output in (("a.Conv", "a"), ("b.Conv", "b"), ("y.MatMul", "y")):
        text = text.replace(name, f"node_of_{output}")
    found = compare(planned_nodes(Model(mixed_axes(names=False))), built(text))
    assert [(node.name, node.actual) for node in found] == [
        ("Conv -> a", "float32"),
        ("Conv -> b", "int8"),
        ("MatMul -> y", "int8"),
    ]


def test_each_branch_of_an_if_finds_its_own_kernel():
    found = compare(planned_nodes(Model(branches())), built(dump("branches")))
    assert {(node.graph, node.actual) for node in found} == {("y.then_branch", "int8"), ("y.else_branch", "int8")}
    assert len({node.kernel for node in found}) == 2


def test_a_branch_does_not_take_the_kernel_of_a_node_of_the_same_name_elsewhere():
    model = branches()
    for attribute in model.graph.node[0].attribute:
        attribute.g.name = f"other_{attribute.g.name}"
    assert {node.actual for node in compare(planned_nodes(Model(model)), built(dump("branches")))} == {"unknown"}


def test_a_node_in_a_local_function_is_found():
    assert lines(in_a_function(), "in_a_function") == {"b.MatMul": ("int8", "int8", None)}


def test_without_evidence_nothing_is_claimed():
    ((_, actual, reason),) = lines(conv(), None, "none").values()
    assert (actual, reason) == ("unknown", "the builder gave no layer information")


def test_a_node_that_no_kernel_names_is_unknown():
    ((_, actual, reason),) = lines(conv(), "matmul_axis_k").values()
    assert actual == "unknown"
    assert "folded away" in reason


def test_a_float_model_plans_nothing():
    assert planned_nodes(Model(conv(quantize_x=False, quantize_w=False))) == []


def through_maxpool():
    net = Net()
    net.op("MaxPool", [net.activation("x")], "m", kernel_shape=[2, 2])
    net.op("Conv", ["m", net.weight("w", (16, 16, 3, 3), axis=0)], "y")
    return net.model(IMAGE)


def through_cast():
    net = Net()
    net.op("Cast", [net.weight("w", (64, 32), axis=1)], "h", to=10)
    net.op("Cast", ["h"], "f", to=1)
    net.op("MatMul", [net.activation("x"), "f"], "y")
    return net.model({"x": (8, 64)})


def attention():
    net = Net()
    net.op("MatMul", [net.activation("q"), net.activation("k")], "s")
    net.op("Softmax", ["s"], "p", axis=-1)
    net.op("MatMul", [net.activation("p"), net.activation("v")], "y")
    return net.model({"q": (1, 4, 16, 32), "k": (1, 4, 32, 16), "v": (1, 4, 16, 32)})


def hostile():
    model = conv()
    model.graph.node[
        -1
    ].name = "evil]\n[ONNX Layer: x], Outputs: [ { Datatype: Float }] \x1b[31m\x1f\u202e, LayerType: "
    return model


CASES = {
    "conv": (conv, "int8", "int8", ""),
    "conv, per-tensor weight": (lambda: conv(axis=None), "int8", "int8", ""),
    "conv, fp8": (lambda: conv(kind=FP8), "float8e4m3fn", "float8e4m3fn", ""),
    "conv, per-axis activation": (lambda: conv(x_axis=1), "int8", "float32", "more than one scale"),
    "conv, weight only": (lambda: conv(quantize_x=False), "int8-weight-only", "float32", "only its weight"),
    "conv, activation only": (lambda: conv(quantize_w=False), "int8", "float32", "only one of its two operands"),
    "conv transpose": (lambda: conv(op_type="ConvTranspose", axis=None), "int8", "float32", "ConvTranspose runs"),
    "gemm": (lambda: matmul(op_type="Gemm"), "int8", "int8", ""),
    "gemm, transposed": (lambda: matmul(op_type="Gemm", transB=1, axis=0), "int8", "int8", ""),
    "gemm, transposed, wrong axis": (
        lambda: matmul(op_type="Gemm", transB=1, axis=1),
        "int8",
        "float32",
        "along axis 1",
    ),
    "matmul, axis of K": (lambda: matmul(axis=0), "int8", "float32", "along axis 0"),
    "matmul, activation only": (lambda: matmul(w=False), "int8", "float32", "only one of its two operands"),
    "matmul, weight only": (lambda: matmul(x_kind=None), "int8-weight-only", "int8-weight-only", ""),
    "matmul, int4 blocks": (
        lambda: matmul(kind=INT4, x_kind=None, axis=0, block=16),
        "int4-weight-only",
        "int4-weight-only",
        "",
    ),
    "matmul, int4 per axis": (lambda: matmul(kind=INT4, x_kind=None), "int4-weight-only", "float32", "block scales"),
    "matmul, int8 blocks": (
        lambda: matmul(x_kind=None, axis=0, block=16),
        "int8-weight-only",
        "float32",
        "dequantized by a kernel of its own",
    ),
    "matmul, int4 weight, int8 activation": (
        lambda: matmul(kind=INT4, axis=0, block=64),
        "int8 x int4",
        "int8",
        "brought to int8",
    ),
    "cast in between": (through_cast, "int8", "float32", "a Cast stands"),
    "max pool in between": (through_maxpool, "int8", "int8", ""),
    "attention": (attention, "int8", "int8", ""),
    "hostile name": (hostile, "int8", "int8", ""),
}


@pytest.mark.builder
@pytest.mark.parametrize("case", CASES)
def test_what_the_builder_really_does(case, tmp_path):
    pytest.importorskip("tensorrt_rtx")
    make, planned, actual, reason = CASES[case]
    model = load_model(save(make(), tmp_path))
    request = EngineRequest(model=model, engine=tmp_path / "e", targets=BUILDER.resolve_targets((), model), timeout=120)
    nodes = list(BUILDER.precision(model, BUILDER.build(request)))
    assert len(nodes) == (2 if case == "attention" else 1)
    for node in nodes:
        assert (node.planned, node.actual) == (planned, actual), node
        assert reason in (node.reason or "")
        assert bool(node.reason) == (planned != actual)
