"""Check that a weight whose codes were chosen with data (GPTQ) has not changed since.

Such codes are not the nearest ones, so no limit of half a step applies. But their mean squared error against the
baseline is known exactly, and the model notes it: a changed scale, moved codes or another baseline give another error.
And the error of an output channel must not exceed the largest one that GPTQ can cause (:mod:`qdqtool.numerics.gptq`).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.metadata import ROUNDING_KEY, Notes, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan, ScopePath
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array
from qdqtool.numerics.gptq import MOST_RMS_STEPS, rms_steps
from qdqtool.numerics.granularity import Granularity, expand
from qdqtool.numerics.packing import unpack

MAX_NOTE_BYTES = 1 << 26
MAX_DEVIATIONS = 8
"""By how many standard deviations the rounding of many scales may change an error."""


class NotedRounding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One weight whose codes were chosen with data.

    Attributes:
        tensor: Name of the float weight.
        scope: Its scope.
        type: NumPy name of its type.
        error: Mean squared error of the dequantized weight, computed in float32 from the codes and scales as stored.
        rounded: Whether a later conversion may have rounded the scales to the type that they have in the model.
    """

    tensor: str
    scope: tuple[str, ...]
    type: str
    error: float
    rounded: bool = False


def rounding_note(before: ModelIndex, plan: QuantPlan) -> Notes:
    """Make the note on weights whose codes were chosen with data, for the metadata of a quantized model.

    Without such a weight, the note of an earlier quantization is removed.
    """
    entries = list(_entries(before, [placement for placement in plan if placement.codes is not None]))
    return {ROUNDING_KEY: msgspec.json.encode(entries).decode() if entries else None}


def note_with_rounded_scales(quantized: Model) -> Notes:
    """Return the note of a model for its copy in half precision, in which scales of packed weights may be rounded."""
    entries = [msgspec.structs.replace(each, rounded=True) for each in noted_rounding(quantized).values()]
    return {ROUNDING_KEY: msgspec.json.encode(entries).decode()} if entries else {}


def noted_rounding(quantized: Model) -> Mapping[tuple[ScopePath, str], NotedRounding]:
    """Read the note of a model, by scope and name of the float weight; a malformed note is ignored."""
    text = read_metadata(quantized, ROUNDING_KEY)
    if text is None or len(text) > MAX_NOTE_BYTES:
        return {}
    try:
        entries = msgspec.json.decode(text, type=list[NotedRounding])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {(entry.scope, entry.tensor): entry for entry in entries}


def _entries(index: ModelIndex, placements: list[Placement]) -> Iterator[NotedRounding]:
    for placement in placements:
        slot = placement.slot
        value = index.view.scope(slot.scope).values.get(slot.tensor)
        weights = index.constant(value) if value is not None else None
        if weights is not None:
            error = AccumulatedError.of(weights, _dequantized(placement, weights.shape))
            mean = error.noise / max(1, error.elements)
            yield NotedRounding(tensor=slot.tensor, scope=slot.scope, type=weights.dtype.name, error=mean)


def _dequantized(placement: Placement, shape: tuple[int, ...]) -> Array:
    params, packed = placement.params, placement.codes
    assert packed is not None
    codes = unpack(np.frombuffer(packed.make(), np.uint8), params.scheme.format, shape)
    return dequantize(codes, params.scale, params.scheme.granularity, params.zero_point, output_dtype=FLOAT32)


@dataclass(slots=True)
class GptqCheck:
    """The findings on one weight.

    Attributes:
        noted: The note of the model.
        rms_steps: Largest root mean square distance of an output channel, in steps.
        float_type: Type of the baseline's weight.
        scale_type: Type of the scale; the model computes in this type or a finer one, even if the note differs.
        products: Sum of difference times dequantized weight for each value that scales have.
    """

    noted: NotedRounding
    rms_steps: float = 0.0
    float_type: str = ""
    scale_type: str = ""
    products: Array = field(default_factory=lambda: np.zeros(0, FLOAT64))

    def add(self, difference: Array, steps: Array, granularity: Granularity) -> None:
        """Count one array.

        Args:
            difference: Dequantized minus float weight, float64.
            steps: Width of a step at each element, of the same shape.
            granularity: Over which elements scales are shared; blocks lie along the input channels.
        """
        self.rms_steps = float(np.maximum(self.rms_steps, rms_steps(difference, steps, granularity)))

    def add_scales(self, scale: Array, product: Array, granularity: Granularity) -> None:
        """Count the scales of one array; ``product`` is the difference times the dequantized weight, float64."""
        _, places = np.unique(scale, return_inverse=True)
        places = np.broadcast_to(expand(places.reshape(scale.shape), product.shape, granularity), product.shape)
        self.products = np.bincount(places.reshape(-1), product.reshape(-1))

    def fault(self, error: AccumulatedError, roundings: int) -> str:
        """Return why the weight differs from the noted one, in words; empty if it does not.

        Args:
            error: Error of the dequantized weight against the baseline's.
            roundings: Number of float operations between the two weights that may round differently.
        """
        mean, power = (total / max(1, error.elements) for total in (error.noise, error.signal))
        unit = roundings * self._roundoff()
        # By Cauchy-Schwarz, for errors of |error| + unit * |weight|.
        allowed = 2 * unit * math.sqrt(power * mean) + unit**2 * power + self._of_rounded_scales(error)
        if not abs(mean - self.noted.error) <= allowed:
            return f"its mean squared error is {mean:.6g}, and was {self.noted.error:.6g} when data chose its codes"
        if not self.rms_steps <= MOST_RMS_STEPS:
            return f"an output channel is {self.rms_steps:.3g} steps off (root mean square), more than GPTQ can explain"
        return ""

    def _of_rounded_scales(self, error: AccumulatedError) -> float:
        """Return by how much the mean squared error may change if scales were rounded.

        Equal scales were rounded alike, and all scales where one outer scale was; else their roundings are independent.
        """
        if not self.noted.rounded:
            return 0.0
        unit, moved = _roundoff(self.scale_type), np.abs(self.products)
        likely = abs(self.products.sum()) + MAX_DEVIATIONS * math.sqrt(np.sum(moved**2) / 3)
        return float(2 * unit * min(likely, moved.sum()) + unit**2 * error.power) / max(1, error.elements)

    def _roundoff(self) -> float:
        """Return the unit roundoff of both errors: of float32, in which they are computed, or of a coarser type."""
        if self.float_type == self.noted.type:
            return 2.0**-24
        noted = min(_roundoff(self.noted.type), _roundoff(self.scale_type))
        return max(_roundoff(self.float_type), noted)


def _roundoff(name: str) -> float:
    return 2.0**-8 if name == "bfloat16" else 2.0**-11 if name == "float16" else 2.0**-24
