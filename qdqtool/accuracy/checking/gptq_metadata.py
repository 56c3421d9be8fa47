"""Write and read the note on weights whose codes data chose (GPTQ).

Such codes are not the nearest ones, so a limit of half a step does not apply. But the error of the chosen codes against
the float weight is known exactly, and the model notes it. If a check finds another error, the weight was changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.metadata import ROUNDING_KEY, Notes, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan, ScopePath
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.numerics.packing import unpack

MAX_NOTE_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class NotedRounding:
    """One weight whose codes data chose.

    Attributes:
        float_type: NumPy name of the type of the float weight.
        error: Mean squared error of the dequantized weight, computed in float32 from the codes and scales as stored.
    """

    float_type: str
    error: float


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tensor: str
    scope: tuple[str, ...]
    type: str
    error: float


def rounding_note(before: ModelIndex, plan: QuantPlan) -> Notes:
    """Make the note on weights whose codes data chose, for the metadata of a quantized model.

    Without such a weight, the note of an earlier quantization is removed.

    Args:
        before: The index of the prepared float model.
        plan: The pairs that were inserted.
    """
    entries = list(_entries(before, [placement for placement in plan if placement.codes is not None]))
    return {ROUNDING_KEY: msgspec.json.encode(entries).decode() if entries else None}


def noted_rounding(quantized: Model) -> Mapping[tuple[ScopePath, str], NotedRounding]:
    """Read the note of a model, by scope and name of the float weight; a malformed note is ignored."""
    text = read_metadata(quantized, ROUNDING_KEY)
    if text is None or len(text) > MAX_NOTE_BYTES:
        return {}
    try:
        entries = msgspec.json.decode(text, type=list[_Entry])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {(entry.scope, entry.tensor): NotedRounding(entry.type, entry.error) for entry in entries}


def _entries(index: ModelIndex, placements: list[Placement]) -> Iterator[_Entry]:
    for placement in placements:
        slot = placement.slot
        value = index.view.scope(slot.scope).values.get(slot.tensor)
        weights = index.constant(value) if value is not None else None
        if weights is not None:
            error = AccumulatedError()
            error.add(weights, _dequantized(placement, weights.shape))
            mean = error.noise / max(1, error.elements)
            yield _Entry(tensor=slot.tensor, scope=slot.scope, type=weights.dtype.name, error=mean)


def _dequantized(placement: Placement, shape: tuple[int, ...]) -> Array:
    params, packed = placement.params, placement.codes
    assert packed is not None
    codes = unpack(np.frombuffer(packed.make(), np.uint8), params.scheme.format, shape)
    return dequantize(codes, params.scale, params.scheme.granularity, params.zero_point, output_dtype=FLOAT32)
