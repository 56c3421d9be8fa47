"""Record in a quantized model which data influenced it."""

from collections.abc import Sequence

from qdqtool.models.graph.io.metadata import Notes
from qdqtool.quantization.preparation.bias_correction import BIAS_CORRECTION
from qdqtool.quantization.preparation.calibration_used import NEAREST, CalibrationUsed
from qdqtool.quantization.preparation.prepare import Prepared
from qdqtool.samples.calibration_note import CalibrationNote, encode_note


def data_note(used: CalibrationUsed | None, prepared: Prepared, corrected: Sequence[str]) -> Notes:
    """Return the metadata of a quantized model about the data that influenced it.

    They are empty where other data could not have given another model.

    Args:
        used: The report on the data; None where there was none.
        prepared: The float model; its preparation may have used data.
        corrected: Products whose bias was corrected by the means of samples.
    """
    if used is None or not (used.method != NEAREST or corrected or _has_used_data(prepared)):
        return {}
    note = CalibrationNote(
        method=used.method,
        samples=used.samples,
        random=used.random,
        seed=used.seed,
        preprocessing=used.preprocessing,
    )
    return encode_note(note)


def _has_used_data(prepared: Prepared) -> bool:
    """Return whether other data could have given another model: by parameters from data, or by a trial of a step.

    The means of bias correction count only where a bias was corrected with them.
    """
    made = (step for step in prepared.record if step.was_made and step.step != BIAS_CORRECTION)
    return any(step.parameters or step.trial is not None for step in made)
