"""QM611: inputs of the main graph that have no shape."""

import pytest
from support.one_rule import findings


@pytest.mark.parametrize(
    ("given", "stored", "reported"),
    [
        ("float[2] x", "", False),
        ("float[N] x", "", False),
        ("float[?] x", "", False),
        ("float x", "", False),
        ("float[] x", "", True),
        ("float[] x", "float[2] x = {1, 2}", False),
        ("seq(float[]) x", "", False),
        ("optional(float[]) x", "", False),
    ],
)
def test_inputs(given: str, stored: str, reported: bool):
    model = f"agraph ({given}) => (float[] y) <{stored}> {{ y = Identity (x) }}"
    told = [(each.message, each.tensor) for each in findings("QM611", model)]

    assert told == [("input 'x' has no shape", "x")] * reported
