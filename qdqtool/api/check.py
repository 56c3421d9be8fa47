"""``check_model`` for Python code."""

from __future__ import annotations

from typing import Unpack

from qdqtool.accuracy.checking.check_blame import BlameRequest
from qdqtool.accuracy.checking.options import check_request
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.api.any_data import DataLike
from qdqtool.api.checked import values_of, with_keywords
from qdqtool.api.keywords import CheckKeywords
from qdqtool.api.reports import report_files
from qdqtool.jobs import check as check_job
from qdqtool.models.graph.io.load import ModelLike, as_source
from qdqtool.options import PYTHON
from qdqtool.samples.feeds import Progress


@with_keywords
def check_model(
    model: ModelLike,
    *,
    baseline: ModelLike | None = None,
    data: DataLike | None = None,
    progress: Progress | None = None,
    tick: Progress | None = None,
    **keywords: Unpack[CheckKeywords],
) -> CheckReport:
    """Check the numbers of a model.

    Every Q and DQ is computed with qdqtool's arithmetic from the values in the reference session, and must agree in
    every bit. No output may have NaN or infinities, and every DQ must undo the Q before it. With a baseline, outputs
    and quantized tensors are compared with it on the same feeds.

    Args:
        model: The model.
        baseline: The float model.
        data: The samples; default is random inputs with a fixed seed.
        progress: Called after each sample, with the number of finished samples and of all samples.
        tick: Called for each run while layers are ranked by noise, with the number of finished runs and the largest
            possible number.
        keywords: Options of ``qdqtool check``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is not of an accepted kind, or an option is unknown.
        UsageError: Data, saved outputs or the engine do not fit the model, the model fails during a run, or an option
            requires another.
        ModelError: A model cannot be read, or ONNX Runtime calls it invalid.
        CapabilityError: ONNX Runtime is not installed or cannot run the model; or an engine is given, but a GPU, its
            driver or a package is absent.
        GateError: The engine does not run.
        OutputError: The outputs cannot be saved.
    """
    with report_files(keywords, "check", model) as files:
        values = values_of(keywords, "check", "check_model", data=data)
        blame = BlameRequest(always=values.pop("blame", False), tick=tick)
        request, options = check_request(values, PYTHON)
        report = check_job.check_model(
            as_source(model),
            baseline=None if baseline is None else as_source(baseline, "baseline"),
            data=request,
            options=options,
            progress=progress,
            blame=blame,
        )
        return files.write(report)
