"""Kernels for float16: every half against exact quotients, and nibbles as onnx stores them."""

import numpy as np
import pytest
from onnx import numpy_helper
from support import numbers, rational

from qdqtool.numerics import affine, formats, kernels
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

pytest.importorskip("numba")

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
NAMES = ["int8", "uint8", "int4", "int2", "float4e2m1"]


@pytest.mark.parametrize("name", NAMES)
def test_halves_over_halves_have_the_codes_of_the_exact_quotients(name):
    fmt, rng = formats.get(name), np.random.default_rng(5)
    scale = np.concatenate([numbers.scales(rng, 60, "float16"), np.float16([6e-8, 5e-5, 65504])])
    x = numbers.values(rng, np.repeat(scale[:, None], 16, axis=1), fmt, "float16")
    codes = kernels.quantize_half(x, scale, fmt, PerAxis(0))
    numbers.assert_codes(codes, rational.quantize(x, scale, name, PerAxis(0), precision="float16"), fmt)


@pytest.mark.parametrize("granularity", [PerTensor(), PerAxis(0), PerAxis(1), Blocked(0, 32), Blocked(1, 100)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_codes_of_every_half_have_the_bits_of_the_twin(name, granularity, monkeypatch):
    rng, fmt = np.random.default_rng(1), formats.get(name)
    x = np.concatenate([EVERY_HALF, rng.normal(size=1 << 16).astype(np.float16)]).reshape(512, 256)
    shape = granularity.scale_shape(x.shape)
    scale = np.asarray(np.abs(rng.normal(size=shape)) * 0.3 + 1e-7, np.float16)
    codes = kernels.quantize_half(x, scale, fmt, granularity)
    monkeypatch.setattr(kernels, "wanted_half", lambda *_: False)
    twin = affine.quantize(x, scale, fmt, granularity)
    np.testing.assert_array_equal(codes.view(np.uint8), twin.view(np.uint8))


@pytest.mark.parametrize("name", ["int4", "uint4", "float4e2m1"])
@pytest.mark.parametrize("count", [0, 2, 4, 1000])
def test_nibbles_are_the_bytes_that_onnx_stores(name, count):
    dtype = formats.get(name).dtype
    codes = np.random.default_rng(count).integers(0, 16, count).astype(np.uint8).view(dtype)
    assert kernels.pack_nibbles(codes).tobytes() == numpy_helper.from_array(codes).raw_data
