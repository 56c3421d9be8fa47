"""Which options of a check fit each other, the baseline and the data."""

from pathlib import Path

import pytest

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.task_metrics.measure import RequestedMetric
from qdqtool.accuracy.task_metrics.request import load_metric
from qdqtool.errors import UsageError

FILE = Path("o.npz")
COMPARES = "--min-sqnr, --min-cosine, --min-agreement and --max-steps compare with a baseline or saved outputs"
LOSS = "--max-metric-loss compares the metric with that of a baseline, or of saved outputs"
COMPUTED = "--outputs needs the data that they were computed from"
NO_NUMBER = "--max-metric-loss is nan; it must be a finite number"
GIVE_OUTPUTS = "give `--baseline FLOAT.onnx` or `--outputs FILE`"
NO_METRIC = "--max-metric-loss limits the loss of a metric"
GIVE_LABELS = "give `--data FILE.npz` with the inputs and an array 'labels'"
LIMITS = ({"min_sqnr": 30.0}, {"min_cosine": 0.9}, {"max_steps": 1.0}, {"min_agreement": 0.5})


def metric_of(options: CheckOptions) -> RequestedMetric | None:
    return None if options.metric is None else load_metric(options.metric)


@pytest.mark.parametrize(
    ("options", "has_baseline", "has_data"),
    [
        (CheckOptions(), False, False),
        *((CheckOptions(gates=Gates(**limit)), True, False) for limit in LIMITS),
        *((CheckOptions(gates=Gates(**limit), outputs=FILE), False, True) for limit in LIMITS),
        (CheckOptions(gates=Gates(max_weight_steps=2.0)), False, False),
        (CheckOptions(metric="top-1"), False, True),
        (CheckOptions(metric="top-1:y", gates=Gates(max_metric_loss=1.0)), True, True),
        (CheckOptions(metric="top-1", outputs=FILE, gates=Gates(max_metric_loss=1.0)), False, True),
        (CheckOptions(save_outputs=FILE), False, False),
    ],
)
def test_options_that_fit(options: CheckOptions, has_baseline: bool, has_data: bool) -> None:
    options.validate(metric_of(options), has_baseline=has_baseline, has_data=has_data)


@pytest.mark.parametrize(
    ("options", "has_baseline", "has_data", "message", "hint"),
    [
        *((CheckOptions(gates=Gates(**limit)), False, True, COMPARES, GIVE_OUTPUTS) for limit in LIMITS),
        *(
            (
                CheckOptions(gates=Gates(max_metric_loss=1.0)),
                has_baseline,
                True,
                NO_METRIC,
                "give `--metric NAME` as well",
            )
            for has_baseline in (True, False)
        ),
        (CheckOptions(gates=Gates(max_metric_loss=1.0), metric="top-1"), False, True, LOSS, GIVE_OUTPUTS),
        (CheckOptions(outputs=FILE), True, False, COMPUTED, "give `--data DATA`"),
        (CheckOptions(metric="top-1"), True, False, "--metric needs labels", GIVE_LABELS),
        (CheckOptions(gates=Gates(max_metric_loss=float("nan"))), True, True, NO_NUMBER, None),
    ],
)
def test_options_that_do_not_fit_are_refused_with_what_is_missing(
    options: CheckOptions, has_baseline: bool, has_data: bool, message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as refused:
        options.validate(metric_of(options), has_baseline=has_baseline, has_data=has_data)
    assert (refused.value.message, refused.value.hint) == (message, hint)
