"""Read and write the notes of a model: the key and value pairs of ``metadata_props``."""

from collections.abc import Mapping

import onnx

from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model

CALIBRATION_KEY = "qdqtool.calibration"
"""Key of the note on calibration data and method of a quantized model, as JSON."""

PREPARATION_KEY = "qdqtool.preparation"
"""Key of the note on how the weights of the float model were prepared, as JSON."""

ROUNDING_KEY = "qdqtool.rounded_by_data"
"""Key of the note on the weights whose codes data chose (GPTQ), as JSON."""

HIGH_PRECISION_KEY = "qdqtool.high_precision_dtype"
"""Key of the note on the type to which the float part of the model was converted: ``fp16``."""

INPUT_VALUES_KEY = "qdqtool.input_values"
"""Key of the note on inputs that were stored as constants: their values by name, as JSON."""

Notes = Mapping[str, str | None]
"""Values by key; None for a note that the model must not have."""


def read_metadata(model: Model, key: str) -> str | None:
    """Return the value of a key; None where the model has no such note."""
    return next((entry.value for entry in model.proto.metadata_props if entry.key == key), None)


def with_metadata(model: Model, notes: Notes) -> Model:
    """Return the model with some of its notes set or removed. Others keep their order, and new ones come last.

    The proto is copied once for all of them; where nothing changes, the given model is returned.
    """
    if all(read_metadata(model, key) == value for key, value in notes.items()):
        return model
    result = model.fork(copy_model(model.proto))
    changed: Notes = {**{entry.key: entry.value for entry in model.proto.metadata_props}, **notes}
    onnx.helper.set_model_props(result.proto, {key: value for key, value in changed.items() if value is not None})
    return result
