"""The largest magnitude of a tensor is what was measured, or follows from constants and operators that move values."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import parser

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.half.magnitudes import (
    MAX_DEPTH,
    Magnitudes,
    largest,
)

HEAD = '<ir_version: 10, opset_import: ["": 21]>'
DOUBLES = arrays.arrays(np.float64, st.integers(0, 6), elements=st.floats(allow_nan=True, allow_infinity=True))
TEXT = """
g (float[3] x) => (float[3] y) <float[3] w = {1, -7.5, 3}, float s = {0.5}, int8 z = {0}, uint8 u = {0}> {
    moved = Identity (x)
    again = Reshape (moved, shape)
    back = Identity (w)
    changed = Exp (x)
    after = Identity (changed)
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    e = QuantizeLinear (x, s, u)
    f = DequantizeLinear (e, s, u)
    copied = Identity (d)
    open = DequantizeLinear (q, x, z)
    y = Identity (again)
}
"""


def magnitudes(measured: dict[str, float] | None = None, text: str = TEXT) -> dict[str, float | None]:
    model = Model(parser.parse_model(HEAD + text))
    model.proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3]), "shape"))
    index = ModelIndex.of(model)
    found = Magnitudes({((), name): value for name, value in (measured or {}).items()}, index)
    return {value.name: found.of(value) for value in index.view.values()}


def test_constants_and_codes_are_known_without_a_measurement() -> None:
    found = magnitudes()
    assert {name: found[name] for name in ("w", "back")} == {"w": 7.5, "back": 7.5}
    assert {name: found[name] for name in ("d", "copied", "f")} == {"d": 64.0, "copied": 64.0, "f": 127.5}
    assert all(found[name] is None for name in ("x", "moved", "again", "y", "changed", "after", "open"))


def test_a_measurement_counts_more_and_moves_on() -> None:
    found = magnitudes({"x": 3.0, "w": 2.0, "d": 0.0, "changed": 20.0})
    assert all(found[name] == 3.0 for name in ("x", "moved", "again", "y"))
    assert (found["w"], found["d"], found["copied"]) == (2.0, 0.0, 0.0)
    assert (found["changed"], found["after"]) == (20.0, 20.0)


@pytest.mark.parametrize("steps", [MAX_DEPTH, MAX_DEPTH + 1])
def test_long_rows_are_followed_up_to_a_limit(steps: int) -> None:
    rows = "\n".join(f"m{number + 1} = Identity (m{number})" for number in range(steps))
    model = Model(parser.parse_model(HEAD + f"g (float[3] m0) => (float[3] m{steps}) {{ {rows} }}"))
    index = ModelIndex.of(model)
    found = Magnitudes({((), "m0"): 5.0}, index).of(index.view.main.values[f"m{steps}"])
    assert found == (5.0 if steps == MAX_DEPTH else None)


def test_a_cycle_is_unknown() -> None:
    found = magnitudes(text="g (float[3] x) => (float[3] y) { a = Identity (b) b = Identity (a) y = Identity (b) }")
    assert (found["a"], found["b"], found["y"]) == (None, None, None)


@given(DOUBLES)
def test_the_largest_is_that_of_the_finite_elements(array: np.ndarray) -> None:
    assert largest(array) == max((abs(float(each)) for each in array if np.isfinite(each)), default=0.0)


def test_finite_elements_may_be_further_apart_than_any_number() -> None:
    limits = np.finfo(np.float64)
    assert largest(np.array([limits.min, 1.0, limits.max])) == limits.max


@given(arrays.arrays(np.int64, st.integers(0, 6), elements=st.integers(-(2**40), 2**40)))
def test_integers_have_magnitudes_too(array: np.ndarray) -> None:
    assert largest(array) == max((abs(int(each)) for each in array), default=0)
