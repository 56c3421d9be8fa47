"""The task metric of a model, and of what it is compared with, as data: reports are this class, key by key."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """The task metric of the model.

    Attributes:
        name: The metric, or the name of the function.
        output: The output that was measured; None where a function of the user got all of them.
        unit: Unit of the values: ``%``, or empty where there is none or nobody knows it.
        loss_unit: Unit of the losses: ``percentage points``, ``%``, or empty.
        predictions: Number of predictions; of samples where a function of the user measures.
        value: Value of the model.
        baseline: Value of the baseline; None without one.
        loss: Loss of the model against the baseline; negative where the model is better.
        saved: Value of the outputs that were saved elsewhere; None without them.
        saved_loss: Loss of these outputs against the model in the reference session.
        chance: Why the model is no better than guessing, in words; None where it is better, or nobody can tell.
        baseline_chance: The same of the baseline.
    """

    name: str
    output: str | None
    unit: str
    loss_unit: str
    predictions: int
    value: float
    baseline: float | None
    loss: float | None
    saved: float | None
    saved_loss: float | None
    chance: str | None = None
    baseline_chance: str | None = None
