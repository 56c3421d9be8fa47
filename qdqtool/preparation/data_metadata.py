"""What a quantized model and its report say of the data that had a say in it."""

import json
from collections.abc import Sequence

from qdqtool.graph.io.metadata import CALIBRATION_KEY, write_metadata
from qdqtool.graph.model import Model
from qdqtool.planning.calibration_used import NEAREST, CalibrationUsed
from qdqtool.preparation.bias_correction import STEP as MEANS
from qdqtool.preparation.prepare import Prepared
from qdqtool.preparation.steps.batchnorm import BatchNormStep


def note_data(quantized: Model, used: CalibrationUsed | None, prepared: Prepared, corrected: Sequence[str]) -> None:
    """Note what data was used and how, in place; nothing where other data could not have given another model.

    Args:
        quantized: The result.
        used: What the report says of the data; None where there was none.
        prepared: The float model: its preparation may have weighed samples.
        corrected: Products whose bias was corrected by the means of samples.
    """
    if used is None or not (used.method != NEAREST or corrected or _has_weighed_samples(prepared)):
        return
    note = {"method": used.method, "samples": used.samples, "random": used.random, "seed": used.seed}
    write_metadata(quantized, CALIBRATION_KEY, json.dumps(note))


def _has_weighed_samples(prepared: Prepared) -> bool:
    return any(step.was_made and step.step not in {BatchNormStep.name, MEANS} for step in prepared.record)
