"""Whole reductions with a command in this process: planted failures whose smallest model is known."""

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.engine_models import recursive
from support.planted import ERROR, failing_where, failing_with, joined, network, operators, random_network, reduced
from support.qdq import text_model

from qdqtool.errors import UsageError
from qdqtool.jobs.reduction.failure import Failure, Kind


@pytest.mark.parametrize("seed", range(6))
def test_one_planted_node_is_all_that_is_left(seed: int, tmp_path: Path):
    place = int(np.random.default_rng(seed).integers(150))
    best, search = reduced(random_network(seed, 150, {place: "Elu"}), failing_with("Elu"), tmp_path)
    assert operators(best.proto) == ["Elu"]
    onnx.checker.check_model(best.proto, full_check=True)
    # Two runs of the whole model, a bisection of 150 nodes, the node alone, and a step each for attributes and shapes.
    assert search.counts.runs <= 2 + 8 + 1 + 3


@pytest.mark.parametrize("seed", range(6))
def test_two_planted_nodes_without_a_path_are_all_that_is_left(seed: int, tmp_path: Path):
    first, last = sorted(np.random.default_rng(seed).choice(120, 2, replace=False).tolist())
    model = random_network(seed, 120, {first: "Elu", last: "Erf"})
    best, _ = reduced(model, failing_with("Elu", "Erf"), tmp_path)
    assert sorted(operators(best.proto)) == ["Elu", "Erf"]


def test_two_nodes_that_must_be_joined_by_a_path_end_up_side_by_side(tmp_path: Path):
    chain = ["Relu"] * 30
    chain[8], chain[19] = "Elu", "Erf"
    names = ["x", *(f"t{index}" for index in range(30))]
    nodes = [
        helper.make_node(op, [one], [two]) for op, (one, two) in zip(chain, itertools.pairwise(names), strict=True)
    ]
    model = network(nodes, ["t29"])
    best, _ = reduced(model, failing_where(lambda proto: joined(proto, "Elu", "Erf")), tmp_path)
    assert operators(best.proto) == ["Elu", "Erf"]
    assert joined(best.proto, "Elu", "Erf", adjacent=True)


def test_an_unrelated_failure_is_not_followed(tmp_path: Path):
    """Every small model fails too, but otherwise: the result must fail as the whole model does."""
    other = Failure(Kind.EXIT, "1", ("too small",), "too small")

    def judge(proto: onnx.ModelProto) -> Failure | None:
        return ERROR if "Elu" in operators(proto) else other

    best, search = reduced(random_network(1, 80, {33: "Elu"}), judge, tmp_path)
    assert operators(best.proto) == ["Elu"]
    assert search.failure.is_like(ERROR)


@pytest.mark.parametrize(
    ("failure", "said"),
    [(ERROR, "fails in the same way on a model that only copies its inputs"), (None, "does not fail")],
    ids=["fails on any model", "does not fail"],
)
def test_a_command_that_shows_nothing_is_refused(failure: Failure | None, said: str, tmp_path: Path):
    with pytest.raises(UsageError, match=said):
        reduced(random_network(1, 20, {}), lambda _: failure, tmp_path)


def test_a_minimal_model_stays_as_it_is(tmp_path: Path):
    model = network([helper.make_node("Elu", ["x"], ["y"])], ["y"])

    def judge(proto: onnx.ModelProto) -> Failure | None:
        return ERROR if proto.SerializeToString() == model.SerializeToString() else None

    best, _ = reduced(model, judge, tmp_path)
    assert best.proto == model


def test_what_the_message_names_is_tried_first(tmp_path: Path):
    def judge(proto: onnx.ModelProto) -> Failure | None:
        for node in proto.graph.node:
            if node.op_type == "Elu":
                return Failure(Kind.EXIT, "1", ("refused",), "refused", f"tensor {node.output[0]} is refused")
        return None

    best, search = reduced(random_network(3, 200, {77: "Elu"}), judge, tmp_path)
    assert operators(best.proto) == ["Elu"]
    assert search.counts.history[0] == (3, 1)


def test_a_message_that_names_the_wrong_node_does_no_harm(tmp_path: Path):
    wrong = Failure(Kind.EXIT, "1", ("refused",), "refused", "tensor t3 is refused")
    best, _ = reduced(random_network(3, 60, {50: "Elu"}), lambda proto: wrong if "Elu" in operators(proto) else None,
                      tmp_path)  # fmt: skip
    assert operators(best.proto) == ["Elu"]


def test_the_search_ends_with_the_smallest_model_so_far(tmp_path: Path):
    best, search = reduced(random_network(0, 150, {100: "Elu"}), failing_with("Elu"), tmp_path, max_runs=5)
    assert search.counts.runs == 5
    assert "Elu" in operators(best.proto)
    assert 1 < len(operators(best.proto)) < 150


def test_the_same_model_gives_the_same_bytes_in_the_same_runs(tmp_path: Path):
    results = []
    for _ in range(2):
        best, search = reduced(random_network(5, 90, {20: "Elu", 70: "Erf"}), failing_with("Elu", "Erf"), tmp_path)
        results.append((best.proto.SerializeToString(deterministic=True), search.counts.history))
    assert results[0] == results[1]


def test_weights_become_zeros_and_shapes_small_where_their_values_do_not_matter(tmp_path: Path):
    weight = np.random.default_rng(0).normal(size=(6, 32)).astype(np.float32)
    model = network([helper.make_node("MatMul", ["x", "w"], ["y"])], ["y"], {"w": weight})
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 32
    best, _ = reduced(model, failing_with("MatMul"), tmp_path)
    (tensor,) = best.proto.graph.initializer
    assert tuple(tensor.dims) == (1, 1)
    assert not numpy_helper.to_array(tensor).any()
    assert [dim.dim_value for dim in best.proto.graph.input[0].type.tensor_type.shape.dim] == [1, 1]


def test_a_weight_of_a_negative_size_is_no_error(tmp_path: Path):
    model = network([helper.make_node("MatMul", ["x", "w"], ["y"])], ["y"], {})
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [6, 1], np.arange(6.0)))
    model.graph.initializer[0].dims[1] = -1
    best, _ = reduced(model, failing_with("MatMul"), tmp_path)
    assert operators(best.proto) == ["MatMul"]


def test_a_scale_becomes_one_and_no_zero(tmp_path: Path):
    model = network(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
         helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])],
        ["y"], {"s": np.float32(0.02), "z": np.int8(3)},
    )  # fmt: skip
    best, _ = reduced(model, failing_with("QuantizeLinear"), tmp_path)
    values = {tensor.name: numpy_helper.to_array(tensor).item() for tensor in best.proto.graph.initializer}
    assert values["s"] == 1.0


def test_weights_stay_where_their_values_matter(tmp_path: Path):
    weight = np.ones((4, 6), np.float32)
    weight[2, 3] = np.nan
    model = network(
        [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])], ["y"], {"w": weight}
    )

    def has_nan(proto: onnx.ModelProto) -> bool:
        return any(np.isnan(numpy_helper.to_array(tensor)).any() for tensor in proto.graph.initializer)

    best, _ = reduced(model, failing_where(has_nan), tmp_path)
    assert operators(best.proto) == ["Add"]
    assert np.isnan(numpy_helper.to_array(best.proto.graph.initializer[0])).any()


def test_an_unused_weight_that_is_at_fault_stays_and_the_others_go(tmp_path: Path):
    model = random_network(2, 40, {})
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.int16), "bad"))

    def judge(proto: onnx.ModelProto) -> Failure | None:
        return ERROR if any(each.data_type == TensorProto.INT16 for each in proto.graph.initializer) else None

    best, _ = reduced(model, judge, tmp_path)
    assert [tensor.name for tensor in best.proto.graph.initializer] == ["bad"]
    assert len(best.proto.graph.node) == 1


def with_if() -> onnx.ModelProto:
    """An If whose branches have three nodes on an outer tensor each, the middle one an Elu or an Erf."""
    return text_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[4,6] x) => (float[4,6] y) {
            a = Relu (x)
            m = ReduceMax <keepdims = 0> (a)
            c = Cast <to = 9> (m)
            i = If (c) <
                then_branch = t () => (float[4,6] t3) { t1 = Relu (a)  t2 = Elu (t1)  t3 = Relu (t2) },
                else_branch = e () => (float[4,6] e3) { e1 = Relu (a)  e2 = Erf (e1)  e3 = Relu (e2) }
            >
            y = Relu (i)
        }
    """).proto


@pytest.mark.parametrize("op_type", ["Elu", "Erf"])
def test_a_node_in_a_branch_is_taken_out_of_it(op_type: str, tmp_path: Path):
    best, _ = reduced(with_if(), failing_with(op_type), tmp_path)
    assert operators(best.proto) == [op_type]
    onnx.checker.check_model(best.proto, full_check=True)


def test_a_failure_that_needs_the_branch_keeps_if_and_little_else(tmp_path: Path):
    def in_if(proto: onnx.ModelProto) -> bool:
        return "If" in operators(proto) and "Elu" in operators(proto)

    best, _ = reduced(with_if(), failing_where(in_if), tmp_path)
    # The other branch still has to return something.
    assert sorted(operators(best.proto)) == ["Elu", "Identity", "Identity", "If"]
    onnx.checker.check_model(best.proto, full_check=True)


def test_a_node_in_a_loop_is_taken_out_of_it(tmp_path: Path):
    model = text_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[4,6] x) => (float[4,6] y) <int64 n = {3}> {
            a = Relu (x)
            y = Loop (n, , a) <
                body = body (int64 i, bool go, float[4,6] state) => (bool still, float[4,6] s2) {
                    still = Identity (go)  s1 = Relu (state)  s2 = Elu (s1)
                }
            >
        }
    """).proto
    onnx.checker.check_model(model, full_check=True)
    best, _ = reduced(model, failing_with("Elu"), tmp_path)
    assert operators(best.proto) == ["Elu"]
    onnx.checker.check_model(best.proto, full_check=True)


def test_a_node_of_a_local_function_is_taken_out_of_it(tmp_path: Path):
    model = text_model("""
        <ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[4,6] x) => (float[4,6] y) { r = Relu (x)  y = own.F (r) }
        <domain: "own", opset_import: ["": 17]> F (a) => (b) { m = Relu (a)  b = Elu (m) }
    """).proto
    best, _ = reduced(model, failing_with("Elu"), tmp_path)
    assert operators(best.proto) == ["Elu"]
    assert not best.proto.functions


def test_a_function_that_calls_itself_is_left_as_it_is(tmp_path: Path):
    model = recursive()
    model.graph.node.insert(0, helper.make_node("Relu", ["x"], ["before"]))
    model.graph.node[-1].input[0] = "before"

    def calls_itself(proto: onnx.ModelProto) -> bool:
        return any(node.op_type == each.name for each in proto.functions for node in each.node)

    best, _ = reduced(model, failing_where(calls_itself), tmp_path)
    # onnx infers no types in such a model, so it cannot be cut in front of the call.
    assert [node.op_type for node in best.proto.graph.node] == ["Relu", "again"]
    assert [function.name for function in best.proto.functions] == ["again"]


def test_a_failure_that_is_not_stable_is_tried_more_often(tmp_path: Path):
    runs = itertools.count()
    best, search = reduced(
        random_network(4, 60, {30: "Elu"}),
        lambda proto: ERROR if "Elu" in operators(proto) and next(runs) % 2 == 0 else None,
        tmp_path,
    )
    assert search.attempts == 3
    assert operators(best.proto) == ["Elu"]


def test_an_invalid_candidate_is_not_run(tmp_path: Path):
    """A MatMul of another shape than its neighbours: small extents that do not fit are refused before any run."""
    seen: list[onnx.ModelProto] = []
    weight = np.ones((6, 6), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "x"], ["y"])]

    def judge(proto: onnx.ModelProto) -> Failure | None:
        seen.append(proto)
        return ERROR if {"MatMul", "Add"} <= {*operators(proto)} else None

    reduced(network(nodes, ["y"], {"w": weight}), judge, tmp_path)
    for proto in seen:
        onnx.checker.check_model(proto, full_check=True)


def test_a_model_that_onnx_refuses_can_be_reduced(tmp_path: Path):
    model = random_network(6, 40, {20: "Nonsense"})
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(model)
    best, _ = reduced(model, failing_with("Nonsense"), tmp_path)
    assert operators(best.proto) == ["Nonsense"] or len(operators(best.proto)) < 40
