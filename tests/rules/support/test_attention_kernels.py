"""Attention nodes against the builder, on every example of the operator that onnx has."""

import warnings
from collections.abc import Iterator

import onnx
import pytest
from support.trt_verdict import TrtOracle

from qdqtool import rules, targets
from qdqtool.graph.model import Model
from qdqtool.rules import RuleContext


@pytest.fixture(scope="module")
def oracle() -> Iterator[TrtOracle]:
    oracle = TrtOracle()
    yield oracle
    oracle.close()


def examples() -> list[tuple[str, onnx.ModelProto]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some examples divide by zero on purpose
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    return [
        (case.name, case.model) for case in found if [node.op_type for node in case.model.graph.node] == ["Attention"]
    ]


@pytest.mark.builder
def test_the_examples_of_onnx_are_refused_and_built_as_we_say(oracle: TrtOracle):
    judge = targets.get("tensorrt-rtx")
    wrong = {}
    for name, model in examples():
        said = [each.found for each in rules.get("QT402").run(RuleContext(Model(model)), judge)]
        verdict = oracle.judge(model)
        if verdict.accepted == bool(said):
            wrong[name] = (verdict.stage, said)

    assert wrong == {}
