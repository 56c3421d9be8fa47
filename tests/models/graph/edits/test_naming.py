import onnx
from support.rich_model import rich_model

from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[4] x, bool c) => (float[4] y) <float[4] w = {1,2,3,4}> {
  [first] a = Relu(x)
  [second] y = If(c) <then_branch = t () => (float[4] p) { [inner] p = Mul(a, lost) },
                      else_branch = e () => (float[4] q) <float[4] v = {1,2,3,4}> { q = Add(a, v) }>
}"""


def namer() -> Namer:
    return Namer(GraphView(Model(onnx.parser.parse_model(TEXT))))


def test_a_free_name_is_given_as_it_is() -> None:
    assert namer().tensor("a_scale") == "a_scale"
    assert namer().node("a_QuantizeLinear") == "a_QuantizeLinear"


def test_taken_names_of_every_kind_and_scope_get_a_number() -> None:
    fresh = namer()
    taken = ["x", "c", "a", "y", "w", "p", "q", "v", "lost"]
    assert [fresh.tensor(name) for name in taken] == [f"{name}_1" for name in taken]
    assert [fresh.node(name) for name in ("first", "second", "inner")] == ["first_1", "second_1", "inner_1"]


def test_a_name_is_given_once() -> None:
    fresh = namer()
    assert [fresh.tensor("s") for _ in range(3)] == ["s", "s_1", "s_2"]
    assert [fresh.tensor(name) for name in ("s_3", "s", "s_1")] == ["s_3", "s_4", "s_1_1"]


def test_tensors_and_nodes_have_names_of_their_own() -> None:
    fresh = namer()
    assert fresh.node("a") == "a"
    assert fresh.tensor("first") == "first"


def test_nothing_is_ever_named_by_the_empty_string() -> None:
    assert (namer().tensor(""), namer().node("")) == ("_1", "_1")


def test_functions_and_sparse_initializers_count() -> None:
    model = rich_model(sparse=True)
    fresh = Namer(GraphView(Model(model)))
    for _, container in walk(model):
        for node in container.node:
            assert all(fresh.tensor(name) != name for name in node.output)
    assert fresh.tensor("w_sparse") == "w_sparse_1"
    assert fresh.node("leaky") == "leaky_1"
