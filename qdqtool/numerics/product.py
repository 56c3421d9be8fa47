"""How the weight of an operator that multiplies is laid out, whatever the operator: groups, outputs, inputs, kernel.

Conv stores ``[M, C/group, k1, ...]``, ConvTranspose ``[C, M/group, k1, ...]``, MatMul and Gemm ``[K, N]``, Gemm with
``transB`` ``[N, K]``. Seen as ``[groups, outputs, inputs, kernel]`` they are all the same.
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
        shape: As it is stored.
        groups: Into how many groups the channels are divided.
        inputs_first: Whether input channels lie on an axis in front of that of the output channels.
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
        """The weight as ``[groups, outputs/groups, inputs/groups, kernel]``, a view."""
        split = weight.reshape(self.groups, self.shape[0] // self.groups, self.shape[1], -1)
        return split.swapaxes(1, 2) if self.inputs_first else split

    def stored(self, canonical: Array) -> Array:
        """The inverse of :meth:`canonical`."""
        split = canonical.swapaxes(1, 2) if self.inputs_first else canonical
        return split.reshape(self.shape)

    def input_factors(self, factors: Array) -> Array:
        """Factors of the input channels, shaped to be multiplied with the canonical weight."""
        return factors.reshape(self.groups, 1, -1, 1)

    def output_factors(self, factors: Array) -> Array:
        """Factors of the output channels, shaped to be multiplied with the canonical weight."""
        return factors.reshape(self.groups, -1, 1, 1)

    def rescaled(self, weight: Array, inputs: Factors | None, outputs: Factors | None) -> Array:
        """The weight with every input channel multiplied, and every output channel divided, by a factor of its own.

        Args:
            weight: As stored, of any float type.
            inputs: Factors of the input channels; None for ones.
            outputs: Of the output channels.

        Returns:
            float64, as stored: rounding is the caller's.
        """
        scaled = self.canonical(weight).astype(np.float64)
        if inputs is not None:
            scaled *= self.input_factors(inputs)
        if outputs is not None:
            scaled /= self.output_factors(outputs)
        return self.stored(scaled)

    def input_peaks(self, weight: Array, outputs: Factors | None = None) -> Factors:
        """The largest magnitude that each input channel is multiplied with, each output channel divided by a factor."""
        largest = np.abs(self.canonical(weight)).max(axis=3, initial=0.0).astype(np.float64)
        if outputs is not None:
            largest /= self.output_factors(outputs)[..., 0]
        return np.asarray(largest.max(axis=1, initial=0.0).reshape(-1), np.float64)
