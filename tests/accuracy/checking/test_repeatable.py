"""Models whose outputs differ from run to run are told so, and no number of them counts."""

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.small import conv_model, make_model

from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.repeatable import differ, differing_names
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.jobs.check import check_model
from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.validate import validate_model
from qdqtool.linting.policy import Policy
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.ops.support.random_nodes import random_cause, random_nodes
from qdqtool.models.options import Profile
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import DataRequest, RandomData

GENERATORS = {
    "Dropout": helper.make_node("Dropout", ["c", "ratio", "training"], ["n"], name="noisy"),
    "RandomNormalLike": helper.make_node("RandomNormalLike", ["c"], ["n"], name="noisy"),
    "RandomUniformLike": helper.make_node("RandomUniformLike", ["c"], ["n"], name="noisy", seed=1.0),
    "Bernoulli": helper.make_node("Bernoulli", ["p"], ["n"], name="noisy"),
}


def random_model(kind: str, *, training: bool = True) -> onnx.ModelProto:
    """x -> Conv -> a generator of random numbers -> Conv -> y."""
    random = np.random.default_rng(3)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4, name="first")]
    nodes += [helper.make_node("Sigmoid", ["c"], ["p"])] if kind == "Bernoulli" else []
    nodes += [GENERATORS[kind], helper.make_node("Conv", ["n", "w"], ["y"], pads=[1] * 4, name="second")]
    weights = {"w": random.normal(size=(16, 16, 3, 3)).astype(np.float32) / 12}
    if kind == "Dropout":
        weights |= {"ratio": np.float32(0.5), "training": np.array(training)}
    return make_model(nodes, {"x": (1, 16, 8, 8)}, {"y": (1, 16, 8, 8)}, weights)


def against_itself(model: onnx.ModelProto, profile: Profile = Profile.SEMANTIC) -> CheckReport:
    return check_model(
        Model(model), baseline=Model(model), data=DataRequest(samples=2), options=CheckOptions(profile=profile)
    )


@pytest.mark.parametrize("kind", GENERATORS)
def test_check_fails_with_the_cause(kind: str) -> None:
    """Against itself, such a model had 1.4 dB and passed."""
    report = against_itself(random_model(kind))
    assert not report.passed
    (gate,) = (gate for gate in report.gates if gate.name == "repeatable")
    assert gate.failures == tuple(
        f"{which} gives another output 'y' in a second run of the same sample: node 'noisy' ({kind}) draws random "
        "numbers; the numbers of this check mean nothing"
        for which in ("the baseline", "the model")
    )
    assert report.failures[: len(gate.failures)] == gate.failures


def test_the_baseline_is_asked_in_the_deployed_profile_too() -> None:
    """ONNX Runtime's optimizer removes the Dropout from the model, and the baseline is never optimized."""
    report = against_itself(random_model("Dropout"), Profile.DEPLOYED)
    assert [failure.split(" gives")[0] for failure in report.failures if "second run" in failure] == ["the baseline"]


def test_a_model_that_repeats_itself_has_no_such_gate() -> None:
    report = against_itself(random_model("Dropout", training=False))
    assert report.passed
    assert "repeatable" not in {gate.name for gate in report.gates}


@pytest.mark.parametrize("kind", GENERATORS)
def test_quantize_says_the_cause_in_place_of_a_number(kind: str, tmp_path: Path) -> None:
    onnx.save(random_model(kind), tmp_path / "m.onnx")
    options = QuantizeOptions(recipe=Recipe(target="ort-cpu"))
    report = quantize_model(tmp_path / "m.onnx", RandomData(samples=2), tmp_path / "q.onnx", options)
    assert report.accuracy.problem == (
        f"the float model gives another output 'y' in a second run of the same sample: node 'noisy' ({kind}) draws "
        "random numbers"
    )
    assert report.accuracy.outputs == ()


@pytest.mark.parametrize("kind", GENERATORS)
def test_validate_finds_it(kind: str) -> None:
    for target in ("onnx", "ort-cpu", "tensorrt"):
        found = [each for each in validate_model(Model(random_model(kind)), [target]).findings if each.code == "QN503"]
        assert [each.node for each in found] == ["noisy"]
        refused = target == "tensorrt" and kind == "Dropout"
        assert [each.effect for each in found] == ["refused" if refused else "silent"]


def test_a_dropout_in_inference_mode_draws_nothing() -> None:
    index = ModelIndex.of(Model(random_model("Dropout", training=False)))
    assert list(random_nodes(index)) == []
    assert random_cause(index) == "none of its operators is known to draw random numbers"
    given = random_model("Dropout")
    del given.graph.initializer[-1]
    given.graph.input.append(helper.make_tensor_value_info("training", TensorProto.BOOL, ()))
    assert list(random_nodes(ModelIndex.of(Model(given)))) == []


def test_a_generator_in_a_body_is_named_with_its_place() -> None:
    body = onnx.parser.parse_graph("b () => (float[4] z) { z = RandomNormal <shape = [4]> () }")
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    graph = onnx.GraphProto(name="g", node=[node], input=[helper.make_tensor_value_info("c", TensorProto.BOOL, ())])
    index = ModelIndex.of(Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))
    expected = "node 'RandomNormal -> z' (RandomNormal) in y.else_branch draws random numbers (and 1 more)"
    assert random_cause(index) == expected


def test_rounding_is_no_difference_and_everything_else_is() -> None:
    x = np.random.default_rng(0).normal(size=100).astype(np.float32)
    assert not differ(x, x * np.float32(1 + 1e-6))
    assert differ(x, x * np.float32(1.01))
    assert differ(x, x[:50])
    assert differ(np.arange(3), np.array([0, 1, 3]))
    nan = np.array([np.nan, 1], np.float32)
    assert not differ(nan, nan)
    assert differ(nan, np.array([1, np.nan], np.float32))
    assert differing_names({"a": x, "b": x}, {"a": x, "b": -x}) == ["b"]


def test_ordinary_models_agree() -> None:
    assert against_itself(conv_model()).passed


def test_the_fix_takes_a_dropout_out_of_training_mode() -> None:
    fixed = fix_model(Model(random_model("Dropout")), FixRequest(policy=Policy(targets=("ort-cpu",)), unsafe=True))
    assert [change.code for change in fixed.report.changes] == ["QN503"]
    assert fixed.report.changes[0].label == "unsafe"
    assert against_itself(fixed.model.proto).passed


@pytest.mark.parametrize(("share", "differs"), [(0.9e-3, False), (1.1e-3, True)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_two_runs_agree_up_to_an_error_of_60_db(share: float, differs: bool, kind: type) -> None:
    x = np.ones(100, kind)
    assert differ(x, x * kind(1 + share)) is differs


def test_two_runs_at_60_db_exactly_agree() -> None:
    """1000 against 1001: an error of a thousandth."""
    assert not differ(np.float64([1000.0]), np.float64([1001.0]))
    assert differ(np.float64([1000.0]), np.float64([1001.001]))


def test_zeros_and_other_values_than_zero_differ() -> None:
    assert differ(np.zeros(3, np.float32), np.float32([0, 0, 1e-20]))
    assert differ(np.float32([1, np.inf]), np.float32([1, -np.inf]))
    assert not differ(np.array(["a"], object), np.array(["a"], object))
    assert differ(np.array(["a"], object), np.array(["b"], object))
    x = np.array([1.0, np.nan], ml_dtypes.bfloat16)
    assert not differ(x, x)
    assert differ(x, -x)


def test_names_that_the_second_run_lacks_are_not_compared() -> None:
    x = np.ones(2, np.float32)
    assert differing_names({"a": x, "b": x, "c": -x}, {"b": x, "c": x}) == ["c"]
