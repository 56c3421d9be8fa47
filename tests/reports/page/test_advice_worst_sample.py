"""A sample far below the others is named, with the command that writes the outputs of all."""

from pathlib import Path
from typing import Any

from support.advice import steps_of
from support.saved_reports import CHECK, SAMPLES, edited

from qdqtool.reports.page.advice import odd_samples


def with_worst(**sample: Any) -> Any:
    samples = edited(SAMPLES, lambda it: it["worst_samples"][0].update(sample))
    return edited(CHECK, lambda it: it["outputs"][0].update(samples))


def test_a_sample_far_below_the_median_is_named_with_its_file(tmp_path: Path):
    (step,) = steps_of(odd_samples, tmp_path, check=with_worst())

    assert step.fact.startswith(
        "At output y, sample 17 (cats/17.png) keeps 12.50 dB, and half of the samples keep more than 40.00 dB "
        "[check.json]. "
    )
    assert step.command.endswith("--data data.npz --save-outputs outputs.npz")


def test_what_has_no_figure_stands_out_too(tmp_path: Path):
    (step,) = steps_of(odd_samples, tmp_path, check=with_worst(sqnr_db=None, zero_reference=True, files=[]))
    assert "sample 17 has no figure in dB" in step.fact
    (step,) = steps_of(odd_samples, tmp_path, check=with_worst(sqnr_db=50.0, nonfinite=1))
    assert "has no figure in dB" in step.fact


def test_a_sample_near_the_median_and_random_inputs_ask_for_nothing(tmp_path: Path):
    assert steps_of(odd_samples, tmp_path, check=with_worst(sqnr_db=34.5)) == []
    assert steps_of(odd_samples, tmp_path, check=edited(with_worst(), lambda it: it["data"].update(seed=0))) == []
    assert steps_of(odd_samples, tmp_path, check=CHECK) == []
