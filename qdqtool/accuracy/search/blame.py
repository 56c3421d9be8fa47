"""Name the layers that make most noise at the outputs of a quantized model, in a fraction of the time of quantizing."""

from __future__ import annotations

import math

from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.noise_ranking import HALF, SearchBudget, blamed_layers, finite_db, rank_noise
from qdqtool.accuracy.report import Accuracy, BlameReport
from qdqtool.accuracy.search.candidate import Candidate, CandidateFactory
from qdqtool.errors import QdqError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.own_evaluator import has_large_weights

FAIR_DB = 30.0
"""SQNR in dB of the worst output below which layers are named; else only a layer with more noise than all others."""

NAMED = 3
"""Largest number of layers that are named."""

LEAST_SHARE, TIMES_EVEN = 0.1, 2.0
"""A layer is named if it makes this share of the noise, and at least twice the mean share of a layer."""

MANY_VALUES = 1 << 26
"""Approximate number of values of activations that all runs compute. For a ResNet-50, these are about six runs, which
take 2.4 of 42 CPU seconds."""

IN_PARTS = "the model runs in parts, but measuring layers needs all weights in memory, float and rounded"

LEAST_RUNS, MOST_RUNS, MOST_SAMPLES = 6, 24, 8


def blame_of(candidate: Candidate, factory: CandidateFactory, ready: Model) -> BlameReport | None:
    """Find the layers that make most of the noise at the worst output of a quantized model.

    Returns:
        The layers. None if there are no pairs, no selection samples or only random ones, or if no output has noise.
    """
    inputs, worst = factory.steps.inputs, _worst(candidate.measured.accuracy)
    if (
        inputs.choosing is None
        or worst is None
        or not len(candidate.planned.plan)
        or inputs.choosing.description.seed is not None
    ):
        return None
    if has_large_weights(ready):
        return BlameReport(problem=IN_PARTS)
    samples, runs = _samples_and_runs(factory.runs.values)
    try:
        with LayerRuns.of(ready, candidate.planned.plan, inputs.prepared, inputs.choosing, samples) as session:
            budget = _budget(worst[1], len(session.layers), runs)
            found = rank_noise(session.layers, session.runs, budget, worst[0])
            if found is None or found.whole_db == math.inf:
                return None
            named = blamed_layers(found, session.layers, ModelIndex.of(ready))
            kept = tuple(layer for layer in named if layer.dominant or worst[1] < FAIR_DB)
            # The model was run with this layer in float, and more than half of the noise remained.
            dropped = (min(layer.noise_share, HALF) for layer in named if layer not in kept)
            return BlameReport(
                output=found.output,
                whole_db=finite_db(found.whole_db),
                samples=len(session.runs.samples),
                runs=session.runs.runs,
                layers=kept,
                rest_share=max(round(found.rest, 4), *dropped, 0.0),
            )
    except QdqError as error:
        return BlameReport(problem=error.message)


def _samples_and_runs(values: int) -> tuple[int, int]:
    """Return how many samples and how many settings are run, for a model with ``values`` values of activations."""
    affordable = MANY_VALUES // values if values else 0
    samples = min(max(affordable // MOST_RUNS, 1), MOST_SAMPLES)
    return samples, min(max(affordable, LEAST_RUNS), MOST_RUNS)


def _worst(accuracy: Accuracy | None) -> tuple[str, float] | None:
    """Return the output with the lowest SQNR, in dB, or None if no output has noise."""
    outputs = accuracy.outputs if accuracy is not None else ()
    known = {output.name: output.sqnr_db for output in outputs if output.sqnr_db is not None}
    known |= {output.name: -math.inf for output in outputs if not output.finite}
    return min(known.items(), key=lambda each: each[1], default=None)


def _budget(worst_db: float, layers: int, runs: int) -> SearchBudget:
    if worst_db >= FAIR_DB:
        return SearchBudget(runs, HALF, 1)
    return SearchBudget(runs, min(max(LEAST_SHARE, TIMES_EVEN / layers), HALF), NAMED)
