"""``check_model`` for Python code."""

from __future__ import annotations

from typing import Unpack

from qdqtool.accuracy.checking.check_blame import BlameRequest
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.api.any_data import DataLike, take_request
from qdqtool.api.keywords import CheckKeywords, checked
from qdqtool.api.options import check_options, settled
from qdqtool.api.reports import report_files
from qdqtool.jobs import check as check_job
from qdqtool.models.graph.io.load import ModelLike, as_source
from qdqtool.samples.feeds import Progress
from qdqtool.samples.request import DataRequest


def check_model(
    model: ModelLike,
    *,
    baseline: ModelLike | None = None,
    data: DataLike | DataRequest | None = None,
    options: CheckOptions | None = None,
    progress: Progress | None = None,
    blame: BlameRequest | bool | None = None,
    **keywords: Unpack[CheckKeywords],
) -> CheckReport:
    """Check the numbers of a model.

    Every Q and DQ is evaluated by our own core on the values it really had in the reference session and must agree in
    every bit; no output may have NaN or infinities; every DQ must undo the Q before it. With a baseline, outputs and
    quantized tensors are compared with it on the same feeds.

    Args:
        model: The model.
        baseline: The float model.
        data: The samples; default seeded random inputs.
        options: Limits, and what else to do with the outputs.
        progress: Told of every sample.
        blame: When layers are named; default where a gate on the outputs is missed, True for always.
        keywords: In place of ``options``: options of ``qdqtool check``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is of no accepted kind, or an option is unknown or given twice.
        UsageError: Data, saved outputs or the engine do not fit the model, the model fails while it runs, or options
            lack what they need.
        ModelError: A model cannot be read, or ONNX Runtime calls it invalid.
        CapabilityError: ONNX Runtime is not installed or cannot run the model; or an engine was given, and a GPU, its
            driver or a package is absent.
        GateError: The engine does not run.
        OutputError: The outputs cannot be saved.
    """
    with report_files(keywords, "check", model) as files:
        given = checked(keywords, CheckKeywords, "check_model")
        request = take_request(data, given)
        report = check_job.check_model(
            as_source(model),
            baseline=None if baseline is None else as_source(baseline, "baseline"),
            data=request,
            options=settled(options, given, check_options),
            progress=progress,
            blame=BlameRequest(always=blame) if isinstance(blame, bool) else blame,
        )
        return files.write(report)
