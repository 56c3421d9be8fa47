"""Record in a quantized model which data influenced it."""

import json
from collections.abc import Sequence

from qdqtool.graph.io.metadata import CALIBRATION_KEY, Notes
from qdqtool.planning.calibration_used import NEAREST, CalibrationUsed
from qdqtool.preparation.bias_correction import BIAS_CORRECTION
from qdqtool.preparation.prepare import Prepared


def data_note(used: CalibrationUsed | None, prepared: Prepared, corrected: Sequence[str]) -> Notes:
    """What the metadata of a quantized model say of the data that influenced it.

    The note is empty where other data could not have given another model.

    Args:
        used: What the report says of the data; None where there was none.
        prepared: The float model; its preparation may have used data.
        corrected: Products whose bias was corrected by the means of samples.
    """
    if used is None or not (used.method != NEAREST or corrected or _has_used_data(prepared)):
        return {}
    note = {"method": used.method, "samples": used.samples, "random": used.random, "seed": used.seed}
    return {CALIBRATION_KEY: json.dumps(note)}


def _has_used_data(prepared: Prepared) -> bool:
    """Whether other data could have given another model: by parameters found on data, or by a trial that kept a step.

    The means of bias correction count only where a bias was corrected by them.
    """
    made = (step for step in prepared.record if step.was_made and step.step != BIAS_CORRECTION)
    return any(step.parameters or step.trial is not None for step in made)
