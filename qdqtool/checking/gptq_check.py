"""Check that a weight whose codes data chose (GPTQ) was not changed since.

There are two conditions. The mean squared error against the baseline must be the one that the model notes: a changed
scale, moved codes or another baseline give another error. And the error of an output channel must not exceed what GPTQ
can cause, independent of the note.

Derivation of the second condition: GPTQ rounds, in the notation of :mod:`qdqtool.numerics.gptq`, so that each
``(U' e)_j`` is at most ``U_jj`` times half a step, ``e`` the errors of one output channel. So ``e' (H + d h) e``, ``h``
the mean of the diagonal of ``H`` and ``d`` the damping, is at most the sum of ``U_jj**2 / 4 <= (H_jj + d h) / 4`` over
its K inputs, which is ``K (1 + d) h / 4`` squared steps. ``H`` has no negative eigenvalue, so the mean of ``e**2`` is
at most ``(1 + d) / (4 d)``.
"""

import math
from dataclasses import dataclass

import numpy as np

from qdqtool.checking.code_steps import step_widths
from qdqtool.checking.gptq_metadata import NotedRounding
from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.gptq import DAMPING
from qdqtool.numerics.granularity import Blocked, Granularity, expand
from qdqtool.numerics.scheme import QuantParams
from qdqtool.running.accumulated_error import AccumulatedError

MOST_RMS_STEPS = math.sqrt((1 + DAMPING) / DAMPING) / 2
"""Largest root mean square distance of an output channel, in steps: 2.29. Nearest codes have 0.29. The largest measured
with GPTQ is 0.54 in the sample models, and 1.75 with one input a thousand times as large as the others."""


@dataclass(slots=True)
class GptqCheck:
    """The findings on one weight.

    Attributes:
        noted: The note of the model.
        rms_steps: Largest root mean square distance of an output channel, in steps.
        float_type: Type of the baseline's weight.
    """

    noted: NotedRounding
    rms_steps: float = 0.0
    float_type: str = ""

    def add(self, difference: Array, steps: Array, granularity: Granularity) -> None:
        """Count one array.

        Args:
            difference: Dequantized minus float weight, float64.
            steps: Width of a step at each element, of the same shape.
            granularity: Over which elements scales are shared; blocks lie along the input channels.
        """
        self.rms_steps = float(np.maximum(self.rms_steps, _furthest(difference, steps, granularity)))

    def fault(self, error: AccumulatedError, roundings: int) -> str:
        """Return why the weight is not what data chose, in words; empty where it is.

        Args:
            error: Error of the dequantized weight against the baseline's.
            roundings: Number of float operations between the two weights that may round differently.
        """
        mean = error.noise / max(1, error.elements)
        unit = roundings * self._roundoff()
        power = error.signal / max(1, error.elements)
        # By Cauchy-Schwarz, for errors of |error| + unit * |weight|.
        allowed = 2 * unit * math.sqrt(power * mean) + unit**2 * power
        if not abs(mean - self.noted.error) <= allowed:
            return f"its mean squared error is {mean:.6g}, and was {self.noted.error:.6g} when data chose its codes"
        if not self.rms_steps <= MOST_RMS_STEPS:
            return f"an output channel is {self.rms_steps:.3g} steps off (root mean square), more than GPTQ can explain"
        return ""

    def _roundoff(self) -> float:
        """Return the roundoff of float32, in which both errors are computed; of the coarser type if types differ."""
        if self.float_type == self.noted.float_type:
            return 2.0**-24
        return max(_roundoff(self.float_type), _roundoff(self.noted.float_type))


def is_within_bound(weights: Array, restored: Array, params: QuantParams) -> bool:
    """Return whether dequantized weights are so near to the float ones that :class:`GptqCheck` passes them.

    Args:
        weights: The float weights.
        restored: The same after dequantizing.
        params: Their scales.
    """
    scheme = params.scheme
    spread = expand(params.scale, weights.shape, scheme.granularity).astype(FLOAT64)
    widths = np.abs(spread) * step_widths(weights.astype(FLOAT64) / spread, scheme.format)
    difference = restored.astype(FLOAT64) - weights.astype(FLOAT64)
    return _furthest(difference, np.broadcast_to(widths, weights.shape), scheme.granularity) <= MOST_RMS_STEPS


def _furthest(difference: Array, steps: Array, granularity: Granularity) -> float:
    """Return the largest root mean square distance of an output channel, in steps."""
    axis = granularity.axis if isinstance(granularity, Blocked) else None
    with np.errstate(all="ignore"):
        squares = np.sum(np.square(difference, dtype=FLOAT64), axis) / np.sum(np.square(steps, dtype=FLOAT64), axis)
        return float(np.sqrt(np.max(squares, initial=0.0)))


def _roundoff(name: str) -> float:
    return 2.0**-8 if name == "bfloat16" else 2.0**-11 if name == "float16" else 2.0**-24
