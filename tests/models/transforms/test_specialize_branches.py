"""If nodes with a constant condition are replaced with all that the taken branch holds; all others stay as they are."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from support.small import run

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.transforms.specialize_branches import deciding_values, inline_branches

X = np.array([[1.5, -2.0]], np.float32)
HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'
MODEL = (
    HEAD
    + """
    g (float[1,2] x) => (float[1,2] y) <bool yes = {1}> {
        [outside] o = Sqrt (x)
        [both] a, b = If (yes) <
            then_branch = t () => (float[1,2] c, float[1,2] d) { [c] c = Neg (x) [d] d = Exp (c) },
            else_branch = e () => (float[1,2] f, float[1,2] h) { [f] f = Neg (o) [h] h = Abs (o) }
        >
        [end] y = Add (a, b)
    }
"""
)


def parsed(text: str = MODEL) -> onnx.ModelProto:
    return parser.parse_model(text)


def conditional(proto: onnx.ModelProto) -> onnx.NodeProto:
    return next(node for node in proto.graph.node if node.op_type == "If")


def inlined(proto: onnx.ModelProto, count: int = 1) -> onnx.ModelProto:
    before = proto.SerializeToString(deterministic=True)
    result = inline_branches(Model(proto))
    assert result.report == count
    assert proto.SerializeToString(deterministic=True) == before
    return result.model.proto


def assert_left(proto: onnx.ModelProto) -> None:
    model = Model(proto)
    result = inline_branches(model)
    assert (result.report, result.model) == (0, model)
    assert result.model is model


def names(proto: onnx.ModelProto) -> list[str]:
    return [node.name for node in proto.graph.node]


def no_condition(node: onnx.NodeProto) -> None:
    node.input[0] = ""


def no_branch(node: onnx.NodeProto) -> None:
    del node.attribute[0]


def no_output(node: onnx.NodeProto) -> None:
    node.output[:] = ["", ""]


def sparse_constant(node: onnx.NodeProto) -> None:
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "i")
    node.attribute[0].g.sparse_initializer.add(values=values, indices=indices, dims=[4])


@pytest.mark.parametrize("spoil", [no_condition, no_branch, no_output, sparse_constant])
def test_a_node_that_cannot_be_replaced_is_left(spoil) -> None:
    proto = parsed()
    spoil(conditional(proto))
    assert_left(proto)


@pytest.mark.parametrize("values", [[], [True, False]])
def test_a_condition_of_several_values_is_left(values) -> None:
    proto = parsed()
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(values, bool), "yes"))
    assert_left(proto)


def test_a_condition_that_the_caller_gives_is_left() -> None:
    proto = parsed()
    del proto.graph.initializer[0]
    proto.graph.input.append(helper.make_tensor_value_info("yes", TensorProto.BOOL, []))
    assert_left(proto)


def test_what_only_the_other_branch_and_the_condition_read_goes() -> None:
    after = inlined(parsed())
    assert names(after) == ["c", "d", "end"]
    assert [node.output[0] for node in after.graph.node] == ["a", "b", "y"]
    assert len(after.graph.initializer) == 0
    assert np.array_equal(run(parsed(), {"x": X})[0], run(after, {"x": X})[0])


def test_what_only_a_body_of_the_other_branch_reads_goes() -> None:
    proto = parsed()
    info = helper.make_tensor_value_info("p", TensorProto.FLOAT, [1, 2])
    deep = helper.make_graph([helper.make_node("Neg", ["o"], ["p"])], "deep", [], [info])
    other = conditional(proto).attribute[1].g
    del other.node[:]
    other.node.append(helper.make_node("If", ["flag"], ["f"], then_branch=deep, else_branch=deep))
    other.node.append(helper.make_node("Abs", ["f"], ["h"]))
    proto.graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    assert names(inlined(proto)) == ["c", "d", "end"]


def test_what_the_other_branch_reads_stays_for_other_readers() -> None:
    proto = parsed()
    proto.graph.output.append(helper.make_tensor_value_info("o", TensorProto.FLOAT, [1, 2]))
    assert names(inlined(proto)) == ["outside", "c", "d", "end"]


def test_an_output_that_nothing_reads_goes_with_its_nodes() -> None:
    proto = parsed()
    proto.graph.node[-1].input[1] = "a"
    assert names(inlined(proto)) == ["c", "end"]


def test_an_omitted_output_gets_no_name() -> None:
    proto = parsed()
    conditional(proto).output[1] = ""
    proto.graph.node[-1].input[1] = "a"
    after = inlined(proto)
    assert [list(node.output) for node in after.graph.node] == [["a"], ["d"], ["y"]]
    assert np.array_equal(run(after, {"x": X})[0], -2 * X)


def test_types_of_the_branch_replace_those_of_the_outputs() -> None:
    proto = parsed(MODEL.replace("d = Exp (c)", "inner = Exp (c) d = Neg (inner)"))
    for name in ("o", "a", "b"):
        proto.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["any", "size"]))
    branch, other = (attribute.g for attribute in conditional(proto).attribute)
    branch.value_info.append(helper.make_tensor_value_info("inner", TensorProto.FLOAT, [1, 2]))
    other.value_info.append(helper.make_tensor_value_info("gone", TensorProto.FLOAT, [1, 2]))
    proto.graph.output.append(helper.make_tensor_value_info("o", TensorProto.FLOAT, [1, 2]))
    assert [value.name for value in inlined(proto).graph.value_info] == ["o", "inner"]


def test_annotations_of_the_branch_are_kept_under_the_new_names() -> None:
    proto = parsed()
    conditional(proto).attribute[0].g.quantization_annotation.add(tensor_name="c")
    assert [each.tensor_name for each in inlined(proto).graph.quantization_annotation] == ["a"]


@pytest.mark.parametrize(("version", "stored", "raised"), [(3, False, 3), (3, True, 4), (8, True, 8)])
def test_only_new_initializers_raise_the_ir_version(version, stored, raised) -> None:
    proto = parsed()
    proto.ir_version = version
    if stored:
        branch = conditional(proto).attribute[0].g
        branch.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
        branch.node[0].CopyFrom(helper.make_node("Add", ["x", "w"], ["c"]))
    assert inlined(proto).ir_version == raised


def test_a_body_and_the_graph_around_it_are_rebuilt_in_one_round() -> None:
    text = (
        HEAD
        + """
    g (float[1,2] x, int64 times) => (float[1,2] y) <bool yes = {1}> {
        a = If (yes) <then_branch = t () => (float[1,2] c) { c = Neg (x) },
                      else_branch = e () => (float[1,2] d) { d = Abs (x) }>
        y = Loop (times, yes, a) <body = b (int64 i, bool go, float[1,2] v) => (bool gone, float[1,2] w) {
            gone = Identity (go)
            w = If (yes) <then_branch = t2 () => (float[1,2] p) { p = Add (v, x) },
                          else_branch = e2 () => (float[1,2] q) { q = Sub (v, x) }>
        }>
    }
    """
    )
    after = inlined(parsed(text), 2)
    assert [node.op_type for _, container in walk(after) for node in container.node if node.op_type == "If"] == []
    feeds = {"x": X, "times": np.array(3)}
    assert np.array_equal(run(parsed(text), feeds)[0], run(after, feeds)[0])


def test_a_node_in_a_loop_of_a_replaced_branch_waits_for_the_next_round() -> None:
    text = (
        HEAD
        + """
    g (float[1,2] x, int64 times) => (float[1,2] y) <bool yes = {1}> {
        y = If (yes) <
            then_branch = t () => (float[1,2] r) {
                r = Loop (times, yes, x) <body = b (int64 i, bool go, float[1,2] v) => (bool gone, float[1,2] w) {
                    gone = Identity (go)
                    w = If (yes) <then_branch = t2 () => (float[1,2] p) { p = Add (v, x) },
                                  else_branch = e2 () => (float[1,2] q) { q = Sub (v, x) }>
                }>
            },
            else_branch = e () => (float[1,2] o) { o = Neg (x) }
        >
    }
    """
    )
    first = inlined(parsed(text))
    second = inlined(first)
    assert_left(second)
    feeds = {"x": X, "times": np.array(2)}
    for after in (first, second):
        assert np.array_equal(run(parsed(text), feeds)[0], run(after, feeds)[0])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("Equal (rate, low)", {"rate": (8000,)}),
        ("Equal (low, rate)", {"rate": (8000,)}),
        ("Less (rate, low)", {}),
        ("Equal (rate, rate)", {}),
        ("Not (flag)", {}),
    ],
)
def test_the_value_of_an_input_that_decides_a_branch(condition, expected):
    text = HEAD + (
        "g (float[1,2] x, int64 rate, bool flag) => (float[1,2] y) <int64 low = {8000}> { c = "
        + condition
        + """
        y = If (c) <then_branch = t () => (float[1,2] a) { a = Neg (x) },
                    else_branch = e () => (float[1,2] b) { b = Abs (x) }> }"""
    )
    assert deciding_values(ModelIndex.of(Model(parsed(text)))) == expected
