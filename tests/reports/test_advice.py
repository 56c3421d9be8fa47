"""Commands as they are pasted: quoted, with the options that leave nodes in float, for the loudest layers."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdqtool.reports.advice import HINTED, MOST_HINTED, command, dominant_layers, excluding


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_shell_reads_the_words_that_were_given(words: list[str]) -> None:
    assert shlex.split(command("quantize", *words)) == ["qdqtool", "quantize", *words]


def test_each_pattern_has_an_option_of_its_own() -> None:
    assert excluding(["a", "b c"]) == ("--nodes-to-exclude", "a", "--nodes-to-exclude", "b c")
    assert excluding([]) == ()


@pytest.mark.parametrize(
    ("shares", "count"),
    [([], 0), ([HINTED, 0.4], 1), ([HINTED - 0.01, 0.3, 0.2], 2), ([0.05] * 9, MOST_HINTED), ([0.1, 0.1], 2)],
)
def test_layers_are_named_until_half_of_the_noise_is_told(shares: list[float], count: int) -> None:
    assert dominant_layers(shares) == count
