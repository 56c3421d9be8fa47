"""Read and write the metadata of a model: the key and value pairs of ``metadata_props``."""

from collections.abc import Iterable, Mapping

import onnx

from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model
from qdqtool.models.plugins import KEY as PLUGIN_KEY
from qdqtool.models.plugins import PluginOperator, plugin_operators

CALIBRATION_KEY = "qdqtool.calibration"
"""Key of the JSON record of the calibration data and method of a quantized model."""

PREPARATION_KEY = "qdqtool.preparation"
"""Key of the JSON record of how the weights of the float model were prepared."""

ROUNDING_KEY = "qdqtool.rounded_by_data"
"""Key of the JSON record of the weights whose codes were chosen with data (GPTQ)."""

HIGH_PRECISION_KEY = "qdqtool.high_precision_dtype"
"""Key of the type to which the float part of the model was converted: ``fp16`` or ``bf16``."""

INPUT_VALUES_KEY = "qdqtool.input_values"
"""Key of the JSON record of former inputs that are constants now: their values by name."""

Notes = Mapping[str, str | None]
"""Values by key; None for an entry that the model must not have."""


def read_metadata(model: Model, key: str) -> str | None:
    """Return the value of a key, or None if the model does not have the key."""
    return next((entry.value for entry in model.proto.metadata_props if entry.key == key), None)


def with_metadata(model: Model, notes: Notes) -> Model:
    """Return the model with some entries set or removed. Other entries keep their order, and new ones are last.

    The proto is copied once for all entries. If nothing changes, the same model is returned.
    """
    if all(read_metadata(model, key) == value for key, value in notes.items()):
        return model
    result = model.fork(copy_model(model.proto))
    changed: Notes = {**{entry.key: entry.value for entry in model.proto.metadata_props}, **notes}
    onnx.helper.set_model_props(result.proto, {key: value for key, value in changed.items() if value is not None})
    return result


def with_plugins(model: Model, declared: Iterable[PluginOperator]) -> Model:
    """Return the model with plugin operators added to its note; a rule of ``declared`` replaces one of the note."""
    known = {**plugin_operators(model.proto), **{each.id: each for each in declared}}
    return with_metadata(model, {PLUGIN_KEY: "\n".join(sorted(map(str, known.values())))} if known else {})
