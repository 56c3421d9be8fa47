"""Hashes of neighbourhoods survive names and order, and change with operators, attributes and shapes nearby."""

from fnmatch import fnmatchcase

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.renamed import renamed, reordered
from support.rich_model import rich_model
from support.small import conv_model, make_model

from qdqtool.models.graph.index.structure import (
    SHOWN,
    Neighbourhoods,
    NodePatterns,
    context,
    digest,
    operation,
    outline,
)
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import OutlineNode


def hashes(proto):
    """The hash of every node's neighbourhood, in file order."""
    neighbourhoods = Neighbourhoods()
    return [neighbourhoods.around(node) for node in GraphView(Model(proto)).nodes()]


def chain(length=12):
    """A chain of nodes with an attribute of its own each: n0 to n11."""
    names = ["x", *(f"n{index}" for index in range(length))]
    nodes = [
        helper.make_node("LeakyRelu", [names[index]], [names[index + 1]], alpha=0.1 + index) for index in range(length)
    ]
    return make_model(nodes, {"x": (4,)}, {names[-1]: (4,)}, {})


def test_new_names_change_no_hash():
    assert hashes(renamed(rich_model())) == hashes(rich_model())


def test_hashes_that_users_have_stored_in_baselines_stay_what_they_are():
    assert hashes(conv_model()) == ["a195501121c62e18", "9a0dab5782847487", "2397a8ef06209544"]


def test_another_order_changes_no_hash():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Abs", ["x"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    proto = make_model(nodes, {"x": (4,)}, {"y": (4,)}, {})
    assert [node.op_type for node in reordered(proto).graph.node] != [node.op_type for node in nodes]
    assert sorted(hashes(reordered(proto))) == sorted(hashes(proto))


def test_values_of_weights_do_not_count_and_their_shapes_do():
    plain, other, wider = conv_model(), conv_model(), conv_model()
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.float32), "w"))
    wider.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((5, 3, 3, 3), np.float32), "w"))
    assert hashes(other) == hashes(plain)
    assert hashes(wider)[0] != hashes(plain)[0]


@pytest.mark.parametrize("changed", range(12))
def test_a_change_reaches_three_steps_far_and_no_farther(changed):
    proto = chain()
    proto.graph.node[changed].attribute[0].f = 99.0
    differ = [index for index, (one, two) in enumerate(zip(hashes(chain()), hashes(proto), strict=True)) if one != two]
    assert differ == [index for index in range(12) if abs(index - changed) <= 3]


def one_node(op="Conv", inputs=("x", "w"), domain="", **attributes):
    node = helper.make_node(op, list(inputs), ["y"], domain=domain, **attributes)
    proto = make_model([node], {"x": (1, 3, 8, 8)}, {"y": (1, 3, 8, 8)}, {"w": np.ones((3, 3, 1, 1), np.float32)})
    return next(GraphView(Model(proto)).nodes())


def test_an_operation_is_operator_domain_and_attributes_in_any_order():
    plain = operation(one_node(group=1, pads=[0, 0, 0, 0]))
    other_order = one_node(group=1, pads=[0, 0, 0, 0])
    other_order.proto.attribute.sort(key=lambda attribute: attribute.name, reverse=True)
    assert [attribute.name for attribute in other_order.proto.attribute] == ["pads", "group"]
    assert operation(other_order) == plain
    assert operation(one_node(inputs=("other", "names"), group=1, pads=[0, 0, 0, 0])) == plain
    others = [
        one_node(group=3, pads=[0, 0, 0, 0]),
        one_node(group=1),
        one_node("ConvTranspose", group=1, pads=[0, 0, 0, 0]),
        one_node(domain="my", group=1, pads=[0, 0, 0, 0]),
    ]
    assert len({plain, *map(operation, others)}) == 5


def test_stored_values_in_attributes_count_by_type_and_shape_alone():
    constants = [np.zeros(3, np.float32), np.ones(3, np.float32), np.ones(4, np.float32), np.ones(3, np.int64)]
    made = [operation(one_node("Constant", (), value=numpy_helper.from_array(values))) for values in constants]
    assert made[0] == made[1]
    assert len(set(made)) == 3


def test_operators_of_bodies_count():
    def owner(op):
        body = onnx.GraphProto(name="b", node=[helper.make_node(op, ["x"], ["t"])])
        return operation(one_node("If", ("x",), then_branch=body, else_branch=body))

    assert owner("Relu") != owner("Abs")


def test_the_ends_of_a_model_count():
    proto = chain(1)
    inner = chain(1)
    inner.graph.output.pop()
    from_weight = make_model(
        [helper.make_node("LeakyRelu", ["w"], ["n0"], alpha=0.1)], {}, {"n0": (4,)}, {"w": np.ones(4, np.float32)}
    )
    absent = make_model([helper.make_node("LeakyRelu", [""], ["n0"], alpha=0.1)], {}, {"n0": (4,)}, {})
    assert len({hashes(model)[0] for model in (proto, inner, from_weight, absent)}) == 4


def test_which_input_a_reader_uses_counts():
    def read(inputs):
        nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Sub", inputs, ["y"])]
        return hashes(make_model(nodes, {"x": (4,)}, {"y": (4,)}, {}))[0]

    assert read(["a", "x"]) != read(["x", "a"])


def test_a_digest_knows_where_one_part_ends():
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("c", "ab"), ("a b", "c"), ("ab\0c",)]
    assert len({digest(*words) for words in parts}) == len(parts)
    assert digest("a", 1) == digest("a", "1")
    assert len(digest("\udcff")) == 16, "a string that is no UTF-8 has one too"


def line(index, proto):
    return context(list(GraphView(Model(proto)).nodes())[index])


def test_a_node_is_shown_between_what_makes_its_inputs_and_what_reads_its_outputs():
    assert line(0, conv_model()) == "input x -> Conv conv1 -> Relu relu1"
    assert line(1, conv_model()) == "Conv conv1 -> Relu relu1 -> Conv conv2"
    assert line(2, conv_model()) == "Relu relu1 -> Conv conv2 -> output y"


def test_a_node_without_a_name_is_shown_by_its_output_and_constants_are_left_out():
    constant = helper.make_node("Constant", [], ["k"], value_float=1.0)
    nodes = [constant, helper.make_node("Add", ["x", "k"], ["y"])]
    assert line(1, make_model(nodes, {"x": (4,)}, {"y": (4,)}, {})) == "input x -> Add y -> output y"


@pytest.mark.parametrize(("beyond", "more"), [(0, ""), (2, " and 2 more")])
def test_of_many_neighbours_the_first_are_named_and_the_others_counted(beyond, more):
    names = [f"r{index}" for index in range(SHOWN + beyond)]
    readers = [helper.make_node("Relu", ["a"], [name]) for name in names]
    nodes = [helper.make_node("Sum", ["x", "x", "z"], ["a"]), *readers]
    proto = make_model(nodes, {"x": (4,), "z": (4,)}, dict.fromkeys(names, (4,)), {})
    assert line(0, proto) == f"input x, input z -> Sum a -> Relu r0, Relu r1, Relu r2{more}"


def test_a_node_that_nothing_reads_ends_its_line():
    proto = make_model([helper.make_node("Relu", ["x"], ["a"])], {"x": (4,)}, {}, {})
    assert line(0, proto) == "input x -> Relu a"


def test_absent_inputs_and_outputs_are_passed_by():
    split = helper.make_node("Split", ["x"], ["", "b"])
    clip = helper.make_node("Clip", ["b", "", "nowhere"], ["y"])
    proto = make_model([split, clip], {"x": (4,)}, {"y": (4,)}, {})
    assert line(0, proto) == "input x -> Split b -> Clip y"
    assert line(1, proto) == "Split b -> Clip y -> output y"
    assert len(set(hashes(proto))) == 2


# Patterns that match one node by a name of its own.


def patterns(*nodes: tuple[str, str]) -> list[str]:
    """The patterns of a chain of Relu nodes, each given by its name and its output."""
    tensors = ["x", *(output for _, output in nodes)]
    chain = [helper.make_node("Relu", [tensors[at]], [output], name=name) for at, (name, output) in enumerate(nodes)]
    model = make_model(chain, {"x": (2, 2)}, {tensors[-1]: (2, 2)}, {})
    view = GraphView(Model(model))
    found = NodePatterns(view)
    return [found.pattern(node) for node in view.nodes()]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([("a", "p"), ("b", "q")], ["a", "b"]),
        ([("", "p"), ("b", "q")], ["p", "b"]),
        ([("a", "p"), ("a", "q")], ["p", "q"]),
        ([("a", "b"), ("b", "q")], ["a", "q"]),
        ([("a", "a"), ("b", "q")], ["a", "b"]),
        ([("a[0]*?", "p")], ["a[[]0][*][?]"]),
    ],
)
def test_the_first_name_that_no_other_node_has(nodes, expected):
    found = patterns(*nodes)
    assert found == expected
    for at, pattern in enumerate(found):
        matched = [any(fnmatchcase(name, pattern) for name in names) for names in nodes]
        assert matched == [other == at for other in range(len(nodes))]


# The operators of a graph and their connections, with the formats of the pairs between them.


def outlined(text: str) -> tuple[OutlineNode, ...]:
    return outline(Model(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')))


def test_pairs_become_formats_of_connections():
    first, second, last = outlined(
        """agraph (float[1,4] x) => (float[1,4] y)
        <float s = {0.1}, int8 z = {0}, uint8 u = {0}, int8[4,4] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> {
            xq = QuantizeLinear (x, s, z)
            xd = DequantizeLinear (xq, s, z)
            wd = DequantizeLinear (w, s, z)
            [a] m = MatMul (xd, wd)
            mq = QuantizeLinear (m, s, u)
            md = DequantizeLinear (mq, s, u)
            [b] r = Relu (m)
            [c] y = Add (r, md)
        }"""
    )
    assert first == OutlineNode("a", "MatMul", (-1,), ("int8",), "int8")
    assert second == OutlineNode("b", "Relu", (0,), ("",), "")
    assert last == OutlineNode("c", "Add", (1, 0), ("", "uint8"), "")


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ("xq = QuantizeLinear (x, s)", "uint8"),
        ("xq = QuantizeLinear <output_dtype = 17> (x, s)", "float8e4m3fn"),
        ("xi = Identity (x) xq = Cast <to = 3> (xi)", "quantized"),
    ],
)
def test_the_format_of_a_pair_without_a_zero_point(node: str, kind: str):
    nodes = outlined(
        f"""agraph (float[4] x) => (float[4] y) <float s = {{0.1}}> {{
            {node}
            xd = DequantizeLinear (xq, s)
            y = Relu (xd)
        }}"""
    )
    assert nodes[-1].formats == (kind,)


def test_constants_are_no_connections_however_they_are_stored():
    (node,) = outlined(
        """agraph (float[2] x) => (float[2] y) <float[2] b = {1, 2}, float s = {1}> {
            c = Constant <value = int8[2] {1, 2}> ()
            d = DequantizeLinear (c, s)
            y = Sum (x, b, d)
        }"""
    )
    assert node == OutlineNode("Sum -> y", "Sum", (-1,), ("",), "int8")
