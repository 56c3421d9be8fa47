"""What a report says about the data or ranges that a model was made from."""

from dataclasses import replace

import pytest

from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.metadata import data_of_weights, used_ranges
from qdqtool.quantization.ranges.method_choice import encode_choice
from qdqtool.quantization.ranges.types import CalibrationRecord
from qdqtool.samples.report import DataDescription

RECORD = CalibrationRecord(method="max", samples=7, random=True, seed=3, data_sha256="", model_sha256="")


@pytest.mark.parametrize("forced", [(), ("model", "data")])
def test_ranges_are_told_with_the_method_of_the_recipe_and_what_they_do_not_match(forced):
    known = {"source": "ranges.json", "method": "mse", "samples": 7, "random": True, "seed": 3, "given": None}
    told = {"forced": bool(forced), "forced_for": forced, "repeated": 0, "from_file": False}
    assert used_ranges("ranges.json", RECORD, Recipe(method="mse"), forced) == CalibrationUsed(**known, **told)


@pytest.mark.parametrize(("rounded", "method"), [(0, "nearest"), (1, "gptq"), (5, "gptq")])
@pytest.mark.parametrize("seed", [None, 0])
def test_data_chose_the_codes_of_weights_or_none(rounded, method, seed):
    data = DataDescription("data.npz", 9, seed, {}, repeated=2)
    found = data_of_weights(data, 7, rounded=rounded)
    assert (found.source, found.method, found.samples, found.held_back) == ("data.npz", method, 7, 2)
    assert (found.random, found.seed, found.repeated) == (seed is not None, seed, 2)
    assert (found.forced, found.forced_for, found.given, found.from_file) == (False, (), None, False)


@pytest.mark.parametrize(
    ("method", "chosen", "told"),
    [("auto", None, "auto"), ("auto", "mse", "mse"), ("max", "mse", ""), ("max", None, "")],
)
def test_the_choice_is_told_where_auto_was_asked_for(method, chosen, told):
    steps = () if chosen is None else (encode_choice(chosen),)
    found = used_ranges("data.npz", replace(RECORD, preparation=steps), Recipe(method=method))
    assert (found.method, found.chosen, found.method_trial) == (method, told, None)
