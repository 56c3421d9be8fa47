"""The arithmetic of folding BatchNormalization: all in float64; the caller rounds once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ChannelAffine:
    """The function of BatchNormalization in inference: ``y = (x - mean) * factor + shift`` for each channel.

    Attributes:
        factor: ``scale / sqrt(var + epsilon)``.
        mean: Mean of the channel.
        shift: The operator's input ``B``.
    """

    factor: Float64
    mean: Float64
    shift: Float64

    @classmethod
    def of(cls, parameters: Sequence[Array], epsilon: float) -> Self | None:
        """Make it from scale, B, mean and var of shape ``(C,)``; None where they are malformed or not finite."""
        scale, shift, mean, var = (np.asarray(array).astype(np.float64) for array in parameters)
        if scale.ndim != 1 or not scale.shape == shift.shape == mean.shape == var.shape:
            return None
        with np.errstate(all="ignore"):
            factor = scale / np.sqrt(var + epsilon)
        if not all(np.isfinite(array).all() for array in (factor, mean, shift)):
            return None
        return cls(factor, mean, shift)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.factor.size)


def folded_weight(weight: Array, affine: ChannelAffine, axis: int, groups: int = 1) -> Float64:
    """Return ``weight`` times the factor of its output channel.

    Args:
        weight: Any float type and shape.
        affine: The function of the output channels.
        axis: Axis of the output channels of one group in the weight.
        groups: Number of groups along axis 0, when ``axis`` is not 0 (ConvTranspose); else 1.
    """
    split = weight.astype(np.float64).reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    factor_shape = [1] * split.ndim
    factor_shape[0], factor_shape[axis + 1] = groups, split.shape[axis + 1]
    return (split * affine.factor.reshape(factor_shape)).reshape(weight.shape)


def folded_bias(bias: Array | None, affine: ChannelAffine, beta: float = 1.0) -> Float64:
    """Return the folded bias: ``((beta * bias - mean) * factor + shift) / beta``, with channels on its last axis.

    Args:
        bias: The bias before, or None for zero. It broadcasts against the channels.
        affine: The function of the output channels.
        beta: Factor of the bias in the operator (Gemm); not 0.
    """
    before = np.zeros(1) if bias is None else bias.astype(np.float64)
    return np.asarray(((beta * before - affine.mean) * affine.factor + affine.shift) / beta, np.float64)
