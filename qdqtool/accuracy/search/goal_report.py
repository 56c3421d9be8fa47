"""The search for an accuracy target as data: the keys of the JSON report are the attributes of these classes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatLayer:
    """A layer that stays in float, or has the fallback format.

    Attributes:
        node: The node that gives the layer its name.
        op_type: Its operator.
        nodes: All nodes of the layer.
        share: Its cost in float or in the fallback format, as a share of the cost of all layers in float.
    """

    node: str
    op_type: str
    nodes: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A state that the search measured.

    Attributes:
        layers_in_float: Number of layers in float.
        quantized_share: The share of the cost that is quantized.
        worst_sqnr_db: SQNR of the worst output on the samples of the search; None if no output has noise.
        nodes: Labels of the nodes in float.
        layers_in_fallback: Number of layers in the fallback format.
        fallback_nodes: Labels of the nodes in the fallback format.
    """

    layers_in_float: int
    quantized_share: float
    worst_sqnr_db: float | None
    nodes: tuple[str, ...]
    layers_in_fallback: int = 0
    fallback_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGoal:
    """The loss of a task metric against its limit.

    Attributes:
        name: The metric, or the name of a function of the user.
        output: The output that the metric reads; None for a function of the user, which gets all outputs.
        loss_unit: Unit of the losses; may be empty.
        max_loss: The limit.
        loss_without: Loss with every layer quantized, on the hold-out samples or validation data.
        loss: Loss of the written model on the same samples.
        predictions: Number of predictions on these samples; for a function of the user, number of samples.
        choosing_loss: Loss of the written model's state on the selection samples.
        choosing_predictions: Number of predictions on the selection samples.
        models: Number of models that were measured, including the one with every layer quantized.
    """

    name: str
    output: str | None
    loss_unit: str
    max_loss: float
    loss_without: float
    loss: float
    predictions: int
    choosing_loss: float
    choosing_predictions: int
    models: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalReport:
    """How an accuracy target was reached.

    Attributes:
        min_sqnr_db: The SQNR that every output keeps; None without such a limit.
        layers: Number of all layers.
        left: The layers that stay in float.
        float_share: The cost share of the layers in float: the mean of multiply-accumulates, weights and number.
        worst_without_db: SQNR of the worst output with every layer quantized, on hold-out samples or validation data.
        worst_db: SQNR of the worst output of the written model on the same samples.
        samples: Number of samples that the search ran.
        runs: Number of runs of one sample in the search.
        curve: The states that the search measured.
        metric: The task metric; None without a limit for it.
        fallback: The fallback format; None if none was requested.
        finer: The layers in the fallback format.
        finer_share: The cost of these layers in that format, as a share of the cost of all layers in float.
    """

    min_sqnr_db: float | None
    layers: int
    left: tuple[FloatLayer, ...]
    float_share: float
    worst_without_db: float | None
    worst_db: float | None
    samples: int
    runs: int
    curve: tuple[CurvePoint, ...]
    metric: MetricGoal | None = None
    fallback: str | None = None
    finer: tuple[FloatLayer, ...] = ()
    finer_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveState:
    """One state of a search. Values in dB are the SQNR of the worst output.

    Attributes:
        layers_in_float: Number of layers in float.
        layers_in_fallback: Number of layers in the fallback format.
        quantized_share: The share of the cost that is quantized, 0 to 1.
        worst_sqnr_db: The SQNR on the samples of the search, which chose the layers; None if no output has noise.
        measured_sqnr_db: The SQNR of a model with these layers, on hold-out samples or validation data; None if no
            output has noise, or if no such model was made.
        metric_loss: Loss of the task metric on the selection samples; None if it was not measured.
        measured_metric_loss: The metric loss of a model with these layers, on hold-out samples or validation data; None
            if it was not measured.
        finite: Whether NaN and infinities occur only where the float model has them, in both measurements. If not, the
            SQNR is None.
        chosen: Whether this is the state of the written model.
    """

    layers_in_float: int
    layers_in_fallback: int
    quantized_share: float
    worst_sqnr_db: float | None
    measured_sqnr_db: float | None = None
    metric_loss: float | None = None
    measured_metric_loss: float | None = None
    finite: bool = True
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCurve:
    """The best states of a search, and the state of the written model.

    Attributes:
        min_sqnr_db: The SQNR that every output keeps, in dB; None without such a limit.
        max_metric_loss: The limit of the loss of the task metric; None without such a limit.
        metric: The task metric; empty without a limit for it.
        loss_unit: Unit of the losses; may be empty.
        samples: Number of samples that the search ran.
        states: The states, the cheapest first. A state is left out if another is as good in both cost and accuracy.
    """

    min_sqnr_db: float | None
    max_metric_loss: float | None
    metric: str
    loss_unit: str
    samples: int
    states: tuple[CurveState, ...]
