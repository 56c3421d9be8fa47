"""How an accuracy that was asked for was reached, as data: the JSON report is these classes, key by key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatLayer:
    """A layer that stays in float, or has the fallback format.

    Attributes:
        node: The node that gives it its name.
        op_type: Its operator.
        nodes: All nodes that stay in float with it, or have the fallback format.
        share: What it costs there, as a share of the cost of all layers in float.
    """

    node: str
    op_type: str
    nodes: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A state that the search measured.

    Attributes:
        layers_in_float: How many layers are in float.
        quantized_share: The share of the cost that is quantized.
        worst_sqnr_db: SQNR of the worst output on the samples of the search; None where no output has noise.
        nodes: Labels of the nodes in float.
        layers_in_fallback: How many layers have the fallback format.
        fallback_nodes: Labels of their nodes.
    """

    layers_in_float: int
    quantized_share: float
    worst_sqnr_db: float | None
    nodes: tuple[str, ...]
    layers_in_fallback: int = 0
    fallback_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGoal:
    """How a task metric keeps to its limit.

    Attributes:
        name: The metric, or the name of a function of the user.
        output: The output that it reads; None for a function of the user, which gets all of them.
        loss_unit: Unit of the losses; may be empty.
        max_loss: The limit.
        loss_without: Loss with every layer quantized, on the samples that measure.
        loss: The same with these layers in float.
        predictions: Number of predictions on these samples; of samples where a function of the user measures.
        choosing_loss: Loss of the state on the selection samples.
        choosing_predictions: Number of predictions on those.
        models: How many models were measured, that with every layer quantized included: each but the last lost more.
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
    """How a goal was reached.

    Attributes:
        min_sqnr_db: The SQNR that every output keeps; None without such a limit.
        layers: How many layers there are.
        left: Those that stay in float.
        float_share: Their share of the cost: the mean of multiply-accumulates, weights and number.
        worst_without_db: SQNR of the worst output with every layer quantized, on the samples that measure.
        worst_db: The same with these layers in float.
        samples: Number of samples that the search ran.
        runs: Runs of one sample that it took.
        curve: The states that it measured.
        metric: The task metric; None without a limit of it.
        fallback: The fallback format; None where none was asked for.
        finer: The layers that have it.
        finer_share: Their share of the cost: what they cost in that format.
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
        layers_in_float: How many layers are in float.
        layers_in_fallback: How many have the fallback format.
        quantized_share: The share of the cost that is quantized, 0 to 1.
        worst_sqnr_db: The SQNR on the samples of the search, which chose the layers; None where no output has noise.
        measured_sqnr_db: The SQNR of a model with these layers, on the measuring samples; None where no output has
            noise, or where no such model was made.
        metric_loss: Loss of the task metric on the selection samples; None where it was not measured.
        measured_metric_loss: The metric loss of a model with these layers, on the measuring samples; None where it was
            not measured.
        finite: Whether both measurements found NaN and infinities only where the float model has them; if not, there
            is no value.
        chosen: Whether it is the state of the written model.
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
    """The states of a search that no other one equals or beats in both respects, and that of the written model.

    Attributes:
        min_sqnr_db: The SQNR that every output keeps, in dB; None without such a limit.
        max_metric_loss: The limit of the loss of the task metric; None without one.
        metric: The task metric; empty without a limit of it.
        loss_unit: Unit of its losses; may be empty.
        samples: Number of samples that the search ran.
        states: The states, the cheapest first.
    """

    min_sqnr_db: float | None
    max_metric_loss: float | None
    metric: str
    loss_unit: str
    samples: int
    states: tuple[CurveState, ...]
