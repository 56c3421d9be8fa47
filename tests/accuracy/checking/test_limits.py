"""Limits of a user: which numbers are legal, what is said of others, and what they ask of integer outputs."""

import math

import pytest

from qdqtool.accuracy.checking.limits import DEFAULT_AGREEMENT, Gates
from qdqtool.errors import UsageError

FINITE = "a finite number"
UP = "a number from 0 up"
RANGES = {
    "min_sqnr": UP,
    "max_metric_loss": FINITE,
    "min_cosine": "a number from -1 to 1",
    "min_agreement": "a number from 0 to 1",
    "max_steps": UP,
    "max_weight_steps": UP,
}


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        *((name, limit) for name in RANGES for limit in (math.nan, -math.inf)),
        *((name, math.inf) for name in RANGES if name != "max_weight_steps"),
        ("min_cosine", -1.001),
        ("min_cosine", 1.001),
        ("min_agreement", -0.001),
        ("min_agreement", 1.001),
        ("max_steps", -0.001),
        ("max_weight_steps", -0.001),
    ],
)
def test_a_limit_outside_its_range_is_refused_with_the_range(name: str, limit: float) -> None:
    with pytest.raises(UsageError) as refused:
        Gates(**{name: limit}).require_finite()
    assert refused.value.message == f"--{name.replace('_', '-')} is {limit:g}; it must be {RANGES[name]}"
    assert (f"`--{name.replace('_', '-')} " in (refused.value.hint or "")) is (name in {"max_weight_steps", "min_sqnr"})


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("min_sqnr", 0.0),
        ("max_metric_loss", -1e9),
        ("min_cosine", -1.0),
        ("min_cosine", 1.0),
        ("min_agreement", 0.0),
        ("min_agreement", 1.0),
        ("max_steps", 0.0),
        ("max_steps", 1e30),
        ("max_weight_steps", 0.0),
        ("max_weight_steps", math.inf),
        ("max_weight_steps", None),
    ],
)
def test_the_ends_of_a_range_are_legal(name: str, limit: float | None) -> None:
    Gates(**{name: limit}).require_finite()


@pytest.mark.parametrize(
    ("name", "empty", "useful"),
    [("min_sqnr", 0, 6), ("min_cosine", -1, 0.5), ("min_agreement", 0, 0.5), ("max_steps", 1e9, 254)],
)
def test_a_limit_that_nearly_every_model_keeps_is_named(name: str, empty: float, useful: float) -> None:
    assert list(Gates(**{name: empty}).empty([15, 255])) == [f"--{name.replace('_', '-')} {empty:g}"]
    assert not list(Gates(**{name: useful}).empty([15, 255]))
    assert not list(Gates(**{name: useful}).empty([]))
    assert not list(Gates(max_steps=255).empty([65535]))


@pytest.mark.parametrize(
    ("limits", "agreement"),
    [
        ({}, None),
        ({"max_steps": 1.0, "max_metric_loss": 1.0}, None),
        ({"min_sqnr": 0.0}, DEFAULT_AGREEMENT),
        ({"min_cosine": 0.0}, DEFAULT_AGREEMENT),
        ({"min_agreement": 0.25}, 0.25),
        ({"min_sqnr": 30.0, "min_agreement": 0.0}, 0.0),
        ({"min_cosine": 0.9, "min_agreement": 0.97}, 0.97),
    ],
)
def test_a_limit_on_floats_asks_integers_to_agree_unless_another_share_is_given(
    limits: dict[str, float], agreement: float | None
) -> None:
    assert Gates(**limits).agreement == agreement


@pytest.mark.parametrize("name", RANGES)
def test_every_limit_but_that_on_weights_bounds_outputs(name: str) -> None:
    assert Gates(**{name: 0.0}).bounds_outputs() is (name != "max_weight_steps")
    assert not Gates().bounds_outputs()


@pytest.mark.parametrize(("limit", "judges"), [(None, False), (float("inf"), False), (0.5, True), (0.0, True)])
def test_scales_of_weights_are_judged_unless_weights_may_differ_by_any_distance(
    limit: float | None, judges: bool
) -> None:
    assert Gates(max_weight_steps=limit).judges_scales is judges
