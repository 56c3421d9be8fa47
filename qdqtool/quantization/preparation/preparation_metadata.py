"""Record in a quantized model how its float model was prepared, and prepare the baseline of a check in the same way.

Equalised weights differ from those of the given model: compared with that, every one of them would look wrong.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.metadata import PREPARATION_KEY, Notes, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.inline_functions import inline_like
from qdqtool.quantization.planning.recipe import Preparation
from qdqtool.quantization.preparation.bias_correction import BIAS_CORRECTION
from qdqtool.quantization.preparation.prepare import Prepared, prepare_as_recorded
from qdqtool.quantization.ranges.loud_layer import PLANNED
from qdqtool.quantization.ranges.types import PreparationStep

MAX_NOTE_BYTES = 1 << 26


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    step: str
    parameters: dict[str, Any]


def preparation_note(record: Sequence[PreparationStep]) -> Notes:
    """Return the metadata of a quantized model about the steps that changed weights; empty where there was none."""
    made = [
        _Note(step=step.step, parameters=dict(step.parameters))
        for step in record
        if step.step not in PLANNED | {BIAS_CORRECTION} and step.was_made
    ]
    return {PREPARATION_KEY: msgspec.json.encode(made).decode()} if made else {}


def prepared_like(quantized: Model, baseline: Model) -> Prepared:
    """Prepare a baseline by the steps that are recorded in ``quantized``.

    No step changes an output beyond rounding, so a wrong note does no harm: it only decides whether inner tensors can
    be compared. A note that is malformed, or does not fit the baseline, is ignored. Local functions that quantizing
    inlined are inlined first.
    """
    baseline = inline_like(quantized, baseline).model
    text = read_metadata(quantized, PREPARATION_KEY)
    if text is None or len(text) > MAX_NOTE_BYTES:
        return Prepared(baseline)
    try:
        notes = msgspec.json.decode(text, type=list[_Note])
        record = [PreparationStep(note.step, note.parameters) for note in notes]
        return prepare_as_recorded(baseline, record, Preparation())
    except (msgspec.DecodeError, UsageError, RecursionError):
        return Prepared(baseline)
