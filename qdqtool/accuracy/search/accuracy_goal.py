"""The accuracy target of a quantized model, for which layers may stay in float."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from qdqtool.accuracy.report import Accuracy
from qdqtool.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyGoal:
    """The accuracy target for which layers may stay in float: one of two limits, or both.

    Attributes:
        min_sqnr_db: The SQNR that every output keeps, in dB; None for no such limit.
        max_metric_loss: The largest loss of the task metric of ``QuantizeOptions.metric``, in its own unit; None for no
            such limit.
        whole_curve: Whether the search continues beyond the target, for the curve of accuracy against quantized share.
        sensitivity_file: The file that stores measurements of layers, also at Ctrl-C; an existing file is read first.
            None to use no file.
    """

    min_sqnr_db: float | None = None
    max_metric_loss: float | None = None
    whole_curve: bool = False
    sensitivity_file: Path | None = None

    def is_kept(self, worst_db: float | None, loss: float) -> bool:
        """Return whether a model keeps the limits.

        Args:
            worst_db: SQNR of its worst output; None if no output has noise.
            loss: Loss of its metric. A NaN misses every limit.
        """
        found = math.inf if worst_db is None else worst_db
        # NaN or infinity in an output keeps no goal.
        enough = found > -math.inf if self.min_sqnr_db is None else found >= self.min_sqnr_db
        return enough and (self.max_metric_loss is None or loss <= self.max_metric_loss)

    def validate(self, *, has_metric: bool) -> None:
        """Check the limits.

        Raises:
            UsageError: There is no limit, a limit is not finite, or a limit for a metric is given without a metric.
        """
        if self.min_sqnr_db is None and self.max_metric_loss is None:
            raise UsageError("a goal needs a limit: --min-sqnr or --max-metric-loss")
        if self.min_sqnr_db is not None and not math.isfinite(self.min_sqnr_db):
            raise UsageError(f"--min-sqnr {self.min_sqnr_db:g} is no accuracy", hint="`--min-sqnr 30`, in dB")
        if self.max_metric_loss is None:
            return
        if not has_metric:
            raise UsageError("--max-metric-loss limits the loss of a metric", hint="give `--metric NAME` as well")
        if not (math.isfinite(self.max_metric_loss) and self.max_metric_loss > 0):
            raise UsageError(
                f"--max-metric-loss is {self.max_metric_loss:g}; it must be a number above 0, because a loss of 0 "
                "cannot be proven"
            )


def worst_db(accuracy: Accuracy | None) -> float | None:
    """Return the SQNR of the worst output: None if no output has noise, minus infinity if one has NaN or infinities.

    Raises:
        UsageError: Nothing was measured.
    """
    problem = "there is no data" if accuracy is None else accuracy.problem
    compared = [output for output in accuracy.outputs if output.sqnr_db is not None or output.exact] if accuracy else []
    if accuracy is not None and any(not output.finite for output in accuracy.outputs):
        return float("-inf")
    if problem or not compared:
        what = problem or "no output is a float tensor of values that can be compared"
        raise UsageError(f"the requested accuracy cannot be measured: {what}")
    return min((output.sqnr_db for output in compared if output.sqnr_db is not None), default=None)
