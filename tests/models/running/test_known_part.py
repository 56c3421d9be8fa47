from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.custom_ops import CONTRIB, between, in_a_body, in_a_function, library, model, stand_in

from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.models.running.custom_operators import named_operators
from qdqtool.models.running.known_part import KnownPart, known_part
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.transforms.opset import upgrade_opset

X = {"x": np.random.default_rng(8).normal(size=(4, 16)).astype(np.float32)}


def part_of(proto: onnx.ModelProto) -> KnownPart:
    found = known_part(Model(proto))
    assert found is not None
    return found


def output(made: Model) -> np.ndarray:
    with named_operators([library()]), Session(made) as session:
        return session.run(X)["y"]


@pytest.mark.parametrize("make", [between, in_a_body, in_a_function])
def test_the_part_runs_and_the_whole_computes_the_same(make) -> None:
    proto = make()
    part = part_of(proto)
    with Session(part.model) as session:
        assert "a" in session.run(X)
    assert part.lost == ("y",)
    assert np.array_equal(output(part.joined(part.model)), output(Model(proto)))
    assert proto == make()


def test_each_node_behind_has_its_reason() -> None:
    reasons = {each.node: each.reason for each in part_of(between()).behind}
    assert reasons["custom"] == f"ONNX Runtime does not know operator {CONTRIB}::NegPos"
    assert (
        reasons["behind"] == reasons["last"] == "it needs the result of NegPos 'custom', which ONNX Runtime cannot run"
    )
    inside = {each.reason for each in part_of(in_a_function()).behind}
    assert inside == {"local function own::Block needs an operator that ONNX Runtime does not know"}
    assert set(reasons) == {"custom", "behind", "relu", "last"}


def test_the_rest_keeps_its_weights_and_names_if_the_part_changes_them() -> None:
    """Here 'w1' is also a weight behind the operator, and the part got a tensor 'c', a name that the rest has too."""
    proto = between()
    proto.graph.node[2].input[1] = "w1"
    part = part_of(proto)
    changed = Model(part.model.proto.__class__.FromString(part.model.proto.SerializeToString()))
    weight = next(each for each in changed.proto.graph.initializer if each.name == "w1")
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * 2, "w1"))
    changed.proto.graph.node[0].output[0] = "c"
    changed.proto.graph.node.append(helper.make_node("Identity", ["c"], ["a"]))
    # The first product is doubled; NegPos and Relu keep a positive factor.
    np.testing.assert_allclose(output(part.joined(changed)), 2 * output(Model(proto)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ir_version", [3, 8])
def test_initializers_that_are_inputs_are_no_inputs_of_the_user(ir_version: int) -> None:
    proto = between()
    proto.ir_version = ir_version
    proto.graph.input.extend(
        helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in proto.graph.initializer
    )
    part = part_of(proto)
    assert [each.name for each in part.model.proto.graph.input] == ["x", "w1"]
    joined = part.joined(part.model)
    assert np.array_equal(output(joined), output(Model(proto)))
    stored = {each.name for each in joined.proto.graph.initializer}
    assert [each.name for each in joined.proto.graph.input if each.name not in stored] == ["x"]


def test_the_rest_follows_the_opset_of_the_part() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("NegPos", ["a"], ["n", "p"], domain=CONTRIB),
        helper.make_node("Unsqueeze", ["n"], ["u"], axes=[0]),
        helper.make_node("Squeeze", ["u"], ["y"], axes=[0]),
    ]
    old = model(nodes, "w1", opsets=[helper.make_opsetid("", 11), helper.make_opsetid(CONTRIB, 1)])
    part = part_of(old)
    joined = part.joined(upgrade_opset(part.model, 19).model)
    assert joined.default_opset() == 19
    assert np.array_equal(output(joined), output(Model(old)))


def test_a_model_without_unknown_operators_is_not_divided(tmp_path: Path) -> None:
    assert known_part(Model(between("Relu", "", ("b",)))) is None
    with named_operators(stand_in=stand_in(tmp_path / "f.onnx")):
        assert known_part(Model(between("Twice", "acme", ("b",)))) is None
        assert known_part(Model(between())) is not None


def test_nothing_in_front_is_refused() -> None:
    proto = model([helper.make_node("NegPos", ["x"], ["y", "p"], domain=CONTRIB)])
    with pytest.raises(UsageError, match="no node is in front"):
        known_part(Model(proto))
    with pytest.raises(UsageError, match="--partial cannot be used with"), named_operators([library()]):
        known_part(Model(proto))
