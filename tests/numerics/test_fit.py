"""Steps of integer blocks: near the least error there is, not shrinking the values, and the kernel as its twin."""

import itertools

import numpy as np
import pytest

from qdqtool.numerics import formats
from qdqtool.numerics.fit import Fit, fit
from qdqtool.numerics.granularity import Blocked, expand
from qdqtool.numerics.groups import BlockLayout

INT4 = formats.get("int4")
SIGNS = pytest.mark.parametrize("either_sign", [False, True])


def normal(shape, dtype=np.float32, seed=3):
    return (np.random.default_rng(seed).normal(size=shape) * 0.02).astype(dtype)


def fitted(values, granularity, *, fmt=INT4, either_sign=False, compiled=False):
    """Steps and largest magnitudes, in the shape of a scale."""
    found = fit(values, BlockLayout.of(values.shape, granularity), Fit(fmt, either_sign), compiled=compiled)
    return tuple(each.reshape(granularity.scale_shape(values.shape)) for each in found)


def restored(values, steps, granularity, fmt=INT4):
    """What the nearest codes stand for, float64."""
    step = expand(steps, values.shape, granularity).astype(np.float64)
    return np.clip(np.rint(values / step), fmt.low, fmt.high) * step


def least_error(values, low, high):
    """The least ``sum((x - s * q)**2)`` over all positive steps and all codes.

    Nearest codes are best for every step, and change only at steps where some ``x / s`` lies half way between two of
    them. Between two such steps the error is a parabola of the step; so the least of all of them is the answer.
    """
    halves = np.arange(low, high) + 0.5
    turns = np.sort((values[:, None] / halves).ravel())
    turns = turns[turns > 0]
    steps = np.concatenate([[turns[0] / 2], (turns[1:] + turns[:-1]) / 2, [turns[-1] * 2]])[:, None]
    codes = np.clip(np.rint(values / steps), low, high)
    product, square = (codes * values).sum(axis=1), np.square(codes).sum(axis=1)
    gains = np.square(product[product > 0]) / square[product > 0]
    return np.square(values).sum() - gains.max(initial=0.0)


@SIGNS
@pytest.mark.parametrize(("name", "share"), [("int4", 1.03), ("int8", 1.3), ("int2", 1.3)])
def test_every_block_is_near_the_least_error_over_signs_steps_and_codes(name, share, either_sign):
    fmt, values, granularity = formats.get(name), normal((32, 64)).astype(np.float64), Blocked(0, 32)
    steps, _ = fitted(values.astype(np.float32), granularity, fmt=fmt, either_sign=either_sign)
    values = values.astype(np.float32).astype(np.float64)
    errors = np.square(values - restored(values, steps, granularity, fmt)).sum(axis=0)
    signs = (1, -1) if either_sign else (1,)
    least = np.array([min(least_error(sign * column, fmt.low, fmt.high) for sign in signs) for column in values.T])
    assert np.all(least <= errors * (1 + 1e-6))  # a step is rounded to float32
    assert errors.sum() <= share * least.sum()  # what it costs not to shrink the values, and to try 8 steps only


@SIGNS
def test_values_and_what_stands_for_them_have_the_product_of_the_values(either_sign):
    """Not smaller on the whole; a step of the least error alone would lose as much as the error itself."""
    values, granularity = normal((1024, 64)).astype(np.float64), Blocked(0, 32)
    steps, _ = fitted(values.astype(np.float32), granularity, either_sign=either_sign)
    found = restored(values, steps, granularity)
    power = np.square(values).sum()
    shrunk, error = 1 - (values * found).sum() / power, np.square(values - found).sum() / power
    assert 0 <= shrunk < 0.3 * error


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_negative_step_gives_the_lowest_code_to_the_largest_value_and_gains_a_third_of_a_decibel(block, dtype):
    values, granularity = normal((256, 64), dtype), Blocked(0, block)
    one = fit(values, BlockLayout.of(values.shape, granularity), Fit(INT4), compiled=False)[0].reshape(-1, 64)
    either, _ = fitted(values, granularity, either_sign=True)
    assert np.all(one > 0)
    wide = values.astype(np.float64)
    parts = wide.reshape(-1, block, 64)
    peaks = np.take_along_axis(parts, np.abs(parts).argmax(axis=1)[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(np.sign(either), -np.sign(peaks))
    errors = [np.square(wide - restored(wide, steps, granularity)).sum() for steps in (one, either)]
    assert 10 * np.log10(errors[0] / errors[1]) > 0.3


def test_values_that_lie_on_a_grid_keep_its_step():
    codes = np.array([-8, 7, 3, -1, 0, 5, 2, -4], np.float32)[:, None]
    for step in (0.25, 3.0, 1e-3):
        found, amax = fitted(codes * np.float32(step), Blocked(0, 8))
        assert found[0, 0] == pytest.approx(step, rel=1e-6)
        assert amax[0, 0] == np.float32(8 * np.float32(step))


@pytest.mark.parametrize("compiled", [False, True])
def test_zeros_have_no_step_and_what_is_not_finite_shows_in_the_magnitude(compiled):
    if compiled:
        pytest.importorskip("numba")
    values = normal((8, 5))
    values[:, 1] = 0
    values[3, 2], values[4, 3], values[5, 4] = np.nan, -np.inf, 3e38
    steps, amax = fitted(values, Blocked(0, 8), compiled=compiled)
    assert not steps[0, 1] > 0
    assert amax[0, 1] == 0
    np.testing.assert_array_equal(np.isfinite(amax[0]), [True, True, False, False, True])


def test_the_kernel_is_called_only_where_it_is_asked_for(monkeypatch):
    pytest.importorskip("numba")
    calls = []
    monkeypatch.setattr("qdqtool.numerics.compiled.fit_tiles.fit", lambda *_: calls.append(1))
    values = np.float32([[-8], [7]])
    assert fitted(values, Blocked(0, 2))[0] == pytest.approx(1, rel=1e-6)
    assert not calls
    fitted(values, Blocked(0, 2), compiled=True)
    assert calls == [1]


def test_values_too_small_to_divide_by_keep_the_step_of_the_full_range():
    steps, amax = fitted(np.float32([[1e-40], [0]]), Blocked(0, 2))
    assert amax[0, 0] == np.float32(1e-40)
    assert steps[0, 0] == np.float32(1e-40) * (np.float32(1) / np.float32(7))


@pytest.mark.parametrize(
    ("granularity", "dtype", "either_sign"),
    [*itertools.product([Blocked(0, 32), Blocked(1, 7), Blocked(-1, 50), Blocked(0, 1)], ["f4", "f2"], [False, True])],
    ids=str,
)
def test_the_kernel_has_the_bits_of_its_twin(granularity, dtype, either_sign):
    pytest.importorskip("numba")
    values = normal((70, 130), dtype)
    values[:, 5], values[:, 7], values[3, 9] = 0, values[0, 7], 1e4
    (steps, amax), (twin, twin_amax) = (
        fitted(values, granularity, either_sign=either_sign, compiled=compiled) for compiled in (True, False)
    )
    np.testing.assert_array_equal(steps.view(np.uint32), twin.view(np.uint32))
    np.testing.assert_array_equal(amax, twin_amax)
