"""Granularity: one scale for a whole tensor, for each index of an axis, or for each block along an axis.

An axis is always the dimension that is *kept*, as in ONNX, TensorRT, tripy and PyTorch. pypto names the collapsed axis.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qdqtool.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class PerTensor:
    """One scale for the whole tensor."""

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the scale of a tensor of ``shape``: a scalar."""
        del shape
        return ()

    def __str__(self) -> str:
        return "per-tensor"


@dataclass(frozen=True, slots=True)
class PerAxis:
    """One scale for each index of ``axis``.

    Attributes:
        axis: The kept dimension; negative counts from the end.
    """

    axis: int

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the scale of a tensor of ``shape``: ``(shape[axis],)``."""
        return (shape[normalize_axis(self.axis, len(shape))],)

    def __str__(self) -> str:
        return f"per-axis {self.axis}"


@dataclass(frozen=True, slots=True)
class Blocked:
    """One scale for each run of ``block_size`` elements along ``axis``; the last run may be shorter.

    Attributes:
        axis: The blocked dimension; negative counts from the end.
        block_size: Elements in a block, at least 1.
    """

    axis: int
    block_size: int

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ArgumentError(f"block_size is {self.block_size}; it must be at least 1")

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the scale: ``shape`` with ``axis`` divided by ``block_size``, rounded up."""
        axis = normalize_axis(self.axis, len(shape))
        blocks = -(-shape[axis] // self.block_size)
        return (*shape[:axis], blocks, *shape[axis + 1 :])

    def __str__(self) -> str:
        return f"blocks of {self.block_size} on axis {self.axis}"


Granularity = PerTensor | PerAxis | Blocked


def as_onnx_reads(scale_shape: tuple[object, ...], rank: int | None, axis: int, block_size: int) -> Granularity | None:
    """Return the granularity that ONNX gives a scale at a QuantizeLinear or DequantizeLinear.

    A scale of one element and rank 0 or 1 is per-tensor. Any other 1-D scale is per-axis, or blocked if the data is 1-D
    too and there is a block size. ONNX Runtime and onnx's reference do the same.

    Args:
        scale_shape: Shape of the scale; an unknown extent may be anything but an integer.
        rank: Rank of the data; None if it is unknown.
        axis: The attribute ``axis``, or its default; it may be negative.
        block_size: The attribute ``block_size``; 0 if it is absent.

    Returns:
        The granularity, or None for a scale of several axes without a block size, which ONNX does not define.
    """
    if scale_shape in {(), (1,)}:
        return PerTensor()
    if block_size > 0 and (rank == 1 or len(scale_shape) > 1):
        return Blocked(axis, block_size)
    return PerAxis(axis) if len(scale_shape) == 1 else None


def normalize_axis(axis: int, rank: int) -> int:
    """Return ``axis`` as a dimension from 0 to ``rank - 1``.

    Raises:
        ArgumentError: ``axis`` is outside ``-rank`` to ``rank - 1``.
    """
    if not -rank <= axis < rank:
        legal = f"{-rank} to {rank - 1}" if rank else "none, the tensor is a scalar"
        raise ArgumentError(f"axis is {axis}; a tensor of rank {rank} has axes {legal}")
    return axis % rank


def check_scale_shape(scale_shape: tuple[int, ...], shape: tuple[int, ...], granularity: Granularity) -> None:
    """Check that a scale (or zero point) of ``scale_shape`` fits a tensor of ``shape``.

    A one-element 1-D scale counts as a scalar.

    Raises:
        ArgumentError: The shapes do not fit; the message names the expected shape.
    """
    expected = granularity.scale_shape(shape)
    one_element = isinstance(granularity, PerTensor) and scale_shape == (1,)
    if scale_shape != expected and not one_element:
        raise ArgumentError(
            f"scale has shape {list(scale_shape)}; "
            f"{granularity} on a tensor of shape {list(shape)} needs {list(expected)}"
        )


def expand(
    parameter: npt.NDArray[np.generic], shape: tuple[int, ...], granularity: Granularity
) -> npt.NDArray[np.generic]:
    """Reshape ``parameter`` (a scale or zero point) so that it broadcasts against a tensor of ``shape``."""
    check_scale_shape(parameter.shape, shape, granularity)
    match granularity:
        case PerTensor():
            return parameter.reshape(())
        case PerAxis(axis):
            ones = [1] * len(shape)
            ones[normalize_axis(axis, len(shape))] = -1
            return parameter.reshape(ones)
        case Blocked(axis, block_size):
            axis = normalize_axis(axis, len(shape))
            spread = np.repeat(parameter, block_size, axis=axis)
            return np.take(spread, range(shape[axis]), axis=axis) if spread.shape[axis] > shape[axis] else spread
