"""The options of a check, besides the model, its baseline and the data."""

from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.task_metrics.measure import RequestedMetric
from qdqtool.accuracy.task_metrics.request import MetricRequest
from qdqtool.errors import UsageError
from qdqtool.models.options import Profile
from qdqtool.models.plugins import PluginOperator
from qdqtool.options import Speech, Values, build
from qdqtool.samples.options import require_data
from qdqtool.samples.request import DataRequest, data_request


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Options of a check.

    Attributes:
        gates: Limits, besides the gates that are always active.
        profile: The session that computes the outputs that are compared. Q and DQ nodes, and the baseline, always run
            in the semantic session.
        outputs: An ``.npz`` with outputs for the same data that were computed elsewhere, to compare with the reference.
        engine: An engine whose outputs on this machine's GPU are compared with the reference.
        save_outputs: File for the reference's outputs, in the layout of ``outputs``.
        metric: The task metric: ``NAME`` or ``NAME:OUTPUT`` of :mod:`qdqtool.accuracy.task_metrics.metrics`,
            ``SCRIPT.py:func``, or a function of outputs and labels (``docs/how-to/check.md``).
        plugin_ops: Operators that TensorRT runs as plugins, besides those in the note of the model.
    """

    gates: Gates = field(default_factory=Gates)
    profile: Profile = Profile.SEMANTIC
    outputs: Path | None = None
    engine: Path | None = None
    save_outputs: Path | None = None
    metric: MetricRequest | None = None
    plugin_ops: tuple[PluginOperator, ...] = ()

    def validate(self, metric: RequestedMetric | None, *, has_baseline: bool, has_data: bool) -> None:
        """Check that the options fit each other and the data.

        Raises:
            UsageError: A limit is not legal, the reference for a limit is missing, or a data file is needed.
        """
        gates = self.gates
        gates.require_finite()
        if self.engine is not None and self.outputs is not None:
            raise UsageError("--engine and --outputs both give the outputs to compare", hint="leave one of them out")
        compares = has_baseline or self.outputs is not None or self.engine is not None
        limits = (gates.min_sqnr, gates.min_cosine, gates.max_steps, gates.min_agreement)
        if not compares and any(limit is not None for limit in limits):
            raise UsageError(
                "--min-sqnr, --min-cosine, --min-agreement and --max-steps compare with a baseline or saved outputs",
                hint="give `--baseline FLOAT.onnx` or `--outputs FILE`",
            )
        if gates.max_metric_loss is not None and metric is None:
            raise UsageError("--max-metric-loss limits the loss of a metric", hint="give `--metric NAME` as well")
        if gates.max_metric_loss is not None and not compares:
            raise UsageError(
                "--max-metric-loss compares the metric with that of a baseline, or of saved outputs",
                hint="give `--baseline FLOAT.onnx` or `--outputs FILE`",
            )
        if self.outputs is not None and not has_data:
            raise UsageError("--outputs needs the data that they were computed from", hint="give `--data DATA`")
        if metric is not None and metric.needs_labels and not has_data:
            raise UsageError(
                "--metric needs labels", hint="give `--data FILE.npz` with the inputs and an array 'labels'"
            )


def check_request(values: Values, said: Speech) -> tuple[DataRequest, CheckOptions]:
    """Return the data and the limits of a check.

    Raises:
        UsageError: An option for data is given without data.
    """
    require_data(values, "data" in values, said)
    return data_request(values), build(CheckOptions, values)
