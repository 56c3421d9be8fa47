"""SQNRs are subtracted only where both were measured on the same data against the same float model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.pairs import pair_of, said_in
from support.saved_reports import ALL, IMAGES, SECOND, SECOND_FILE, edited

from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.reports.page.fairness import accuracies_differ, check_pairs, sensitivities_differ
from qdqtool.reports.page.sections.facts import compared

Edit = Callable[[Any], object]


def why(folder: Path, edit: Edit) -> str:
    """Return why the check of B cannot be compared with that of A after an edit."""
    (found,) = check_pairs(pair_of(folder, {"check": ALL["check"]}, {"check": edited(SECOND["check"], edit)}))
    return found.why


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda it: None, ""),
        (lambda it: it["data"].update(source="/elsewhere/data.npz"), ""),
        (lambda it: it["data"].update(source="other.npz"), "other data"),
        (lambda it: it["data"].update(samples=9), "other samples"),
        (lambda it: it["data"].update(seed=0), "other data"),
        (lambda it: it["data"].update(shapes={"x": [1, 3]}), "other shapes"),
        (lambda it: it["data"].update(preprocessing=IMAGES), "other preprocessing"),
        (lambda it: it["reference"].update(profile="fused"), "other profile"),
        (lambda it: it.update(baseline_file=SECOND_FILE), "other float model"),
        (lambda it: it.update(baseline_file=None), "float model unknown"),
    ],
)
def test_what_has_to_be_equal(edit: Edit, expected: str, tmp_path: Path):
    assert why(tmp_path, edit) == expected


def test_random_inputs_are_the_same_with_the_same_seed(tmp_path: Path):
    def check(document: Any, seed: int) -> Any:
        return edited(document, lambda it: it["data"].update(source="random inputs", seed=seed))

    found = [
        check_pairs(pair_of(tmp_path, {"check": check(ALL["check"], 0)}, {"check": check(SECOND["check"], seed)}))[
            0
        ].why
        for seed in (0, 1)
    ]
    assert found == ["", "other seed"]


def test_checks_of_the_same_data_are_paired_whatever_their_order(tmp_path: Path):
    def on(document: Any, source: str) -> Any:
        return edited(document, lambda it: it["data"].update(source=source))

    a = {name: on(ALL["check"], f"{name}.npz") for name in ("p", "q", "only_a")}
    b = {name: on(SECOND["check"], f"{name}.npz") for name in ("q", "only_b", "p")}
    found = check_pairs(pair_of(tmp_path, a, b))

    assert [(each.a.data.source, each.b.data.source, each.why) for each in found] == [
        ("p.npz", "p.npz", ""),
        ("q.npz", "q.npz", ""),
    ]
    alone = pair_of(tmp_path, {"check": ALL["check"]}, {"check": SECOND["check"] | {"baseline": None}})
    assert check_pairs(alone) == ()


def test_the_page_says_what_was_compared(tmp_path: Path):
    a = {"check": edited(ALL["check"], lambda it: it["data"].update(shapes={"x": [1, 3]}))}
    same = {"check": edited(SECOND["check"], lambda it: it["data"].update(shapes={"x": [1, 3]}))}
    other = {"check": edited(SECOND["check"], lambda it: it["data"].update(source="other.npz", samples=1))}

    assert said_in(compared(pair_of(tmp_path, a, same))) == [
        "Both checks ran on data.npz (8 samples of x:[1,3]), against the same float model."
    ]
    (sentence,) = said_in(compared(pair_of(tmp_path, a, other)))
    assert sentence.startswith("No difference of SQNRs is given (other data): A was checked on data.npz (8 samples of")
    assert sentence.endswith("x:[1,3]), B on other.npz (1 sample).")


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda it: it["calibration"].update(chosen="entropy"), ""),
        (lambda it: it["calibration"].update(source="other.npz"), "other data"),
        (lambda it: it["calibration"].update(random=True), "other data"),
        (lambda it: it["calibration"].update(samples=7), "other samples"),
        (lambda it: it.update(calibration=None), "other data"),
        (lambda it: it.update(model_file=None), "float model unknown"),
        (lambda it: it.update(model_file=SECOND_FILE), "other float model"),
    ],
)
def test_effects_and_accuracies_need_the_same_calibration_data(edit: Edit, expected: str, tmp_path: Path):
    measured = SECOND["sensitivity"]
    first = {"quantize": ALL["quantize"], "sensitivity": measured | {"mode": "int8"}}
    second = {name: edited(SECOND[name], edit) for name in ("quantize", "sensitivity")}
    pair = pair_of(tmp_path, first, second)

    assert sensitivities_differ(*pair.each(lambda story: story.first(SensitivityReport))) == expected
    a, b = pair.each(lambda story: story.first(QuantizeReport))
    assert a is not None
    assert b is not None
    assert accuracies_differ(a, b) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [({"samples": 3}, "other samples"), ({"held_back": False}, "other data"), ({"validation": "v.npz"}, "other data")],
)
def test_quantize_has_to_measure_on_the_same_part(keys: dict[str, Any], expected: str, tmp_path: Path):
    second = edited(SECOND["quantize"], lambda it: it["accuracy"].update(keys))
    a, b = pair_of(tmp_path, {"quantize": ALL["quantize"]}, {"quantize": second}).each(
        lambda story: story.first(QuantizeReport)
    )
    assert a is not None
    assert b is not None
    assert accuracies_differ(a, b) == expected


def test_samples_of_a_sensitivity_count_and_one_report_for_both_says_nothing(tmp_path: Path):
    a, b = pair_of(tmp_path, {"s": SECOND["sensitivity"]}, {"s": SECOND["sensitivity"] | {"samples": 3}}).each(
        lambda story: story.first(SensitivityReport)
    )
    assert sensitivities_differ(a, b) == "other samples"
    assert sensitivities_differ(a, a) == "one report for both"
    assert sensitivities_differ(a, None) == ""
