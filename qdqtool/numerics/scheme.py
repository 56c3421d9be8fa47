"""Quantization schemes (format and granularity) and parameters (a scheme with scales and zero points)."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from qdqtool.errors import ArgumentError
from qdqtool.numerics.granularity import Blocked, Granularity
from qdqtool.numerics.number_format import NumberFormat


@dataclass(frozen=True, slots=True)
class QuantScheme:
    """A number format, the granularity of its scales, and how those scales are stored.

    Attributes:
        format: Number format of the quantized values.
        granularity: Which elements share a scale.
        symmetric: Whether the zero point is zero everywhere.
        scale_scheme: How the scales themselves are quantized, for two-level schemes; None for plain float scales.
            NVFP4: float4e2m1 in blocks of 16; the scales are float8e4m3fn with one float32 scale. MXFP8: float8e4m3fn
            in blocks of 32; the scales are float8e8m0, a type that ONNX stores directly.
    """

    format: NumberFormat
    granularity: Granularity
    symmetric: bool = True
    scale_scheme: Self | None = None

    def __str__(self) -> str:
        return f"{self.format} {self.granularity}"


@dataclass(frozen=True, slots=True, eq=False)
class QuantParams:
    """A scheme with its scales and zero points.

    Attributes:
        scheme: The scheme.
        scale: Real value of one step, in the shape that the granularity requires and any float type. It is rounded to
            the type that the model stores before Q or DQ uses it. Negative only if :func:`may_be_negative`.
        zero_point: The code of real 0 for each scale, in the format's type and the scale's shape; None for code 0.
        scale_params: Parameters of the scales, if a ``scale_scheme`` quantizes them (NVFP4). ``scale`` then holds the
            dequantized scales; quantizing ``scale`` with these parameters gives the codes of the scales exactly.

    Raises:
        ArgumentError: A scale is not finite or has an illegal sign, or a zero point is illegal for the format.
    """

    scheme: QuantScheme
    scale: npt.NDArray[np.generic]
    zero_point: npt.NDArray[np.generic] | None = None
    scale_params: "QuantParams | None" = None

    def __post_init__(self) -> None:
        check_scale_values(self.scale, either_sign=may_be_negative(self.scheme))
        if self.zero_point is None:
            return
        if self.zero_point.shape != self.scale.shape:
            raise ArgumentError(
                f"zero_point has shape {list(self.zero_point.shape)}, not the shape of scale, {list(self.scale.shape)}"
            )
        if self.scheme.format.zero_point == "zero" and np.any(self.zero_point.astype(np.float32) != 0):
            raise ArgumentError(f"zero_point must be 0 for {self.scheme.format}")


def may_be_negative(scheme: QuantScheme) -> bool:
    """Whether scales may be negative: block scales of signed integers without zero point.

    With a negative scale, the largest value gets the lowest code, which has no positive counterpart. Only stored codes
    may have a negative scale. :attr:`qdqtool.models.targets.Target.negative_scale_types` lists the targets that accept
    it.
    """
    fmt = scheme.format
    signed = fmt.kind == "integer" and fmt.low < 0
    return signed and scheme.symmetric and scheme.scale_scheme is None and isinstance(scheme.granularity, Blocked)


def check_scale_values(scale: npt.NDArray[np.generic], *, either_sign: bool = False) -> None:
    """Check that every scale is finite and greater than zero.

    Args:
        scale: The scales.
        either_sign: Whether negative scales are legal too.

    Raises:
        ArgumentError: A scale is illegal; the message has the first index and value, and the number of such scales.
    """
    values = np.asarray(scale).astype(np.float64)
    bad = np.argwhere(~(np.isfinite(values) & ((values != 0) if either_sign else (values > 0))))
    if len(bad):
        first = tuple(int(i) for i in bad[0])
        where = f" at index {list(first)}" if first else ""
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        sign = "not 0" if either_sign else "greater than 0"
        raise ArgumentError(f"scale is {values[first]:g}{where}{more}; every scale must be finite and {sign}")
