"""AWQ as a step: where it is made, what it gains on other data, and that a check repeats it."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.small import make_model, nodes_of

from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, QuantizeReport, quantize_model
from qdqtool.models.graph.io.metadata import PREPARATION_KEY, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation import rescaling
from qdqtool.quantization.preparation.step import StepRequest
from qdqtool.quantization.preparation.steps import awq as awq_step
from qdqtool.quantization.preparation.steps.awq import STEP
from qdqtool.samples.request import FileData

K = 64


def network(outliers: float = 40.0) -> onnx.ModelProto:
    """A normalization with four large channels in front of two products, and a product with a Relu behind it."""
    rng = np.random.default_rng(0)
    sizes = np.ones(K, np.float32)
    sizes[[3, 20, 41, 60]] = outliers
    weights = {
        "gamma": sizes,
        "beta": 0.1 * sizes,
        "up": (rng.normal(size=(K, 2 * K)) / 8 / sizes[:, None]).astype(np.float32),
        "gate": (rng.normal(size=(K, 2 * K)) / 8 / sizes[:, None]).astype(np.float32),
        "down": (rng.normal(size=(2 * K, K)) / 11).astype(np.float32),
    }
    nodes = nodes_of("""[norm] n = LayerNormalization <axis = -1> (x, gamma, beta)  [up] u = MatMul (n, up)
        [gate] g = MatMul (n, gate)  [relu] r = Relu (u)  [down] d = MatMul (r, down)
        [both] y = Concat <axis = -1> (d, g)""")
    return make_model(nodes, {"x": ("n", K)}, {"y": ("n", 3 * K)}, weights, opset=21)


def rows(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(400, 24)) @ rng.normal(size=(24, K)) + rng.normal(size=(400, K))).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("awq")
    onnx.save(network(), made / "m.onnx")
    onnx.save(network(1.0), made / "even.onnx")
    np.savez(made / "data.npz", x=rows(1).reshape(20, 20, K).reshape(400, K))
    np.savez(made / "test.npz", x=rows(2))
    return made


def quantized(folder: Path, name: str = "m", mode: str = "int4", **preparation: object) -> QuantizeReport:
    recipe = Recipe(quantize_mode=mode, target="onnx", preparation=Preparation(**preparation))
    data = FileData(path=folder / "data.npz")
    return quantize_model(folder / f"{name}.onnx", data, folder / "q.onnx", QuantizeOptions(recipe=recipe))


def sqnr(folder: Path) -> float:
    report = check_model(folder / "q.onnx", baseline=folder / "m.onnx", data=folder / "test.npz")
    assert report.outputs[0].sqnr_db is not None
    return report.outputs[0].sqnr_db


def test_some_columns_of_large_weights_show_the_same(folder, monkeypatch):
    quantized(folder, awq=False)
    without = sqnr(folder)
    (whole,) = [report for report in quantized(folder).preparation if report.step == "awq"]
    tried = []
    search = awq_step.searched_factors

    def searched(products):
        tried.append([product.weight.shape for product in products])
        return search(products)

    monkeypatch.setattr(awq_step, "searched_factors", searched)
    monkeypatch.setattr(rescaling, "MOST_WEIGHTS", 2 * K * 2 * K // 4)
    (part,) = [report for report in quantized(folder).preparation if report.step == "awq"]
    assert [(K, 2 * K // 4)] * 2 in tried
    assert [site.name for site in part.sites] == [site.name for site in whole.sites]
    assert sqnr(folder) > without + 1.5


@pytest.mark.parametrize("mode", ["int4", "nvfp4"])
def test_outlier_channels_are_scaled_and_other_data_gains(folder, mode):
    assert "awq" not in [report.step for report in quantized(folder, mode=mode, awq=False).preparation]
    without = sqnr(folder)
    (report,) = [report for report in quantized(folder, mode=mode).preparation if report.step == "awq"]
    assert report.applied
    assert [site.name for site in report.sites] == ["n"]
    assert sqnr(folder) > without + 1.5


def test_a_check_repeats_the_step_on_the_baseline(folder):
    quantized(folder)
    note = read_metadata(Model(onnx.load(folder / "q.onnx")), PREPARATION_KEY)
    assert note is not None
    assert '"awq"' in note
    report = check_model(folder / "q.onnx", baseline=folder / "m.onnx", data=folder / "test.npz")
    assert report.passed
    assert [gate.passed for gate in report.gates if gate.name == "weights"] == [True]


def test_the_same_data_gives_the_same_bytes(folder):
    quantized(folder)
    first = (folder / "q.onnx").read_bytes()
    quantized(folder)
    assert (folder / "q.onnx").read_bytes() == first


def test_even_channels_stay_as_they_are(folder):
    (report,) = [report for report in quantized(folder, "even").preparation if report.step == "awq"]
    assert (report.applied, report.sites) == (False, ())


@pytest.mark.parametrize("mode", ["int8-weight-only", "fp8-weight-only", "mxfp8"])
def test_modes_of_more_bits_have_no_such_step(folder, mode):
    assert "awq" not in [report.step for report in quantized(folder, mode=mode).preparation]


def test_it_is_made_where_weights_have_few_bits_and_the_user_wants_it():
    def slots(_):
        return ()

    assert STEP.is_asked(StepRequest(Preparation(), slots=slots, few_bits=True))
    assert not STEP.is_asked(StepRequest(Preparation(awq=False), slots=slots, few_bits=True))
    assert not STEP.is_asked(StepRequest(Preparation(), slots=slots, few_bits=False))
    assert not STEP.is_asked(StepRequest(Preparation(), few_bits=True))
