"""AWQ as a step: where it is made, what it gains on other data, and that a check repeats it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.small import make_model, nodes_of

from qdqtool.accuracy.checking.report import CheckReport
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


def write_files(folder: Path) -> Path:
    onnx.save(network(), folder / "m.onnx")
    onnx.save(network(1.0), folder / "even.onnx")
    np.savez(folder / "data.npz", x=rows(1).reshape(20, 20, K).reshape(400, K))
    np.savez(folder / "test.npz", x=rows(2))
    return folder


@dataclass(frozen=True)
class Quantized:
    """The folder with the written model, and the report."""

    folder: Path
    report: QuantizeReport

    @property
    def sites(self) -> list[str] | None:
        """Where the step was made; None without it."""
        found = [report for report in self.report.preparation if report.step == "awq"]
        return [site.name for site in found[0].sites] if found else None

    def sqnr(self) -> float:
        report = self.checked
        assert report.outputs[0].sqnr_db is not None
        return report.outputs[0].sqnr_db

    @cached_property
    def checked(self) -> CheckReport:
        folder = self.folder
        return check_model(folder / "q.onnx", baseline=folder / "m.onnx", data=folder / "test.npz")


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Quantized]:
    """Quantizes once for the same arguments; ``__wrapped__`` does so again."""

    @cache
    def run(name: str = "m", mode: str = "int4", **preparation: object) -> Quantized:
        folder = write_files(tmp_path_factory.mktemp("awq"))
        recipe = Recipe(quantize_mode=mode, target="onnx", preparation=Preparation(**preparation))
        data = FileData(path=folder / "data.npz")
        report = quantize_model(folder / f"{name}.onnx", data, folder / "q.onnx", QuantizeOptions(recipe=recipe))
        return Quantized(folder, report)

    return run


@pytest.mark.slow(reason="quantizes twice")
def test_some_columns_of_large_weights_show_the_same(quantized, monkeypatch):
    tried = []
    search = awq_step.searched_factors

    def searched(products):
        tried.append([product.weight.shape for product in products])
        return search(products)

    monkeypatch.setattr(awq_step, "searched_factors", searched)
    monkeypatch.setattr(rescaling, "MOST_WEIGHTS", 2 * K * 2 * K // 4)
    part = quantized.__wrapped__()
    assert [(K, 2 * K // 4)] * 2 in tried
    assert part.sites == quantized().sites
    assert part.sqnr() > quantized(awq=False).sqnr() + 1.5


@pytest.mark.parametrize("mode", ["int4", "nvfp4"])
def test_outlier_channels_are_scaled_and_other_data_gains(quantized, mode):
    without, scaled = quantized(mode=mode, awq=False), quantized(mode=mode)
    assert without.sites is None
    assert scaled.sites == ["n"]
    assert scaled.sqnr() > without.sqnr() + 1.5


def test_a_check_repeats_the_step_on_the_baseline(quantized):
    made = quantized()
    note = read_metadata(Model(onnx.load(made.folder / "q.onnx")), PREPARATION_KEY)
    assert note is not None
    assert '"awq"' in note
    assert made.checked.passed
    assert [gate.passed for gate in made.checked.gates if gate.name == "weights"] == [True]


def test_the_same_data_gives_the_same_bytes(quantized):
    one, two = quantized().folder, quantized.__wrapped__().folder
    assert one != two
    assert (one / "q.onnx").read_bytes() == (two / "q.onnx").read_bytes()


def test_even_channels_stay_as_they_are(quantized):
    assert quantized("even").sites == []


@pytest.mark.parametrize("mode", ["int8-weight-only", "fp8-weight-only", "mxfp8"])
def test_modes_of_more_bits_have_no_such_step(quantized, mode):
    assert quantized(mode=mode).sites is None


def test_it_is_made_where_weights_have_few_bits_and_the_user_wants_it():
    def slots(_):
        return ()

    assert STEP.is_asked(StepRequest(Preparation(), slots=slots, few_bits=True))
    assert not STEP.is_asked(StepRequest(Preparation(awq=False), slots=slots, few_bits=True))
    assert not STEP.is_asked(StepRequest(Preparation(), slots=slots, few_bits=False))
    assert not STEP.is_asked(StepRequest(Preparation(), few_bits=True))
