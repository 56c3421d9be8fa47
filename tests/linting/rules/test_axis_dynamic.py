"""QA209: scales of an axis that is open; what other rules report is left to them."""

import pytest
from support.one_rule import findings, nodes


@pytest.mark.parametrize(
    ("shape", "scales", "axis", "found"),
    [
        ("2, N", "2", 1, "N"),
        ("2, N", "2", -1, "N"),
        ("2, ?", "2", 1, "?"),
        ("2, N", "2", 0, None),
        ("2, N", "1", 1, None),
        ("2, N", "2, 2", 1, None),
        ("2, N", "2", 2, None),
        ("2, N", "", 1, None),
        ("", "2", 1, None),
    ],
)
def test_shapes(shape: str, scales: str, axis: int, found: str | None):
    model = f"""agraph (float[{shape}] x, float[{scales}] s) => (float[] y) {{
        y = QuantizeLinear <axis = {axis}> (x, s)
    }}"""
    told = [(each.message, each.found, each.tensor) for each in findings("QA209", model)]

    message = f"per-axis scales on axis 1, which is dynamic in [{shape}]"
    assert told == ([(message, found, "x")] if found else [])


def test_one_scale_hides_nothing_behind_it():
    model = """agraph (float[2,N] x, float s, float[2] t) => (float[] y) {
        [a] c = QuantizeLinear (x, s)
        [b] y = QuantizeLinear (x, t)
    }"""
    assert nodes("QA209", model) == ["b"]
