"""The gate on Q and DQ nodes: one wrong element fails it, and nodes that were not checked are told as SKIPPED."""

from types import SimpleNamespace

import onnx
import pytest
from onnx import TensorProto
from support.qdq import LOOP_AND_BRANCHES, pair_model, text_model

from qdqtool.accuracy.checking.gates import qdq_exact
from qdqtool.accuracy.checking.qdq_reference import NodeCheck
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model


@pytest.fixture
def nodes():
    made = pair_model(TensorProto.INT8)
    return ModelIndex.of(Model(made) if isinstance(made, onnx.ModelProto) else made).qdq.nodes


def result(*checks: NodeCheck) -> GateResult:
    job = SimpleNamespace(checks=dict(enumerate(checks)))
    (gate,) = qdq_exact.results(SimpleNamespace(job=job))
    return gate


def test_equal_results_agree(nodes) -> None:
    gate = result(*(NodeCheck(entry, elements=8) for entry in nodes))
    assert (gate.passed, gate.detail) == (True, "2 of 2 agree")


def test_one_element_of_one_node_fails_and_names_the_node(nodes) -> None:
    gate = result(
        NodeCheck(nodes[0], elements=8), NodeCheck(nodes[1], elements=8, different=1, max_steps=1, example="e")
    )
    assert not gate.passed
    assert gate.detail == "1 of 2 differ"
    (failure,) = gate.failures
    assert nodes[1].node.label in failure
    assert "1 of 8 elements differ from the result of qdqtool, by up to 1 steps; e" in failure


def test_a_node_that_was_not_checked_is_not_counted_as_agreeing(nodes) -> None:
    gate = result(NodeCheck(nodes[0], elements=8), NodeCheck(nodes[1]))
    assert gate.detail == "1 of 2 agree, 1 SKIPPED"


def test_what_only_our_core_evaluated_is_counted_apart(nodes) -> None:
    gate = result(NodeCheck(nodes[0], elements=8), NodeCheck(nodes[1], elements=8, own="bfloat16"))
    assert gate.detail == "1 of 2 agree, 1 evaluated by our own core alone (refused by ONNX Runtime)"


def test_a_model_without_q_and_dq_says_so() -> None:
    assert result().detail == "the model has no Q or DQ of ONNX"


def test_a_node_in_a_body_is_named_with_its_graph() -> None:
    entry = next(each for each in ModelIndex.of(text_model(LOOP_AND_BRANCHES)).qdq.nodes if each.node.scope.path)
    (failure,) = result(NodeCheck(entry, elements=8, different=1)).failures
    assert failure.startswith("QuantizeLinear 'QuantizeLinear -> tq' in y.then_branch: 1 of 8 elements differ")


def test_a_node_of_the_main_graph_is_named_alone(nodes) -> None:
    (failure,) = result(NodeCheck(nodes[0], elements=4, different=2, max_steps=1.5, example="e")).failures
    assert failure == "QuantizeLinear 'quant': 2 of 4 elements differ from the result of qdqtool, by up to 1.5 steps; e"
