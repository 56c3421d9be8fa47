"""Check that a weight whose codes data chose (GPTQ) was not changed since.

There are two conditions. The mean squared error against the baseline must be the one that the model notes: a changed
scale, moved codes or another baseline give another error. And the error of an output channel must not exceed what GPTQ
can cause (:mod:`qdqtool.numerics.gptq_bound`), independent of the note.
"""

import math
from dataclasses import dataclass

import numpy as np

from qdqtool.accuracy.checking.gptq_metadata import NotedRounding
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.gptq_bound import MOST_RMS_STEPS, rms_steps
from qdqtool.numerics.granularity import Granularity


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
        self.rms_steps = float(np.maximum(self.rms_steps, rms_steps(difference, steps, granularity)))

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


def _roundoff(name: str) -> float:
    return 2.0**-8 if name == "bfloat16" else 2.0**-11 if name == "float16" else 2.0**-24
