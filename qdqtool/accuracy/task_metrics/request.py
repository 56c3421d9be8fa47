"""Read the request for a task metric: ``NAME``, ``NAME:OUTPUT``, ``SCRIPT.py:func``, or a Python callable."""

import shlex
from contextlib import suppress

from qdqtool.accuracy.task_metrics.function import FunctionMeasure, MetricFunction
from qdqtool.accuracy.task_metrics.measure import RequestedMetric
from qdqtool.accuracy.task_metrics.named import NamedRequest
from qdqtool.errors import UsageError
from qdqtool.samples import Feeds
from qdqtool.samples.sample import NoLabelsError
from qdqtool.samples.script import UserFunction, load_function, split_script

MetricRequest = str | MetricFunction
"""A request as users write it."""


def load_metric(request: MetricRequest) -> RequestedMetric:
    """Return the metric that is requested. A script is executed now.

    Raises:
        ArgumentError: The metric is unknown.
        UsageError: The script is not there or fails, or the function is not named or not in it.
    """
    if not isinstance(request, str):
        return FunctionMeasure(UserFunction.of(request))
    script = split_script(request)
    if script is None:
        return NamedRequest.of(request)
    file, name = script
    if not name:
        raise UsageError(
            f"--metric {request}: which function of the script?", hint=f"`--metric {shlex.quote(request)}:FUNCTION`"
        )
    return FunctionMeasure(load_function(file, name, "taking the outputs and the labels of all samples"))


def labelled_for(metric: RequestedMetric, feeds: Feeds) -> Feeds:
    """Return samples with the labels that a metric needs, or may have.

    Raises:
        NoLabelsError: The metric needs labels, and there are none.
        UsageError: The labels do not fit the inputs.
    """
    if metric.needs_labels:
        return feeds.with_labels()
    with suppress(NoLabelsError):
        return feeds.with_labels()
    return feeds
