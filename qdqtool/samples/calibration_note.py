"""The note in a quantized model on the data that influenced it: how many samples, and how they became inputs."""

import json
from dataclasses import dataclass

import msgspec

from qdqtool.models.graph.io.metadata import CALIBRATION_KEY, Notes, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.samples.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationNote:
    """What a quantized model says of its calibration.

    Attributes:
        method: Id of the calibrator, or of the method that chose codes of weights.
        samples: Number of samples.
        random: Whether they were random.
        seed: Seed of random samples; None for others.
        preprocessing: How files became samples, which the application has to repeat; None for samples that were
            arrays, and for models that an earlier version quantized.
    """

    method: str
    samples: int
    random: bool
    seed: int | None
    preprocessing: Preprocessing | None = None


def encode_note(note: CalibrationNote) -> Notes:
    """Return the note as metadata of a model."""
    found = msgspec.to_builtins(note)
    if note.preprocessing is None:
        del found["preprocessing"]
    return {CALIBRATION_KEY: json.dumps(found)}


def read_note(model: Model) -> CalibrationNote | None:
    """Return the note of a model; None for a model without a note, or with a note that qdqtool did not write."""
    text = read_metadata(model, CALIBRATION_KEY)
    return decode_note(text) if text is not None else None


def decode_note(text: str) -> CalibrationNote | None:
    """Return the content of a note; None for a text that qdqtool did not write."""
    try:
        return msgspec.json.decode(text, type=CalibrationNote)
    except msgspec.DecodeError:
        return None
