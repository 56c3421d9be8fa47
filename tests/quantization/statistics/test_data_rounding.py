"""Codes that data chooses matrix after matrix: what one rounds wrong, the next makes up for."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from support.small import make_model

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.numerics import search
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.derive import ScaleRule
from qdqtool.numerics.gptq import round_weights
from qdqtool.numerics.packing import pack, unpack
from qdqtool.quantization.planning.planner import Planned
from qdqtool.quantization.planning.planners import WeightPlanner
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.statistics import data_rounding
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription

K, LAYERS = 64, 4
MIX = np.random.default_rng(1).normal(size=(8, K))


def rows(seed: int) -> np.ndarray:
    """Inputs whose channels go together, as those of real layers do."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(100, 8)) @ MIX + 0.2 * rng.normal(size=(100, K))).astype(np.float32)


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    return {f"w{i}": (rng.normal(size=(K, K)) / np.sqrt(K)).astype(np.float32) for i in range(LAYERS)}


def network(changed: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    nodes, last = [], "x"
    for name in weights():
        nodes += [
            helper.make_node("MatMul", [last, name], [f"m_{name}"]),
            helper.make_node("Tanh", [f"m_{name}"], [f"r_{name}"]),
        ]
        last = f"r_{name}"
    return make_model(nodes, {"x": ("n", K)}, {last: ("n", K)}, weights() | (changed or {}), opset=21)


def feeds(count: int) -> Feeds:
    return Feeds([{"x": rows(seed)} for seed in range(count)], DataDescription("test", count, None, {}))


def planned(count: int, mode: str = "int4") -> Planned:
    index = ModelIndex.of(Model(network()))
    return WeightPlanner(Recipe(quantize_mode=mode, target="onnx"), feeds(count)).plan(index)


def restored(found: Planned) -> dict[str, np.ndarray]:
    values = {}
    for placement in found.plan:
        params = placement.params
        codes = unpack(np.frombuffer(placement.codes.make(), np.uint8), params.scheme.format, (K, K))
        values[placement.slot.tensor] = dequantize(codes, params.scale, params.scheme.granularity)
    return values


def outputs(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def one_by_one() -> dict[str, np.ndarray]:
    """Every matrix rounded by itself: by the inputs that it has in the float model."""
    found, changed = planned(12), {}
    exact = [np.concatenate([rows(seed) for seed in range(12)])]
    for name in list(weights())[:-1]:
        exact.append(np.tanh(exact[-1] @ weights()[name]))
    for placement, x in zip(found.plan, exact, strict=True):
        name, scheme = placement.slot.tensor, placement.params.scheme
        params, _ = search.least_error(weights()[name], scheme, ScaleRule(either_sign=True))
        codes = round_weights(weights()[name], params, x.T.astype(np.float64) @ x)
        changed[name] = dequantize(codes, params.scale, scheme.granularity)
    return changed


def noise_db(changed: dict[str, np.ndarray]) -> float:
    x = np.concatenate([rows(seed) for seed in range(100, 110)])
    expected = outputs(network(), x).astype(np.float64)
    return 10 * np.log10(np.square(outputs(network(changed), x) - expected).sum() / np.square(expected).sum())


def test_other_rows_lose_less_than_where_every_matrix_is_rounded_by_itself():
    assert noise_db(restored(planned(12))) < noise_db(one_by_one()) - 1.0


def test_the_first_matrix_is_rounded_as_by_itself():
    np.testing.assert_array_equal(restored(planned(12))["w0"], one_by_one()["w0"])


@pytest.mark.parametrize("least", [1, 1 << 30])
def test_codes_are_kept_outside_of_memory_where_they_are_large(least, monkeypatch):
    """Codes of a model of gigabytes would take a quarter of its float16 weights until they are written."""
    expected = [each.codes.make() for each in planned(6).plan]
    monkeypatch.setattr("qdqtool.models.graph.io.offload.LEAST_BYTES", least)
    found = [each.codes for each in planned(6).plan]
    assert [each.make() for each in found] == expected
    assert [each.place is not None for each in found] == [least == 1] * len(expected)


def test_the_same_data_gives_the_same_codes():
    first, second = planned(6), planned(6)
    assert [each.codes.make() for each in first.plan] == [each.codes.make() for each in second.plan]


def test_a_change_beyond_what_a_check_explains_is_not_made(monkeypatch):
    """The weights of the corrected values are refused, so each matrix gets codes of its own values."""
    monkeypatch.setattr(data_rounding, "is_within_bound", lambda *_: False)
    refused = restored(planned(12))
    monkeypatch.undo()
    corrected = restored(planned(12))
    np.testing.assert_array_equal(refused["w0"], corrected["w0"])
    assert any(np.any(refused[name] != corrected[name]) for name in refused)
    for name, values in refused.items():
        assert np.sqrt(np.mean(np.square(values - weights()[name]))) < np.std(weights()[name]) / 4


def test_a_weight_with_outputs_first_gets_the_same_codes():
    model = network()
    for node in model.graph.node:
        if node.output[0] == "m_w2":
            node.CopyFrom(helper.make_node("Gemm", list(node.input), list(node.output), transB=1))
    for tensor in model.graph.initializer:
        if tensor.name == "w2":
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(weights()["w2"].T), "w2"))
    found = WeightPlanner(Recipe(quantize_mode="int4", target="onnx"), feeds(12)).plan(ModelIndex.of(Model(model)))
    np.testing.assert_array_equal(restored(found)["w2"].T, restored(planned(12))["w2"])


@pytest.mark.parametrize("mode", ["int4", "nvfp4"])
def test_without_parts_all_matrices_are_rounded_by_the_inputs_of_the_float_model(mode, monkeypatch):
    monkeypatch.setattr(data_rounding.SequentialMoments, "of", lambda *_: iter(()))
    found = planned(4, mode)
    x = np.concatenate([rows(seed) for seed in range(4)]).astype(np.float64)
    first = found.plan.placements[0]
    codes = round_weights(weights()["w0"], first.params, x.T @ x)
    assert (
        np.mean(
            np.frombuffer(pack(codes, first.params.scheme.format), np.uint8)
            != np.frombuffer(first.codes.make(), np.uint8)
        )
        < 0.01
    )
    assert found.rounded_by_data == LAYERS
