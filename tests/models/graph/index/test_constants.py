"""Constant folding through the chains that exporters write, against onnx's own evaluator."""

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from qdqtool.models.graph.index import constants as constants_module
from qdqtool.models.graph.index import folders
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.types import TensorTypes
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model

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


def array_of(model: onnx.ModelProto, name: str = "y") -> np.ndarray | None:
    view = GraphView(Model(model))
    return Constants(view).array(view.main.values[name])


def fold(model: onnx.ModelProto, name: str = "y") -> np.ndarray | None:
    """The folded array; whether there is one is known before it is made."""
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


@pytest.mark.parametrize(
    "maker",
    [
        node("Mul", "x", "a"),
        node("Identity", "x"),
        node("Erf", "a"),
        node("Identity", "a", domain="custom"),
        node("Add", "a", "nowhere"),
    ],
    ids=["input and constant", "input", "unknown operator", "custom domain", "unknown name"],
)
def test_only_known_operators_of_constants_are_constant(maker: onnx.NodeProto) -> None:
    assert fold(chain(maker, a=A)) is None


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
    assert array_of(model) is None


def test_cycles_and_endless_chains_end() -> None:
    loop = chain(node("Identity", "y", out="z"), node("Identity", "z"))
    assert fold(loop) is None
    links = [node("Identity", f"t{i}", out=f"t{i + 1}") for i in range(5000)]
    long = chain(*links, node("Identity", "t5000"), t0=A)
    assert fold(long) is None


def test_large_results_are_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants_module, "MAX_FOLDED_ELEMENTS", 3)
    model = chain(node("Neg", "a"), a=A)
    assert array_of(model) is None
    assert array_of(model, "a") is not None


def test_what_only_moves_stored_values_is_folded_at_any_size_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants_module, "MAX_FOLDED_ELEMENTS", 2)
    monkeypatch.setattr(folders, "MAX_FOLDED_ELEMENTS", 2)
    model = chain(node("Transpose", "a", out="t"), node("Gather", "t", "i", out="y"), a=A, i=np.array([0, 1]))
    view = GraphView(Model(model))
    constants = Constants(view)
    found = constants.array(view.main.values["y"])
    np.testing.assert_array_equal(found, A.T[:2])
    assert constants.array(view.main.values["y"]) is not found
    # A Gather that repeats what is stored would make more of it.
    model = chain(node("Gather", "a", "i", out="y"), a=A, i=np.zeros(3, np.int64))
    assert A.shape[0] < 3
    assert array_of(model) is None


def links(count: int) -> list[onnx.NodeProto]:
    """A chain of nodes from ``t0`` to ``y``."""
    return [node("Identity", f"t{index}", out=f"t{index + 1}" if index + 1 < count else "y") for index in range(count)]


def test_a_chain_of_64_nodes_is_folded() -> None:
    assert np.array_equal(fold(chain(*links(64), t0=A)), A)
    assert fold(chain(*links(65), t0=A)) is None


FUNCTION = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[2,3] x) => (float y, int64[2] n) { y, n = my.F <fill = 3> (x) }
<domain: "my", opset_import: ["": 21]>
F <fill> (a) => (sum, size) {
    given = Constant <value: tensor = @fill> ()
    seven = Constant <value = float {7}> ()
    flat = Flatten <axis: int = @fill> (seven)
    fixed = Flatten <axis = 0> (seven)
    sum = Add (given, seven)
    size = Shape (a)
}"""


def test_what_a_caller_gives_is_not_constant() -> None:
    model = Model(onnx.parser.parse_model(FUNCTION))
    view = GraphView(model)
    constants = Constants(view, TensorTypes(view))
    values = view.scope(("my::F",)).values
    assert {name for name, value in values.items() if constants.is_constant(value)} == {"seven", "fixed"}
    assert {name for name, value in values.items() if constants.array(value) is not None} == {"seven", "fixed"}
    assert {name for name, value in values.items() if constants.direct(value) is not None} == {"seven"}
    values["given"].producer.proto.attribute[0].CopyFrom(helper.make_attribute("value", numpy_helper.from_array(A)))
    values["given"].producer.proto.attribute[0].ref_attr_name = "fill"
    assert constants.direct(values["given"]) is None


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value": numpy_helper.from_array(np.array([1, 2], np.int8))}, np.array([1, 2], np.int8)),
        ({"value_float": 1.5}, np.float32(1.5)),
        ({"value_floats": [1.5, 2.5]}, np.float32([1.5, 2.5])),
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": [3, 4]}, np.array([3, 4])),
        ({"value_string": b"text"}, None),
        ({}, None),
    ],
)
def test_constant_nodes_have_the_value_of_any_of_their_attributes(
    attributes: dict, expected: np.ndarray | None
) -> None:
    view = GraphView(Model(chain(node("Constant", **attributes))))
    value = view.main.values["y"]
    found = Constants(view).array(value)
    assert (found is None) == (expected is None)
    if expected is not None:
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())
    assert (Constants(view).direct(value) is not None) == ("value" in attributes)


def test_an_attribute_called_value_makes_no_constant() -> None:
    filled = node("ConstantOfShape", "x", value=numpy_helper.from_array(np.array([2.0], np.float32)))
    view = GraphView(Model(chain(filled)))
    assert Constants(view).direct(view.main.values["y"]) is None
    assert not Constants(view).is_constant(view.main.values["y"])


def test_an_absent_input_and_a_second_output_are_told_apart() -> None:
    assert np.array_equal(fold(chain(node("Squeeze", "a", ""), a=A[:1])), A[0])
    two = helper.make_node("Identity", ["a"], ["y", "second"])
    assert fold(chain(two, a=A), "second") is None
    assert np.array_equal(fold(chain(two, a=A)), A)


def test_an_optional_input_that_cannot_be_computed_is_not_taken_for_an_absent_one() -> None:
    far = np.array([99], np.int64)
    assert (
        array_of(chain(node("Gather", "far", "far", out="axes"), node("Squeeze", "a", "axes"), a=A[:1], far=far))
        is None
    )


def test_text_is_not_folded() -> None:
    assert array_of(chain(node("Identity", "words"), words=np.array(["a", "b"], object))) is None


@pytest.mark.parametrize(("limit", "folded"), [(6, {"same", "wide"}), (5, set())])
def test_inputs_and_results_have_a_largest_size(monkeypatch: pytest.MonkeyPatch, limit: int, folded: set[str]) -> None:
    nodes = [
        node("Neg", "a", out="same"),
        node("ReduceSum", "a", out="wide"),
        node("Expand", "one", "shape", out="y"),
        node("Neg", "y", out="again"),
        node("ReduceSum", "again", out="sum"),
    ]
    shape = np.array([limit], np.int64)
    model = chain(*nodes, a=A, one=np.array([1], np.int8), shape=shape)
    monkeypatch.setattr(constants_module, "MAX_FOLDED_ELEMENTS", limit)
    view = GraphView(Model(model))
    values = view.main.values
    found = {name for name, value in values.items() if Constants(view).array(value) is not None}
    assert found - {"a", "one", "shape"} == folded | {"y", "again", "sum"}
    monkeypatch.setattr(constants_module, "MAX_FOLDED_ELEMENTS", limit - 1)
    found = {name for name, value in values.items() if Constants(view).array(value) is not None}
    assert found - {"a", "one", "shape"} == set()


def external(location: str) -> TensorProto:
    tensor = TensorProto(name=location, data_type=TensorProto.FLOAT, dims=[1])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def test_data_that_is_missing_has_no_value(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(np.float32(2.5).tobytes())
    model = chain(a=A)
    model.graph.initializer.extend([external("there"), external("lost")])
    model.graph.initializer[0].external_data.add(key="location", value="lost")  # inline all the same
    view = GraphView(Model(model, tmp_path / "m.onnx", missing_data=frozenset({"lost"})))
    values = view.main.values
    constants = Constants(view)
    assert {name for name, value in values.items() if constants.is_constant(value)} == {"a", "there", "lost"}
    assert constants.array(values["lost"]) is None
    assert constants.array(values["there"]).tolist() == [2.5]
    assert np.array_equal(constants.array(values["a"]), A)


def test_the_shape_of_what_is_nowhere_is_not_known() -> None:
    unknown = node("Mystery", "x", out="m", domain="my")
    model = chain(unknown, node("Shape", "m", out="s"), node("Shape", "nowhere", out="t"), node("Relu", "x"))
    view = GraphView(Model(model))
    values = view.main.values
    constants = Constants(view, TensorTypes(view))
    assert [name for name, value in values.items() if constants.is_constant(value)] == []


def test_extents_of_a_large_input_are_constant_and_read_no_data() -> None:
    model = chain(node("Shape", "x", out="s"), node("Size", "x"))
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1 << 20, 1 << 20]))
    view = GraphView(Model(model))
    constants = Constants(view, TensorTypes(view))
    assert constants.array(view.main.values["s"]).tolist() == [1 << 20, 1 << 20]
    assert constants.array(view.main.values["y"]) == 1 << 40


def test_the_smallest_element_is_looked_for_once(monkeypatch):
    reshape = node("Reshape", "a", "wrong", out="bad")
    model = chain(
        node("Transpose", "a"), reshape, a=A, whole=I64["shape"], empty=np.zeros((0, 3)), wrong=I64["axes"] + 4
    )
    view = GraphView(Model(model))
    constants, values = Constants(view), view.main.values
    found = {name: constants.minimum(values[name]) for name in ("a", "y", "whole", "x", "empty", "bad")}
    assert found == {"a": -2.0, "y": -2.0, "whole": -1.0, "x": None, "empty": None, "bad": None}
    monkeypatch.setattr(Constants, "array", None)
    assert {name: constants.minimum(values[name]) for name in found} == found


@pytest.mark.parametrize(
    ("made", "elements"),
    [
        (node("Add", "column", "row"), 1 << 32),
        (node("Where", "t", "column", "row"), 1 << 32),
        (node("Concat", *["row"] * 500, axis=1), 500 << 16),
    ],
)
def test_a_result_that_is_too_large_is_not_made(made: onnx.NodeProto, elements: int) -> None:
    row = np.zeros((1, 1 << 16), np.float32)
    model = chain(made, row=row, column=row.T, t=np.array(True))
    tracemalloc.start()
    assert elements > folders.MAX_FOLDED_ELEMENTS
    assert array_of(model) is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 23
