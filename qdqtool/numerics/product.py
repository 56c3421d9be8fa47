"""Give the weights of all products the same view: ``[groups, outputs, inputs, kernel]``.

Conv stores ``[M, C/group, k1, ...]``, ConvTranspose ``[C, M/group, k1, ...]``, MatMul and Gemm ``[K, N]``, Gemm with
``transB`` ``[N, K]``. The canonical view is the same for all of them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qdqtool.numerics.dtypes import Array

Factors = npt.NDArray[np.float64]
"""One positive number for each channel, float64, shape ``(channels,)``."""


@dataclass(frozen=True, slots=True)
class ProductLayout:
    """The layout of one stored weight.

    Attributes:
        shape: The stored shape.
        groups: Number of groups of channels.
        inputs_first: Whether the axis of the input channels comes before the axis of the output channels.
    """

    shape: tuple[int, ...]
    groups: int = 1
    inputs_first: bool = False

    @property
    def inputs(self) -> int:
        """Number of input channels, of all groups together."""
        return self.shape[0] if self.inputs_first else self.shape[1] * self.groups

    @property
    def outputs(self) -> int:
        """Number of output channels, of all groups together."""
        return self.shape[1] * self.groups if self.inputs_first else self.shape[0]

    def canonical(self, weight: Array) -> Array:
        """Return the weight as a view ``[groups, outputs/groups, inputs/groups, kernel]``."""
        split = weight.reshape(self.groups, self.shape[0] // self.groups, self.shape[1], -1)
        return split.swapaxes(1, 2) if self.inputs_first else split

    def stored(self, canonical: Array) -> Array:
        """Undo :meth:`canonical`."""
        split = canonical.swapaxes(1, 2) if self.inputs_first else canonical
        return split.reshape(self.shape)

    def input_factors(self, factors: Array) -> Array:
        """Reshape factors of the input channels so that they multiply the canonical weight."""
        return factors.reshape(self.groups, 1, -1, 1)

    def output_factors(self, factors: Array) -> Array:
        """Reshape factors of the output channels so that they multiply the canonical weight."""
        return factors.reshape(self.groups, -1, 1, 1)

    def rescaled(self, weight: Array, inputs: Factors | None, outputs: Factors | None) -> Array:
        """Return the weight with every input channel multiplied and every output channel divided by its factor.

        Args:
            weight: As stored, of any float type.
            inputs: Factors of the input channels; None if all are 1.
            outputs: Factors of the output channels; None if all are 1.

        Returns:
            The weight in the stored shape as float64; the caller rounds it.
        """
        scaled = self.canonical(weight).astype(np.float64)
        if inputs is not None:
            scaled *= self.input_factors(inputs)
        if outputs is not None:
            scaled /= self.output_factors(outputs)
        return self.stored(scaled)

    def input_peaks(self, weight: Array, outputs: Factors | None = None) -> Factors:
        """Return the largest magnitude of each input channel, with each output channel divided by its factor."""
        largest = np.abs(self.canonical(weight)).max(axis=3, initial=0.0).astype(np.float64)
        if outputs is not None:
            largest /= self.output_factors(outputs)[..., 0]
        return np.asarray(largest.max(axis=1, initial=0.0).reshape(-1), np.float64)
