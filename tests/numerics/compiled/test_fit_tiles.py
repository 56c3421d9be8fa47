"""Kernels for steps of integer blocks: tiles are what `Blocks` gathers, and steps are those of the NumPy twin."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qdqtool.numerics import formats
from qdqtool.numerics.fit import Fit
from qdqtool.numerics.fit import fit as fit_blocks
from qdqtool.numerics.granularity import Blocked
from qdqtool.numerics.groups import BlockLayout

pytest.importorskip("numba")

from qdqtool.numerics.compiled.fit_tiles import LANES, fit, load

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)


def flat(values):
    return values.reshape(-1).view(np.uint16) if values.dtype == np.float16 else values.reshape(-1)


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(0, 2),
    st.integers(1, 10),
    st.sampled_from([np.float32, np.float16]),
    st.tuples(st.integers(0, 700), st.integers(0, 700)),
)
@example([2, 3, 5], 1, 2, np.float32, (3, 14))
def test_a_tile_holds_the_groups_that_blocks_gathers(shape, axis, size, dtype, ends):
    blocks = BlockLayout.of(tuple(shape), Blocked(axis % len(shape), size))
    values = np.random.default_rng(3).normal(size=shape).astype(dtype)
    start, last = sorted(end % blocks.groups for end in ends)
    stop = last + 1
    tile = np.full((size, stop - start), np.float32(99))
    load(flat(values), dtype == np.float16, blocks.place, (start, stop), tile)
    np.testing.assert_array_equal(tile, blocks.gather(values, slice(start, stop)))


def test_every_finite_half_keeps_its_value_and_every_other_becomes_larger_than_any():
    tile = np.empty((EVERY_HALF.size, 1), np.float32)
    load(EVERY_HALF, True, (EVERY_HALF.size, 1, EVERY_HALF.size, 1), (0, 1), tile)
    halves = EVERY_HALF.view(np.float16).astype(np.float32)
    finite = np.isfinite(halves)
    np.testing.assert_array_equal(tile[finite, 0], halves[finite])
    assert (np.abs(tile[~finite, 0]) >= 65536).all()


@pytest.mark.parametrize("groups", [1, LANES - 1, LANES + 1])
@pytest.mark.parametrize("name", ["int2", "int4", "int8"])
@pytest.mark.parametrize("either_sign", [False, True])
def test_steps_and_magnitudes_have_the_bits_of_the_numpy_twin(name, groups, either_sign):
    wanted = Fit(formats.get(name), either_sign)
    values = np.random.default_rng(groups).normal(size=(groups, 20)).astype(np.float32)
    values[0, :3] = 0, 1e-38, 7
    blocks = BlockLayout.of(values.shape, Blocked(1, 20))
    steps, peaks = np.zeros(groups, np.float32), np.zeros(groups, np.float32)
    options = (*wanted.bounds, wanted.shares, either_sign)
    fit(flat(values), False, (*blocks.place, 0, groups), options, (steps, peaks.view(np.int32)))
    twin, twin_peaks = fit_blocks(values, blocks, wanted, compiled=False)
    np.testing.assert_array_equal(steps.view(np.uint32), twin.view(np.uint32))
    np.testing.assert_array_equal(peaks, twin_peaks)


def test_only_the_groups_asked_for_are_written():
    values = np.random.default_rng(1).normal(size=(300, 8)).astype(np.float32)
    blocks, wanted = BlockLayout.of(values.shape, Blocked(1, 8)), Fit(formats.get("int4"))
    steps, peaks = np.full(300, np.float32(-5)), np.zeros(300, np.float32)
    options = (*wanted.bounds, wanted.shares, False)
    fit(flat(values), False, (*blocks.place, 100, 240), options, (steps, peaks.view(np.int32)))
    assert (steps[:100] == -5).all()
    assert (steps[240:] == -5).all()
    assert (steps[100:240] > 0).all()
