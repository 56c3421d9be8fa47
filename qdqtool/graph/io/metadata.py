"""Notes that a model carries: the key and value pairs of ``metadata_props``."""

from qdqtool.graph.model import Model

CALIBRATION_KEY = "qdqtool.calibration"
"""Key under which a quantized model says on which data it was calibrated and by which method, as JSON."""

PREPARATION_KEY = "qdqtool.preparation"
"""Key under which a quantized model says how the weights of its float model were prepared, as JSON."""

ROUNDING_KEY = "qdqtool.rounded_by_data"
"""Key under which a quantized model says of which weights data chose the codes, as JSON."""

HIGH_PRECISION_KEY = "qdqtool.high_precision_dtype"
"""Key under which a quantized model says that its float part was converted, and to what: ``fp16``."""


def read_metadata(model: Model, key: str) -> str | None:
    """The value of a key; None where the model has no such note."""
    return next((entry.value for entry in model.proto.metadata_props if entry.key == key), None)


def write_metadata(model: Model, key: str, value: str) -> None:
    """Set a key in place: for a model that the caller has just made. The other notes keep their order."""
    for entry in model.proto.metadata_props:
        if entry.key == key:
            entry.value = value
            return
    model.proto.metadata_props.add(key=key, value=value)


def drop_metadata(model: Model, key: str) -> None:
    """Take a note away in place, if there is one: for a model that the caller has just made."""
    kept = [entry for entry in model.proto.metadata_props if entry.key != key]
    if len(kept) != len(model.proto.metadata_props):
        del model.proto.metadata_props[:]
        model.proto.metadata_props.extend(kept)
