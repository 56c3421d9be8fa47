"""Models with operators of onnxruntime-extensions, the library that has them, and stand-ins for unknown operators."""

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

CONTRIB = "ai.onnx.contrib"
"""The domain of onnxruntime-extensions. NegPos has two outputs: x where it is negative, and where it is positive."""
OPSETS = [helper.make_opsetid("", 19), helper.make_opsetid(CONTRIB, 1)]


def library_path() -> Path | None:
    """The library of onnxruntime-extensions, or None if it is not installed; the package is not imported."""
    found = importlib.util.find_spec("onnxruntime_extensions")
    folder = Path(found.origin).parent if found is not None and found.origin is not None else Path("absent")
    return next((each for each in folder.glob("_extensions_pydll*") if each.suffix in {".so", ".pyd"}), None)


def library() -> Path:
    """The library of onnxruntime-extensions; without it, the test is skipped."""
    return library_path() or pytest.skip("onnxruntime-extensions is not installed")


def weights(*names: str) -> list[onnx.TensorProto]:
    rng = np.random.default_rng(4)
    return [numpy_helper.from_array(rng.normal(size=(16, 16)).astype(np.float32), name) for name in names]


def model(
    nodes: list[onnx.NodeProto], *names: str, functions: tuple[onnx.FunctionProto, ...] = (), opsets: object = OPSETS
) -> onnx.ModelProto:
    """x[4,16] -> nodes -> y[4,16], with a weight[16,16] for each name."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 16]) for name in "xy")
    graph = helper.make_graph(nodes, "graph", [x], [y], weights(*names))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)


def between(op_type: str = "NegPos", domain: str = CONTRIB, outputs: tuple[str, ...] = ("n", "p")) -> onnx.ModelProto:
    """MatMul -> the operator -> MatMul -> Relu -> MatMul."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="front"),
        helper.make_node(op_type, ["a"], outputs, name="custom", domain=domain),
        helper.make_node("MatMul", [outputs[0], "w2"], ["c"], name="behind"),
        helper.make_node("Relu", ["c"], ["d"], name="relu"),
        helper.make_node("MatMul", ["d", "w3"], ["y"], name="last"),
    ]
    imports = [helper.make_opsetid("", 19), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return model(nodes, "w1", "w2", "w3", opsets=imports)


def in_a_body() -> onnx.ModelProto:
    """The operator in a branch of an If, which the sum of x selects."""
    inner = [
        helper.make_node("NegPos", ["a"], ["n", "p"], domain=CONTRIB, name="custom"),
        helper.make_node("MatMul", ["n", "w2"], ["t"], name="inner"),
    ]
    unknown = helper.make_tensor_value_info("t", TensorProto.FLOAT, None)
    then = helper.make_graph(inner, "then", [], [unknown])
    otherwise = helper.make_graph([helper.make_node("MatMul", ["a", "w2"], ["t"], name="other")], "else", [], [unknown])
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="front"),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Sub", ["sum", "sum"], ["zero"]),
        helper.make_node("Greater", ["sum", "zero"], ["is_above"]),
        helper.make_node("If", ["is_above"], ["i"], then_branch=then, else_branch=otherwise),
        helper.make_node("MatMul", ["i", "w3"], ["y"], name="last"),
    ]
    return model(nodes, "w1", "w2", "w3")


def in_a_function() -> onnx.ModelProto:
    """The operator in a local function that is called twice."""
    body = [
        helper.make_node("NegPos", ["a"], ["n", "p"], domain=CONTRIB, name="custom"),
        helper.make_node("MatMul", ["n", "w"], ["t"], name="inner"),
    ]
    block = helper.make_function("own", "Block", ["a", "w"], ["t"], body, OPSETS)
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="front"),
        helper.make_node("Block", ["a", "w2"], ["b"], domain="own"),
        helper.make_node("Block", ["b", "w3"], ["y"], domain="own"),
    ]
    return model(nodes, "w1", "w2", "w3", functions=(block,), opsets=[*OPSETS, helper.make_opsetid("own", 1)])


def stand_in(
    path: Path,
    op_type: str = "Twice",
    domain: str = "acme",
    nodes: str = "b = Add (a, a)",
    outputs: tuple[str, ...] = ("b",),
) -> Path:
    """Write a file with a local function of the input a."""
    found = onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node
    function = helper.make_function(domain, op_type, ["a"], outputs, found, [helper.make_opsetid("", 19)])
    onnx.save(helper.make_model(helper.make_graph([], "none", [], []), functions=[function]), path)
    return path
