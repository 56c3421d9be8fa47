"""The note that a quantized model stores about its calibration data: number of samples and preprocessing."""

import json
from dataclasses import dataclass

import msgspec

from qdqtool.models.graph.io.metadata import CALIBRATION_KEY, Notes, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.samples.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationNote:
    """The calibration of a quantized model, as stored in its metadata.

    Attributes:
        method: Id of the calibrator, or of the algorithm that chose the codes of weights.
        samples: Number of samples.
        random: Whether the samples were random.
        seed: Seed of random samples; None for other samples.
        preprocessing: How files became samples. The application has to do the same. None if the samples were arrays, or
            if an older version of qdqtool quantized the model.
        quantized_nodes: Number of products that are quantized; None likewise.
    """

    method: str
    samples: int
    random: bool
    seed: int | None
    preprocessing: Preprocessing | None = None
    quantized_nodes: int | None = None


def encode_note(note: CalibrationNote) -> Notes:
    """Return the metadata entry that stores the note in a model."""
    found = {name: value for name, value in msgspec.to_builtins(note).items() if name == "seed" or value is not None}
    return {CALIBRATION_KEY: json.dumps(found)}


def read_note(model: Model) -> CalibrationNote | None:
    """Return the note of a model, or None if there is none that qdqtool wrote."""
    text = read_metadata(model, CALIBRATION_KEY)
    return decode_note(text) if text is not None else None


def decode_note(text: str) -> CalibrationNote | None:
    """Return the content of a note, or None if qdqtool did not write this text."""
    try:
        return msgspec.json.decode(text, type=CalibrationNote)
    except msgspec.DecodeError:
        return None
