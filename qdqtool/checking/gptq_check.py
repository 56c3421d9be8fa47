"""Whether a weight whose codes data chose is still what was chosen.

Two things are asked for. The mean squared error against the baseline is the one that the model notes: a scale that was
changed, codes that were moved or another baseline give another. And no output channel is further off than GPTQ can
bring it, whatever a note says.

Source of the second: GPTQ rounds, in the notation of :mod:`qdqtool.numerics.gptq`, so that each ``(U' e)_j`` is at
most ``U_jj`` times half a step, ``e`` the errors of one output channel. So ``e' (H + d h) e``, ``h`` the mean of the
diagonal of ``H`` and ``d`` the damping, is at most the sum of ``U_jj**2 / 4 <= (H_jj + d h) / 4`` over its K inputs,
which is ``K (1 + d) h / 4`` squared steps. As ``H`` has no negative eigenvalue, the mean of ``e**2`` is at most
``(1 + d) / (4 d)``.
"""

import math
from dataclasses import dataclass

import numpy as np

from qdqtool.checking.gptq_metadata import NotedRounding
from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.gptq import DAMPING
from qdqtool.numerics.granularity import Blocked, Granularity
from qdqtool.running.accumulated_error import AccumulatedError

MOST_RMS_STEPS = math.sqrt((1 + DAMPING) / DAMPING) / 2
"""Root mean square distance of one output channel, in steps: 2.29. Nearest codes have 0.29; of codes that GPTQ chose,
0.54 was the most in the sample models and 1.75 with inputs of which one is a thousand times the others."""


@dataclass(slots=True)
class RoundedByData:
    """What was found of one weight.

    Attributes:
        noted: What the model notes of it.
        rms_steps: Root mean square distance in the output channel that is furthest off, in steps.
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
            granularity: Over which elements scales are shared; blocks run along the input channels.
        """
        axis = granularity.axis if isinstance(granularity, Blocked) else None
        with np.errstate(all="ignore"):
            squares = np.sum(np.square(difference, dtype=FLOAT64), axis) / np.sum(np.square(steps, dtype=FLOAT64), axis)
            furthest = np.sqrt(np.max(squares, initial=0.0))
        self.rms_steps = float(np.maximum(self.rms_steps, furthest))

    def fault(self, error: AccumulatedError, roundings: int) -> str:
        """Why it is not what data chose, in words; empty where it is.

        Args:
            error: Of the dequantized weight against the baseline's.
            roundings: Float operations between the two weights that may round differently.
        """
        mean = error.noise / max(1, error.elements)
        unit = roundings * self._roundoff()
        power = error.signal / max(1, error.elements)
        allowed = 2 * unit * math.sqrt(power * mean) + unit**2 * power  # Cauchy-Schwarz for |error| + unit * |weight|
        if not abs(mean - self.noted.error) <= allowed:
            return f"its mean squared error is {mean:.6g}, and was {self.noted.error:.6g} when data chose its codes"
        if not self.rms_steps <= MOST_RMS_STEPS:
            return f"an output channel is {self.rms_steps:.3g} steps off (root mean square), more than GPTQ can explain"
        return ""

    def _roundoff(self) -> float:
        """Of float32, in which both errors are computed, unless this baseline has its weight in another type."""
        if self.float_type == self.noted.float_type:
            return 2.0**-24
        return max(_roundoff(self.float_type), _roundoff(self.noted.float_type))


def _roundoff(name: str) -> float:
    return 2.0**-8 if name == "bfloat16" else 2.0**-11 if name == "float16" else 2.0**-24
