"""Quantize and dequantize in exact rational arithmetic, one element at a time: the oracle of the numeric tests.

Nothing here rounds in NumPy or ml_dtypes: numbers are ``Fraction``, types are their bit layouts as the ONNX, IEEE 754
and OCP texts give them, and rounding is done on integers. It is slow and meant to be read.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

INFINITY = "inf"
NAN = "nan"
ANY_NAN = 1 << 20
"""Stands for the code of NaN where a format has several."""


@dataclass(frozen=True)
class Real:
    """A number of a floating-point type: its size as a fraction or INFINITY, or NAN, and its sign."""

    size: Fraction | str
    negative: bool = False

    @property
    def value(self):
        return -self.size if self.negative else self.size


@dataclass(frozen=True)
class Layout:
    """A binary floating-point type.

    ``top`` is the largest finite value; ``special`` says what exceeds it: ``ieee`` (infinities and NaNs in the last
    exponent), ``fn`` (only NaN, at the last code of each sign), ``fnuz`` (only NaN, at the code of -0), ``none``.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    top: Fraction
    special: str = "ieee"

    @property
    def min_exponent(self):
        return 1 - self.bias


FLOATS = {
    "float32": Layout(8, 23, 127, Fraction(2) ** 128 - Fraction(2) ** 104),
    "float16": Layout(5, 10, 15, Fraction(65504)),
    "bfloat16": Layout(8, 7, 127, Fraction(2) ** 128 - Fraction(2) ** 120),
    "float8e4m3fn": Layout(4, 3, 7, Fraction(448), "fn"),
    "float8e4m3fnuz": Layout(4, 3, 8, Fraction(240), "fnuz"),
    "float8e5m2": Layout(5, 2, 15, Fraction(57344)),
    "float8e5m2fnuz": Layout(5, 2, 16, Fraction(57344), "fnuz"),
    "float4e2m1": Layout(2, 1, 1, Fraction(6), "none"),
    "float6e2m3": Layout(2, 3, 1, Fraction(15, 2), "none"),
    "float6e3m2": Layout(3, 2, 3, Fraction(28), "none"),
}

INTEGERS = {
    "int2": (-2, 1),
    "uint2": (0, 3),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
}


def half_even(value):
    """The integer nearest to a fraction, ties to the even one."""
    floor = value.numerator // value.denominator
    rest = value - floor
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2):
        return floor + 1
    return floor


def exponent_of(size):
    """The ``e`` with ``2**e <= size < 2**(e + 1)``."""
    e = size.numerator.bit_length() - size.denominator.bit_length()
    return e if size >= Fraction(2) ** e else e - 1


def to_grid(size, layout):
    """A non-negative fraction on the layout's grid with no upper end: where overflow is judged."""
    if size == 0:
        return Fraction(0)
    step = Fraction(2) ** (max(exponent_of(size), layout.min_exponent) - layout.mantissa_bits)
    return half_even(size / step) * step


def round_real(real, name):
    """A Real rounded to float32, float16 or bfloat16."""
    if real.size in (INFINITY, NAN):
        return real
    size = to_grid(real.size, FLOATS[name])
    return Real(INFINITY if size > FLOATS[name].top else size, real.negative)


def real(number):
    """A NumPy or ml_dtypes scalar as a Real."""
    wide = float(number)
    if np.isnan(wide):
        return Real(NAN, bool(np.signbit(wide)))
    return Real(INFINITY if np.isinf(wide) else Fraction(abs(wide)), bool(np.signbit(wide)))


def divide(x, scale):
    """The exact quotient, with infinities and zeros as IEEE 754 has them."""
    negative = x.negative != scale.negative
    if NAN in (x.size, scale.size) or x.size == scale.size == INFINITY or x.size == scale.size == 0:
        return Real(NAN)
    if x.size == INFINITY or scale.size == 0:
        return Real(INFINITY, negative)
    if scale.size == INFINITY:
        return Real(Fraction(0), negative)
    return Real(x.size / scale.size, negative)


def quantize_one(x, scale, fmt, *, zero=0, precision="float32", saturate=True):
    """The code of one element: an integer for integer formats, the bits of the code for the others."""
    quotient = round_real(divide(x, scale), precision)
    return integer_code(quotient, fmt, zero) if fmt in INTEGERS else float_code(quotient, fmt, saturate=saturate)


def integer_code(quotient, fmt, zero):
    low, high = INTEGERS[fmt]
    if quotient.size == NAN:
        return low
    if quotient.size == INFINITY:
        return low if quotient.negative else high
    return min(max(half_even(quotient.value) + zero, low), high)


def float_code(quotient, fmt, *, saturate=True):
    layout = FLOATS[fmt]
    if quotient.size == NAN:
        return nan_code(fmt)
    size = Fraction(2) ** 200 if quotient.size == INFINITY else to_grid(quotient.size, layout)
    if size > layout.top:
        if saturate or layout.special == "none":
            size = layout.top
        elif layout.special != "ieee":
            return nan_code(fmt)
        else:
            return sign_bit(layout, quotient) | (2**layout.exponent_bits - 1) << layout.mantissa_bits
    if size == 0 and layout.special == "fnuz":
        return 0
    return sign_bit(layout, quotient) | magnitudes(fmt)[size]


def sign_bit(layout, quotient):
    return int(quotient.negative) << (layout.exponent_bits + layout.mantissa_bits)


def nan_code(fmt):
    """The code of NaN: None where any of several will do; the lowest value in formats that have none."""
    layout = FLOATS[fmt]
    sign = 1 << (layout.exponent_bits + layout.mantissa_bits)
    return {"fnuz": sign, "none": sign | magnitudes(fmt)[layout.top]}.get(layout.special)


@cache
def magnitudes(fmt):
    """The code without sign bit of each non-negative finite value."""
    layout = FLOATS[fmt]
    table = {}
    for exponent, mantissa in itertools.product(range(2**layout.exponent_bits), range(2**layout.mantissa_bits)):
        lead, power = (1, exponent) if exponent else (0, 1)
        size = (lead + Fraction(mantissa, 2**layout.mantissa_bits)) * Fraction(2) ** (power - layout.bias)
        if size <= layout.top:
            table[size] = exponent << layout.mantissa_bits | mantissa
    return table


def parameter_index(index, granularity):
    """Which scale belongs to the element at ``index``, by ONNX's definition."""
    match granularity:
        case PerTensor():
            return ()
        case PerAxis(axis):
            return (index[axis],)
        case Blocked(axis, size):
            axis %= len(index)
            return (*index[:axis], index[axis] // size, *index[axis + 1 :])


def quantize(x, scale, fmt, granularity, zero_point=None, *, precision="float32", saturate=True):
    """Codes of a whole array as an int64 array of integers or code bits; ANY_NAN where any NaN will do."""
    codes = np.empty(x.shape, np.int64)
    for index in np.ndindex(x.shape):
        where = parameter_index(index, granularity)
        zero = 0 if zero_point is None else int(zero_point[where])
        found = quantize_one(real(x[index]), real(scale[where]), fmt, zero=zero, precision=precision, saturate=saturate)
        codes[index] = ANY_NAN if found is None else found
    return codes


def dequantize_one(code, scale, *, zero=0, output="float32"):
    """``output(float32(float32(code - zero) * scale))`` for an exact number ``code``."""
    distance = round_real(Real(abs(code - zero), code < zero), "float32")
    product = Real(distance.size * scale.size, distance.negative != scale.negative)
    return round_real(round_real(product, "float32"), output)


def dequantize(q, scale, granularity, zero_point=None, *, output="float32"):
    """Values of a whole array as float64, which holds every value of the output types."""
    values = np.empty(q.shape, np.float64)
    for index in np.ndindex(q.shape):
        where = parameter_index(index, granularity)
        zero = 0 if zero_point is None else int(zero_point[where])
        found = dequantize_one(Fraction(float(q[index])), real(scale[where]), zero=zero, output=output)
        values[index] = float("inf") if found.size == INFINITY else float(found.size)
        values[index] *= -1 if found.negative else 1
    return values
