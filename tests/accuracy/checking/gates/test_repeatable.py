"""The gate on a second run: outputs that differed are named with the model and the cause."""

from types import SimpleNamespace

from onnx import helper
from support.small import make_model

from qdqtool.accuracy.checking.gates.repeatable import results
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model


def index_of(op_type: str) -> ModelIndex:
    nodes = [helper.make_node(op_type, ["x"], ["y"], name="made")]
    return ModelIndex.of(Model(make_model(nodes, {"x": (2,)}, {"y": (2,)}, {})))


def gates(*unrepeated: tuple[str, str], has_baseline: bool = True) -> list[GateResult]:
    baseline = index_of("RandomNormalLike") if has_baseline else None
    job = SimpleNamespace(
        index=index_of("RandomUniformLike"), baseline=baseline, unrepeated=unrepeated, outputs=["y", "z", "u"]
    )
    return list(results(SimpleNamespace(job=job)))


def failure(which: str, output: str, op_type: str) -> str:
    return (
        f"{which} gives another output '{output}' in a second run of the same sample: node 'made' ({op_type}) draws "
        "random numbers; the numbers of this check mean nothing"
    )


def test_without_a_difference_there_is_no_gate() -> None:
    assert gates() == []


def test_the_cause_is_that_of_the_model_that_differed() -> None:
    (gate,) = gates(("the baseline", "y"), ("the model", "y"), ("the model", "z"))
    assert gate.failures == (
        failure("the baseline", "y", "RandomNormalLike"),
        failure("the model", "y", "RandomUniformLike"),
        failure("the model", "z", "RandomUniformLike"),
    )
    assert (gate.passed, gate.detail) == (False, "2 of 3 outputs differ")


def test_a_model_without_a_baseline_is_named() -> None:
    (gate,) = gates(("the model", "y"), has_baseline=False)
    assert gate.failures == (failure("the model", "y", "RandomUniformLike"),)
    assert gate.detail == "1 of 3 outputs differ"
