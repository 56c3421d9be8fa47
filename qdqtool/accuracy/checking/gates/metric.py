"""The gates on the loss of a task metric: of the model against its baseline, and of saved outputs against the model."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.limits import MAX_METRIC_LOSS
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.accuracy.report import MetricResult
from qdqtool.accuracy.task_metrics import metrics
from qdqtool.accuracy.task_metrics.measure import coarse


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge the loss of the metric against the limit, for each comparison that was made.

    Without a limit, the gate of the model is reported only if the loss exceeds the limit that the metric's module
    defines. A function of the user has no such limit.
    """
    metric, limit = evidence.metric, evidence.job.gates.max_metric_loss
    if metric is None:
        return
    if limit is None:
        yield from _large_loss(metric)
        return
    # The chance level is unknown for a function of the user.
    beyond = ", which is better than chance" if metric.output is not None else ""
    compared = (
        (MAX_METRIC_LOSS.name, "the baseline", metric.loss, metric.baseline_chance),
        (f"outputs-{MAX_METRIC_LOSS.name}", "the model", metric.saved_loss, metric.chance),
    )
    for name, reference, loss, chance in compared:
        if loss is None:
            continue
        found, allowed = (f"{value} {metric.loss_unit}".rstrip() for value in (f"{loss:.6g}", f"{limit:g}"))
        # A NaN loss misses the gate.
        held = loss <= limit
        failures = [] if held else [f"{name} is {allowed}: {metric.name} is worse than {reference} by {found}"]
        if metric.distinct_predictions is not None:
            problem = coarse(limit, metrics.get(metric.name), metric.distinct_predictions, " on distinct inputs")
            failures += [f"{name} is {allowed}: {problem}"] if problem else []
        # A reference at chance level cannot lose anything: any model would pass.
        if chance is not None:
            failures.append(f"{name} shows nothing: {metric.name} of {reference} is no better than guessing: {chance}")
        yield GateResult.of(
            name=name,
            requires=f"{metric.name} is at most {allowed} worse than that of {reference}{beyond}",
            failures=failures,
            detail=found,
        )


def _large_loss(metric: MetricResult) -> Iterator[GateResult]:
    if metric.output is None or metric.loss is None or metric.baseline is None:
        return
    counted = metric.predictions if metric.distinct_predictions is None else metric.distinct_predictions
    limit = metrics.get(metric.name).large_loss(metric.baseline, counted)
    if not metric.loss <= limit:
        found, allowed = (f"{value:.3g} {metric.loss_unit}".rstrip() for value in (metric.loss, limit))
        text = f"{metric.name} is worse than the baseline by {found}; without --max-metric-loss, {allowed} pass"
        requires = f"{metric.name} is at most {allowed} worse than that of the baseline"
        yield GateResult.of(name=MAX_METRIC_LOSS.name, requires=requires, failures=[text], detail=found)
