"""QM609: sparse tensors are reported at their readers, except in branches that TensorRT does not import."""

import onnx
import pytest
from onnx import TensorProto, helper
from support.one_rule import findings, parsed

SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("k", TensorProto.FLOAT, [1], [2.0]), helper.make_tensor("at", TensorProto.INT64, [1], [1]), [4]
)


def sparse(body: str, *, inputs: str = "", outputs: str = "") -> onnx.ModelProto:
    model = parsed(
        f"""agraph (float[4] x{inputs}) => (float[4] y{outputs}) <bool yes = {{1}}, bool no = {{0}}> {{ {body} }}"""
    )
    model.graph.sparse_initializer.append(SPARSE)
    return model


def told(model: onnx.ModelProto) -> list[tuple[str, str | None, str]]:
    return [(each.message, each.node, each.effect) for each in findings("QM609", model)]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (sparse("y = Relu (x)"), []),
        (sparse("[a] y = Add (x, k)"), [("input 'k' is stored sparsely", "a", "refused")]),
        (
            sparse("[a] y = Add (x, k) [b] u = Relu (k)"),
            [("input 'k' is stored sparsely", name, "refused") for name in "ab"],
        ),
        (sparse("[a] y = Add (x, k)", inputs=", float[4] k"), [("input 'k' is stored sparsely", "a", "silent")]),
        (sparse("y = Relu (x)", outputs=", float[4] k"), [("'k' is stored sparsely", None, "refused")]),
    ],
)
def test_readers_and_outputs(model: onnx.ModelProto, expected: list[tuple[str, str | None, str]]):
    assert told(model) == expected


def test_a_dense_tensor_of_the_same_name_is_the_one_that_is_read():
    model = sparse("[a] y = Add (x, k)")
    model.graph.initializer.append(helper.make_tensor("k", TensorProto.FLOAT, [4], [1.0] * 4))

    assert told(model) == []


def branches(condition: str) -> onnx.ModelProto:
    """Both branches read the sparse tensor; so does a node behind them, and each has a sparse Constant."""
    model = sparse(
        f"""o = If ({condition}) <then_branch = t () => (p) {{ [then] p = Add (x, k) [c1] e = Constant () }},
        else_branch = f () => (q) {{ [else] q = Sub (x, k) [c2] g = Constant () }}> [last] y = Add (o, k)"""
    )
    for attribute in model.graph.node[0].attribute:
        attribute.g.node[1].attribute.append(helper.make_attribute("sparse_value", SPARSE))
    return model


@pytest.mark.parametrize(
    ("condition", "reported"),
    [("yes", {"then", "c1", "last"}), ("no", {"else", "c2", "last"}), ("b", {"then", "c1", "else", "c2", "last"})],
)
def test_a_branch_that_is_never_taken_is_not_imported(condition: str, reported: set[str]):
    model = branches(condition)
    model.graph.input.append(helper.make_tensor_value_info("b", TensorProto.BOOL, []))

    assert sorted(node for _, node, _ in told(model)) == sorted(reported)


def test_a_branch_that_is_never_taken_hides_nothing_in_other_branches():
    dead = "<then_branch = t () => (p) { p = Relu (x) }, else_branch = f () => (q) { q = Neg (x) }>"
    model = parsed(f"agraph (float[4] x) => (float[4] y) <bool no = {{0}}> {{ o = If (no) {dead} y = If (no) {dead} }}")
    live = model.graph.node[1].attribute[1].g
    live.sparse_initializer.append(SPARSE)
    live.node.append(helper.make_node("Abs", ["k"], ["a"], "inner"))

    assert told(model) == [("input 'k' is stored sparsely", "inner", "refused")]


def test_only_a_constant_has_a_sparse_value():
    model = parsed("agraph (float[4] x) => (float[4] y) { [a] c = Constant () [b] y = Relu (x) [d] e = Constant () }")
    for node in model.graph.node[:2]:
        node.attribute.append(helper.make_attribute("sparse_value", SPARSE))
    model.graph.node[2].attribute.append(helper.make_attribute("value", helper.make_tensor("v", 1, [], [1.0])))

    assert told(model) == [("this Constant is stored sparsely", "a", "refused")]
