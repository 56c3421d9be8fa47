"""The tensors with most noise, in text: the noisiest first, with the noise in percent and in dB."""

from dataclasses import replace

import numpy as np
import pytest
from support.metrics import sqnr_db
from support.printed import ESCAPED, HOSTILE, cells, printed

from qdqtool.accuracy.checking.report import BoundaryResult
from qdqtool.accuracy.report import TensorAccuracy
from qdqtool.reports.text.sensitivity import SHOWN_TENSORS, print_noisiest, print_pair_errors, relative_noise

BOUNDARY = BoundaryResult(
    node="q",
    graph="",
    tensor="t",
    kind="activation",
    format="int8",
    granularity="per-tensor",
    max_steps=0.5,
    mean_steps=0.25,
    index=(1, 2),
    sqnr_db=20.0,
    clipped=1,
    elements=8,
)


def rows(*sqnrs: float | None) -> list[list[str]]:
    found = [replace(BOUNDARY, tensor=f"t{number}", sqnr_db=sqnr_db) for number, sqnr_db in enumerate(sqnrs)]
    return cells(printed(print_noisiest, found))


def test_the_noisiest_come_first_and_tensors_without_noise_not_at_all():
    assert rows(40.0, 20.0, None, 60.0) == [
        [""],
        ["most noise against the baseline, 3 of 4 quantized tensors"],
        ["tensor", "kind", "noise", "SQNR dB"],
        ["t1", "activation", "10.00%", "20.0"],
        ["t0", "activation", "1.00%", "40.0"],
        ["t3", "activation", "0.10%", "60.0"],
    ]


def test_where_all_is_exact_nothing_is_printed():
    assert printed(print_noisiest, ()) == printed(print_noisiest, (replace(BOUNDARY, sqnr_db=None),)) == ""


def test_a_screen_has_room_for_the_rest():
    found = rows(*range(SHOWN_TENSORS + 5))
    assert [row[0] for row in found[3:]] == [f"t{number}" for number in range(SHOWN_TENSORS)]


@pytest.mark.parametrize(
    ("decibels", "figures"),
    [
        (79.0, ["0.01%", "79.0"]),
        (81.0, ["< 0.01%", "81.0"]),
        (0.0, ["100.00%", "0.0"]),
        (-19.9, ["988.55%", "-19.9"]),
        (-61.0, ["1.12e+05%", "-61.0"]),
        (-float("inf"), ["1e+302%", "-inf"]),
    ],
)
def test_noise_that_is_tiny_or_larger_than_the_signal_has_a_figure_too(decibels: float, figures: list[str]):
    assert rows(decibels)[3][2:] == figures


def test_the_noise_is_the_root_mean_square_in_relation_to_that_of_the_signal():
    random = np.random.default_rng(0)
    signal, noise = random.normal(size=1000), random.normal(size=1000) * 0.03
    expected = np.sqrt(np.mean(noise**2)) / np.sqrt(np.mean(signal**2))

    assert relative_noise(sqnr_db(signal, signal + noise) or 0) == pytest.approx(expected)


def test_scopes_are_named_and_names_escaped():
    text = printed(print_noisiest, (replace(BOUNDARY, tensor=HOSTILE, graph="then"),))
    assert f"  {ESCAPED} in then  activation  10.00%" in text


def test_errors_of_pairs_are_said_to_be_of_their_own_tensor():
    worst = (
        TensorAccuracy(tensor=HOSTILE, graph="", kind="weight", sqnr_db=8.04),
        TensorAccuracy(tensor="t", graph="then", kind="activation", sqnr_db=9.96),
    )
    assert cells(printed(print_pair_errors, worst)) == [
        ["largest errors of a pair on its own tensor, which need not reach the outputs"],
        ["tensor", "kind", "noise", "SQNR dB"],
        [ESCAPED, "weight", "39.63%", "8.0"],
        ["t in then", "activation", "31.77%", "10.0"],
    ]
    assert printed(print_pair_errors, ()) == ""
