"""Kernels for float4e2m1: exact arithmetic and the NumPy twin, at every boundary and for every kind of row."""

import numpy as np
import pytest
from support import numbers, rational

from qdqtool.numerics import affine, formats, kernels
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

pytest.importorskip("numba")

FMT = formats.get("float4e2m1")
ONE = np.asarray(np.float32(1))
MAGNITUDES = np.float32([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def test_boundaries_and_their_neighbours_are_those_of_exact_arithmetic():
    middle = (MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2
    around = [MAGNITUDES, middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(9))]
    x = np.concatenate([*around, np.float32([np.inf, np.nan, 1e-45, 3e38, 7])])
    x = np.concatenate([x, -x])
    codes = kernels.quantize(x, ONE, FMT, PerTensor(), None)
    numbers.assert_codes(codes, rational.quantize(x, ONE, "float4e2m1", PerTensor()), FMT)


@pytest.mark.parametrize(
    "granularity",
    [PerTensor(), PerAxis(0), PerAxis(1), Blocked(1, 16), Blocked(0, 16), Blocked(1, 7), Blocked(1, 100)],
    ids=str,
)
def test_codes_of_random_bits_have_the_bits_of_the_twin(granularity, monkeypatch):
    rng = np.random.default_rng(4)
    x = rng.integers(0, 2**32, (33, 5001), dtype=np.uint32).view(np.float32)
    x[:, ::2] = rng.normal(size=(33, 2501))
    scale = np.asarray(rng.uniform(0.1, 2, granularity.scale_shape(x.shape)), np.float32)
    codes = kernels.quantize(x, scale, FMT, granularity, None)
    monkeypatch.setattr(kernels, "wanted", lambda _x: False)
    twin = affine.quantize(x, scale, FMT, granularity)
    np.testing.assert_array_equal(codes.view(np.uint8), twin.view(np.uint8))
