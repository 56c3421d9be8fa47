"""Models that are cut out, against ONNX Runtime: they compute the tensors that the whole model computes."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from support.planted import network, random_network
from support.small import run

from qdqtool.jobs.reduction.subgraph import Subgraphs
from qdqtool.models.graph.model import Model


def exposed(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every tensor as an output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    known = {value.name for value in copy.graph.output}
    for node in proto.graph.node:
        for name in node.output:
            if name not in known:
                copy.graph.output.add(name=name)
    return copy


@pytest.mark.parametrize("seed", range(8))
def test_cut_models_compute_what_the_whole_one_does(seed: int):
    rng = np.random.default_rng(seed)
    proto = random_network(seed, 40, {})
    whole = exposed(proto)
    x = rng.normal(size=(4, 6)).astype(np.float32)
    values = dict(zip([value.name for value in whole.graph.output], run(whole, {"x": x}), strict=True)) | {"x": x}
    graph = Subgraphs(Model(proto), frozenset())
    for _ in range(5):
        kept = np.flatnonzero(rng.random(40) < 0.4).tolist()
        cut = graph.keep(kept)
        onnx.checker.check_model(cut.proto, full_check=True)
        assert [node.output[0] for node in cut.proto.graph.node] == [f"t{index}" for index in kept]
        names = [value.name for value in cut.proto.graph.output]
        for name, found in zip(names, run(cut.proto, feeds(cut.proto, values)), strict=True):
            assert np.array_equal(found, values[name])
        read = {name for node in cut.proto.graph.node for name in node.input}
        made = {name for node in cut.proto.graph.node for name in node.output}
        assert made - read <= {*names}


def feeds(proto: onnx.ModelProto, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {value.name: values[value.name] for value in proto.graph.input}


def test_what_a_branch_reads_becomes_an_input():
    inner = helper.make_graph([helper.make_node("Relu", ["a"], ["t"])], "t", [],
                              [helper.make_tensor_value_info("t", TensorProto.FLOAT, (4, 6))])  # fmt: skip
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "e", [],
                              [helper.make_tensor_value_info("e", TensorProto.FLOAT, (4, 6))])  # fmt: skip
    proto = network(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other),
        ],
        ["y"],
        {"c": np.bool_(True)},
    )
    cut = Subgraphs(Model(proto), frozenset()).keep([1])
    assert [value.name for value in cut.proto.graph.input] == ["x", "a"]
    onnxruntime.InferenceSession(cut.proto.SerializeToString(), providers=["CPUExecutionProvider"])


def test_a_tensor_of_unknown_type_is_no_place_to_cut():
    proto = network(
        [helper.make_node("Strange", ["x"], ["a"], domain="own"), helper.make_node("Relu", ["a"], ["y"])], ["y"]
    )
    proto.opset_import.append(helper.make_opsetid("own", 1))
    graph = Subgraphs(Model(proto), frozenset())
    assert graph.keep([1]) is None
    assert graph.keep([0]) is None
    assert graph.keep([0, 1]) is not None
    assert graph.keep([]) is None


def test_constants_stay_with_those_that_read_them():
    nodes = [
        helper.make_node("Constant", [], ["k"], value=onnx.numpy_helper.from_array(np.ones((4, 6), np.float32))),
        helper.make_node("Neg", ["w"], ["n"]),
        helper.make_node("Add", ["k", "n"], ["s"]),
        helper.make_node("Add", ["x", "s"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    graph = Subgraphs(Model(network(nodes, ["y"], {"w": np.ones((4, 6), np.float32)})), frozenset())
    assert graph.constant == {0, 1, 2}
    assert graph.layers == [3, 4]
    assert graph.with_attached([3]) == {0, 1, 2, 3}
    assert graph.with_attached([4]) == {4}


def test_cuts_are_made_at_the_given_tensors_alone():
    nodes = [helper.make_node("Relu", [one], [two]) for one, two in (("x", "a"), ("a", "b"), ("b", "c"), ("c", "y"))]
    graph = Subgraphs(Model(network(nodes, ["y"])), frozenset(), frozenset({"a", "y"}))
    assert graph.layers == [0, 3]
    assert graph.with_attached([3]) == {1, 2, 3}


def test_functions_that_nothing_calls_any_more_are_left_out():
    functions = [
        helper.make_function("own", name, ["a"], ["b"], [helper.make_node(op, ["a"], ["b"], domain=domain)],
                             [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)])
        for name, op, domain in (("F", "G", "own"), ("G", "Relu", ""), ("H", "Neg", ""))
    ]  # fmt: skip
    nodes = [helper.make_node("F", ["x"], ["a"], domain="own"), helper.make_node("H", ["a"], ["y"], domain="own")]
    proto = network(nodes, ["y"])
    proto.functions.extend(functions)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    for info in ("a",):
        proto.graph.value_info.append(helper.make_tensor_value_info(info, TensorProto.FLOAT, (4, 6)))
    graph = Subgraphs(Model(proto), frozenset())
    first, last = graph.keep([0]), graph.keep([1])
    assert [each.name for each in first.proto.functions] == ["F", "G"]
    assert [each.name for each in last.proto.functions] == ["H"]
