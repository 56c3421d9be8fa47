"""How a model was calibrated and prepared, and the notes about this in a quantized model.

Equalized weights differ from the given weights: without the notes, a comparison would show errors everywhere.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.metadata import PREPARATION_KEY, Notes, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.inline_functions import inline_like
from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.placement.propose import quantized_products
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.bias_correction import BIAS_CORRECTION
from qdqtool.quantization.preparation.prepare import Prepared, prepare_as_recorded
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.file_content import StoredStep
from qdqtool.quantization.ranges.method_choice import PLANNED, chosen_method
from qdqtool.quantization.ranges.types import CalibrationRecord, PreparationStep
from qdqtool.samples.calibration_note import CalibrationNote, encode_note
from qdqtool.samples.report import DataDescription


def used_ranges(
    source: str, record: CalibrationRecord, recipe: Recipe, forced: tuple[str, ...] = ()
) -> CalibrationUsed:
    """Return the facts about ranges for a report.

    Args:
        source: The origin of the ranges, as text.
        record: The calibration that found the ranges.
        recipe: How the ranges become scales.
        forced: What the ranges do not match: ``model``, ``data``, ``samples``.
    """
    return CalibrationUsed(
        source=source,
        method=recipe.method,
        samples=record.samples,
        random=record.random,
        seed=record.seed,
        chosen=chosen_method(record, recipe.method) if recipe.method == calibrators.DEFAULT else "",
        forced=bool(forced),
        forced_for=forced,
        preprocessing=record.preprocessing,
    )


GPTQ: Final = "gptq"
"""The codes of weights were chosen with data."""


NEAREST: Final = "nearest"
"""The codes are the nearest to the weights; data influenced at most the preparation of the model."""


def data_of_weights(data: DataDescription, choosing: int, *, rounded: int) -> CalibrationUsed:
    """Return the facts about the data of a weight-only mode for a report."""
    return CalibrationUsed(
        source=data.source,
        method=GPTQ if rounded else NEAREST,
        samples=choosing,
        held_back=data.samples - choosing,
        random=data.seed is not None,
        seed=data.seed,
        repeated=data.repeated,
        preprocessing=data.preprocessing,
    )


def data_note(used: CalibrationUsed | None, prepared: Prepared, corrected: Sequence[str], model: Model) -> Notes:
    """Return the metadata of a quantized model about the data that influenced it.

    They are empty if other data could not have given another model.

    Args:
        used: The report on the data; None if there was no data.
        prepared: The float model; its preparation may have used data.
        corrected: Products whose bias was corrected with the means of samples.
        model: The quantized model.
    """
    if used is None or not (used.method != NEAREST or corrected or _has_used_data(prepared)):
        return {}
    note = CalibrationNote(
        method=used.method,
        samples=used.samples,
        random=used.random,
        seed=used.seed,
        preprocessing=used.preprocessing,
        quantized_nodes=len(quantized_products(ModelIndex.of(model))),
    )
    return encode_note(note)


def _has_used_data(prepared: Prepared) -> bool:
    """Return whether other data could have given another model: some step has parameters, or a trial, from data."""
    # The means of bias correction matter only if a bias was corrected with them.
    made = (step for step in prepared.record if step.was_made and step.step != BIAS_CORRECTION)
    return any(step.parameters or step.trial is not None for step in made)


MAX_NOTE_BYTES = 1 << 26


def preparation_note(record: Sequence[PreparationStep]) -> Notes:
    """Return the metadata of a quantized model about the steps that changed weights; empty if there were none."""
    made = [
        StoredStep(step=step.step, parameters=dict(step.parameters))
        for step in record
        if step.step not in PLANNED | {BIAS_CORRECTION} and step.was_made
    ]
    return {PREPARATION_KEY: msgspec.json.encode(made).decode()} if made else {}


def prepared_like(quantized: Model, baseline: Model) -> Prepared:
    """Prepare a baseline with the steps that are recorded in ``quantized``.

    No step changes an output beyond rounding, so a wrong note does no harm: it only decides whether inner tensors can
    be compared. A note that is malformed, or does not fit the baseline, is ignored. Local functions that quantization
    inlined are inlined first.
    """
    baseline = inline_like(quantized, baseline).model
    text = read_metadata(quantized, PREPARATION_KEY)
    if text is None or len(text) > MAX_NOTE_BYTES:
        return Prepared(baseline)
    try:
        notes = msgspec.json.decode(text, type=list[StoredStep])
        record = [PreparationStep(note.step, note.parameters) for note in notes]
        return prepare_as_recorded(baseline, record, Preparation())
    except (msgspec.DecodeError, UsageError, RecursionError):
        return Prepared(baseline)
