"""Inputs that are hard on quantizers: ties, near-ties, subnormals, huge numbers, signed zeros, infinities and NaN."""

import ml_dtypes
import numpy as np

from qdqtool.numerics import formats
from support import rational

REAL = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
SCALE = {**REAL, "float8e8m0": ml_dtypes.float8_e8m0fnu}
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 3e38, -3e38, 3e9, -3e9, 1e-38)
QUANTIZED = [name for name in formats.names() if formats.get(name).first_opset.quantize is not None]
INTEGER = [name for name in QUANTIZED if formats.get(name).kind == "integer"]
FLOAT = [name for name in QUANTIZED if formats.get(name).kind == "float"]


def scales(rng, shape, name):
    """Positive scales with full mantissas in the scale type ``name``, all normal numbers even in float16."""
    drawn = 2.0 ** rng.integers(-12, 8, shape) * rng.uniform(1, 2, shape)
    return np.asarray(drawn, np.float32).astype(SCALE[name])


def values(rng, scale, fmt, name):
    """Values of real type ``name`` around the range of format ``fmt``, one for each element of ``scale``.

    A third are whole or half steps, some the neighbours of one, some bits drawn at random, some special.
    """
    limit = 1.2 * max(-fmt.low, fmt.high)
    codes = rng.uniform(-limit, limit, scale.shape)
    kind = rng.integers(0, 8, scale.shape)
    codes = np.where(kind < 3, np.round(codes * 2) / 2, codes)
    with np.errstate(all="ignore"):
        x = np.asarray(codes * scale.astype(np.float64), np.float32).astype(REAL[name])
        x = np.where(kind == 3, np.nextafter(x.astype(np.float32), np.float32(0)).astype(REAL[name]), x)
        x = np.where(kind == 6, random_bits(rng, scale.shape, REAL[name]), x)
        x = np.where(kind == 7, rng.choice(SPECIAL, scale.shape).astype(np.float32).astype(REAL[name]), x)
    return x.astype(REAL[name])


def random_bits(rng, shape, dtype):
    """Every bit pattern of a type with equal probability."""
    size = np.dtype(dtype).itemsize
    return np.asarray(rng.integers(0, 256**size, shape), f"u{size}").view(dtype)


def code_bits(codes, fmt):
    """Codes as the oracle gives them: integers, or the bits of floating-point codes, as int64."""
    return codes.astype(np.int64) if fmt.kind == "integer" else codes.view(np.uint8).astype(np.int64)


def assert_codes(codes, expected, fmt):
    """Bit equality with the oracle's codes, where any NaN stands for every NaN."""
    assert codes.dtype == fmt.dtype
    assert codes.shape == expected.shape
    nan = expected == rational.ANY_NAN
    assert np.isnan(codes[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(code_bits(codes, fmt)[~nan], expected[~nan])
