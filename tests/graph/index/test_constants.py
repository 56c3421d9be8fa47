"""Constant folding through the chains that exporters write, against onnx's own evaluator."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from qdqtool.graph.index import constants as constants_module
from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.model import Model

A = np.array([[1.5, -2.0, 4.0], [0.25, 3.0, 9.0]], np.float32)


def chain(*nodes: onnx.NodeProto, opset: int = 21, **initializers: np.ndarray) -> onnx.ModelProto:
    """A model whose output ``y`` depends on initializers only."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(array, name) for name, array in initializers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def fold(model: onnx.ModelProto, name: str = "y") -> np.ndarray | None:
    view = GraphView(Model(model))
    value = view.main.values[name]
    constants = Constants(view)
    folded = constants.array(value)
    assert (folded is not None) == constants.is_constant(value)
    return folded


def node(op_type: str, *inputs: str, out: str = "y", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, list(inputs), [out], **attributes)


I64 = {"axes": np.array([0], np.int64), "shape": np.array([3, -1], np.int64), "index": np.array([1, 0], np.int64)}

CHAINS = {
    "identity": [node("Identity", "a")],
    "cast": [node("Cast", "a", to=TensorProto.FLOAT16)],
    "transpose": [node("Transpose", "a", perm=[1, 0])],
    "transpose_default": [node("Transpose", "a")],
    "reshape": [node("Reshape", "a", "shape")],
    "flatten": [node("Flatten", "a", axis=1)],
    "unsqueeze_squeeze": [node("Unsqueeze", "a", "axes", out="u"), node("Squeeze", "u", "axes")],
    "mul_div": [node("Mul", "a", "b", out="m"), node("Div", "m", "b")],
    "sqrt_of_abs": [node("Abs", "a", out="p"), node("Sqrt", "p")],
    "max_of_three": [node("Max", "a", "b", "c")],
    "min": [node("Min", "a", "b")],
    "gather": [node("Gather", "a", "index", axis=1)],
    "concat": [node("Concat", "a", "a", axis=0)],
    "constant_of_shape": [node("Shape", "a", out="s"), node("ConstantOfShape", "s")],
    "expand": [node("Expand", "c", "wide")],
    "reciprocal": [node("Reciprocal", "a")],
    "pow": [node("Pow", "b", "c")],
    "subtract_add_negate": [node("Sub", "a", "b", out="d"), node("Add", "d", "b", out="e"), node("Neg", "e")],
    "exp": [node("Exp", "c")],
    "dequantize": [node("DequantizeLinear", "q", "s1", axis=0)],
    "integer_division": [node("Div", "n", "m2")],
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_fold_to_what_the_reference_computes(name: str) -> None:
    model = chain(
        *CHAINS[name],
        a=A,
        b=np.array([2.0, 0.5, 4.0], np.float32),
        c=np.array([1.25], np.float32),
        wide=np.array([2, 4], np.int64),
        q=np.array([[1, -2], [100, 7]], np.int8),
        s1=np.array([0.1, 0.3], np.float32),
        n=np.array([7, -7], np.int64),
        m2=np.array([2, 2], np.int64),
        **I64,
    )
    expected = ReferenceEvaluator(model).run(None, {"x": np.zeros(2, np.float32)})[0]
    folded = fold(model)
    assert folded is not None
    assert folded.dtype == expected.dtype
    assert np.array_equal(folded, expected)


def test_what_depends_on_an_input_is_not_constant() -> None:
    assert fold(chain(node("Mul", "x", "a"), a=A)) is None
    assert fold(chain(node("Identity", "x"))) is None


def test_unknown_operators_and_custom_domains_are_not_folded() -> None:
    assert fold(chain(node("Erf", "a"), a=A)) is None
    assert fold(chain(node("Identity", "a", domain="custom"), a=A)) is None


def test_constants_inside_bodies_see_outer_constants() -> None:
    body = helper.make_graph([node("Mul", "a", "a", out="t")], "b", [], [helper.make_empty_tensor_value_info("t")])
    model = chain(node("If", "flag", then_branch=body, else_branch=body), a=A, flag=np.array(True))
    view = GraphView(Model(model))
    inner = view.scope(("y.then_branch",)).values["t"]
    assert np.array_equal(Constants(view).array(inner), A * A)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Gather", "a", "far")],
        [node("Reshape", "a", "huge")],
        [node("ConstantOfShape", "huge")],
        [node("Expand", "c", "huge")],
        [node("Cast", "a", to=999)],
        [node("DequantizeLinear", "a", "c")],
        [node("DequantizeLinear", "q8", "c", axis=7, block_size=3)],
        [node("Transpose", "a", perm=[5, 6])],
    ],
)
def test_malformed_and_huge_chains_give_nothing(nodes: list[onnx.NodeProto]) -> None:
    model = chain(
        *nodes,
        a=A,
        c=np.array([[1.0]], np.float32),
        q8=np.array([1], np.int8),
        far=np.array([99], np.int64),
        huge=np.array([1 << 40, 1 << 40], np.int64),
    )
    assert Constants(view := GraphView(Model(model))).array(view.main.values["y"]) is None


def test_cycles_and_endless_chains_end() -> None:
    loop = chain(node("Identity", "y", out="z"), node("Identity", "z"))
    assert fold(loop) is None
    links = [node("Identity", f"t{i}", out=f"t{i + 1}") for i in range(5000)]
    long = chain(*links, node("Identity", "t5000"), t0=A)
    assert fold(long) is None


def test_large_results_are_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants_module, "MAX_FOLDED_ELEMENTS", 3)
    model = chain(node("Identity", "a"), a=A)
    view = GraphView(Model(model))
    assert Constants(view).array(view.main.values["y"]) is None
    assert Constants(view).array(view.main.values["a"]) is not None
