"""Quantize on random float models: the result passes what it is for, and a second run gives the same bytes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.ort_verdict import ort_outputs
from support.random_models import brute, drawn_feeds, float_models, tried_on

from qdqtool.errors import UsageError
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.recipe import Recipe

RECIPES = (
    Recipe(quantize_mode="int8", target="tensorrt"),
    Recipe(quantize_mode="int8", target="ort-cpu"),
    Recipe(quantize_mode="fp8", target="tensorrt"),
    Recipe(quantize_mode="int8-weight-only", target="ort-cpu"),
    Recipe(quantize_mode="int4", target="ort-cpu"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quantize")


@tried_on(12)
@given(float_models(), st.sampled_from(RECIPES))
@pytest.mark.slow(reason="quantizes 24 models")
def test_twice_the_same_bytes_which_pass_validate_and_run(folder, model, recipe):
    data = folder / "samples"
    data.mkdir(exist_ok=True)
    for seed in range(2):
        np.savez(data / f"{seed}.npz", **drawn_feeds(model, seed))
    made = [folder / "one.onnx", folder / "two.onnx"]
    for path in made:
        report = quantized(model, data, path, recipe)
    assume(report is not None)
    assert made[0].read_bytes() == made[1].read_bytes()
    proto = onnx.load(made[0])
    onnx.checker.check_model(proto, full_check=True)
    assert ort_outputs(proto, drawn_feeds(model)).keys() == {each.name for each in model.proto.graph.output}
    assert report.quantized
    assert brute.counts(proto)[brute.DEQUANTIZE] >= len({each.tensor for each in report.quantized})
    errors = {f.code for f in validate_model(made[0], [recipe.target]).findings if f.severity == "error"}
    assert errors <= {"QN504"}


def quantized(model: Model, data: Path, path: Path, recipe: Recipe) -> QuantizeReport | None:
    """The report; None where there is nothing to quantize."""
    try:
        return quantize_model(model, data, path, QuantizeOptions(recipe=recipe))
    except UsageError as error:
        if "nothing" not in error.message:
            raise
        return None
