"""Only what onnx's version converter changes in a graph is changed; everything else keeps its bytes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser
from support.small import run

from qdqtool.errors import ModelError
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.transforms.opset import upgrade_opset

X = np.array([[1, 3, 2], [5, 4, 6]], np.float32)


def parsed(text: str, opset: int = 11) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "my": 1]> {text}')


def upgraded(model: onnx.ModelProto, version: int = 13) -> onnx.ModelProto:
    return upgrade_opset(Model(model), version).model.proto


def test_nodes_that_mean_the_same_keep_every_byte() -> None:
    before = parsed("""g (float[2,3] x) => (float[3,2] y) {
        [stored] c = Constant <value = float[3] {1, 2, 3}> ()
        [sum] s = Add (x, c)
        [leaky] l = LeakyRelu <alpha = 0.25> (s)
        [turned] y = Transpose <perm = [1, 0]> (l)
    }""")
    for node in before.graph.node:
        node.doc_string = "why"
        for attribute in node.attribute:
            attribute.doc_string = "because"
    before.graph.node[0].attribute[0].t.doc_string = "measured"
    after = upgraded(before)
    assert after.graph == before.graph
    assert after.opset_import[0].version == 13


def test_changes_behind_a_node_without_outputs_are_made() -> None:
    before = parsed("g (float[2,3] x) => (float[1,3] y) { y = ReduceSum <axes = [0]> (x) }")
    before.graph.node.insert(0, helper.make_node("Print", ["x"], [], domain="my"))
    after = upgraded(before)
    assert [node.op_type for node in after.graph.node] == ["Print", "Constant", "ReduceSum"]
    assert not after.graph.node[2].attribute
    assert after.graph.node[2].input[:] == ["x", after.graph.node[1].output[0]]
    assert after.graph.node[2].output[:] == ["y"]


def test_new_nodes_and_tensors_are_named_after_the_output_that_they_serve() -> None:
    before = parsed("g (float[2,3] x) => (float[3] y) { r = ReduceSum <axes = [0]> (x) y = Squeeze <axes = [0]> (r) }")
    after = upgraded(before)
    names = [(node.name, node.output[0]) for node in after.graph.node if node.op_type == "Constant"]
    assert names == [("r_Constant", "r_Constant_Output"), ("y_Constant", "y_Constant_Output")]
    assert np.array_equal(run(before, {"x": X})[0], run(after, {"x": X})[0])


def test_operators_of_domains_that_nothing_imports_stay() -> None:
    """ONNX Runtime runs such models, and Neural Compressor writes them."""
    before = parsed("""g (float[2,3] x, bool c) => (float[1,3] y) {
        z = other.Hidden (x)
        y = If (c) <
            then_branch = t () => (float[1,3] a) { a = ReduceSum <axes = [0]> (z) },
            else_branch = e () => (float[1,3] b) { b = third.Inner <axes = [0]> (z) }
        >
    }""")
    after = upgraded(before)
    assert [node.op_type for _, graph in walk(after) for node in graph.node] == [
        *("Hidden", "If", "Constant", "ReduceSum", "Inner")
    ]
    assert [entry.domain for entry in after.opset_import] == ["", "my"]


def test_bodies_are_converted_in_place() -> None:
    before = parsed("""g (float[2,3] x, bool c) => (float[1,3] y) {
        y = If (c) <
            then_branch = t () => (float[1,3] a) { a = ReduceSum <axes = [0]> (x) },
            else_branch = e () => (float[1,3] b) { s = Softmax <axis = 0> (x) b = ReduceSum <axes = [0]> (s) }
        >
    }""")
    after = upgraded(before)
    onnx.checker.check_model(after)
    sums = [node for _, graph in walk(after) for node in graph.node if node.op_type == "ReduceSum"]
    assert [len(node.input) for node in sums] == [2, 2]
    for flag in (True, False):
        feeds = {"x": X, "c": np.array(flag)}
        np.testing.assert_array_equal(run(before, feeds)[0], run(after, feeds)[0])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_softmax_computes_the_same(axis: int) -> None:
    before = parsed(f"g (float[2,3] x) => (float[2,3] y) {{ y = Softmax <axis = {axis}> (x) }}")
    after = upgraded(before)
    np.testing.assert_array_equal(run(before, {"x": X})[0], run(after, {"x": X})[0])


def test_an_upsampled_image_is_the_same() -> None:
    before = parsed(
        """g (float[1,1,2,3] x) => (float[1,1,a,b] y) <float[4] s = {1, 1, 1.5, 2.5}> {
            y = Upsample <mode = "nearest"> (x, s)
        }""",
        9,
    )
    feeds = {"x": X.reshape(1, 1, 2, 3)}
    np.testing.assert_array_equal(run(before, feeds)[0], run(upgraded(before), feeds)[0])


def test_bounds_have_the_type_of_the_data() -> None:
    before = parsed("g (double[2,3] x) => (double[2,3] y) { y = Clip <min = 2.0, max = 4.5> (x) }", 10)
    after = upgraded(before)
    assert {node.attribute[0].t.data_type for node in after.graph.node[:-1]} <= {TensorProto.DOUBLE}
    assert run(after, {"x": X.astype(np.float64)})[0].tolist() == np.clip(X, 2, 4.5).tolist()


PARAMETER = """g (float[2,3] x) => (float[a,b] y) { y = my.F <k = 1> (x) }
<domain: "my", opset_import: ["": 11]> F <k> (p) => (q) { q = OP (p) }"""


@pytest.mark.parametrize(
    ("node", "op", "attribute"),
    [("Softmax <axis: int = @k>", "Softmax", "axis"), ("ReduceSum <axes: ints = @k>", "ReduceSum", "axes")],
)
def test_an_attribute_that_only_the_caller_knows_is_refused(node: str, op: str, attribute: str) -> None:
    with pytest.raises(ModelError) as caught:
        upgraded(parsed(PARAMETER.replace("OP", node)))
    assert caught.value.message == (
        f"node '{op} -> q' ({op}) in my::F cannot be converted from opset 11: "
        f"its attribute '{attribute}' is a parameter of the function"
    )
    assert caught.value.hint == "export the model again with a later opset"


def test_an_attribute_that_only_the_caller_knows_stays_where_it_means_the_same() -> None:
    before = parsed(PARAMETER.replace("OP", "LeakyRelu <alpha: float = @k>").replace("k = 1", "k = 0.5"))
    assert upgraded(before).functions[0].node == before.functions[0].node


def test_a_failure_names_the_node_and_its_function() -> None:
    model = parsed(PARAMETER.replace("OP", "Neg"))
    model.functions[0].node.add(op_type="Unsqueeze", output=["z"])
    with pytest.raises(ModelError) as caught:
        upgraded(model)
    head = "node 'Unsqueeze -> z' (Unsqueeze) in my::F cannot be converted from opset 11 to 13: "
    assert caught.value.message.startswith(head)
    assert "\n" not in caught.value.message
    assert ".cc" not in caught.value.message
    assert caught.value.hint == "export the model again with opset 13 or later"
